//! Memory use of the NIC: records in use, and the size of every record, computed from the types.

use crate::answer::Answer;
use crate::api::Completion;
use crate::arrival::{Arrival, UnreportedReceive};
use crate::channel::{BypassState, Channel, Datagrams, Path, TpChannel};
use crate::deferred::Deferred;
use crate::flow::Flows;
use crate::group::Group;
use crate::jetty::{Jetty, Receive};
use crate::limits::Limits;
use crate::mailbox::{BUFFER_BYTES, GAP_BYTES, MAILBOX_BYTES, STREAM_BYTES};
use crate::message::Message;
use crate::nic::UbDevice;
use crate::order::{JettyOrder, Keyed, Sequences, Tracker};
use crate::put_streams::PUTS_BYTES;
use crate::receive_window::{BLOCK_PSNS, NODE_BYTES};
use crate::segment::Segment;
use crate::send_window::{BLOCK_RECORDS, Sent};
use crate::tpg::ChannelGroup;
use fairway_device::StateSize;
use fairway_policy::PathView;

/// Records of each pool in use now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Channels, reserved or open.
    pub channels: u32,
    /// Jetties that exist.
    pub jetties: u32,
    /// Segments, those being released included.
    pub segments: u32,
    /// Messages being sent.
    pub messages: u32,
    /// Receives posted or taken by an arrival.
    pub receives: u32,
    /// Messages being received.
    pub arrivals: u32,
    /// Jetties that have requested order, and pairs of a Jetty and a node between which there is
    /// order.
    pub order_records: u32,
    /// Receives that are complete and wait for earlier ones.
    pub unreported: u32,
    /// Packets that wait to be executed.
    pub deferred: u32,
    /// Answers to loads and stores that are to be sent.
    pub bypass_answers: u32,
    /// Jetty groups.
    pub groups: u32,
    /// Mailboxes.
    pub mailboxes: u32,
    /// Buffers of mailboxes.
    pub mailbox_buffers: u32,
    /// Streams of puts: of peers into mailboxes here, and of this NIC into remote ones.
    pub put_streams: u32,
    /// Gaps in streams of puts of peers.
    pub put_gaps: u32,
    /// Flows.
    pub flows: u32,
    /// Send-window blocks.
    pub send_blocks: u32,
    /// Bitmap blocks.
    pub bitmap_blocks: u32,
    /// Entries reserved in completion queues.
    pub completions_reserved: u32,
}

impl Limits {
    /// The state that a NIC with these limits keeps for `jetties` Jetties and `hosts` remote hosts
    /// with `paths` paths each. Pools count with their capacity.
    pub fn state(&self, jetties: u64, hosts: u64, paths: u64) -> [StateSize; 30] {
        let line = |name, bytes, count, pooled| StateSize { name, bytes, count, pooled };
        let window = u64::from(self.window_packets);
        let streams = u64::from(self.put_streams);
        // Those here, those of the peer, and the numbers of the messages that had them last.
        let slots = 4 * u64::from(self.message_slots) + u64::from(self.read_slots);
        [
            line("Jetty", size_of::<Jetty>(), jetties, false),
            line("TP channel, hot", size_of::<TpChannel>(), hosts, false),
            line("TP channel, rest", size_of::<Channel>() - size_of::<TpChannel>(), hosts, false),
            line("path", Path::BYTES + size_of::<PathView>(), hosts * paths, false),
            line("receive-window node", NODE_BYTES, hosts * window / u64::from(BLOCK_PSNS), false),
            line(
                "send-window entry",
                size_of::<u32>(),
                hosts * window / u64::from(BLOCK_RECORDS),
                false,
            ),
            line("TP channel group", ChannelGroup::BYTES, hosts, false),
            line("slot table entry", size_of::<u32>(), hosts * slots, false),
            line(
                "withheld packet",
                size_of::<crate::channel::BlockedAck>(),
                hosts * u64::from(self.withheld),
                false,
            ),
            line("segment", size_of::<Segment>(), u64::from(self.segments), true),
            line("bitmap block", size_of::<u16>(), u64::from(self.bitmap_blocks), true),
            line(
                "send-window record",
                size_of::<Sent>(),
                u64::from(self.send_blocks * BLOCK_RECORDS),
                true,
            ),
            line("message", size_of::<Message>(), u64::from(self.messages), true),
            line("arrival", size_of::<Arrival>(), u64::from(self.arrivals), true),
            line("receive", size_of::<Receive>(), u64::from(self.receives), true),
            line("order record of a Jetty", JettyOrder::BYTES, u64::from(self.order_records), true),
            line(
                "order record of a Jetty and node",
                Keyed::<Sequences>::RECORD_BYTES + Keyed::<Tracker>::RECORD_BYTES,
                u64::from(self.order_records),
                true,
            ),
            line("loads and stores of a channel", BypassState::BYTES, hosts, false),
            line("datagrams of a channel", size_of::<Datagrams>(), hosts, false),
            line(
                "answer to a load or store",
                size_of::<Answer>(),
                u64::from(self.bypass_answers),
                true,
            ),
            line("waiting receive", size_of::<UnreportedReceive>(), u64::from(self.receives), true),
            line("deferred packet", size_of::<Deferred>(), u64::from(self.deferred), true),
            line("Jetty group", size_of::<Group>(), u64::from(self.groups), true),
            line("mailbox", MAILBOX_BYTES, u64::from(self.mailboxes), true),
            line("buffer of a mailbox", BUFFER_BYTES, u64::from(self.mailbox_buffers), true),
            line("puts of a remote Jetty to a mailbox", STREAM_BYTES, streams, true),
            line("gap in them", GAP_BYTES, streams, true),
            line("puts of a Jetty to a remote mailbox", PUTS_BYTES, streams, true),
            line("flow", Flows::RECORD_BYTES, u64::from(self.flows), true),
            line("completion", size_of::<Completion>(), u64::from(self.completions), true),
        ]
    }
}

impl UbDevice {
    /// Records of each pool in use now.
    pub fn usage(&self) -> Usage {
        let shared = &self.shared;
        let mailboxes = shared.mailboxes.counts();
        Usage {
            channels: self.channels_in_use(),
            jetties: self.jetties_in_use(),
            segments: shared.segments.in_use(),
            messages: shared.messages.in_use(),
            receives: shared.jetties.receives_in_use(),
            arrivals: shared.arrivals.in_use(),
            order_records: shared.initiator.records_in_use()
                + shared.initiator.sequences.in_use()
                + shared.trackers.in_use(),
            unreported: shared.trackers.unreported_in_use(),
            deferred: shared.deferred.in_use(),
            bypass_answers: shared.answers.in_use(),
            groups: shared.jetties.groups_in_use(),
            mailboxes: mailboxes.mailboxes,
            mailbox_buffers: mailboxes.buffers,
            put_streams: mailboxes.streams + shared.puts.in_use(),
            put_gaps: mailboxes.gaps,
            flows: shared.flows.in_use(),
            send_blocks: shared.send_blocks.in_use(),
            bitmap_blocks: shared.bitmap_blocks.in_use(),
            completions_reserved: shared.queues.reserved(),
        }
    }
}
