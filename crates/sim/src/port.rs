//! An output port and its link: two queues (control has priority), marking, dropping and trimming.
//!
//! Where data has several classes, the queue of data is sorted by class ([`DataClasses`]).

use super::packets::{CONTROL, NONE, PacketMeta};
use crate::prefetch::request_element;
use crate::scenario::{LATENCY_MAX_PS, Marking, Overflow, QueueSpec};
use crate::telemetry::PortTelemetry;

/// Where packets are trimmed, a waiting data packet is sent after this many control packets in a
/// row, as in NDP (Handley et al., SIGCOMM 2017, §3.1). Otherwise the headers of trimmed packets,
/// which cause retransmissions, would take the whole link.
const CONTROL_RUN_MAX: u8 = 10;
/// Fraction bits of the pace of a link of at least 123 Mb/s, in picoseconds per byte.
const FRACTION: u8 = 16;
/// Fraction bits of the pace of a slower link. With them, the pace of links down to 1 Mb/s fits.
const FRACTION_SLOW: u8 = 8;

/// A first-in-first-out queue, linked through the packets themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) bytes: u32,
}

impl Queue {
    const EMPTY: Queue = Queue { head: NONE, tail: NONE, bytes: 0 };

    #[inline]
    fn push(&mut self, packets: &mut [PacketMeta], index: u32) {
        let packet = &mut packets[index as usize];
        packet.next = NONE;
        self.bytes += packet.bytes;
        if self.head == NONE {
            self.head = index;
        } else {
            packets[self.tail as usize].next = index;
        }
        self.tail = index;
    }

    /// Returns the first packet and its bytes.
    #[inline]
    fn pop(&mut self, packets: &[PacketMeta]) -> Option<(u32, u32)> {
        let index = self.head;
        if index == NONE {
            return None;
        }
        let PacketMeta { next, bytes, .. } = packets[index as usize];
        self.bytes -= bytes;
        self.head = next;
        request_element(packets, next as usize);
        Some((index, bytes))
    }
}

mod classes;

pub(crate) use classes::DataClasses;

/// A port that sends onto one link: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// Time at which the packet on the wire has left.
    pub(crate) busy_until: u64,
    /// Queue of control packets, which have priority, and queue of data.
    pub(crate) queues: [Queue; 2],
    /// Node at the other end, and the number of its port that leads back.
    pub(crate) to: u32,
    pub(crate) entry: u16,
    /// Picoseconds per byte, in units of 2^-[`Port::fraction`].
    pace: u32,
    fraction: u8,
    latency: Latency,
    /// Bytes and packets sent.
    pub(crate) bytes: u64,
    pub(crate) packets: u32,
    /// True if the link has failed, so that all packets sent are lost.
    pub(crate) down: bool,
    /// True if the peer has paused data (PFC).
    pub(crate) paused: bool,
    /// True if the next packet is to be sent at `busy_until`: a
    /// [`super::calendar::Kind::Serve`] is due then, or the port is served when that matters.
    pub(crate) armed: bool,
    /// Control packets sent in a row while data waited.
    control_run: u8,
}

const _: () = assert!(size_of::<Port>() == 64);

/// Result of queueing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Queued,
    /// The packet's header goes on, in the control queue.
    Trimmed,
    Dropped,
    /// There is room if this packet of a lower class, which was taken out of the queue, goes
    /// instead: it is to be trimmed or dropped.
    Displaces(u32),
}

/// A packet that a port sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) index: u32,
    /// Bytes that the packet takes on the wire.
    pub(crate) bytes: u32,
    /// True if the packet is marked because the queue is too long.
    pub(crate) is_marked: bool,
}

/// Counters of a port. The first cache line has those of packets that wait.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct PortTally {
    pub(crate) marks: u64,
    /// Maximum of the bytes in both queues together.
    pub(crate) longest: u32,
    /// What the port remembers for the field CCI.
    pub(crate) telemetry: PortTelemetry,
    pub(crate) drops: u64,
    pub(crate) trims: u64,
    /// Number of pauses by the peer, and their total length in picoseconds.
    pub(crate) pauses: u64,
    pub(crate) paused_ps: u64,
    /// Time at which the current pause began.
    pub(crate) paused_since: u64,
    /// The parts of the queue of data; used where data has several classes.
    pub(crate) classes: DataClasses,
}

/// Latency of a link in picoseconds, below 2^40 (1.1 s), in five bytes: with eight, a port would
/// not fit into its cache line.
#[derive(Clone, Copy, Debug)]
struct Latency([u8; 5]);

impl Latency {
    fn new(ps: u64) -> Latency {
        assert!(ps <= LATENCY_MAX_PS, "a link of {ps} ps");
        let bytes = ps.to_le_bytes();
        Latency([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]])
    }

    #[inline]
    fn ps(self) -> u64 {
        let [a, b, c, d, high] = self.0;
        u64::from(u32::from_le_bytes([a, b, c, d])) | u64::from(high) << 32
    }
}

/// Converts a rate to a port's pace: picoseconds per byte, rounded to the nearest, and how many of
/// its bits are a fraction. The slowest link carries 1 Mb/s.
pub(crate) fn pace_of(megabits: u64) -> (u32, u8) {
    let pace = |fraction| ((8_000_000u64 << fraction) + megabits / 2) / megabits;
    match u32::try_from(pace(FRACTION)) {
        Ok(pace) => (pace, FRACTION),
        Err(_) => (u32::try_from(pace(FRACTION_SLOW)).expect("at least 1 Mb/s"), FRACTION_SLOW),
    }
}

/// Time in picoseconds that `bytes` take at a pace, rounded up.
#[inline]
pub(crate) fn time_of((pace, fraction): (u32, u8), bytes: u32) -> u64 {
    (u64::from(pace) * u64::from(bytes) + (1 << fraction) - 1) >> fraction
}

impl Port {
    pub(crate) fn new(to: u32, entry: u16, megabits: u64, latency_ps: u64) -> Port {
        let (pace, fraction) = pace_of(megabits);
        Port {
            busy_until: 0,
            queues: [Queue::EMPTY; 2],
            to,
            entry,
            pace,
            fraction,
            latency: Latency::new(latency_ps),
            bytes: 0,
            packets: 0,
            down: false,
            paused: false,
            armed: false,
            control_run: 0,
        }
    }

    /// Time in picoseconds that `bytes` take to be sent.
    #[inline]
    pub(crate) fn time(&self, bytes: u32) -> u64 {
        time_of((self.pace, self.fraction), bytes)
    }

    /// Sets the rate from now on. At a rate of 0 the link has failed, and packets sent are lost.
    pub(crate) fn set_rate(&mut self, megabits: u64) {
        self.down = megabits == 0;
        if megabits > 0 {
            (self.pace, self.fraction) = pace_of(megabits);
        }
    }

    /// Picoseconds from the end of a packet at this end of the wire to its end at the other.
    #[inline]
    pub(crate) fn latency_ps(&self) -> u64 {
        self.latency.ps()
    }

    /// Sets the latency of the wire from now on.
    pub(crate) fn set_latency(&mut self, ps: u64) {
        self.latency = Latency::new(ps);
    }

    /// Queues a data packet until the peer ends its pause.
    pub(crate) fn hold(
        &mut self,
        packets: &mut [PacketMeta],
        index: u32,
        spec: &QueueSpec,
        tally: &mut PortTally,
    ) {
        self.push_data(packets, index, spec, tally);
    }

    #[inline]
    fn push_data(
        &mut self,
        packets: &mut [PacketMeta],
        index: u32,
        spec: &QueueSpec,
        tally: &mut PortTally,
    ) {
        if spec.has_data_classes() {
            tally.classes.push(&mut self.queues[1], packets, index, spec.classes);
        } else {
            self.queues[1].push(packets, index);
        }
    }

    /// Takes the first packet of the highest class of data: its index and bytes, and the bytes of
    /// its class that were queued.
    #[inline]
    fn pop_data(
        &mut self,
        packets: &[PacketMeta],
        spec: &QueueSpec,
        tally: &mut PortTally,
    ) -> Option<((u32, u32), u32)> {
        let length = self.queues[1].bytes;
        let taken = self.queues[1].pop(packets)?;
        if !spec.has_data_classes() {
            return Some((taken, length));
        }
        Some((taken, tally.classes.popped(packets, taken.0, spec.classes)))
    }

    /// Bytes in both queues.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.queues[0].bytes + self.queues[1].bytes
    }

    /// Picoseconds from `now` until the port has sent all queued bytes: the value that adaptive
    /// routing compares.
    #[inline]
    pub(crate) fn backlog_ps(&self, now: u64) -> u64 {
        self.busy_until.saturating_sub(now) + self.time(self.waiting())
    }

    /// True if a packet is queued that may be sent now.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.queues[0].head != NONE || (self.queues[1].head != NONE && !self.paused)
    }

    /// Queues a packet, or reports that there is no room. If the result is [`Admission::Trimmed`],
    /// the caller has to shorten the packet and queue it again as control; if it is
    /// [`Admission::Displaces`], to dispose of the packet named there and to queue this one again.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        packets: &mut [PacketMeta],
        index: u32,
        room: u32,
        spec: &QueueSpec,
        tally: &mut PortTally,
    ) -> Admission {
        let &PacketMeta { class, bytes, .. } = &packets[index as usize];
        let is_data = class != CONTROL;
        if self.queues[usize::from(is_data)].bytes + bytes > room {
            if is_data
                && spec.has_data_classes()
                && let Some(lower) =
                    tally.classes.displaced(&mut self.queues[1], packets, index, spec.classes)
            {
                return Admission::Displaces(lower);
            }
            if is_data && spec.overflow == Overflow::Trim {
                tally.trims += 1;
                return Admission::Trimmed;
            }
            tally.drops += 1;
            return Admission::Dropped;
        }
        if is_data {
            self.push_data(packets, index, spec, tally);
        } else {
            self.queues[0].push(packets, index);
        }
        tally.longest = tally.longest.max(self.waiting());
        Admission::Queued
    }

    /// Takes the packet that may leave now. It is marked if the queue of its class, this packet
    /// included, is too long.
    #[inline]
    pub(crate) fn next(
        &mut self,
        packets: &[PacketMeta],
        spec: &QueueSpec,
        salt: u32,
        tally: &mut PortTally,
    ) -> Option<Leaving> {
        let data_waits = self.queues[1].head != NONE && !self.paused;
        let is_data_due =
            spec.overflow == Overflow::Trim && data_waits && self.control_run >= CONTROL_RUN_MAX;
        if !is_data_due && let Some((index, bytes)) = self.queues[0].pop(packets) {
            self.control_run = if data_waits { self.control_run.saturating_add(1) } else { 0 };
            return Some(Leaving { index, bytes, is_marked: false });
        }
        self.control_run = 0;
        if self.paused {
            return None;
        }
        let ((index, bytes), length) = self.pop_data(packets, spec, tally)?;
        let is_marked = is_marked(&spec.marking, length, salt ^ self.packets);
        tally.marks += u64::from(is_marked);
        Some(Leaving { index, bytes, is_marked })
    }
}

/// True if a packet is to be marked when the queue, including the packet, holds `length` bytes.
#[inline]
pub(crate) fn is_marked(marking: &Marking, length: u32, random: u32) -> bool {
    match *marking {
        Marking::Off => false,
        Marking::Threshold { bytes } => length > bytes,
        Marking::Random { low, high, permille } => {
            if length <= low {
                return false;
            }
            if length >= high {
                return true;
            }
            let share = (u64::from(length - low) * u64::from(permille)) << 32;
            let share = share / (u64::from(high - low) * 1000);
            u64::from(mix(random)) < share
        }
    }
}

/// Spreads every bit of a number over all of them (Wellons' `lowbias32`).
#[inline]
pub(crate) fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7FEB_352D);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests;
