//! The calendar of a partition's events, kept node by node.
//!
//! Time is divided into windows as long as the latency of the shortest link. Within a window, an
//! event of one node cannot affect another node before the window ends. The events of a window are
//! therefore stored and executed node by node: all events of one switch or NIC in order of time,
//! then those of the next node. While a node's events are executed, its state stays in the CPU
//! cache. The results remain exact, and most of the simulator's speed comes from this order: in
//! order of time alone, every event would find its node's memory uncached.
//!
//! An event is one word: its time within the window, its kind, and the node or port it concerns. No
//! two events of a node are equal, so their order depends neither on when they were inserted nor on
//! where a packet lies in memory. At the same picosecond, events are ordered by [`Kind`] and then
//! by port.

use crate::prefetch::request_element;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Windows in the ring. Later events wait in a heap.
const RING: usize = 8;
/// Entries of a chunk. A chunk with its link to the next takes 128 bytes.
const CHUNK: usize = 15;
/// Bits of a word of marks.
const WORD: usize = u64::BITS as usize;
/// Chunk index that stands for "no chunk".
const NONE: u32 = u32::MAX;

const OFFSET_BITS: u32 = 20;
const KIND_BITS: u32 = 3;
const PORT_BITS: u32 = 10;
const PACKET_BITS: u32 = 31;
const _: () = assert!(OFFSET_BITS + KIND_BITS + PORT_BITS + PACKET_BITS == 64);

/// Ports that a node may have.
pub(crate) const PORTS: usize = 1 << PORT_BITS;
/// Maximum length of a window, in picoseconds.
pub(crate) const WINDOW_MAX: u64 = 1 << OFFSET_BITS;

/// Kind of an event. The order of the variants is the order of events at the same picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A link changes its rate or latency, fails or recovers.
    Change = 0,
    /// The peer of a port pauses or resumes the port's data (PFC).
    Pause = 1,
    /// A port has finished sending a packet and others are queued.
    Serve = 2,
    /// A packet has arrived.
    Arrive = 3,
    /// A host has flows to post.
    Post = 4,
    /// A timer of a host's engine is due.
    Timer = 5,
    /// A host's wire is free for the next packet.
    Pull = 6,
    /// A scheduled action of a host's ranks or streams is due.
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

/// One event of a node in a window, packed into a word.
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

    /// Kind of the event.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        KINDS[(self.0 >> (PORT_BITS + PACKET_BITS)) as usize & ((1 << KIND_BITS) - 1)]
    }

    /// The node's own port that the event concerns; 0 if it concerns none.
    #[inline]
    pub(crate) fn port(self) -> u32 {
        (self.0 >> PACKET_BITS) as u32 & ((1 << PORT_BITS) - 1)
    }

    /// Index of the packet that arrives; for other kinds, the value given to [`Calendar::push`].
    #[inline]
    pub(crate) fn packet(self) -> u32 {
        self.0 as u32 & ((1 << PACKET_BITS) - 1)
    }
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Chunk {
    entries: [Entry; CHUNK],
    next: u32,
    used: u32,
}

/// The pending events of one partition.
pub(crate) struct Calendar {
    window_ps: u64,
    nodes: usize,
    /// First chunk of each node, for each window of the ring.
    heads: Box<[u32]>,
    /// Events in each window of the ring.
    counts: [u64; RING],
    chunks: Vec<Chunk>,
    free: u32,
    /// Events beyond the ring: their time, their node, and the entry with offset 0.
    far: BinaryHeap<Reverse<(u64, u32, Entry)>>,
    /// Number of the open window, and its start and end; before the first window both limits are 0.
    window: u64,
    start: u64,
    end: u64,
    /// For each window of the ring, one bit for each node that has events in it.
    marks: Box<[u64]>,
    /// Events of the node being executed that were known when its turn began, in order, and how
    /// many of them have been executed.
    current: Vec<Entry>,
    done: usize,
    /// Events that were inserted during the turn, the earliest last. There are few at a time, so
    /// inserting one moves less memory than it would in `current`.
    soon: Vec<Entry>,
}

impl Calendar {
    /// Returns an empty calendar before the first window, with room for about `events` events.
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
            marks: vec![0; RING * nodes.div_ceil(WORD)].into_boxed_slice(),
            current: Vec::with_capacity(4096),
            done: 0,
            soon: Vec::with_capacity(64),
        }
    }

    /// Inserts an event of a node. Its time must not lie in a window that has ended. It may lie in
    /// the open window only if that node is the one being executed.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, node: u32, kind: Kind, port: u32, packet: u32) {
        if at < self.end {
            debug_assert!(at >= self.start, "an event in the past");
            let entry = Entry::new(at - self.start, kind, port, packet);
            return self.put_soon(entry);
        }
        // Nearly always this is the next window, or the one behind it.
        let ahead = at - self.end;
        let (windows, offset) = match ahead.checked_sub(self.window_ps) {
            None => (0, ahead),
            Some(beyond) if beyond < self.window_ps => (1, beyond),
            Some(_) => (ahead / self.window_ps, ahead % self.window_ps),
        };
        if windows < RING as u64 - 1 {
            let window = self.window + u64::from(self.end > 0) + windows;
            self.put(window, node, Entry::new(offset, kind, port, packet));
        } else {
            self.far.push(Reverse((at, node, Entry::new(0, kind, port, packet))));
        }
    }

    /// Returns the next window that has events, if any.
    pub(crate) fn next_window(&self) -> Option<u64> {
        let first = self.window + u64::from(self.end > 0);
        let near = (first..first + RING as u64 - 1)
            .find(|window| self.counts[*window as usize % RING] > 0);
        let far = self.far.peek().map(|Reverse((at, ..))| at / self.window_ps);
        near.into_iter().chain(far).min()
    }

    /// Returns the number of events in a future window if that window is within the ring.
    pub(crate) fn count(&self, window: u64) -> u64 {
        let near = window < self.window + RING as u64;
        if near { self.counts[window as usize % RING] } else { 0 }
    }

    /// Opens a window. All earlier windows have ended.
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
        // An event inserted into the open window must not be counted as pending in a later one.
        self.counts[window as usize % RING] = 0;
    }

    /// Returns the first node from `node` on that has events in the open window, if any.
    #[inline]
    pub(crate) fn next_node(&self, node: u32) -> Option<u32> {
        let words = self.nodes.div_ceil(WORD);
        let marks = &self.marks[self.window as usize % RING * words..][..words];
        let first = node as usize / WORD;
        let mut word = marks.get(first)? & (u64::MAX << (node as usize % WORD));
        for (place, following) in marks.iter().enumerate().skip(first + 1) {
            if word != 0 {
                return Some(((place - 1) * WORD) as u32 + word.trailing_zeros());
            }
            word = *following;
        }
        (word != 0).then(|| ((words - 1) * WORD) as u32 + word.trailing_zeros())
    }

    /// Prefetches the first chunk of a node's events in the open window.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32) {
        let slot = self.window as usize % RING * self.nodes + node as usize;
        request_element(&self.chunks, self.heads[slot] as usize);
    }

    /// Prefetches the place of the next event of a node in the window behind the open one.
    #[inline]
    pub(crate) fn prefetch_next(&self, node: u32) {
        let slot = (self.window + 1) as usize % RING * self.nodes + node as usize;
        request_element(&self.chunks, self.heads[slot] as usize);
    }

    /// Calls `each` with the events of a node in the open window.
    #[inline]
    pub(crate) fn known(&self, node: u32, mut each: impl FnMut(Entry)) {
        let slot = self.window as usize % RING * self.nodes + node as usize;
        let mut index = self.heads[slot];
        while let Some(chunk) = self.chunks.get(index as usize) {
            request_element(&self.chunks, chunk.next as usize);
            chunk.entries[..chunk.used as usize].iter().for_each(|entry| each(*entry));
            index = chunk.next;
        }
    }

    /// Starts executing a node's events of the open window. Returns true if there are any.
    #[inline]
    pub(crate) fn turn(&mut self, node: u32) -> bool {
        let ring = self.window as usize % RING;
        let slot = ring * self.nodes + node as usize;
        let mut chunk = self.heads[slot];
        if chunk == NONE {
            return false;
        }
        self.heads[slot] = NONE;
        self.marks[ring * self.nodes.div_ceil(WORD) + node as usize / WORD] &=
            !(1 << (node as usize % WORD));
        self.current.clear();
        self.done = 0;
        debug_assert!(self.soon.is_empty(), "the turn before has ended");
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

    /// Returns the next event of the node being executed, and its time in picoseconds.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, Entry)> {
        let entry = match (self.current.get(self.done), self.soon.last()) {
            (known, Some(&soon)) if known.is_none_or(|known| soon < *known) => {
                self.soon.pop();
                soon
            }
            (Some(&known), _) => {
                self.done += 1;
                known
            }
            (None, _) => return None,
        };
        Some((self.start + entry.offset(), entry))
    }

    /// Returns the end of the open window.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Inserts an event of the node being executed.
    #[inline]
    fn put_soon(&mut self, entry: Entry) {
        // From the end on, because most events are due before those that wait.
        let mut place = self.soon.len();
        while place > 0 && self.soon[place - 1] < entry {
            place -= 1;
        }
        self.soon.insert(place, entry);
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
        let index = if self.free == NONE {
            self.chunks.push(Chunk { entries: [Entry(0); CHUNK], next: NONE, used: 0 });
            self.chunks.len() as u32 - 1
        } else {
            self.free
        };
        let chunk = &mut self.chunks[index as usize];
        if index == self.free {
            self.free = chunk.next;
        }
        chunk.entries[0] = entry;
        (chunk.next, chunk.used) = (head, 1);
        self.heads[slot] = index;
        if head == NONE {
            self.marks[ring * self.nodes.div_ceil(WORD) + node as usize / WORD] |=
                1 << (node as usize % WORD);
        }
    }
}

#[cfg(test)]
mod tests;

/// Stands for a time that has not been reached.
pub(crate) const NEVER: u64 = u64::MAX;
