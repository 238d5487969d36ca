//! Who runs the turns: threads that poll, and in the background one that sleeps on the sockets.
//!
//! As with a [`Context`](crate::Context), whoever polls drives the NIC, and the background thread
//! takes over when nobody has polled for a while. Nobody but it sleeps on the sockets: programs
//! sleep on what the front makes of the listener's calls. Who arms a completion queue is about to
//! do so, so the background thread drives at once, and as long as a queue is armed. Who polls now
//! and then, and in between watches memory that a peer writes, is not left alone either.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use fairway_engine::CompletionQueueId;
use fairway_port::Waiter;
use fairway_ring::{Baton, Doorbell, Role};
use fairway_roce::Completion;

use super::device::{Device, Notice};
use crate::progress::span_until;
use crate::verbs::letter::{LETTER_BYTES_MAX, Letter, MANAGEMENT_BYTES};
use crate::verbs::slot::{Addressee, Handed, Slot};
use crate::verbs::{Listener, Management, Routed};
use crate::vigil::{self, Vigil};
use std::net::IpAddr;

/// How long the background thread leaves those alone who poll, before it looks again.
const WATCH: Duration = Duration::from_micros(500);

/// The device behind its lock, and who drives it.
pub(super) struct Shared {
    device: Mutex<Device>,
    /// Threads that wait for the lock. One that polls makes way for them.
    contenders: AtomicU32,
    baton: Baton,
    /// The background thread sleeps here while others drive.
    bell: Doorbell,
    /// It sleeps here while it drives.
    pub(super) background: Waiter,
    stopping: AtomicBool,
    pub(super) vigil: Vigil,
    slot: Arc<Slot>,
    listener: Arc<dyn Listener>,
}

/// The life of the background thread.
pub(super) fn run_background(shared: &Shared) {
    vigil::prefer_short_slices();
    let mut polls_seen = 0;
    let mut ready = Vec::with_capacity(64);
    while !shared.stopping.load(Ordering::Acquire) {
        let ticket = shared.bell.listen();
        if shared.vigil.calls() {
            shared.baton.demand();
        }
        match shared.baton.decide(&mut polls_seen) {
            Role::Driving => shared.drive(&mut ready),
            Role::Watching | Role::Parked => {
                shared.bell.wait(ticket, Some(WATCH));
            }
        }
    }
}

impl Shared {
    pub(super) fn new(device: Device, background: Waiter, listener: Arc<dyn Listener>) -> Shared {
        Shared {
            slot: device.slot.clone(),
            device: Mutex::new(device),
            contenders: AtomicU32::new(0),
            baton: Baton::new(),
            bell: Doorbell::new(),
            background,
            stopping: AtomicBool::new(false),
            vigil: Vigil::new(),
            listener,
        }
    }

    /// One sleep on the sockets, and turns until there is nothing to do.
    fn drive(&self, ready: &mut Vec<usize>) {
        let mut device = self.lock();
        let until = device.deadline();
        device.asleep = Some(until);
        self.unlock(device);
        // A failing wait is like one that was interrupted: the next turn looks at every socket.
        let woken = self.background.wait(span_until(until), ready);
        if woken.as_ref().is_ok_and(|woken| woken.sockets > 0) {
            self.vigil.woken();
        }
        let mut device = self.lock();
        device.asleep = None;
        if woken.is_ok() {
            device.mark_ready(ready);
        }
        loop {
            device.background_turn();
            self.vigil.turned();
            device.counters.background_turns += 1;
            let unfinished = device.unfinished;
            if !unfinished && device.host.is_armed() {
                // Somebody sleeps, or is about to, even if he has polled just now.
                self.baton.demand();
            }
            self.unlock(device);
            if !unfinished || self.stopping.load(Ordering::Acquire) {
                return;
            }
            self.make_way();
            device = self.lock();
        }
    }

    /// Takes completions; if there are none, after a turn, if that is up to the caller.
    pub(super) fn poll(&self, queue: CompletionQueueId, out: &mut [Completion]) -> usize {
        self.baton.touch();
        let mut device = self.lock();
        let mut count = device.take(queue, out);
        if count == 0 && !self.vigil.is_served() {
            device.polled_turn();
            count = device.take(queue, out);
        }
        self.unlock(device);
        self.vigil.polled(count > 0);
        self.make_way();
        count
    }

    /// Asks the background thread to drive.
    pub(super) fn demand_background(&self) {
        if self.baton.demand() {
            self.bell.ring();
        }
    }

    /// Does something with the device, then tells whoever that concerns.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Device) -> R) -> R {
        let mut device = self.lock();
        let result = work(&mut device);
        self.unlock(device);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Device> {
        match self.device.try_lock() {
            Ok(device) => device,
            // A panic under the lock was a bug of ours. What it left behind is still no danger to
            // memory.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contenders.fetch_add(1, Ordering::Relaxed);
                let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
                self.contenders.fetch_sub(1, Ordering::Relaxed);
                device
            }
        }
    }

    /// Releases the lock; wakes the background thread if it sleeps for too long, and tells the
    /// listener what there is to be told.
    fn unlock(&self, mut device: MutexGuard<'_, Device>) {
        device.collect_notices();
        let mut late = false;
        if let Some(until) = device.asleep
            && let Some(deadline) = device.deadline()
            && until.is_none_or(|until| deadline.is_before(until))
        {
            // He is woken once.
            device.asleep = Some(Some(deadline));
            late = true;
        }
        let notices = match device.notices.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut device.notices),
        };
        drop(device);
        if late {
            self.background.doorbell().ring();
        }
        for notice in notices {
            self.tell(notice);
        }
    }

    fn tell(&self, notice: Notice) {
        match notice {
            Notice::Completion(queue) => self.listener.completion(queue),
            Notice::Event(event) => self.listener.event(event),
            Notice::Management { source, from, bytes, handed } => {
                self.route(source, from, &bytes, handed);
            }
        }
    }

    /// The listener says whose a management datagram is; if it is another process's, it is handed
    /// on.
    fn route(&self, source: u64, from: IpAddr, bytes: &[u8; MANAGEMENT_BYTES], handed: bool) {
        let datagram = Management { source, from, bytes, deliverable: true };
        let to = match self.listener.management(&datagram) {
            Routed::Here => return,
            Routed::Slot(number) if number == self.slot.number() => return,
            // Once is enough: two who think it the other's would never stop.
            _ if handed => return,
            Routed::Slot(number) => Addressee::Slot(number),
            Routed::Service(service) => Addressee::Service(service),
        };
        let mut letter = [0; LETTER_BYTES_MAX];
        let length = Letter::Management { from, bytes }.write(&mut letter).unwrap_or(0);
        let handed = self.slot.hand(to, &letter[..length]);
        self.with(|device| match handed {
            Handed::Over => device.counters.handed_on += 1,
            Handed::Nobody | Handed::Full => device.counters.not_handed_on += 1,
        });
        if handed == Handed::Nobody {
            self.listener.management(&Management { deliverable: false, ..datagram });
        }
    }

    /// Lets somebody else have the lock, if anybody wants it.
    fn make_way(&self) {
        if self.contenders.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    /// Ends the background thread's life.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
        self.background.doorbell().ring();
    }
}
