//! How many requests one source may have waiting, half open and connected.
//!
//! The source is the address that the datagram came from, which can be forged, and never what its
//! private data claims. Each limit leaves something to other sources and to other networks
//! ([`Held`]). Requests of this host are limited by the backlog alone.

use super::api::{DropReason, Sender, State};
use super::manager::{Listener, Manager};
use super::record::Record;
use fairway_device::quota::{Held, Network, Source};
use fairway_wire::roce::cm::{IpHeader, port_of_service};

/// Whose a record is, of those that another host has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    source: Source,
    network: Network,
}

impl Holder {
    /// `None` for a sender on this host.
    pub(super) fn of(from: &Sender) -> Option<Holder> {
        let holder = Holder { source: Source::of(from.ip), network: Network::of(from.ip) };
        Some(holder).filter(|_| !from.is_local)
    }
}

/// Records of a kind: those of a source, of its network, and all.
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
    /// May one more request from there wait at this listener?
    ///
    /// A listener with a backlog of `n` lets `n` requests of one source wait, as if there were no
    /// other, and has places beside for other sources: even a backlog of one has two of them.
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

/// Places that a listener has beside its backlog, at least.
const PLACES_FOR_OTHERS: u32 = 2;

/// Does a request name the address that it came from as its sender's (A11.5)? One that names none,
/// or is for a service that is no port of IP, is as good.
///
/// Programs get the address as their peer's, and send their data there. The ends of a RoCE
/// connection have the addresses that their packets have, Linux's, too: what names another address
/// is a forgery, or comes by a translation of addresses, which no other packet survives, since the
/// ICRC covers them.
pub(super) fn is_of(service: u64, private: &[u8], from: &Sender) -> bool {
    let header = port_of_service(service).and_then(|_| IpHeader::parse(private));
    header.is_none_or(|header| header.source.to_canonical() == from.ip.to_canonical())
}

impl Record {
    fn waits_at(&self, listener: super::ListenerId) -> bool {
        self.listener == Some(listener) && matches!(self.state, State::Requested | State::Queried)
    }

    /// Another host has asked for it, and not shown that it receives at its address.
    fn is_half_open(&self) -> bool {
        let is_over = matches!(self.state, State::Waiting | State::Ended);
        self.holder.is_some() && !self.is_proven && !is_over
    }
}
