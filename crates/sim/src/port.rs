//! An output port and its link: two queues (control has priority), marking, dropping and trimming.

use super::packets::{NONE, PacketMeta};
use crate::scenario::{LATENCY_MAX_PS, Marking, Overflow, QueueSpec};

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
        let meta = &mut packets[index as usize];
        meta.next = NONE;
        self.bytes += meta.bytes;
        if self.head == NONE {
            self.head = index;
        } else {
            packets[self.tail as usize].next = index;
        }
        self.tail = index;
    }

    #[inline]
    fn pop(&mut self, packets: &[PacketMeta]) -> Option<u32> {
        let index = self.head;
        if index == NONE {
            return None;
        }
        let meta = &packets[index as usize];
        self.bytes -= meta.bytes;
        self.head = meta.next;
        // Prefetches the next packet, which will be sent soon.
        std::hint::black_box(packets.get(meta.next as usize).map_or(0, |next| next.bytes));
        Some(index)
    }
}

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
    /// True if a [`super::calendar::Kind::Serve`] is due at `busy_until`.
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
}

/// Counters of a port that are rarely accessed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortTally {
    pub(crate) drops: u64,
    pub(crate) trims: u64,
    pub(crate) marks: u64,
    /// Maximum of the bytes in both queues together.
    pub(crate) longest: u32,
    /// Number of pauses by the peer, and their total length in picoseconds.
    pub(crate) pauses: u64,
    pub(crate) paused_ps: u64,
    /// True if C-AQM's rule counts the port as congested.
    pub(crate) congested: bool,
    /// Time at which the current pause began.
    pub(crate) paused_since: u64,
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
    pub(crate) fn hold(&mut self, packets: &mut [PacketMeta], index: u32) {
        self.queues[1].push(packets, index);
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
    /// the caller has to shorten the packet and queue it again as control.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        packets: &mut [PacketMeta],
        index: u32,
        room: u32,
        overflow: Overflow,
        tally: &mut PortTally,
    ) -> Admission {
        let meta = packets[index as usize];
        let queue = &mut self.queues[usize::from(meta.class)];
        if queue.bytes + meta.bytes > room {
            if meta.class == 1 && overflow == Overflow::Trim {
                tally.trims += 1;
                return Admission::Trimmed;
            }
            tally.drops += 1;
            return Admission::Dropped;
        }
        queue.push(packets, index);
        tally.longest = tally.longest.max(self.waiting());
        Admission::Queued
    }

    /// Takes the packet that may leave now, and marks it if the queue, this packet included, is too
    /// long.
    #[inline]
    pub(crate) fn next(
        &mut self,
        packets: &mut [PacketMeta],
        spec: &QueueSpec,
        salt: u32,
        tally: &mut PortTally,
    ) -> Option<u32> {
        let data_waits = self.queues[1].head != NONE && !self.paused;
        let is_data_due =
            spec.overflow == Overflow::Trim && data_waits && self.control_run >= CONTROL_RUN_MAX;
        if !is_data_due && let Some(index) = self.queues[0].pop(packets) {
            self.control_run = if data_waits { self.control_run.saturating_add(1) } else { 0 };
            return Some(index);
        }
        self.control_run = 0;
        if self.paused {
            return None;
        }
        let length = self.queues[1].bytes;
        let index = self.queues[1].pop(packets)?;
        if is_marked(&spec.marking, length, salt ^ self.packets) {
            packets[index as usize].marked = true;
            tally.marks += 1;
        }
        Some(index)
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
