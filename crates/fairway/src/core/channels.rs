//! Connections by channel: where their packets are sent, and where they may come from.

use crate::peer_state::PeerState;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_port::Address;
use fairway_ub::ChannelId;
use fairway_ub::setup::Members;
use fairway_ub::wire::{
    CheckKey, Cna, DecodeError, Decoded, Packet, Ports, Role, Route, Tpn, decode_filled,
    decode_keyed, encode_keyed, path_sockets,
};

use crate::setup::numbers::Numbers;
use crate::setup::shortened::Watch;

/// Connections by the dense index of their channel. A connection that has ended keeps its place
/// until the index is used again, because its last packets may not have been sent yet.
pub(crate) struct Channels {
    records: Vec<Option<Channel>>,
    numbers: Numbers,
    /// Index of the channel of the last packet, because the next packet is likely to be for it too.
    recent: Cell<usize>,
}

/// One channel of a connection.
pub(crate) struct Channel {
    pub(crate) id: ChannelId,
    /// The peer; shared by all channels of the group, and names the first of them.
    pub(crate) peer: Arc<PeerState>,
    /// The engine whose sockets the channel uses.
    pub(crate) engine: u32,
    /// This side's role: which side has opened the channel.
    pub(crate) role: Role,
    /// The peer's number for the channel.
    pub(crate) remote_tpn: Tpn,
    /// The local number of the channel, as the peer was given it ([`Channels::insert`] computes
    /// it).
    peer_number: Tpn,
    /// At the server's first channel of a group: the other channels that have joined.
    pub(crate) members: Option<Members>,
    /// How long the channel has waited for an acknowledgement; `None` until it is open.
    pub(crate) watch: Option<Watch>,
    /// True while the channel has been closed locally and the protocol has not finished that.
    pub(crate) is_closing: bool,
    /// True if its packets may be filled: the peer expects that.
    pub(crate) fills: bool,
    /// Key of the channel's header checks.
    key: Box<CheckKey>,
    paths: Box<[PathEnds]>,
}

/// The two ends of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathEnds {
    /// The local socket.
    pub(crate) socket: usize,
    /// The peer's address and port.
    pub(crate) remote: Address,
}

impl Channel {
    pub(crate) fn new(
        (id, remote_tpn): (ChannelId, Tpn),
        peer: Arc<PeerState>,
        engine: u32,
        role: Role,
        (local_sockets, local): (Range<usize>, Option<IpAddr>),
        remote_ports: &Ports,
        key: Box<CheckKey>,
    ) -> Self {
        let ports = remote_ports.as_slice();
        let ip = peer.named;
        let ends = |path| {
            let sockets = path_sockets(role, path as u8, local_sockets.len(), ports.len());
            let mut remote = ip;
            remote.set_port(ports.get(sockets.remote).copied().unwrap_or_default());
            let remote = Address::from(remote).reached_at(local);
            PathEnds { socket: local_sockets.start + sockets.local, remote }
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
            fills: false,
            key,
            paths,
        }
    }

    /// True if this is the first channel of its group.
    pub(crate) fn leads(&self) -> bool {
        self.peer.channel == self.id
    }

    /// True if one of the channel's paths leads to this address and port.
    pub(crate) fn leads_to(&self, address: SocketAddr) -> bool {
        let address = Address::from(address);
        self.paths.iter().any(|ends| ends.remote == address)
    }

    pub(crate) fn path(&self, path: u8) -> Option<&PathEnds> {
        self.paths.get(usize::from(path))
    }

    /// Marks the channel as ended: nothing refers to it any more.
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

    /// Returns the number by which a peer names a channel.
    pub(crate) fn peer_number(&self, id: ChannelId) -> Tpn {
        self.numbers.peer_number(id.tpn())
    }

    /// Writes the headers of a packet of `channel`, in front of `payload_len` bytes of payload, to
    /// `out`, in the form that its peer expects, and returns their length. `None` if there is no
    /// such channel.
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

    /// Decodes a datagram, and returns the length of its packet, without a fill. A packet is
    /// accepted only if it names an existing channel by its local number and its check proves that
    /// the channel's peer has sent it.
    pub(crate) fn decode(&self, datagram: &[u8]) -> Result<(Decoded, usize), DecodeError> {
        let mut own = None;
        let mut decoded = decode_filled(datagram, |number| self.key_for(number, &mut own));
        if let Ok((decoded, _)) = &mut decoded {
            self.rename(decoded, own);
        }
        decoded
    }

    /// The same for the datagram of `length` bytes that begins with `header` and is not filled.
    pub(crate) fn decode_unfilled(
        &self,
        header: &[u8],
        length: usize,
    ) -> Result<Decoded, DecodeError> {
        let mut own = None;
        let mut decoded = decode_keyed(header, length, |number| self.key_for(number, &mut own));
        if let Ok(decoded) = &mut decoded {
            self.rename(decoded, own);
        }
        decoded
    }

    /// Returns the key of the channel that a peer names by this number, and notes its own number.
    fn key_for(&self, peer_number: Tpn, own: &mut Option<Tpn>) -> Option<&CheckKey> {
        let channel = self.by_peer_number(peer_number)?;
        *own = Some(channel.id.tpn());
        Some(&channel.key)
    }

    /// Replaces the peer's names of channels in a packet by the own ones. The value is changed in
    /// place, because it is large: it may contain a set-up message.
    fn rename(&self, decoded: &mut Decoded, own: Option<Tpn>) {
        if let Decoded::Packet { route, packet, .. } = decoded
            && let Some(own) = own
        {
            route.destination_tpn = own;
            if let Packet::Retire(retire) = packet {
                // It names another channel, as the peer does.
                retire.channel = self.numbers.own(retire.channel);
            }
        }
    }

    /// Returns the channel that a peer names by this number. The channel of the last packet is
    /// compared first, before the number is deciphered.
    pub(crate) fn by_peer_number(&self, peer_number: Tpn) -> Option<&Channel> {
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

    /// Returns the channel with this number.
    pub(crate) fn by_number(&self, tpn: u32) -> Option<&Channel> {
        let record = self.records.get((tpn & 0xffff) as usize)?.as_ref();
        record.filter(|channel| channel.id.tpn().value() == tpn)
    }

    /// Returns the first channel of a group, by the peer's number for it.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU8};

    use fairway_ub::wire::{Cci, MAX_HEADER, Psn, Void, fill_end};
    use fairway_ub::{Limits, Profile, UbDevice};

    use super::*;

    /// A channel, and a packet that its peer sends.
    fn channel_and_packet() -> (Channels, Vec<u8>) {
        let mut nic = UbDevice::new(Cna::new(1), &Limits::default(), &Profile::default(), 1);
        let id = nic.reserve_channel().expect("a new NIC has channels");
        let peer = Arc::new(PeerState {
            channel: id,
            named: ([192, 0, 2, 1], 9).into(),
            from: ([192, 0, 2, 1], 9).into(),
            is_proven: AtomicBool::new(true),
            was_received: AtomicBool::new(true),
            incarnation: 2,
            mtu: 1024,
            paths: 1,
            port_pairs: 1,
            alive: AtomicBool::new(true),
            long_packets: AtomicU8::new(0),
        });
        let key = CheckKey::new(&[7; CheckKey::BYTES]);
        let names = (id, Tpn::new(3));
        let ports = Ports::new(&[9]).expect("a port");
        let sockets = (0..1, None);
        let channel =
            Channel::new(names, peer, 0, Role::Client, sockets, &ports, Box::new(key.clone()));
        let mut channels = Channels::new(4, Numbers::new([5; 16]));
        channels.insert(channel);
        let route = Route {
            source: Cna::new(2),
            destination: Cna::new(1),
            source_tpn: Tpn::new(3),
            destination_tpn: channels.peer_number(id),
            path: 0,
            priority: Default::default(),
            cci: Cci::NONE,
        };
        let void =
            Packet::Void(Void { psn: Psn::new(1), message: Default::default(), ack_request: true });
        let mut bytes = vec![0; MAX_HEADER];
        let length = encode_keyed(&key, &route, &void, 0, &mut bytes);
        bytes.truncate(length);
        (channels, bytes)
    }

    #[test]
    fn a_fill_is_removed_whatever_its_length_is() {
        let (channels, packet) = channel_and_packet();
        let expected = channels.decode(&packet).expect("a packet of the peer");
        assert_eq!(expected.1, packet.len());
        for zeros in 0..100 {
            let end = fill_end(packet.len());
            let filled = [packet.as_slice(), &vec![0; zeros], &end].concat();
            assert_eq!(channels.decode(&filled), Ok(expected), "{zeros} zeros");
        }
    }

    #[test]
    fn an_end_that_tells_another_length_is_refused() {
        let (channels, packet) = channel_and_packet();
        for told in (0..200).filter(|told| *told != packet.len()) {
            let filled = [packet.as_slice(), &[0; 100], &fill_end(told)].concat();
            assert_eq!(channels.decode(&filled), Err(DecodeError::BadCheck), "{told}");
        }
        let mut forged = packet.clone();
        forged[20] ^= 1;
        let filled = [forged.as_slice(), &[0; 100], &fill_end(packet.len())].concat();
        assert_eq!(channels.decode(&filled), Err(DecodeError::BadCheck), "another header");
    }
}
