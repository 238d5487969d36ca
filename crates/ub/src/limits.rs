//! Capacities of a [`crate::UbDevice`], by name, and its timing profile.

use crate::receive_window::BLOCK_PSNS;
use crate::send_window::BLOCK_RECORDS;
use fairway_wire::{Duration, JettyId, TokenId};

/// Gives a struct a setter for each of its fields, so that fields can be added later.
macro_rules! setters {
    ($owner:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        impl $owner {
            $(
                #[doc = concat!(
                    "Returns a copy with another `", stringify!($field),
                    "`; the field of this name has the unit and the range.",
                )]
                #[must_use]
                pub const fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

/// Bytes that windows, rates and credit count for the headers of a data packet: as many as the
/// largest headers of this protocol take.
pub(crate) const HEADER_BYTES: u32 = 80;

/// Capacities of a [`crate::UbDevice`]. Shared pools are allocated when the NIC is created, the
/// memory of a channel when the channel is opened. [`Limits::new`] is the default, and each field
/// has a setter. A limit whose documentation gives no range is at most 2^24, those of blocks 2^26.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// TP channels, open or opening. At most 65,536.
    pub channels: u32,
    /// Engines, each of which sends for the channels assigned to it: 1 to 16.
    pub engines: u32,
    /// Number of Jetties. At most 2^20 − 1.
    pub jetties: u32,
    /// Registered segments. At most 2^20 − 1.
    pub segments: u32,
    /// Number of completion queues. At most 65,535.
    pub completion_queues: u32,
    /// Entries of all completion queues together. (Live, each Jetty has a queue of its depth.)
    pub completions: u32,
    /// Messages being sent (operations in flight, and responses to reads), all channels together.
    /// Operations leave `read_slots` per open channel, but at most half, to the responses.
    pub messages: u32,
    /// Posted receives, all Jetties together.
    pub receives: u32,
    /// Messages of several packets, sends and notified writes being received at once, all channels
    /// together.
    /// With fewer than `channels × message_slots + 1`, peers may have to wait for each other.
    pub arrivals: u32,
    /// Packets in flight per channel and direction: a power of two, 128 to 32,768.
    pub window_packets: u32,
    /// Blocks of 64 send-window records, all channels together.
    /// At least one per open channel: an idle channel may keep one that is partly used.
    pub send_blocks: u32,
    /// 16-bit bitmap blocks, all channels together (ORNIC §3.4).
    pub bitmap_blocks: u32,
    /// Messages of several packets in flight per channel and direction: 1 to 256.
    pub message_slots: u32,
    /// Reads in flight per channel, and other operations that await an answer of their own: 1 to
    /// 256. Strict operations of mode ROT keep their slot while the target holds them, so one Jetty
    /// may use only a quarter of a channel's slots (of the number that both sides agreed on, but at
    /// least 2) for those; further ones wait where they were posted. All Jetties together leave a
    /// quarter of the slots (at least 1) to operations that the target can execute on arrival.
    pub read_slots: u32,
    /// Paths per channel: 1 to 256.
    pub paths: u32,
    /// Packets per channel that may be waiting for [`crate::UbDevice::handle_placed`], or refused
    /// and not yet filled.
    pub withheld: u32,
    /// Jetties that request order, and pairs of a Jetty and a node between which there is order:
    /// this many of each, on the initiator's and on the target's side.
    pub order_records: u32,
    /// Answers to loads and stores of peers, all channels together.
    pub bypass_answers: u32,
    /// Number of Jetty groups.
    pub groups: u32,
    /// Packets that may wait to be executed, all channels together: places in the staging memory.
    pub deferred: u32,
    /// Mailboxes, open or closed but not yet released. At most 65,536.
    pub mailboxes: u32,
    /// Buffers of all mailboxes together: posted, being filled, done but not yet reported, and
    /// retired ones that are kept.
    pub mailbox_buffers: u32,
    /// Streams of puts with puts under way: into mailboxes here, one per remote Jetty and mailbox
    /// address that it puts to, and as many gaps in them (runs of puts that are missing while a
    /// later one has arrived); and as many from Jetties here to remote mailboxes. The records of
    /// idle streams are used again. With more senders than records, puts may be sent back and
    /// repeated.
    pub put_streams: u32,
    /// Flows that are distinguished: what one Jetty sends over one channel, or the answers to the
    /// READs of one Jetty of a peer. The messages of further flows are sent, but not scheduled.
    pub flows: u32,
    /// Records of paths are allocated when a path is first used, and not when its channel is
    /// opened: for simulators, whose many channels use few paths each. A NIC in a process allocates
    /// nothing while it runs, so this is off by default.
    pub allocates_on_use: bool,
}

/// Most records of a kind that [`Limits::check`] allows, and most blocks.
const RECORDS_MAX: u32 = 1 << 24;
const BLOCKS_MAX: u32 = 1 << 26;
const RECORDS: &str = "use up to 16,777,216";
const BLOCKS: &str = "use up to 67,108,864";

impl Limits {
    /// Checks every limit against the range that its documentation gives.
    ///
    /// # Errors
    /// The first limit that is out of its range.
    pub fn check(&self) -> Result<(), LimitError> {
        let queues_max = Limits::COMPLETION_QUEUES_MAX;
        let limits = [
            ("channels", self.channels, 1..=Limits::CHANNELS_MAX, "use 1 to 65,536"),
            ("engines", self.engines, 1..=16, "use 1 to 16"),
            ("jetties", self.jetties, 0..=JettyId::MAX, "use up to 1,048,575"),
            ("segments", self.segments, 0..=TokenId::MAX, "use up to 1,048,575"),
            ("completion_queues", self.completion_queues, 0..=queues_max, "use up to 65,535"),
            ("message_slots", self.message_slots, 1..=256, "use 1 to 256"),
            ("read_slots", self.read_slots, 1..=256, "use 1 to 256"),
            ("paths", self.paths, 1..=256, "use 1 to 256"),
            ("mailboxes", self.mailboxes, 0..=65_536, "use up to 65,536"),
            ("messages", self.messages, 0..=RECORDS_MAX, RECORDS),
            ("arrivals", self.arrivals, 0..=RECORDS_MAX, RECORDS),
            ("withheld", self.withheld, 0..=RECORDS_MAX, RECORDS),
            ("send_blocks", self.send_blocks, 0..=BLOCKS_MAX, BLOCKS),
            ("bitmap_blocks", self.bitmap_blocks, 0..=BLOCKS_MAX, BLOCKS),
            ("completions", self.completions, 0..=RECORDS_MAX, RECORDS),
            ("receives", self.receives, 0..=RECORDS_MAX, RECORDS),
            ("order_records", self.order_records, 0..=RECORDS_MAX, RECORDS),
            ("bypass_answers", self.bypass_answers, 0..=RECORDS_MAX, RECORDS),
            ("groups", self.groups, 0..=RECORDS_MAX, RECORDS),
            ("deferred", self.deferred, 0..=RECORDS_MAX, RECORDS),
            ("mailbox_buffers", self.mailbox_buffers, 0..=RECORDS_MAX, RECORDS),
            ("put_streams", self.put_streams, 0..=RECORDS_MAX, RECORDS),
            ("flows", self.flows, 0..=RECORDS_MAX, RECORDS),
        ];
        for (name, value, range, remedy) in limits {
            if !range.contains(&value) {
                return Err(LimitError { name, value, remedy });
            }
        }
        let value = self.window_packets;
        if !value.is_power_of_two() || !(128..=32_768).contains(&value) {
            let remedy = "use a power of two, 128 to 32,768";
            return Err(LimitError { name: "window_packets", value, remedy });
        }
        Ok(())
    }

    /// Packets beyond the last acknowledged one that a channel of a NIC with these limits can
    /// track: the `remote_window` that set-up reports to the peer. It is one bitmap block less than
    /// the window, because a window that begins inside a block ends inside one too.
    pub fn receive_window(&self) -> u32 {
        self.window_packets - BLOCK_PSNS
    }
}

impl Limits {
    /// Most channels that a NIC can have.
    pub const CHANNELS_MAX: u32 = 65_536;
    const COMPLETION_QUEUES_MAX: u32 = 65_535;

    /// Capacities of a NIC in one program: 64 channels, 1,024 Jetties, 4,096 segments and so on.
    pub const fn new() -> Limits {
        const CHANNELS: u32 = 64;
        // A packet that is lost twice holds up the window for several round trips: 32,768 packets
        // of 1,400 bytes fill 10 Gb/s for eight round trips of 4 ms.
        const WINDOW: u32 = 32_768;
        Limits {
            channels: CHANNELS,
            engines: 1,
            jetties: 1024,
            segments: 4096,
            // One for each Jetty, and 64 more.
            completion_queues: 1088,
            completions: 65_536,
            messages: 16_384,
            receives: 65_536,
            arrivals: 8_192,
            window_packets: WINDOW,
            // As many as all channels together can take, so that no peer can exhaust them.
            send_blocks: CHANNELS * WINDOW / BLOCK_RECORDS,
            bitmap_blocks: CHANNELS * WINDOW / BLOCK_PSNS,
            message_slots: 64,
            read_slots: 256,
            paths: 256,
            withheld: 256,
            order_records: 4096,
            bypass_answers: 1024,
            groups: 64,
            deferred: 256,
            mailboxes: 1024,
            mailbox_buffers: 16_384,
            put_streams: 4096,
            flows: 4096,
            allocates_on_use: false,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::new()
    }
}

setters!(Limits {
    channels: u32,
    engines: u32,
    jetties: u32,
    segments: u32,
    completion_queues: u32,
    completions: u32,
    messages: u32,
    receives: u32,
    arrivals: u32,
    window_packets: u32,
    send_blocks: u32,
    bitmap_blocks: u32,
    message_slots: u32,
    read_slots: u32,
    paths: u32,
    withheld: u32,
    order_records: u32,
    bypass_answers: u32,
    groups: u32,
    deferred: u32,
    mailboxes: u32,
    mailbox_buffers: u32,
    put_streams: u32,
    flows: u32,
    allocates_on_use: bool,
});

/// A limit that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitError {
    /// The name of the field of [`Limits`].
    pub name: &'static str,
    /// The field's value.
    pub value: u32,
    /// Advice on which value to use instead.
    pub remedy: &'static str,
}

impl core::fmt::Display for LimitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the limit {} can't be {}: {}", self.name, self.value, self.remedy)
    }
}

impl core::error::Error for LimitError {}

/// Times and tolerances. [`Profile::new`] is the default, and each field has a setter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// Shortest retransmission time-out.
    pub timeout_min: Duration,
    /// Longest retransmission time-out, however often it was doubled.
    pub timeout_max: Duration,
    /// Retransmission time-out before the first round trip was measured. A path with a longer round
    /// trip has its first packets retransmitted for nothing.
    pub timeout_initial: Duration,
    /// Longest delay of an acknowledgement that was not requested.
    pub acknowledge_delay: Duration,
    /// An acknowledgement is due at the latest after this many data packets, or as many as the
    /// channel has read slots. A process with one engine sends it before it receives more packets;
    /// one that is due for another reason, or of several engines, leaves when all packets that
    /// have arrived, up to 64, were received.
    pub acknowledge_every: u32,
    /// The last packet of every chunk requests an acknowledgement. Otherwise the last one of a
    /// chunk does when an eighth of the window has left since the last request.
    pub acknowledge_chunks: bool,
    /// A packet that arrives with a congestion mark is acknowledged at once. Otherwise the next
    /// acknowledgement names the paths whose packets had marks.
    pub acknowledge_marks: bool,
    /// Packets beyond which the receiver reports a gap as a loss (ORNIC's OTD, §3.3).
    pub reorder_tolerance: u32,
    /// Delay before a retry that a receiver which is not ready requests.
    pub not_ready_delay: Duration,
    /// Number of retries of a refused SEND before it fails; 7 means unlimited.
    pub not_ready_retries: u8,
    /// Number of retries of an unanswered load or store before it fails.
    pub bypass_retries: u8,
    /// Silence after which a channel is probed.
    pub keep_alive: Duration,
    /// Silence, despite probes, after which a peer is declared dead.
    pub peer_dead: Duration,
    /// The channel of a group that took the last operation also takes the next one, unless another
    /// channel has less to do by more than this many bytes.
    pub group_slack: u32,
    /// Least bytes of a part of an operation that goes by several channels of a group at the same
    /// time; 0: operations are not divided. A WRITE or READ of at least twice as many bytes is
    /// divided into at most as many parts as the group has channels, if it requests no order that
    /// the target keeps (tag [`Tag::No`](crate::wire::Tag::No)).
    pub part_bytes: u32,
    /// Messages up to this many bytes stay on one path (UCCL §3.3).
    pub small_message_bytes: u32,
    /// Bytes, headers included, that a channel may send before another one's turn: a few system
    /// calls' worth for a process, one packet for a NIC in hardware. Chunks are not split.
    pub turn_bytes: u32,
    /// Payload bytes of a message that a channel sends before another message has its turn, in
    /// whole chunks; 0 for one chunk. Messages that wait for each other, span by span, need a turn
    /// as long as a message: if all share the rate, all arrive at the end.
    pub message_turn_bytes: u32,
    /// Consecutive time-outs, while other paths deliver, after which a path is taken out of use.
    pub path_timeouts: u32,
    /// Interval at which a path that was taken out of use is probed.
    pub path_probe: Duration,
    /// Time, at least twice its round trip, after which the answer to a round-trip probe of a path
    /// counts as lost, if the policy sends such probes ([`crate::policy::ProbeSpec`]). A path that
    /// loses two in a row, while other paths deliver, is taken out of use.
    pub probe_timeout: Duration,
    /// Time without anything to send after which a flow has ended, as schedulers see it. A flow
    /// that takes turns lasts until the end of the round in which it has sent something.
    pub flow_idle: Duration,
    /// Burst of a flow that a scheduler limits, as the time that it takes at the flow's dequeue
    /// rate: the flow sends as many bytes back to back, at least a packet and at most 32 KiB, and
    /// then waits until the rate has caught up. For a process, about the time by which a thread may
    /// be late; for a NIC in hardware a few microseconds, because the packets of a slow flow, and
    /// with them the decisions about it, are that far apart.
    pub pacing_burst: Duration,
    /// Messages of a peer on one channel that may be refused at once because of a wrong key for a
    /// segment, Jetty or mailbox that is there, before [`crate::Event::KeysRefused`].
    pub refused_keys: u32,
    /// Interval after which one more refusal is allowed.
    pub refused_key_interval: Duration,
}

impl Profile {
    /// Times and tolerances of a NIC in one program.
    pub const fn new() -> Profile {
        Profile {
            timeout_min: Duration::from_ms(4),
            // Above the round trip over 40 ms with a queue of four times that.
            timeout_max: Duration::from_ms(500),
            timeout_initial: Duration::from_ms(100),
            acknowledge_delay: Duration::from_us(100),
            acknowledge_every: 64,
            acknowledge_chunks: false,
            acknowledge_marks: false,
            reorder_tolerance: 64,
            not_ready_delay: Duration::from_us(100),
            not_ready_retries: 7,
            bypass_retries: 10,
            keep_alive: Duration::from_ms(500),
            peer_dead: Duration::from_secs(3),
            group_slack: 64 * 1024,
            part_bytes: 256 * 1024,
            small_message_bytes: 16 * 1024,
            turn_bytes: 64 * 1024,
            message_turn_bytes: 0,
            path_timeouts: 3,
            path_probe: Duration::from_ms(50),
            probe_timeout: Duration::from_ms(10),
            flow_idle: Duration::from_ms(10),
            pacing_burst: Duration::from_us(20),
            // A segment that was just registered may have the number of one whose key a peer still
            // uses: the operations of a full queue must not end a channel.
            refused_keys: 4096,
            refused_key_interval: Duration::from_ms(10),
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile::new()
    }
}

setters!(Profile {
    timeout_min: Duration,
    timeout_max: Duration,
    timeout_initial: Duration,
    acknowledge_delay: Duration,
    acknowledge_every: u32,
    acknowledge_chunks: bool,
    acknowledge_marks: bool,
    reorder_tolerance: u32,
    not_ready_delay: Duration,
    not_ready_retries: u8,
    bypass_retries: u8,
    keep_alive: Duration,
    peer_dead: Duration,
    group_slack: u32,
    part_bytes: u32,
    small_message_bytes: u32,
    turn_bytes: u32,
    message_turn_bytes: u32,
    path_timeouts: u32,
    path_probe: Duration,
    probe_timeout: Duration,
    flow_idle: Duration,
    pacing_burst: Duration,
    refused_keys: u32,
    refused_key_interval: Duration,
});
