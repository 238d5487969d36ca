//! The packets on their way: what a switch looks at apart from what only NICs do.

use fairway_engine::Received;
use fairway_roce as roce;

/// Names no packet.
pub(crate) const NONE: u32 = u32::MAX;

/// What switches and links need of a packet: half a cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketMeta {
    /// The one behind it in its queue.
    pub(crate) next: u32,
    /// What it takes of a wire.
    pub(crate) bytes: u32,
    /// The host it goes to.
    pub(crate) destination: u32,
    /// Of its flow and its path: what ECMP decides by.
    pub(crate) entropy: u32,
    /// The switch it has to pass first, or [`NONE`].
    pub(crate) via: u32,
    /// The port whose link it came by.
    pub(crate) arrived: u32,
    /// The path the sender chose.
    pub(crate) path: u8,
    /// 0: control, which goes first; 1: data.
    pub(crate) class: u8,
    /// It has been marked by a congested switch.
    pub(crate) marked: bool,
    /// Its payload has been cut off.
    pub(crate) trimmed: bool,
    /// Links it has taken.
    pub(crate) hops: u8,
}

const _: () = assert!(size_of::<PacketMeta>() <= 32);

/// What only NICs need of a packet: what it says, and to which engine.
#[derive(Clone, Copy, Debug)]
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

/// A packet on its way from one part of the network to another that runs on another core.
#[derive(Clone, Copy)]
pub(crate) struct CrossPartitionPacket {
    pub(crate) at: u64,
    /// The port whose link it comes by.
    pub(crate) port: u32,
    pub(crate) meta: PacketMeta,
    pub(crate) headers: PacketHeaders,
}

/// All packets on their way, by number.
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

    /// Packets on their way.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }
}
