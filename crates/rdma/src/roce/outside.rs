//! Notices for the listener of a provider, which is called without the lock, and management
//! datagrams that are forwarded to other processes.

use fairway_roce::Event;
use fairway_runtime::clock;
use fairway_ub::CompletionQueueId;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::forwarded::{FORWARDED_BYTES_MAX, ForwardedDatagram, MANAGEMENT_BYTES};
use crate::slot::{Destination, ForwardResult, Slot};
use crate::{Listener, Management, NetworkCounters, Routed};

/// A notice for the listener.
#[derive(Debug)]
pub(crate) enum Notice {
    Completion(CompletionQueueId),
    Event(Event),
    Management {
        source: u64,
        from: IpAddr,
        bytes: Box<[u8; MANAGEMENT_BYTES]>,
        /// True if another process has forwarded it: then it is not forwarded again.
        forwarded: bool,
    },
}

/// State that is used without the lock.
pub(crate) struct Outside {
    slot: Arc<Slot>,
    listener: Arc<dyn Listener>,
    /// Number of management datagrams that were forwarded; `not_forwarded` counts those that could
    /// not be.
    forwarded: AtomicU64,
    not_forwarded: AtomicU64,
}

impl Outside {
    pub(super) fn new(slot: Arc<Slot>, listener: Arc<dyn Listener>) -> Outside {
        let (forwarded, not_forwarded) = (AtomicU64::new(0), AtomicU64::new(0));
        Outside { slot, listener, forwarded, not_forwarded }
    }

    /// Adds the datagrams that were forwarded from here.
    pub(super) fn add_counters(&self, counters: &mut NetworkCounters) {
        // A waiting datagram counts as forwarded until it is dropped.
        let dropped = self.slot.dropped();
        let forwarded = self.forwarded.load(Ordering::Relaxed);
        counters.forwarded += forwarded.saturating_sub(dropped);
        counters.not_forwarded += self.not_forwarded.load(Ordering::Relaxed) + dropped;
    }

    /// Calls the listener. Returns true if a datagram now waits to be forwarded, for which a
    /// sleeping thread has to wake.
    pub(super) fn report(&self, notices: Vec<Notice>) -> bool {
        let mut waits = false;
        for notice in notices {
            match notice {
                Notice::Completion(queue) => self.listener.completion(queue),
                Notice::Event(event) => self.listener.event(event),
                Notice::Management { source, from, bytes, forwarded } => {
                    waits |= self.route(source, from, &bytes, forwarded);
                }
            }
        }
        waits
    }

    /// Calls the listener, which returns the process that a management datagram is for, and
    /// forwards it if that is another process. Returns true if the datagram has to wait.
    fn route(
        &self,
        source: u64,
        from: IpAddr,
        bytes: &[u8; MANAGEMENT_BYTES],
        forwarded: bool,
    ) -> bool {
        let datagram = Management { source, from, bytes, deliverable: true };
        let to = match self.listener.management(&datagram) {
            Routed::Here => return false,
            Routed::Slot(number) if number == self.slot.number() => return false,
            // A datagram is forwarded only once: two processes that each consider it the other's
            // would never stop.
            _ if forwarded => return false,
            Routed::Slot(number) => Destination::Slot(number),
            Routed::Service(service) => Destination::Service(service),
        };
        let mut forwarded = [0; FORWARDED_BYTES_MAX];
        let length =
            ForwardedDatagram::Management { from, bytes }.write(&mut forwarded).unwrap_or(0);
        let forwarded = self.slot.forward(clock::now(), to, &forwarded[..length]);
        let counter = match forwarded {
            ForwardResult::Sent | ForwardResult::Later => &self.forwarded,
            ForwardResult::NoProcess | ForwardResult::Full => &self.not_forwarded,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if forwarded == ForwardResult::NoProcess {
            self.listener.management(&Management { deliverable: false, ..datagram });
        }
        forwarded == ForwardResult::Later
    }
}
