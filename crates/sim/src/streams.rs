//! Streams: WRITEs or READs of one length that move bytes from one host to another, with a limited
//! number in flight; each stream has its own Jetty. Schedulers and congestion controls divide the
//! bandwidth among tenants at the host that sends the bytes: the requester of a WRITE, the
//! responder of a READ.

use super::control::Control;
use super::plan::Plan;
use crate::endpoint::{SLOT_BITS, TOKEN};
use crate::stream::Verb;
use fairway_ub::wire::{Instant, JettyId};
use fairway_ub::{
    ChannelId, Completion, LocalRange, PostError, RemoteRange, SegmentId, Status, UbDevice, Work,
    WorkRequest,
};
use latencies::Latencies;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

mod latencies;

/// A flow of a stream at the sending host, as its scheduler identifies it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    /// The stream's number in the scenario.
    pub(crate) number: u32,
    /// The Jetty of the host that posts.
    pub(crate) jetty: JettyId,
    pub(crate) channel: ChannelId,
    /// True if the flow consists of READ responses.
    pub(crate) answers: bool,
}

/// A stream at the posting host.
struct Running {
    /// The stream's number in the scenario.
    number: u32,
    jetty: JettyId,
    channel: ChannelId,
    /// Posting time of each message in flight, by message.
    posted: Box<[u64]>,
    free: Vec<u32>,
    /// Time at which the next message may be posted.
    due: u64,
    latencies: Latencies,
    failed: bool,
}

/// The streams that a host posts, those that it sends, and the scheduler of the latter.
pub(crate) struct Streams {
    running: Vec<Running>,
    sending: Vec<Sending>,
    /// Time of the next post of each stream or, with [`HINT`], of its hint.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) control: Option<Control>,
    /// Time at which the host's wake-up is armed.
    pub(crate) wake_at: u64,
    /// Operations that failed.
    pub(crate) failed: u64,
}

/// Bit that marks an entry of `due` as a hint of the stream.
const HINT: u32 = 1 << 31;

/// Returns the Jetty of a host's stream, by the stream's position among those that the host posts.
pub(crate) fn jetty_of(place: usize) -> JettyId {
    JettyId::new(2 + place as u32)
}

impl Streams {
    /// Makes the streams of a host; `channel` returns the channel to a host.
    pub(crate) fn new(
        plan: &Plan,
        host: u32,
        channel: impl Fn(u32) -> ChannelId,
        control: Option<Control>,
    ) -> Streams {
        let numbers = &plan.streams_posted[host as usize];
        let sending = plan.streams_out[host as usize].iter().map(|&number| {
            let stream = &plan.scenario.streams[number as usize];
            Sending {
                number,
                jetty: jetty_of(plan.stream_place[number as usize] as usize),
                channel: channel(stream.destination),
                answers: stream.verb == Verb::Read,
            }
        });
        let mut streams = Streams {
            running: Vec::with_capacity(numbers.len()),
            sending: sending.collect(),
            due: BinaryHeap::with_capacity(3 * numbers.len() + 1),
            control,
            wake_at: u64::MAX,
            failed: 0,
        };
        for (place, &number) in numbers.iter().enumerate() {
            let stream = &plan.scenario.streams[number as usize];
            streams.due.push(Reverse((stream.start_ps, place as u32)));
            if let Some((at, _)) = stream.hint {
                streams.due.push(Reverse((at, place as u32 | HINT)));
            }
            streams.running.push(Running {
                number,
                jetty: jetty_of(place),
                channel: channel(stream.peer()),
                posted: vec![0; stream.depth as usize].into_boxed_slice(),
                free: (0..stream.depth).rev().collect(),
                due: stream.start_ps,
                latencies: Latencies::new(),
                failed: false,
            });
        }
        streams
    }

    /// Returns when the next action is due, if there is one.
    pub(crate) fn next_due(&mut self, now: u64) -> Option<u64> {
        let own = self.due.peek().map(|Reverse((at, _))| *at);
        let control = self.control.as_mut().and_then(|control| control.next_due(now));
        own.into_iter().chain(control).min()
    }

    /// Posts the messages that are due, and sends due hints.
    pub(crate) fn act(&mut self, nic: &mut UbDevice, segment: SegmentId, plan: &Plan, now: u64) {
        while let Some(&Reverse((at, place))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            if place & HINT != 0 {
                let here = &self.running[(place & !HINT) as usize];
                let hint = plan.scenario.streams[here.number as usize].hint;
                nic.set_hint(here.jetty, hint.map_or(0, |(_, hint)| hint));
                continue;
            }
            self.post(nic, segment, plan, (now, place));
        }
    }

    /// Posts the messages of a stream that may be posted now, and schedules the next post.
    fn post(
        &mut self,
        nic: &mut UbDevice,
        segment: SegmentId,
        plan: &Plan,
        (now, place): (u64, u32),
    ) {
        let here = &mut self.running[place as usize];
        let stream = &plan.scenario.streams[here.number as usize];
        let slot = u64::from(plan.stream_slot[here.number as usize]) << SLOT_BITS;
        while now >= here.due && now < stream.end_ps && !here.failed {
            // If all messages are in flight, the next completion calls this again.
            let Some(message) = here.free.pop() else { return };
            // All streams of a source share its memory; at the destination each stream has its own.
            let (offset, address) = if stream.verb == Verb::Read { (slot, 0) } else { (0, slot) };
            let remote = RemoteRange { token_id: segment.token_id(), token_value: TOKEN, address };
            let work = match stream.verb {
                Verb::Write => Work::Write { remote },
                Verb::Read => Work::Read { remote },
            };
            let request = WorkRequest {
                id: u64::from(place) << 32 | u64::from(message),
                channel: here.channel,
                work,
                local: LocalRange { segment, offset, length: stream.bytes },
                signaled: true,
                order: stream.order,
            };
            match nic.post(Instant::from_ps(now), here.jetty, &request) {
                Ok(()) => here.posted[message as usize] = now,
                Err(PostError::NoChannel) => {
                    here.failed = true;
                    self.failed += 1;
                }
                Err(error) => panic!("stream {} cannot post: {error:?}", here.number),
            }
            if let Some(megabits) = stream.megabits {
                here.due = here.due.max(now) + u64::from(stream.bytes) * 8_000_000 / megabits;
            }
        }
        if here.due > now && here.due < stream.end_ps {
            self.due.push(Reverse((here.due, place)));
        }
    }

    /// Handles a completed message and posts the next one.
    pub(crate) fn completed(
        &mut self,
        nic: &mut UbDevice,
        segment: SegmentId,
        plan: &Plan,
        (now, completion): (u64, &Completion),
    ) {
        let (place, message) = ((completion.id >> 32) as u32, completion.id as u32);
        let here = &mut self.running[place as usize];
        if completion.status != Status::Success {
            here.failed = true;
            self.failed += 1;
            return;
        }
        let began = here.posted[message as usize];
        if began >= plan.scenario.measure_ps {
            here.latencies.add(now - began);
        }
        let was_full = here.free.is_empty();
        here.free.push(message);
        if was_full {
            self.post(nic, segment, plan, (now, place));
        }
    }

    /// Quantiles of the time from a message's posting to its completion, by stream.
    pub(crate) fn latencies(&self) -> impl Iterator<Item = (u32, super::Quantiles)> + '_ {
        self.running.iter().map(|stream| (stream.number, stream.latencies.quantiles()))
    }

    /// The flows that the host sends.
    pub(crate) fn sending(&self) -> &[Sending] {
        &self.sending
    }
}
