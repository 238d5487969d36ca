//! [`Nic`] as a [`Device`].

use crate::api::{Completion, DropReason, EpochDone, Event, Received, Transmit};
use crate::nic::Nic;
use crate::placement::{AtomicExecution, Execution, PlacementToken, Verdict};
use fairway_device::drive::Driven;
use fairway_device::{CompletionQueueId, Device, LocalRange};
use fairway_wire::{Ecn, Instant};

impl Device for Nic {
    type Received = Received;
    type Target = LocalRange;
    type Token = PlacementToken;
    type OwnVerdict = AtomicExecution;
    type DropReason = DropReason;
    type Execution = Execution;
    type Transmit = Transmit;
    type Completion = Completion;
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, received: &Received) -> Verdict {
        Nic::handle_packet(self, now, received)
    }

    fn handle_placed(&mut self, now: Instant, token: PlacementToken, old: u64) {
        Nic::handle_placed(self, now, token, old);
    }

    fn handle_unplaced(&mut self, now: Instant, token: PlacementToken) {
        Nic::handle_unplaced(self, now, token);
    }

    fn handle_ungathered(&mut self, transmit: &Transmit) {
        Nic::handle_ungathered(self, transmit);
    }

    fn handle_timeout(&mut self, now: Instant) {
        Nic::handle_timeout(self, now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        Nic::poll_transmit(self, now)
    }

    fn poll_execution(&mut self) -> Option<Execution> {
        Nic::poll_execution(self)
    }

    fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        Nic::poll_completion(self, queue)
    }

    fn poll_event(&mut self) -> Option<Event> {
        Nic::poll_event(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Nic::poll_timeout(self)
    }
}

impl Driven for Nic {
    type OwnOutput = EpochDone;

    fn poll_own_output(&mut self) -> Option<EpochDone> {
        self.poll_epoch()
    }

    fn engines(&self) -> u32 {
        self.limits().engines
    }

    fn poll_engine(&mut self, now: Instant, engine: u32) -> Option<Transmit> {
        Nic::poll_engine(self, now, engine)
    }

    fn unmarked(received: &Received) -> Received {
        Received { ecn: Ecn::NotCapable, ..*received }
    }
}
