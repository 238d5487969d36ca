//! Reports of a device to its application, in one form for every protocol.

use super::Driven;
use crate::contract::Device;
use crate::values::CompletionQueueId;

/// A report of a device to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<E, O, C> {
    /// An event that no operation caused.
    Event(E),
    /// A report that only this protocol has.
    Own(O),
    /// The completion of one operation.
    Completion(C),
}

/// The output type of a device.
pub type OutputOf<D> =
    Output<<D as Device>::Event, <D as Driven>::OwnOutput, <D as Device>::Completion>;

/// Iterates over the outputs of a device: its events, then the reports that only its protocol has,
/// then the completions of one queue after another. An event that is caused by an output stays for
/// the next iteration.
#[derive(Debug)]
pub struct Outputs<'a, D> {
    device: &'a mut D,
    queues: &'a [CompletionQueueId],
    stage: Stage,
}

/// The kind of output that is taken next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Events,
    Own,
    Completions,
}

impl<'a, D> Outputs<'a, D> {
    pub(super) fn new(device: &'a mut D, queues: &'a [CompletionQueueId]) -> Self {
        Outputs { device, queues, stage: Stage::Events }
    }
}

impl<D: Driven> Iterator for Outputs<'_, D> {
    type Item = OutputOf<D>;

    fn next(&mut self) -> Option<OutputOf<D>> {
        if self.stage == Stage::Events {
            if let Some(event) = self.device.poll_event() {
                return Some(Output::Event(event));
            }
            self.stage = Stage::Own;
        }
        if self.stage == Stage::Own {
            if let Some(own) = self.device.poll_own_output() {
                return Some(Output::Own(own));
            }
            self.stage = Stage::Completions;
        }
        while let Some((&queue, rest)) = self.queues.split_first() {
            if let Some(completion) = self.device.poll_completion(queue) {
                return Some(Output::Completion(completion));
            }
            self.queues = rest;
        }
        None
    }
}
