//! The instance of a module that decides for one channel or for one NIC.
//!
//! A file that decides several kinds of policy of a channel has one instance for all of them, so
//! that they share its memory. The policies of a channel may be called by two threads (congestion
//! control can run on one of its own), so each call holds a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairway_wire::Instant;

use crate::Fault;
use crate::abi::{Decision, Traits};
use crate::guest::Guest;
use crate::slot::{Cursor, Site, Slot};

/// An instance that several policies use.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Instance>>);

/// An instance; none after a fault.
pub(crate) struct Instance {
    slot: Arc<Slot>,
    cursor: Cursor,
    guest: Option<Guest>,
    /// Number of guests that this instance has had.
    generation: u32,
    /// The last decision, within bounds.
    decision: Decision,
    site: Site,
    /// Time of the last event that had one.
    now: Instant,
}

/// Result of an event.
pub(crate) enum Outcome<R> {
    /// The module's answer.
    Answer(R),
    /// The module does not export the hook.
    NoHook,
    /// There is no module any more, so that the fallback decides.
    Gone,
}

impl Shared {
    /// Starts an instance.
    pub(crate) fn start(slot: Arc<Slot>, site: Site) -> Shared {
        let (guest, cursor) = slot.start(site);
        let (generation, decision, now) = (0, Decision::default(), Instant::ZERO);
        let mut instance = Instance { slot, cursor, guest, generation, decision, site, now };
        instance.read_decision();
        Shared(Arc::new(Mutex::new(instance)))
    }

    /// Locks the instance. Poison is ignored: the state is never left half changed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Instance> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Instance {
    /// Passes an event at `now` to the module, of which the newest version is taken first. `call`
    /// returns `None` if the module does not export the hook.
    pub(crate) fn event<R>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut Guest) -> Option<Result<R, Fault>>,
    ) -> Outcome<R> {
        self.follow(now);
        self.event_between(call)
    }

    /// Passes an event that has no time, and in which no other version is taken.
    pub(crate) fn event_between<R>(
        &mut self,
        call: impl FnOnce(&mut Guest) -> Option<Result<R, Fault>>,
    ) -> Outcome<R> {
        let Some(guest) = &mut self.guest else { return Outcome::Gone };
        match call(guest) {
            None => Outcome::NoHook,
            Some(Ok(answer)) => Outcome::Answer(answer),
            Some(Err(fault)) => {
                self.end(fault);
                Outcome::Gone
            }
        }
    }

    /// Takes the module out of use.
    pub(crate) fn end(&mut self, fault: Fault) {
        if self.guest.take().is_some() {
            self.slot.note(self.now, fault);
        }
    }

    /// Changes to another module if the current one has been replaced.
    pub(crate) fn follow(&mut self, now: Instant) {
        self.now = now;
        let change = self.slot.replacement(&mut self.cursor, now, self.site, &self.decision);
        if let Some(guest) = change {
            self.guest = guest;
            self.generation += 1;
            self.read_decision();
        }
    }

    /// Reads the module's decision. Returns the last one if the module is gone.
    pub(crate) fn read_decision(&mut self) -> Decision {
        if let Some(guest) = &mut self.guest {
            self.decision = guest.machine.decision(self.site.mtu_bytes);
        }
        self.decision
    }

    pub(crate) fn guest(&self) -> Option<&Guest> {
        self.guest.as_ref()
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn traits(&self) -> Traits {
        self.guest.as_ref().map(|guest| guest.traits).unwrap_or_default()
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.guest.as_ref().map_or(0, |guest| guest.machine.fuel_used())
    }
}
