//! The trace: what controllers were told and what they decided, kept until the caller takes it.
//!
//! A [`Recorder`] is a queue of plain records whose memory is taken when it is made. The data path
//! adds to it and allocates nothing; what finds no room is counted. Without one, each place that
//! would write asks whether there is one, and that is all.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_policy::{FlowId, RateRegisters, Share};
use fairway_wire::{Duration, Instant, JettyId};

/// Bytes that a flow sends between two records of that.
const TRANSMIT_BYTES: u32 = 64 * 1024;

/// A line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When.
    pub at: Instant,
    /// The number of the channel at this NIC, which is used again after the channel has closed.
    pub channel: u32,
    /// What.
    pub entry: TraceEntry,
}

/// What happened, or was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEntry {
    /// Told to the congestion control: an acknowledgement.
    Ack {
        /// The path it is about.
        path: u8,
        /// Packets newly acknowledged.
        packets: u32,
        /// Their bytes, headers included.
        bytes: u32,
        /// Packets that arrived marked since the last one.
        marked: u32,
        /// Bytes that are still in flight.
        in_flight: u32,
        /// Round trip, if it told one.
        rtt: Option<Duration>,
    },
    /// Told to the congestion control: packets are lost.
    Loss {
        /// The path that lost them.
        path: u8,
        /// Their bytes, headers included.
        bytes: u32,
        /// Found by the timer and not by later acknowledgements.
        by_timeout: bool,
    },
    /// Told to the congestion control: so many packets were resent for nothing.
    Spurious {
        /// Packets.
        packets: u32,
    },
    /// Told to the congestion control: the receiver grants more.
    Credit {
        /// Bytes.
        bytes: u32,
    },
    /// Decided by the congestion control: what holds from now on.
    Window {
        /// Bytes that may be in flight.
        bytes: u64,
        /// Bytes per second, if it paces.
        pacing: Option<u64>,
    },
    /// Decided by the path choice: another path than the last chunk's.
    Path {
        /// The path.
        path: u8,
    },
    /// A flow begins.
    FlowBegan {
        /// The flow.
        flow: FlowId,
        /// Our Jetty; of answers, the peer's.
        jetty: JettyId,
        /// It consists of answers.
        answers: bool,
        /// Its tenant and its weight.
        share: Share,
    },
    /// A flow has ended.
    FlowEnded {
        /// The flow.
        flow: FlowId,
    },
    /// A flow's share is another one.
    Share {
        /// The flow.
        flow: FlowId,
        /// Its share.
        share: Share,
    },
    /// The application asks for something.
    Hint {
        /// The flow.
        flow: FlowId,
        /// What, in the scheduler's terms.
        value: u64,
    },
    /// A flow has sent something new since it was last told.
    Transmit {
        /// The flow.
        flow: FlowId,
        /// Bytes, headers included.
        bytes: u32,
        /// Packets.
        packets: u32,
    },
    /// Decided by the scheduler: the dequeue rate of a flow, as of when the data path first saw it.
    DequeueRate {
        /// The flow.
        flow: FlowId,
        /// Bytes per second; `None` if there is no limit.
        rate: Option<u64>,
    },
}

const _: () = assert!(size_of::<TraceRecord>() <= 64);

/// What was last written of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    window: u64,
    pacing: Option<u64>,
    path: Option<u8>,
}

/// What is still to be written of a flow, and the rate that was.
#[derive(Clone, Copy, Debug)]
struct Pending {
    bytes: u32,
    packets: u32,
    rate: u64,
}

const NOTHING: Pending = Pending { bytes: 0, packets: 0, rate: RateRegisters::UNLIMITED };

/// Records that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Recorder {
    records: VecDeque<TraceRecord>,
    room: usize,
    dropped: u64,
    channels: Vec<Told>,
    flows: Vec<Pending>,
}

impl Recorder {
    /// With room for so many records at a time.
    pub(crate) fn new(room: usize, channels: u32, flows: u32) -> Recorder {
        Recorder {
            records: VecDeque::with_capacity(room),
            room,
            dropped: 0,
            channels: alloc::vec![Told::default(); channels as usize],
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

    /// What the congestion control of a channel says now; written if it is news.
    pub(crate) fn decided(&mut self, at: Instant, channel: u32, window: u64, pacing: Option<u64>) {
        let Some(told) = self.channels.get_mut(channel as usize) else { return };
        if (told.window, told.pacing) != (window, pacing) {
            (told.window, told.pacing) = (window, pacing);
            self.add(at, channel, TraceEntry::Window { bytes: window, pacing });
        }
    }

    /// The path of a chunk; written if it is another one.
    pub(crate) fn chose(&mut self, at: Instant, channel: u32, path: u8) {
        let Some(told) = self.channels.get_mut(channel as usize) else { return };
        if told.path.replace(path) != Some(path) {
            self.add(at, channel, TraceEntry::Path { path });
        }
    }

    /// A channel's number stands for a new one.
    pub(crate) fn opened(&mut self, channel: u32) {
        if let Some(told) = self.channels.get_mut(channel as usize) {
            *told = Told::default();
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

    /// A flow has sent a new packet.
    pub(crate) fn sent(&mut self, at: Instant, channel: u32, flow: FlowId, bytes: u32) {
        let pending = &mut self.flows[flow.index()];
        pending.bytes = pending.bytes.saturating_add(bytes);
        pending.packets += 1;
        if pending.bytes >= TRANSMIT_BYTES {
            self.sent_all(at, channel, flow);
        }
    }

    /// Writes what is still to be written of a flow.
    pub(crate) fn sent_all(&mut self, at: Instant, channel: u32, flow: FlowId) {
        let pending = &mut self.flows[flow.index()];
        let (bytes, packets) = (pending.bytes, pending.packets);
        if packets > 0 {
            (pending.bytes, pending.packets) = (0, 0);
            self.add(at, channel, TraceEntry::Transmit { flow, bytes, packets });
        }
    }

    /// The dequeue rate of a flow; written if it is another one.
    pub(crate) fn rate(&mut self, at: Instant, channel: u32, flow: FlowId, rate: u64) {
        let before = core::mem::replace(&mut self.flows[flow.index()].rate, rate);
        if before != rate {
            let rate = (rate != RateRegisters::UNLIMITED).then_some(rate);
            self.add(at, channel, TraceEntry::DequeueRate { flow, rate });
        }
    }

    /// Moves everything to `to`; how many records found no room so far.
    pub(crate) fn take(&mut self, to: &mut Vec<TraceRecord>) -> u64 {
        to.extend(self.records.drain(..));
        self.dropped
    }
}
