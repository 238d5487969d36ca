//! Connections by channel: where their packets go, and where they may come from.

use crate::peer_state::PeerState;
use std::cell::Cell;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_engine::ChannelId;
use fairway_engine::setup::Members;
use fairway_engine::wire::{
    CheckKey, Cna, DecodeError, Decoded, Packet, Ports, Role, Route, Tpn, decode_keyed,
    encode_keyed, path_sockets,
};
use fairway_port::Address;

use crate::setup::numbers::Numbers;
use crate::setup::shortened::Watch;

/// Connections by the dense index of their channel. A connection that has ended keeps its place
/// until the index is used again, because its last words may have yet to be sent.
pub(crate) struct Channels {
    records: Vec<Option<Channel>>,
    numbers: Numbers,
    /// Index of the channel that the last packet was for: the next one is likely to be, too.
    recent: Cell<usize>,
}

/// A connection.
pub(crate) struct Channel {
    pub(crate) id: ChannelId,
    /// Of all channels of its group the same; it names the first.
    pub(crate) peer: Arc<PeerState>,
    /// Whose sockets it uses.
    pub(crate) engine: u32,
    /// Which side has opened it.
    pub(crate) role: Role,
    /// The peer's number for it.
    pub(crate) remote_tpn: Tpn,
    /// Our number for it, as the peer is told it ([`Channels::insert`] looks it up).
    peer_number: Tpn,
    /// Of the first channel: which others of its group have joined (at the server).
    pub(crate) members: Option<Members>,
    /// How long it has waited for an acknowledgement; `None` until it is open.
    pub(crate) watch: Option<Watch>,
    /// Closed from here, and the engine is not done with that yet.
    pub(crate) is_closing: bool,
    /// Of its header checks.
    key: Box<CheckKey>,
    paths: Box<[PathEnds]>,
}

/// The two ends of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathEnds {
    /// Our socket.
    pub(crate) socket: usize,
    /// The peer's.
    pub(crate) remote: Address,
}

impl Channel {
    pub(crate) fn new(
        (id, remote_tpn): (ChannelId, Tpn),
        peer: Arc<PeerState>,
        engine: u32,
        role: Role,
        local_sockets: Range<usize>,
        remote_ports: &Ports,
        key: Box<CheckKey>,
    ) -> Self {
        let ports = remote_ports.as_slice();
        let ip = peer.address;
        let ends = |path| {
            let sockets = path_sockets(role, path as u8, local_sockets.len(), ports.len());
            let mut remote = ip;
            remote.set_port(ports.get(sockets.remote).copied().unwrap_or_default());
            PathEnds { socket: local_sockets.start + sockets.local, remote: remote.into() }
        };
        let paths = (0..peer.paths).map(ends).collect();
        Channel {
            id,
            peer,
            engine,
            role,
            remote_tpn,
            peer_number: id.tpn(),
            members: None,
            watch: None,
            is_closing: false,
            key,
            paths,
        }
    }

    /// Is it the first of its group?
    pub(crate) fn leads(&self) -> bool {
        self.peer.channel == self.id
    }

    /// Does one of its paths lead to this address and port?
    pub(crate) fn leads_to(&self, address: SocketAddr) -> bool {
        let address = Address::from(address);
        self.paths.iter().any(|ends| ends.remote == address)
    }

    pub(crate) fn path(&self, path: u8) -> Option<&PathEnds> {
        self.paths.get(usize::from(path))
    }

    /// The channel has ended, and nothing refers to it any more.
    pub(crate) fn end(&mut self) {
        self.peer.alive.store(false, Ordering::Release);
        self.is_closing = false;
    }
}

impl Channels {
    pub(crate) fn new(limit: u32, numbers: Numbers) -> Self {
        let records = (0..limit).map(|_| None).collect();
        Channels { records, numbers, recent: Cell::new(0) }
    }

    /// The number that a peer is told for a channel.
    pub(crate) fn peer_number(&self, id: ChannelId) -> Tpn {
        self.numbers.peer_number(id.tpn())
    }

    /// Writes the headers of a packet of `channel`, in front of `payload_len` bytes of payload, to
    /// `out`, as its peer is to see them; their length. `None` if there is no such channel.
    pub(crate) fn encode(
        &self,
        channel: ChannelId,
        (route, packet): (&Route, &Packet),
        payload_len: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        let channel = self.get(channel)?;
        debug_assert_eq!(route.source_tpn, channel.id.tpn(), "a packet of another channel");
        let route = Route { source_tpn: channel.peer_number, ..*route };
        Some(encode_keyed(&channel.key, &route, packet, payload_len, out))
    }

    /// Reads a datagram. A packet is one of a channel that there is, its check proves that the
    /// channel's peer has sent it, and it names that channel by our number.
    pub(crate) fn decode(&self, header: &[u8], length: usize) -> Result<Decoded, DecodeError> {
        let mut own = None;
        // The value is changed where it lies, because it is large: a set-up message may be in it.
        let mut decoded = decode_keyed(header, length, |peer_number| {
            let channel = self.by_peer_number(peer_number)?;
            own = Some(channel.id.tpn());
            Some(&*channel.key)
        });
        if let Ok(Decoded::Packet { route, .. }) = &mut decoded
            && let Some(own) = own
        {
            route.destination_tpn = own;
        }
        decoded
    }

    /// The channel that a peer has been told by this number. That of the last packet is looked at
    /// before the number is deciphered.
    fn by_peer_number(&self, peer_number: Tpn) -> Option<&Channel> {
        let recent = self.records.get(self.recent.get()).and_then(Option::as_ref);
        if let Some(channel) = recent.filter(|channel| channel.peer_number == peer_number) {
            return Some(channel);
        }
        let channel = self.by_number(self.numbers.own(peer_number).value())?;
        self.recent.set(channel.id.index());
        Some(channel)
    }

    pub(crate) fn insert(&mut self, channel: Channel) {
        let index = channel.id.index();
        let peer_number = self.numbers.peer_number(channel.id.tpn());
        self.records[index] = Some(Channel { peer_number, ..channel });
    }

    pub(crate) fn get(&self, id: ChannelId) -> Option<&Channel> {
        self.records.get(id.index())?.as_ref().filter(|channel| channel.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.records.get_mut(id.index())?.as_mut().filter(|channel| channel.id == id)
    }

    /// The connection a packet for this channel number belongs to.
    pub(crate) fn by_number(&self, tpn: u32) -> Option<&Channel> {
        let record = self.records.get((tpn & 0xffff) as usize)?.as_ref();
        record.filter(|channel| channel.id.tpn().value() == tpn)
    }

    /// The first channel of a group, by the peer's number for it.
    pub(crate) fn leading(&self, remote: Cna, remote_tpn: Tpn) -> Option<&Channel> {
        self.iter().find(|channel| {
            channel.leads()
                && channel.remote_tpn == remote_tpn
                && channel.peer.incarnation == remote.value()
                && channel.peer.alive.load(Ordering::Acquire)
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.records.iter_mut().flatten()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.records.iter().flatten()
    }
}
