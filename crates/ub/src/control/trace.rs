//! The trace: events that controllers received and their decisions, kept until the caller takes
//! them.
//!
//! A [`Recorder`] is a queue of plain records whose memory is allocated when it is created. The
//! data path adds to it and allocates nothing; records without room are counted. Without a
//! recorder, the only cost is a check at each place that would write.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_policy::{FlowId, RateRegisters, Share};
use fairway_wire::{Duration, Instant, JettyId};

/// Bytes that a flow sends between two `Transmit` records.
const TRANSMIT_BYTES: u32 = 64 * 1024;

/// A record of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Time of the event or decision.
    pub at: Instant,
    /// The number of the channel at this NIC, which is used again after the channel has closed.
    pub channel: u32,
    /// The event or decision.
    pub entry: TraceEntry,
}

/// An event for a controller, or a decision of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEntry {
    /// Event for the congestion control: an acknowledgement.
    Ack {
        /// The path that it is about.
        path: u8,
        /// Packets newly acknowledged.
        packets: u32,
        /// Bytes of those packets, headers included.
        bytes: u32,
        /// Packets that arrived marked since the last one.
        marked: u32,
        /// Bytes that are still in flight.
        in_flight: u32,
        /// Round trip, if the acknowledgement carries a sample.
        rtt: Option<Duration>,
    },
    /// Event for the congestion control: packets are lost.
    Loss {
        /// The path that lost them.
        path: u8,
        /// Bytes of those packets, headers included.
        bytes: u32,
        /// True if the timer found the loss, and not later acknowledgements.
        by_timeout: bool,
    },
    /// Event for the congestion control: this many packets were resent for nothing.
    Spurious {
        /// Number of packets.
        packets: u32,
    },
    /// Event for the congestion control: the receiver grants more credit.
    Credit {
        /// Bytes.
        bytes: u32,
    },
    /// Decision of the congestion control: the window and rate from now on.
    Window {
        /// Bytes that may be in flight.
        bytes: u64,
        /// Pacing rate in bytes per second, if it paces.
        pacing: Option<u64>,
    },
    /// Decision of the path choice: a path other than the last chunk's.
    Path {
        /// The path.
        path: u8,
    },
    /// A flow has begun.
    FlowBegan {
        /// The flow.
        flow: FlowId,
        /// The local Jetty; for answers, the peer's.
        jetty: JettyId,
        /// True if the flow consists of answers.
        answers: bool,
        /// The flow's tenant and its weight.
        share: Share,
    },
    /// A flow has ended.
    FlowEnded {
        /// The flow.
        flow: FlowId,
    },
    /// A flow's share has changed.
    Share {
        /// The flow.
        flow: FlowId,
        /// The new share.
        share: Share,
    },
    /// The application has set a hint.
    Hint {
        /// The flow.
        flow: FlowId,
        /// The hint, in the scheduler's terms.
        value: u64,
    },
    /// A flow has sent something new since its last such record.
    Transmit {
        /// The flow.
        flow: FlowId,
        /// Bytes, headers included.
        bytes: u32,
        /// Number of packets.
        packets: u32,
    },
    /// Decision of the scheduler: the dequeue rate of a flow, when the data path first read it.
    DequeueRate {
        /// The flow.
        flow: FlowId,
        /// Bytes per second; `None` if there is no limit.
        rate: Option<u64>,
    },
}

const _: () = assert!(size_of::<TraceRecord>() <= 64);

/// What was last recorded of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct LastRecorded {
    window: u64,
    pacing: Option<u64>,
    path: Option<u8>,
}

/// What is still to be recorded of a flow, and its last recorded rate.
#[derive(Clone, Copy, Debug)]
struct Pending {
    bytes: u32,
    packets: u32,
    rate: u64,
}

const NOTHING: Pending = Pending { bytes: 0, packets: 0, rate: RateRegisters::UNLIMITED };

/// The queue of records that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Recorder {
    records: VecDeque<TraceRecord>,
    room: usize,
    dropped: u64,
    channels: Vec<LastRecorded>,
    flows: Vec<Pending>,
}

impl Recorder {
    /// Creates a recorder with room for `room` records at a time.
    pub(crate) fn new(room: usize, channels: u32, flows: u32) -> Recorder {
        Recorder {
            records: VecDeque::with_capacity(room),
            room,
            dropped: 0,
            channels: alloc::vec![LastRecorded::default(); channels as usize],
            flows: alloc::vec![NOTHING; flows as usize],
        }
    }

    pub(crate) fn add(&mut self, at: Instant, channel: u32, entry: TraceEntry) {
        if self.records.len() < self.room {
            self.records.push_back(TraceRecord { at, channel, entry });
        } else {
            self.dropped += 1;
        }
    }

    /// Records the window and rate of a channel's congestion control, if they have changed.
    pub(crate) fn decided(&mut self, at: Instant, channel: u32, window: u64, pacing: Option<u64>) {
        let Some(last) = self.channels.get_mut(channel as usize) else { return };
        if (last.window, last.pacing) != (window, pacing) {
            (last.window, last.pacing) = (window, pacing);
            self.add(at, channel, TraceEntry::Window { bytes: window, pacing });
        }
    }

    /// Records the path of a chunk, if it differs from the last chunk's.
    pub(crate) fn chose(&mut self, at: Instant, channel: u32, path: u8) {
        let Some(last) = self.channels.get_mut(channel as usize) else { return };
        if last.path.replace(path) != Some(path) {
            self.add(at, channel, TraceEntry::Path { path });
        }
    }

    /// Resets what is known of a channel number, which now names a new channel.
    pub(crate) fn opened(&mut self, channel: u32) {
        if let Some(last) = self.channels.get_mut(channel as usize) {
            *last = LastRecorded::default();
        }
    }

    pub(crate) fn began(&mut self, at: Instant, channel: u32, entry: TraceEntry) {
        if let TraceEntry::FlowBegan { flow, .. } = entry
            && let Some(pending) = self.flows.get_mut(flow.index())
        {
            *pending = NOTHING;
        }
        self.add(at, channel, entry);
    }

    pub(crate) fn ended(&mut self, at: Instant, channel: u32, flow: FlowId) {
        self.sent_all(at, channel, flow);
        self.add(at, channel, TraceEntry::FlowEnded { flow });
    }

    /// Counts a new packet of a flow; records it with others after [`TRANSMIT_BYTES`].
    pub(crate) fn sent(&mut self, at: Instant, channel: u32, flow: FlowId, bytes: u32) {
        let pending = &mut self.flows[flow.index()];
        pending.bytes = pending.bytes.saturating_add(bytes);
        pending.packets += 1;
        if pending.bytes >= TRANSMIT_BYTES {
            self.sent_all(at, channel, flow);
        }
    }

    /// Records what is still to be recorded of a flow.
    pub(crate) fn sent_all(&mut self, at: Instant, channel: u32, flow: FlowId) {
        let pending = &mut self.flows[flow.index()];
        let (bytes, packets) = (pending.bytes, pending.packets);
        if packets > 0 {
            (pending.bytes, pending.packets) = (0, 0);
            self.add(at, channel, TraceEntry::Transmit { flow, bytes, packets });
        }
    }

    /// Records the dequeue rate of a flow, if it has changed.
    pub(crate) fn rate(&mut self, at: Instant, channel: u32, flow: FlowId, rate: u64) {
        let before = core::mem::replace(&mut self.flows[flow.index()].rate, rate);
        if before != rate {
            let rate = (rate != RateRegisters::UNLIMITED).then_some(rate);
            self.add(at, channel, TraceEntry::DequeueRate { flow, rate });
        }
    }

    /// Moves all records to `to`. Returns how many records found no room so far.
    pub(crate) fn take(&mut self, to: &mut Vec<TraceRecord>) -> u64 {
        to.extend(self.records.drain(..));
        self.dropped
    }
}
