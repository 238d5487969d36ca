//! Limits how many requests of one source may be waiting, half open and connected.
//!
//! The source is the address from which the datagram came, which can be forged, and never the
//! address in its private data. Each limit leaves room for other sources and for other networks
//! ([`Held`]). Requests of this host are limited by the backlog and by the number of connections
//! alone.

use super::api::{DropReason, Sender, State};
use super::manager::{Listener, Manager};
use super::record::Record;
use fairway_device::quota::{Held, Network, Source};
use fairway_wire::roce::cm::{IpHeader, port_of_service};

/// The source and network to which a record counts, if another host has requested the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    source: Source,
    network: Network,
}

impl Holder {
    /// The holder of a request from `from`; `None` for a sender on this host.
    pub(super) fn of(from: &Sender) -> Option<Holder> {
        let holder = Holder { source: Source::of(from.ip), network: Network::of(from.ip) };
        Some(holder).filter(|_| !from.is_local)
    }
}

/// Numbers of records: those of a source, of its network, and all.
#[derive(Clone, Copy, Default)]
struct Count {
    source: u32,
    network: u32,
    all: u32,
}

impl Count {
    fn add(&mut self, of: Option<Holder>, record: &Record) {
        let network = |holder: Option<Holder>| holder.map(|holder| holder.network);
        self.all += 1;
        self.source += u32::from(record.holder == of);
        self.network += u32::from(network(record.holder) == network(of));
    }

    fn allows_one_more(self, left: u32) -> bool {
        Held { source: self.source, network: self.network, left }.allows_one_more()
    }
}

impl Manager {
    /// Decides whether one more request of this source may wait at this listener until the program
    /// receives it. What the program has received and not answered is limited by
    /// [`Limits::half_open`](super::Limits::half_open) and
    /// [`Limits::connections`](super::Limits::connections).
    ///
    /// A listener with a backlog of `n` accepts `n` waiting requests of one source, as if there
    /// were no other, and has further places for other sources: at least two, even with a backlog
    /// of one.
    pub(super) fn admit(&self, from: &Sender, to: &Listener) -> Result<(), DropReason> {
        let holder = Holder::of(from);
        let [mut waiting, mut half_open, mut kept] = [Count::default(); 3];
        let mut spare = 0;
        for record in self.records.ever_taken().map(|index| &self.records[index]) {
            if record.id.0 == 0 {
                continue;
            }
            spare += u32::from(record.is_spare());
            if record.listener.is_none() || record.is_spare() {
                continue;
            }
            kept.add(holder, record);
            if record.waits_at(to.id) {
                waiting.add(holder, record);
            }
            if record.is_half_open() {
                half_open.add(holder, record);
            }
        }
        let limits = &self.limits;
        let backlog = to.backlog.min(limits.connections);
        let places = backlog + (backlog / 3 + 1).max(PLACES_FOR_OTHERS);
        if waiting.all >= places {
            return Err(DropReason::Backlog);
        }
        if waiting.source >= backlog {
            return Err(DropReason::Quota);
        }
        if holder.is_none() {
            return Ok(());
        }
        let left = limits.half_open.min(limits.connections).saturating_sub(half_open.all);
        if !waiting.allows_one_more(places - waiting.all) || !half_open.allows_one_more(left) {
            return Err(DropReason::Quota);
        }
        match limits.connections - (self.records.in_use() - spare) {
            0 => Err(DropReason::NoRoom),
            left if !kept.allows_one_more(left) => Err(DropReason::Share),
            _ => Ok(()),
        }
    }
}

/// Minimum number of places that a listener has in addition to its backlog.
const PLACES_FOR_OTHERS: u32 = 2;

/// True if a request gives the address it came from as its sender's (A11.5). Also true for a
/// request that gives no address, or for a service that is not an IP port.
///
/// Programs receive the address as their peer's, and send their data there. The ends of a RoCE
/// connection have the addresses that their packets have, also in Linux. A request with another
/// address is therefore a forgery, or comes through an address translation, which no other packet
/// survives, since the ICRC covers the addresses.
pub(super) fn is_of(service: u64, private: &[u8], from: &Sender) -> bool {
    let header = port_of_service(service).and_then(|_| IpHeader::parse(private));
    header.is_none_or(|header| header.source.to_canonical() == from.ip.to_canonical())
}

impl Record {
    /// True if the program of the listener has yet to receive this request.
    fn waits_at(&self, listener: super::ListenerId) -> bool {
        self.listener == Some(listener)
            && !self.is_delivered
            && matches!(self.state, State::Requested | State::Queried)
    }

    /// True if another host requested the connection and has not shown that it receives at its
    /// address.
    fn is_half_open(&self) -> bool {
        let is_over = matches!(self.state, State::Waiting | State::Ended);
        self.holder.is_some() && !self.is_proven && !is_over
    }
}
