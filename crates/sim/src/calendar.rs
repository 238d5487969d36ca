//! What happens when, node by node.
//!
//! Time is cut into windows as long as the shortest link. What a node does in one window cannot
//! touch another node before it is over. So the events of a window are kept, and happen, node by
//! node: all of one switch or NIC, in the order of time, then those of the next. While its turn
//! lasts, a node's state stays in the cache. That costs nothing in exactness, and is most of the
//! simulator's speed: in the order of time alone, every event would find its node's memory cold.
//!
//! An event is one word: when in its window, what it is, and the node or port it concerns. No two
//! events of a node are equal, so their order depends neither on when they were put in nor on where
//! a packet lies in memory. Within one picosecond it is that of [`Kind`], then that of the ports.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Windows in the ring. What comes later waits in a heap.
const RING: usize = 8;
/// Entries of a chunk: with its link 128 bytes.
const CHUNK: usize = 15;
/// No chunk.
const NONE: u32 = u32::MAX;

const OFFSET_BITS: u32 = 20;
const KIND_BITS: u32 = 3;
const PORT_BITS: u32 = 10;
const PACKET_BITS: u32 = 31;
const _: () = assert!(OFFSET_BITS + KIND_BITS + PORT_BITS + PACKET_BITS == 64);

/// Ports that a node may have.
pub(crate) const PORTS: usize = 1 << PORT_BITS;
/// No window is longer, in picoseconds.
pub(crate) const WINDOW_MAX: u64 = 1 << OFFSET_BITS;

/// What an event is. The order of variants is that of events at one picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A link changes.
    Change = 0,
    /// The peer of a port says that data has to wait, or need not any more.
    Pause = 1,
    /// A port has finished a packet and others wait.
    Serve = 2,
    /// A packet has arrived.
    Arrive = 3,
    /// A host has flows to post.
    Post = 4,
    /// An engine asked to be woken.
    Timer = 5,
    /// A host's wire is free.
    Pull = 6,
    /// Something is due for the ranks of a host.
    Act = 7,
}

const KINDS: [Kind; 8] = [
    Kind::Change,
    Kind::Pause,
    Kind::Serve,
    Kind::Arrive,
    Kind::Post,
    Kind::Timer,
    Kind::Pull,
    Kind::Act,
];

/// An event of a node in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u64);

impl Entry {
    #[inline]
    fn new(offset: u64, kind: Kind, port: u32, packet: u32) -> Entry {
        debug_assert!(offset < WINDOW_MAX && port < 1 << PORT_BITS && packet < 1 << PACKET_BITS);
        Entry(
            offset << (KIND_BITS + PORT_BITS + PACKET_BITS)
                | (kind as u64) << (PORT_BITS + PACKET_BITS)
                | u64::from(port) << PACKET_BITS
                | u64::from(packet),
        )
    }

    #[inline]
    fn offset(self) -> u64 {
        self.0 >> (KIND_BITS + PORT_BITS + PACKET_BITS)
    }

    /// What it is.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        KINDS[(self.0 >> (PORT_BITS + PACKET_BITS)) as usize & ((1 << KIND_BITS) - 1)]
    }

    /// The node's own port that it is about; 0 if about none.
    #[inline]
    pub(crate) fn port(self) -> u32 {
        (self.0 >> PACKET_BITS) as u32 & ((1 << PORT_BITS) - 1)
    }

    /// The packet that arrives; in others whatever was given.
    #[inline]
    pub(crate) fn packet(self) -> u32 {
        self.0 as u32 & ((1 << PACKET_BITS) - 1)
    }
}

#[derive(Clone, Copy)]
struct Chunk {
    entries: [Entry; CHUNK],
    next: u32,
    used: u32,
}

/// The events that have not happened yet.
pub(crate) struct Calendar {
    window_ps: u64,
    nodes: usize,
    /// The first chunk of each node, window by window of the ring.
    heads: Box<[u32]>,
    /// Events in each window of the ring.
    counts: [u64; RING],
    chunks: Vec<Chunk>,
    free: u32,
    /// Events beyond the ring: when, whose, and with offset 0.
    far: BinaryHeap<Reverse<(u64, u32, Entry)>>,
    /// The window that is open, and its limits; before the first one both are 0.
    window: u64,
    start: u64,
    end: u64,
    /// The events of the node whose turn it is, sorted, and how many of them have happened.
    current: Vec<Entry>,
    done: usize,
}

impl Calendar {
    /// An empty calendar before the first window, with room for about `events`.
    pub(crate) fn new(nodes: usize, window_ps: u64, events: usize) -> Calendar {
        assert!((1..=WINDOW_MAX).contains(&window_ps), "a window of {window_ps} ps");
        Calendar {
            window_ps,
            nodes,
            heads: vec![NONE; RING * nodes].into_boxed_slice(),
            counts: [0; RING],
            chunks: Vec::with_capacity(events / CHUNK + 3 * nodes),
            free: NONE,
            far: BinaryHeap::with_capacity(64 + events / 8 + 16 * nodes),
            window: 0,
            start: 0,
            end: 0,
            current: Vec::with_capacity(4096),
            done: 0,
        }
    }

    /// Puts in an event of a node. It must not lie in a window that is over, nor, unless it is the
    /// node's turn, in the one that is open.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, node: u32, kind: Kind, port: u32, packet: u32) {
        if at < self.end {
            debug_assert!(at >= self.start, "an event in the past");
            let entry = Entry::new(at - self.start, kind, port, packet);
            let from = self.done;
            let place = from + self.current[from..].partition_point(|other| *other < entry);
            self.current.insert(place, entry);
            return;
        }
        // Nearly always the next window.
        let ahead = at - self.end;
        let windows = if ahead < self.window_ps { 0 } else { ahead / self.window_ps };
        let offset = ahead - windows * self.window_ps;
        if windows < RING as u64 - 1 {
            let window = self.window + u64::from(self.end > 0) + windows;
            self.put(window, node, Entry::new(offset, kind, port, packet));
        } else {
            self.far.push(Reverse((at, node, Entry::new(0, kind, port, packet))));
        }
    }

    /// The next window that has events, if there is one.
    pub(crate) fn next_window(&self) -> Option<u64> {
        let first = self.window + u64::from(self.end > 0);
        let near = (first..first + RING as u64 - 1)
            .find(|window| self.counts[*window as usize % RING] > 0);
        let far = self.far.peek().map(|Reverse((at, ..))| at / self.window_ps);
        near.into_iter().chain(far).min()
    }

    /// Events of a window that is to come, as far as they are near enough to be counted.
    pub(crate) fn count(&self, window: u64) -> u64 {
        let near = window < self.window + RING as u64;
        if near { self.counts[window as usize % RING] } else { 0 }
    }

    /// Opens a window. All before it are over.
    pub(crate) fn open(&mut self, window: u64) {
        self.window = window;
        self.start = window * self.window_ps;
        self.end = self.start + self.window_ps;
        self.counts[window as usize % RING] = 0;
        while let Some(&Reverse((at, node, entry))) = self.far.peek() {
            let of = at / self.window_ps;
            if of - window >= RING as u64 {
                break;
            }
            self.far.pop();
            let offset = at - of * self.window_ps;
            self.put(of, node, Entry::new(offset, entry.kind(), entry.port(), entry.packet()));
        }
        // What was put into the open window is not to come again.
        self.counts[window as usize % RING] = 0;
    }

    /// It is a node's turn; true if it has anything to do.
    #[inline]
    pub(crate) fn turn(&mut self, node: u32) -> bool {
        let slot = self.window as usize % RING * self.nodes + node as usize;
        let mut chunk = self.heads[slot];
        if chunk == NONE {
            return false;
        }
        self.heads[slot] = NONE;
        self.current.clear();
        self.done = 0;
        while chunk != NONE {
            let here = &mut self.chunks[chunk as usize];
            self.current.extend_from_slice(&here.entries[..here.used as usize]);
            let following = here.next;
            here.next = self.free;
            self.free = chunk;
            chunk = following;
        }
        self.current.sort_unstable();
        true
    }

    /// The next event of the node whose turn it is, and when it happens.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, Entry)> {
        let entry = *self.current.get(self.done)?;
        self.done += 1;
        Some((self.start + entry.offset(), entry))
    }

    /// The events of the node whose turn it is that have not happened, as far as they are known.
    pub(crate) fn ahead(&self) -> &[Entry] {
        &self.current[self.done..]
    }

    #[inline]
    fn put(&mut self, window: u64, node: u32, entry: Entry) {
        let ring = window as usize % RING;
        self.counts[ring] += 1;
        let slot = ring * self.nodes + node as usize;
        let head = self.heads[slot];
        if head != NONE && (self.chunks[head as usize].used as usize) < CHUNK {
            let chunk = &mut self.chunks[head as usize];
            chunk.entries[chunk.used as usize] = entry;
            chunk.used += 1;
            return;
        }
        let mut chunk = Chunk { entries: [Entry(0); CHUNK], next: head, used: 1 };
        chunk.entries[0] = entry;
        if self.free == NONE {
            self.heads[slot] = self.chunks.len() as u32;
            self.chunks.push(chunk);
        } else {
            let index = self.free;
            self.free = self.chunks[index as usize].next;
            self.chunks[index as usize] = chunk;
            self.heads[slot] = index;
        }
    }
}

#[cfg(test)]
mod tests;

/// Of a time that has not come.
pub(crate) const NEVER: u64 = u64::MAX;
