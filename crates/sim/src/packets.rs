//! The packets on their way: what a switch looks at apart from what only NICs do.

use fairway_engine::Received;
use fairway_roce as roce;

/// Names no packet.
pub(crate) const NONE: u32 = u32::MAX;

/// What switches and links need of a packet: half a cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
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

const _: () = assert!(size_of::<Hot>() <= 32);

/// What only NICs need of a packet: what it says, and to which engine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cold {
    Fairway(Received),
    Roce(roce::Received),
}

impl Cold {
    /// Bytes of payload.
    #[inline]
    pub(crate) fn payload(&self) -> u32 {
        match self {
            Cold::Fairway(received) => received.payload,
            Cold::Roce(received) => received.payload,
        }
    }
}

/// A packet on its way from one part of the network to another that runs on another core.
#[derive(Clone, Copy)]
pub(crate) struct Parcel {
    pub(crate) at: u64,
    /// The port whose link it comes by.
    pub(crate) port: u32,
    pub(crate) hot: Hot,
    pub(crate) cold: Cold,
}

/// All packets on their way, by number.
pub(crate) struct Packets {
    pub(crate) hot: Vec<Hot>,
    pub(crate) cold: Vec<Cold>,
    free: u32,
    live: u32,
}

impl Packets {
    pub(crate) fn new(room: usize) -> Packets {
        let (hot, cold) = (Vec::with_capacity(room), Vec::with_capacity(room));
        Packets { hot, cold, free: NONE, live: 0 }
    }

    pub(crate) fn take(&mut self, hot: Hot, cold: &Cold) -> u32 {
        self.live += 1;
        if self.free == NONE {
            self.hot.push(hot);
            self.cold.push(*cold);
            return self.hot.len() as u32 - 1;
        }
        let index = self.free;
        self.free = self.hot[index as usize].next;
        self.hot[index as usize] = hot;
        self.cold[index as usize] = *cold;
        index
    }

    pub(crate) fn give_back(&mut self, index: u32) {
        self.live -= 1;
        self.hot[index as usize].next = self.free;
        self.free = index;
    }

    /// Packets on their way.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }
}
