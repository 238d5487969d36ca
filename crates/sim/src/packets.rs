//! Packets in flight, with the fields that switches read apart from those that only NICs read.

use fairway_roce as roce;
use fairway_ub::Received;
use fairway_ub::wire::Priority;

/// Packet index that stands for "no packet".
pub(crate) const NONE: u32 = u32::MAX;

/// The class of control packets.
pub(crate) const CONTROL: u8 = 0;

/// The class of a packet in the simulator, in which lower numbers go first: 0 for control, and 7
/// for data whose sender's policy names no class.
#[inline]
pub(crate) fn class_of(priority: Priority) -> u8 {
    Priority::CONTROL.number() - priority.number()
}

/// Fields of a packet that switches read: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct PacketMeta {
    /// Bytes that the packet takes on a wire.
    pub(crate) bytes: u32,
    /// Destination host.
    pub(crate) destination: u32,
    /// Hash of its flow and path, from which ECMP chooses.
    pub(crate) entropy: u32,
    /// Switch that the packet has to pass first, or [`NONE`].
    pub(crate) via: u32,
    /// Port that sends onto the link by which the packet arrived, where switches count what waits
    /// by link; otherwise [`NONE`].
    pub(crate) arrived: u32,
    /// Index of the next packet in its queue, or in the list of unused indices; [`NONE`] if it is
    /// the last one, and meaningless while the packet is in neither.
    pub(crate) next: u32,
    /// Path that the sender chose.
    pub(crate) path: u8,
    /// [`CONTROL`], which has priority, or a class of data, of which lower numbers go first.
    pub(crate) class: u8,
    /// True if a congested switch has marked the packet.
    pub(crate) marked: bool,
    /// True if a switch has cut off the payload.
    pub(crate) trimmed: bool,
    /// Number of links by which the packet has arrived.
    pub(crate) hops: u8,
}

const _: () = assert!(size_of::<PacketMeta>() == 32);

impl PacketMeta {
    /// Number of switches that a packet has passed that arrives at its host.
    pub(crate) fn switches(&self) -> u8 {
        self.hops.saturating_sub(1)
    }
}

/// Fields of a packet that only NICs need: its headers, for the protocol of its stack. They take
/// whole cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) enum PacketHeaders {
    Fairway(Received),
    Roce(roce::Received),
}

impl PacketHeaders {
    /// Bytes of payload.
    #[inline]
    pub(crate) fn payload(&self) -> u32 {
        match self {
            PacketHeaders::Fairway(received) => received.payload,
            PacketHeaders::Roce(received) => received.payload,
        }
    }
}

const _: () = assert!(size_of::<PacketHeaders>() == 128);

/// A packet that crosses to a partition that runs on another core.
#[derive(Clone, Copy)]
pub(crate) struct CrossPartitionPacket {
    pub(crate) at: u64,
    /// Port that sends onto the link by which the packet arrives.
    pub(crate) port: u32,
    pub(crate) meta: PacketMeta,
    pub(crate) headers: PacketHeaders,
}

/// All packets in flight, by index.
pub(crate) struct Packets {
    pub(crate) meta: Vec<PacketMeta>,
    pub(crate) headers: Vec<PacketHeaders>,
    free: u32,
    live: u32,
}

impl Packets {
    pub(crate) fn new(room: usize) -> Packets {
        let (meta, headers) = (Vec::with_capacity(room), Vec::with_capacity(room));
        Packets { meta, headers, free: NONE, live: 0 }
    }

    pub(crate) fn take(&mut self, meta: PacketMeta, headers: &PacketHeaders) -> u32 {
        self.live += 1;
        if self.free == NONE {
            self.meta.push(meta);
            self.headers.push(*headers);
            return self.meta.len() as u32 - 1;
        }
        let index = self.free;
        self.free = self.meta[index as usize].next;
        self.meta[index as usize] = meta;
        self.headers[index as usize] = *headers;
        index
    }

    pub(crate) fn free(&mut self, index: u32) {
        self.live -= 1;
        self.meta[index as usize].next = self.free;
        self.free = index;
    }

    /// Cuts off a packet's payload. What is left is a control packet.
    #[cold]
    pub(crate) fn trim(&mut self, index: u32) {
        let meta = &mut self.meta[index as usize];
        meta.bytes -= self.headers[index as usize].payload();
        meta.class = CONTROL;
        meta.trimmed = true;
    }

    /// Number of packets in flight.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }
}
