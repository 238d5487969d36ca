//! Implements [`Device`] for [`RoceDevice`].

use crate::api::{
    AtomicExecution, Completion, DropReason, Event, OwnVerdict, PlacementToken, Received, Target,
    Transmit, Verdict,
};
use crate::device::RoceDevice;
use core::convert::Infallible;
use fairway_device::drive::{Driven, Request};
use fairway_device::{CompletionQueueId, Device};
use fairway_wire::{Ecn, Instant};

impl Device for RoceDevice {
    type Received = Received;
    type Target = Target;
    type Token = PlacementToken;
    type OwnVerdict = OwnVerdict;
    type DropReason = DropReason;
    type Execution = AtomicExecution;
    type Transmit = Transmit;
    type Completion = Completion;
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, received: &Received) -> Verdict {
        RoceDevice::handle_packet(self, now, received)
    }

    fn handle_placed(&mut self, now: Instant, token: PlacementToken, old: u64) {
        RoceDevice::handle_placed(self, now, token, old);
    }

    fn handle_unplaced(&mut self, _now: Instant, token: PlacementToken) {
        RoceDevice::handle_unplaced(self, token);
    }

    fn handle_ungathered(&mut self, transmit: &Transmit) {
        RoceDevice::handle_ungathered(self, transmit);
    }

    fn handle_timeout(&mut self, now: Instant) {
        RoceDevice::handle_timeout(self, now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        RoceDevice::poll_transmit(self, now)
    }

    fn poll_execution(&mut self) -> Option<AtomicExecution> {
        RoceDevice::poll_execution(self)
    }

    fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        RoceDevice::poll_completion(self, queue)
    }

    fn poll_event(&mut self) -> Option<Event> {
        RoceDevice::poll_event(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        RoceDevice::poll_timeout(self)
    }
}

impl Driven for RoceDevice {
    type OwnOutput = Infallible;

    fn poll_answer(&mut self, received: &Received) -> Option<Transmit> {
        RoceDevice::poll_answer(self, received)
    }

    fn poll_replay(&mut self) -> Option<u32> {
        RoceDevice::poll_replay(self)
    }

    fn unmarked(received: &Received) -> Received {
        Received { ecn: Ecn::NotCapable, ..*received }
    }
}

impl From<OwnVerdict> for Request<PlacementToken> {
    fn from(own: OwnVerdict) -> Self {
        match own {
            OwnVerdict::Store { target, value, token } => Request::Store { target, value, token },
            OwnVerdict::Buffer { place } => Request::Buffer(place),
        }
    }
}
