//! What the listener of a provider is called for, once the lock is free; and management datagrams
//! that are handed on to other processes.

use fairway_engine::CompletionQueueId;
use fairway_roce::Event;
use fairway_runtime::clock;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::forwarded::{FORWARDED_BYTES_MAX, ForwardedDatagram, MANAGEMENT_BYTES};
use crate::slot::{Addressee, Handed, Slot};
use crate::{Listener, Management, NetworkCounters, Routed};

/// Something for the listener.
#[derive(Debug)]
pub(crate) enum Notice {
    Completion(CompletionQueueId),
    Event(Event),
    Management {
        source: u64,
        from: IpAddr,
        bytes: Box<[u8; MANAGEMENT_BYTES]>,
        /// Another process has handed it over: it is not handed on any further.
        handed: bool,
    },
}

/// What is reached without the lock.
pub(crate) struct Outside {
    slot: Arc<Slot>,
    listener: Arc<dyn Listener>,
    /// Management datagrams that were handed on, and those that were not.
    handed_on: AtomicU64,
    not_handed_on: AtomicU64,
}

impl Outside {
    pub(super) fn new(slot: Arc<Slot>, listener: Arc<dyn Listener>) -> Outside {
        let (handed_on, not_handed_on) = (AtomicU64::new(0), AtomicU64::new(0));
        Outside { slot, listener, handed_on, not_handed_on }
    }

    /// Counts what was handed on from here, too.
    pub(super) fn add_counters(&self, counters: &mut NetworkCounters) {
        // What waits counts as handed on until it is dropped.
        let dropped = self.slot.dropped();
        let handed_on = self.handed_on.load(Ordering::Relaxed);
        counters.handed_on += handed_on.saturating_sub(dropped);
        counters.not_handed_on += self.not_handed_on.load(Ordering::Relaxed) + dropped;
    }

    /// Calls the listener. True if something now waits to be handed on, which a sleeping thread
    /// has to wake for.
    pub(super) fn report(&self, notices: Vec<Notice>) -> bool {
        let mut waits = false;
        for notice in notices {
            match notice {
                Notice::Completion(queue) => self.listener.completion(queue),
                Notice::Event(event) => self.listener.event(event),
                Notice::Management { source, from, bytes, handed } => {
                    waits |= self.route(source, from, &bytes, handed);
                }
            }
        }
        waits
    }

    /// The listener says whose a management datagram is; if it is another process's, it is handed
    /// on. True if it waits to be.
    fn route(
        &self,
        source: u64,
        from: IpAddr,
        bytes: &[u8; MANAGEMENT_BYTES],
        handed: bool,
    ) -> bool {
        let datagram = Management { source, from, bytes, deliverable: true };
        let to = match self.listener.management(&datagram) {
            Routed::Here => return false,
            Routed::Slot(number) if number == self.slot.number() => return false,
            // A datagram is handed on once: two processes that each take it for the other's would
            // never stop.
            _ if handed => return false,
            Routed::Slot(number) => Addressee::Slot(number),
            Routed::Service(service) => Addressee::Service(service),
        };
        let mut forwarded = [0; FORWARDED_BYTES_MAX];
        let length =
            ForwardedDatagram::Management { from, bytes }.write(&mut forwarded).unwrap_or(0);
        let handed = self.slot.hand(clock::now(), to, &forwarded[..length]);
        let counter = match handed {
            Handed::Over | Handed::Later => &self.handed_on,
            Handed::Nobody | Handed::Full => &self.not_handed_on,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if handed == Handed::Nobody {
            self.listener.management(&Management { deliverable: false, ..datagram });
        }
        handed == Handed::Later
    }
}
