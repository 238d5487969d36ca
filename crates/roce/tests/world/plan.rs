//! The operations that a run posts, drawn from its seed.

use fairway_roce::wire::roce::Tail;
use fairway_roce::{Transport, Work};

/// The SplitMix64 generator.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub transport: Transport,
    pub operations: usize,
    /// Number of receives posted at once.
    pub receives: usize,
    /// Time between polls of the receive queue, in microseconds.
    pub receive_pause_us: u64,
    /// True if packets out of order are placed.
    pub out_of_order: bool,
    /// True if long WRITEs are sent as WRITEs of one packet each.
    pub split_writes: bool,
    /// If set, all operations are long ones of this kind.
    pub bulk: Option<Kind>,
    /// True if time-outs are long enough to detect a dead peer rather than a lost packet.
    pub patient: bool,
    /// True if operations overlap in memory.
    pub overlapping: bool,
    /// The side whose queue pairs and memory allow any order.
    pub relaxed: Relaxed,
    /// The scheduler of both nodes, if they have one.
    pub scheduler: Option<&'static str>,
}

/// The side that allows any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relaxed {
    Neither,
    Both,
    /// The queue pair of node 0, and only that node posts: it sends overlapping operations without
    /// waiting, as requesters of other implementations do.
    Sender,
}

impl Relaxed {
    pub fn includes(self, node: usize) -> bool {
        self == Relaxed::Both || self == Relaxed::Sender && node == 0
    }
}

impl Traffic {
    pub const RELIABLE: Traffic = Traffic {
        transport: Transport::Rc,
        operations: 60,
        receives: 64,
        receive_pause_us: 1,
        out_of_order: false,
        split_writes: false,
        bulk: None,
        patient: false,
        overlapping: false,
        relaxed: Relaxed::Neither,
        scheduler: None,
    };
    /// Operations that overlap in memory.
    pub const OVERLAPPING: Traffic = Traffic { overlapping: true, ..Traffic::RELIABLE };
    pub const OVERLAPPING_OUT_OF_ORDER: Traffic =
        Traffic { out_of_order: true, ..Traffic::OVERLAPPING };
    pub const OUT_OF_ORDER: Traffic = Traffic { out_of_order: true, ..Traffic::RELIABLE };
    pub const BULK: Traffic =
        Traffic { operations: 6, bulk: Some(Kind::Write), ..Traffic::RELIABLE };
    pub const BULK_OUT_OF_ORDER: Traffic = Traffic { out_of_order: true, ..Traffic::BULK };
    /// Many packets, and time-outs that only a dead peer should ever cause.
    pub const LONG: Traffic =
        Traffic { operations: 60, receives: 24, patient: true, ..Traffic::BULK_OUT_OF_ORDER };
    pub const LONG_SENDS: Traffic = Traffic { bulk: Some(Kind::Send), ..Traffic::LONG };
    /// As many atomics under way as the peer answers at a time.
    pub const ATOMICS: Traffic =
        Traffic { operations: 300, bulk: Some(Kind::FetchAdd), ..Traffic::RELIABLE };
    pub const SLOW_RECEIVER: Traffic =
        Traffic { operations: 40, receives: 2, receive_pause_us: 400, ..Traffic::RELIABLE };
    pub const UNRELIABLE: Traffic = Traffic { transport: Transport::Uc, ..Traffic::RELIABLE };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Send,
    SendImmediate,
    Write,
    WriteImmediate,
    Read,
    FetchAdd,
    CompareSwap,
}

/// One operation. Its local bytes are at `local` in its node's memory, where each operation has a
/// range of its own; its remote bytes are at `at` in the peer's memory, where operations may
/// overlap.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub kind: Kind,
    pub local: u64,
    pub at: u64,
    pub length: u32,
    pub fence: bool,
    pub signaled: bool,
    pub operand: u64,
}

impl Planned {
    pub fn takes_receive(&self) -> bool {
        matches!(self.kind, Kind::Send | Kind::SendImmediate | Kind::WriteImmediate)
    }

    pub fn is_atomic(&self) -> bool {
        matches!(self.kind, Kind::FetchAdd | Kind::CompareSwap)
    }

    /// The operation of the work request; `word` and `range` are remote addresses.
    pub fn work(&self, id: u32, r_key: u32, range: u64, word: u64) -> Work {
        let remote = fairway_roce::RemoteAddress { address: range + self.at, r_key };
        let counter = fairway_roce::RemoteAddress { address: word, r_key };
        match self.kind {
            Kind::Send => Work::Send { tail: Tail::Nothing },
            Kind::SendImmediate => Work::Send { tail: Tail::Immediate(id) },
            Kind::Write => Work::Write { remote, immediate: None },
            Kind::WriteImmediate => Work::Write { remote, immediate: Some(id) },
            Kind::Read => Work::Read { remote },
            Kind::FetchAdd => Work::FetchAdd { remote: counter, add: self.operand },
            // A word for compare-and-swap alone, which is 0 before.
            Kind::CompareSwap => {
                let remote = fairway_roce::RemoteAddress { address: word + 8, r_key };
                Work::CompareSwap { remote, compare: 0, swap: self.operand }
            }
        }
    }
}

/// The plan of one node. Ranges follow one another, except those that overlap.
pub fn plan(random: &mut Random, traffic: &Traffic, mtu: u32) -> Vec<Planned> {
    let reliable = traffic.transport == Transport::Rc;
    let mut local = 64;
    (0..traffic.operations)
        .map(|_| {
            let kind = match random.below(if reliable { 10 } else { 4 }) {
                0 => Kind::Send,
                1 => Kind::SendImmediate,
                2 => Kind::WriteImmediate,
                3..=5 => Kind::Write,
                6 | 7 => Kind::Read,
                8 => Kind::FetchAdd,
                _ => Kind::CompareSwap,
            };
            let length = match random.below(6) {
                0 => 0,
                1 => 1 + random.below(16) as u32,
                2 => mtu,
                3 => mtu * (1 + random.below(8) as u32),
                _ => 1 + random.below(u64::from(mtu) * 12) as u32,
            };
            let (kind, length) = match traffic.bulk {
                Some(kind) => (kind, if traffic.patient { 30_000 } else { 100_000 }),
                None => (kind, length),
            };
            let at = match traffic.overlapping {
                // These ranges also include the words of atomics.
                true => random.below(u64::from(mtu)) * 6 / 8 * 8,
                false => local,
            };
            let planned = Planned {
                kind,
                local,
                at,
                length: if matches!(kind, Kind::FetchAdd | Kind::CompareSwap) { 8 } else { length },
                fence: random.permille(150) && traffic.bulk != Some(Kind::FetchAdd),
                signaled: random.permille(700),
                operand: random.next() | 1,
            };
            local += u64::from(planned.length.next_multiple_of(8)) + 8;
            planned
        })
        .collect()
}
