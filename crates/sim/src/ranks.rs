//! The ranks of a program on one host: the events they wait for, and their commands to the NIC.
//!
//! A command takes [`Program::host_ps`] to reach the NIC, and an event takes as long to reach the
//! rank. All messages between hosts use the protocol: puts into mailboxes; or address exchange,
//! WRITE and completion message; or match, READ and acknowledgement. A message between ranks of one
//! host is copied.

pub(crate) use neighbours::Neighbours;

use super::program::Operation;
use crate::endpoint::{SLOT_BITS, TOKEN};
use crate::program::{Program, Protocol};
use fairway_ub::wire::{Instant, JettyId, ServiceMode, Tag, Target};
use fairway_ub::{
    ChannelId, Completion, CompletionKind, EpochDone, LocalRange, MailboxId, OrderRequest,
    PostError, ReceiveRequest, RemoteMailbox, RemoteRange, SegmentId, Status, UbDevice, Work,
    WorkRequest,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bytes of an address message, an announcement or an acknowledgement.
const NOTE_BYTES: u32 = 64;
/// Maximum of [`Program::depth`].
const DEPTH: u32 = 2;

/// A rank's command to its NIC for one neighbour. Its discriminant travels as immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Order {
    Put,
    Write,
    /// Reports that a WRITE is complete.
    Written,
    /// Grants the peer a buffer to write into.
    Grant,
    /// Sends a short message itself.
    Eager,
    /// Announces a message that the peer is to READ.
    Match,
    Read,
    /// Acknowledges that an announced message has been read.
    Taken,
}

const ORDERS: [Order; 8] = [
    Order::Put,
    Order::Write,
    Order::Written,
    Order::Grant,
    Order::Eager,
    Order::Match,
    Order::Read,
    Order::Taken,
];

/// Action scheduled on a host. The first number is a link's, or for `Go` a rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// A rank continues.
    Go(u32),
    /// A command reaches the NIC; it concerns the message with the last number.
    Command(u32, Order, u32),
    /// A message has arrived.
    Came(u32),
    /// A message's memory may be used again.
    Freed(u32),
    /// The peer has granted a buffer.
    Granted(u32),
    /// The peer has announced a message to be read.
    Matched(u32),
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The end of a delay.
    Time,
    /// A message from the neighbour at a link.
    Message(u32),
    /// Memory of a link, until at most the given number of messages occupy it.
    Memory(u32, u32),
    /// The memory of all sent messages.
    AllMemory,
    /// Nothing, because the rank has finished.
    Done,
}

struct Rank {
    /// Number of its next operation.
    next: u32,
    waits: Waits,
    /// Sent messages whose memory may not be reused yet.
    flying: u32,
    links: std::ops::Range<u32>,
}

/// A rank and one of its neighbours. All counts are numbers of messages.
struct Link {
    peer: u32,
    /// `None` if the neighbour is on this host, at link `there`.
    channel: Option<ChannelId>,
    /// The neighbour's own number of this link.
    there: u32,
    mailbox: Option<MailboxId>,
    expected: u32,
    came: u32,
    awaited: u32,
    sent: u32,
    freed: u32,
    granted: u32,
    /// Messages for which this side has issued a WRITE or READ.
    moved: u32,
    matched: u32,
    /// Lengths of the last messages sent, and of the last expected.
    out: [u32; DEPTH as usize],
    length: u32,
    /// Bytes expected, and bytes in place.
    due: u64,
    placed: u64,
}

/// The ranks of a host.
pub(crate) struct Ranks {
    program: Program,
    first: u32,
    segment: SegmentId,
    ranks: Vec<Rank>,
    links: Vec<Link>,
    due: BinaryHeap<Reverse<(u64, u32, Act)>>,
    sequence: u32,
    /// Commands that wait for space in the NIC's queues.
    blocked: VecDeque<(u32, Order, u32)>,
    /// Ranks that have finished, and messages that were awaited.
    pub(crate) done: u32,
    pub(crate) messages: u64,
    /// Operations that failed, or could not be posted because their channel was gone. A rank that
    /// waits for one of them waits for ever.
    pub(crate) failed: u64,
}

/// Returns the Jetty of a rank.
pub(crate) fn jetty_of(program: &Program, rank: u32) -> JettyId {
    JettyId::new(1 + rank % program.ranks_per_host)
}

fn mailbox_address(to: u32, from: u32) -> u64 {
    u64::from(to) << 32 | u64::from(from)
}

impl Ranks {
    /// Makes the ranks of a host, and creates their mailboxes and receives in its NIC.
    ///
    /// # Panics
    /// If the NIC's limits are too small.
    pub(crate) fn new(
        (program, neighbours): (Program, &Neighbours),
        host: u32,
        nic: &mut UbDevice,
        segment: SegmentId,
        channel: impl Fn(u32) -> ChannelId,
    ) -> Ranks {
        let numbers = program.ranks_of(host);
        let (mut ranks, mut links) = (Vec::new(), Vec::new());
        for rank in numbers.clone() {
            let first = links.len() as u32;
            for &peer in neighbours.of(rank) {
                let elsewhere = program.host(peer);
                let channel = (elsewhere != host).then(|| channel(elsewhere));
                let there = neighbours.number(&program, peer, rank);
                links.push(Link::new(peer, channel, there));
            }
            let links = first..links.len() as u32;
            ranks.push(Rank { next: 0, waits: Waits::Time, flying: 0, links });
        }
        let room = 4 * links.len() + ranks.len() + 16;
        let mut new = Ranks {
            program,
            first: numbers.start,
            segment,
            ranks,
            links,
            due: BinaryHeap::with_capacity(room),
            sequence: 0,
            blocked: VecDeque::with_capacity(room),
            done: 0,
            messages: 0,
            failed: 0,
        };
        new.prepare(nic).expect("limits are made for this program");
        for rank in 0..new.ranks.len() as u32 {
            new.schedule(0, Act::Go(rank));
        }
        new
    }

    /// Creates the mailboxes with their buffers, or posts the receives.
    fn prepare(&mut self, nic: &mut UbDevice) -> Result<(), PostError> {
        for at in 0..self.ranks.len() {
            let rank = self.first + at as u32;
            for link in self.ranks[at].links.clone() {
                if self.links[link as usize].channel.is_none() {
                    continue;
                }
                if self.program.protocol == Protocol::Mailbox {
                    let address = mailbox_address(rank, self.links[link as usize].peer);
                    let mailbox = crate::endpoint::create_mailbox(nic, address);
                    self.links[link as usize].mailbox = Some(mailbox);
                }
                for _ in 0..self.program.buffers {
                    match self.links[link as usize].mailbox {
                        Some(mailbox) => nic.post_buffer(mailbox, link.into(), self.at(link, 0))?,
                        None => self.post_receive(nic, rank)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn post_receive(&self, nic: &mut UbDevice, rank: u32) -> Result<(), PostError> {
        let length = NOTE_BYTES.max(self.program.eager_bytes);
        // The receives lie behind the memory of all links.
        let local = LocalRange { length, ..self.at(self.links.len() as u32, 0) };
        let request = ReceiveRequest { id: 0, local };
        nic.post_receive(jetty_of(&self.program, rank), &request)
    }

    /// Returns the memory of a message at a link; `turn` selects one of the alternating buffers.
    fn at(&self, link: u32, turn: u32) -> LocalRange {
        let offset = u64::from(link) << SLOT_BITS | u64::from(turn % DEPTH) << (SLOT_BITS - 1);
        LocalRange { segment: self.segment, offset, length: 1 << 30 }
    }

    /// Returns when the next action is due, if there is one.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Executes the actions that are due.
    pub(crate) fn act(&mut self, nic: &mut UbDevice, now: u64) {
        while let Some(&Reverse((at, _, act))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            match act {
                Act::Go(rank) => self.advance(nic, now, rank),
                Act::Command(link, order, turn) => self.command(nic, now, (link, order, turn)),
                Act::Came(link) => {
                    self.links[link as usize].came += 1;
                    self.wake(nic, now, link);
                }
                Act::Freed(link) => self.freed(nic, now, link),
                Act::Granted(link) => {
                    self.links[link as usize].granted += 1;
                    self.write(now, link);
                }
                Act::Matched(link) => {
                    self.links[link as usize].matched += 1;
                    self.read(now, link);
                }
            }
        }
    }

    // ---- what ranks do ----

    /// Executes a rank's operations one after the other until it has to wait.
    fn advance(&mut self, nic: &mut UbDevice, now: u64, rank: u32) {
        let number = self.first + rank;
        loop {
            let here = &mut self.ranks[rank as usize];
            let Some(operation) = self.program.motif.operation(number, here.next) else {
                if here.waits != Waits::Done {
                    here.waits = Waits::Done;
                    self.end(rank);
                }
                return;
            };
            here.waits = Waits::Time;
            let wait = match operation {
                Operation::Nothing => None,
                Operation::Expect { from, bytes } => {
                    let link = self.link(rank, from);
                    self.expect(now, link, bytes);
                    None
                }
                Operation::Await { from } => {
                    let link = self.link(rank, from);
                    (!self.take(nic, link)).then_some(Waits::Message(link))
                }
                Operation::Send { to, bytes } => self.send(now, rank, to, bytes, true),
                Operation::Start { to, bytes } => self.send(now, rank, to, bytes, false),
                Operation::Flush => {
                    // With the other protocols two buffers are used alternately, and a send waits
                    // for the older one.
                    let waits = self.program.protocol == Protocol::Rendezvous;
                    (self.ranks[rank as usize].flying > 0 && waits).then_some(Waits::AllMemory)
                }
                Operation::Compute { ps: 0 } => None,
                Operation::Compute { ps } => {
                    self.ranks[rank as usize].next += 1;
                    return self.schedule(now + ps, Act::Go(rank));
                }
            };
            let here = &mut self.ranks[rank as usize];
            match wait {
                None => here.next += 1,
                Some(wait) => return here.waits = wait,
            }
        }
    }

    /// Resumes the rank of a link if it waits for a message there.
    fn wake(&mut self, nic: &mut UbDevice, now: u64, link: u32) {
        let rank = self.rank_of(link);
        if self.ranks[rank as usize].waits == Waits::Message(link) {
            self.advance(nic, now, rank);
        }
    }

    /// Counts a rank as finished, and checks that it has received all expected messages and no
    /// others.
    fn end(&mut self, rank: u32) {
        self.done += 1;
        for link in self.ranks[rank as usize].links.clone() {
            let link = &self.links[link as usize];
            assert_eq!(link.expected, link.awaited, "messages from {} awaited", link.peer);
            let whole = link.channel.is_none() || link.due == link.placed;
            assert!(whole, "{} bytes of {} from {}", link.placed, link.due, link.peer);
        }
    }

    /// Returns the rank of a link.
    fn rank_of(&self, link: u32) -> u32 {
        self.ranks.partition_point(|rank| rank.links.end <= link) as u32
    }

    fn link(&self, rank: u32, peer: u32) -> u32 {
        let links = self.ranks[rank as usize].links.clone();
        let of = &self.links[links.start as usize..links.end as usize];
        let at = of.binary_search_by_key(&peer, |link| link.peer).expect("a neighbour");
        links.start + at as u32
    }

    fn expect(&mut self, now: u64, link: u32, bytes: u32) {
        let here = &mut self.links[link as usize];
        here.expected += 1;
        here.due += u64::from(bytes);
        here.length = bytes;
        if here.channel.is_none() {
            return;
        }
        match self.program.protocol {
            Protocol::Mailbox => {}
            Protocol::Write { .. } => {
                self.schedule(now + self.program.host_ps, Act::Command(link, Order::Grant, 0));
            }
            // The memory is first registered with the NIC, which takes a command and its response.
            Protocol::Rendezvous => self.read(now + 2 * self.program.host_ps, link),
        }
    }

    /// Takes the next message from a neighbour. Returns false if it has not arrived.
    fn take(&mut self, nic: &mut UbDevice, link: u32) -> bool {
        let here = &mut self.links[link as usize];
        if here.came == here.awaited {
            return false;
        }
        here.awaited += 1;
        self.messages += 1;
        if let Some(mailbox) = here.mailbox {
            let posted = nic.post_buffer(mailbox, link.into(), self.at(link, 0));
            posted.expect("the buffer that was filled is free");
        }
        true
    }

    /// Sends a message. Returns what the rank has to wait for first, if anything.
    fn send(&mut self, now: u64, rank: u32, to: u32, bytes: u32, blocks: bool) -> Option<Waits> {
        let link = self.link(rank, to);
        let here = &mut self.links[link as usize];
        if here.sent - here.freed >= self.program.depth {
            return Some(Waits::Memory(link, self.program.depth - 1));
        }
        let turn = here.sent;
        here.out[(turn % DEPTH) as usize] = bytes;
        here.sent += 1;
        self.ranks[rank as usize].flying += 1;
        let host = self.program.host_ps;
        let Some(_) = self.links[link as usize].channel else {
            let there = self.links[link as usize].there;
            let at = now + 2 * host + self.program.copy_ps(bytes);
            self.schedule(at, Act::Came(there));
            self.schedule(at, Act::Freed(link));
            return None;
        };
        match self.program.protocol {
            Protocol::Mailbox => self.schedule(now + host, Act::Command(link, Order::Put, turn)),
            Protocol::Write { .. } => self.write(now, link),
            Protocol::Rendezvous if bytes <= self.program.eager_bytes => {
                let copied = now + self.program.copy_ps(bytes);
                self.schedule(copied + host, Act::Command(link, Order::Eager, turn));
                self.schedule(copied, Act::Freed(link));
                return self.hold(rank, link, blocks);
            }
            Protocol::Rendezvous => {
                self.schedule(now + 3 * host, Act::Command(link, Order::Match, turn));
                return self.hold(rank, link, blocks);
            }
        }
        None
    }

    /// Makes a blocking sender wait until the memory is free, and counts its operation as done.
    fn hold(&mut self, rank: u32, link: u32, blocks: bool) -> Option<Waits> {
        if !blocks {
            return None;
        }
        self.ranks[rank as usize].next += 1;
        Some(Waits::Memory(link, 0))
    }

    /// Issues a WRITE if there is a message to write and a buffer for it.
    fn write(&mut self, now: u64, link: u32) {
        let here = &mut self.links[link as usize];
        if here.moved < here.sent.min(here.granted) {
            let turn = here.moved;
            here.moved += 1;
            self.schedule(now + self.program.host_ps, Act::Command(link, Order::Write, turn));
        }
    }

    /// Issues a READ if a message is expected and announced.
    fn read(&mut self, now: u64, link: u32) {
        let here = &mut self.links[link as usize];
        if here.length > self.program.eager_bytes && here.moved < here.expected.min(here.matched) {
            let turn = here.moved;
            here.moved += 1;
            self.schedule(now + self.program.host_ps, Act::Command(link, Order::Read, turn));
        }
    }

    fn freed(&mut self, nic: &mut UbDevice, now: u64, link: u32) {
        self.links[link as usize].freed += 1;
        let under_way = self.links[link as usize].sent - self.links[link as usize].freed;
        let rank = self.rank_of(link);
        let here = &mut self.ranks[rank as usize];
        here.flying -= 1;
        let goes = match here.waits {
            Waits::Memory(at, most) => at == link && under_way <= most,
            Waits::AllMemory => here.flying == 0,
            _ => false,
        };
        if goes {
            self.advance(nic, now, rank);
        }
    }

    fn schedule(&mut self, at: u64, act: Act) {
        self.sequence = self.sequence.wrapping_add(1);
        self.due.push(Reverse((at, self.sequence, act)));
    }
}

impl Link {
    fn new(peer: u32, channel: Option<ChannelId>, there: u32) -> Link {
        Link {
            peer,
            channel,
            there,
            mailbox: None,
            expected: 0,
            came: 0,
            awaited: 0,
            sent: 0,
            freed: 0,
            granted: 0,
            moved: 0,
            matched: 0,
            out: [0; DEPTH as usize],
            length: 0,
            due: 0,
            placed: 0,
        }
    }
}

mod commands;
mod neighbours;
