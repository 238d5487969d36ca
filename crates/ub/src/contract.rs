//! [`UbDevice`] as a [`Device`].

use crate::api::{Completion, DropReason, EpochDone, Event, Received, Transmit};
use crate::nic::UbDevice;
use crate::placement::{AtomicExecution, Execution, PlacementToken, Verdict};
use fairway_device::drive::Driven;
use fairway_device::{CompletionQueueId, Device, LocalRange};
use fairway_wire::{Ecn, Instant};

impl Device for UbDevice {
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
        UbDevice::handle_packet(self, now, received)
    }

    fn handle_placed(&mut self, now: Instant, token: PlacementToken, old: u64) {
        UbDevice::handle_placed(self, now, token, old);
    }

    fn handle_unplaced(&mut self, now: Instant, token: PlacementToken) {
        UbDevice::handle_unplaced(self, now, token);
    }

    fn handle_ungathered(&mut self, transmit: &Transmit) {
        UbDevice::handle_ungathered(self, transmit);
    }

    fn handle_timeout(&mut self, now: Instant) {
        UbDevice::handle_timeout(self, now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        UbDevice::poll_transmit(self, now)
    }

    fn poll_execution(&mut self) -> Option<Execution> {
        UbDevice::poll_execution(self)
    }

    fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        UbDevice::poll_completion(self, queue)
    }

    fn poll_event(&mut self) -> Option<Event> {
        UbDevice::poll_event(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        UbDevice::poll_timeout(self)
    }
}

impl Driven for UbDevice {
    type OwnOutput = EpochDone;

    fn poll_own_output(&mut self) -> Option<EpochDone> {
        self.poll_epoch()
    }

    fn engines(&self) -> u32 {
        self.limits().engines
    }

    fn poll_engine(&mut self, now: Instant, engine: u32) -> Option<Transmit> {
        UbDevice::poll_engine(self, now, engine)
    }

    fn unmarked(received: &Received) -> Received {
        Received { ecn: Ecn::NotCapable, ..*received }
    }
}
