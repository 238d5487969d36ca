//! Guessing what arrives next, so that the kernel puts it where it belongs.
//!
//! Two guesses are on offer. From the last packet of a socket: the next will be the one after it,
//! of the same message. That costs nothing, and is right for a flow that keeps to one path. Or
//! from a look at the header that waits in the socket: that costs a system call, and is nearly
//! always right about the run of packets that begins with it. Every arrival tells what the first
//! guess would have been worth, so the choice follows from counting.

use fairway_engine::wire::{Decoded, Ecn, MAX_HEADER, Packet};
use fairway_engine::{LocalRange, Nic, Received};
use fairway_port::{Address, Datapath, Scatter};

use super::receive::source_is_right;
use crate::core::{Channels, Memories};

/// Payloads shorter than this are copied: that is cheaper than planning.
const PAYLOAD_MIN: u32 = 1024;
/// Arrivals shorter than this are not worth a look first, in bytes.
const LOOK_MIN: usize = 8 * 1024;
/// Most packets planned for.
const PACKETS_MAX: usize = 15;

/// Running averages are fractions of this.
const ONE: u32 = 1 << 16;
/// Weight of the newest sample, as a shift.
const WEIGHT: u32 = 4;

/// What is known about the arrivals at one socket.
#[derive(Default)]
pub(super) struct SocketPlan {
    /// The last packet of the last arrival, if another one may follow it.
    last: Option<Last>,
    /// The latest full packet: what others will be like.
    hint: Option<Last>,
    /// How often the next packet was the one after the last.
    in_order: u32,
    /// How often an arrival was worth a look first.
    bulk: u32,
    /// Where runs end.
    chunk: Chunk,
}

/// A sender changes paths between chunks, and the kernel may join chunks that came by the same path
/// into one arrival. Chunks of a message begin at multiples of some number of packets: learned from
/// where runs break off.
#[derive(Default)]
struct Chunk {
    packets: u32,
    /// How far that number is to be trusted; zero: not at all.
    trust: u32,
}

impl Chunk {
    const TRUST_MAX: u32 = 8;
    const TRUST_MIN: u32 = 2;

    /// A run broke off in front of packet `index` of its message.
    fn broke_off(&mut self, index: u32) {
        if self.packets > 1 && index.is_multiple_of(self.packets) {
            self.trust = (self.trust + 1).min(Self::TRUST_MAX);
        } else if self.trust > 0 {
            self.trust -= 1;
        } else {
            self.packets = greatest_common_divisor(self.packets, index);
            if self.packets <= 1 {
                self.packets = index;
            }
        }
    }

    /// Packets from `index` to the end of its chunk.
    fn left(&self, index: u32) -> u32 {
        if self.trust < Self::TRUST_MIN {
            return u32::MAX;
        }
        self.packets - index % self.packets
    }
}

#[derive(Clone, Copy)]
pub(super) struct Last {
    pub(super) received: Received,
    pub(super) header_len: usize,
}

/// How to receive next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Copy.
    Plain,
    /// Plan from the packet before.
    Guess,
    /// Plan from the packet that waits.
    Look,
}

/// What a look at a socket showed.
pub(super) enum Looked {
    /// Nothing waits.
    Empty,
    /// Something waits that is not worth planning for.
    Unknown,
    /// This packet waits.
    Packet(Last),
}

/// Where the planned payloads go.
#[derive(Default)]
pub(crate) struct Targets {
    pub(super) ranges: [LocalRange; PACKETS_MAX],
    pub(super) count: usize,
    pub(super) header_len: usize,
    /// No more than this many.
    pub(super) limit: u32,
}

impl SocketPlan {
    pub(super) fn method(&self) -> Method {
        if self.last.is_some() && self.in_order > ONE / 4 * 3 {
            Method::Guess
        } else if self.bulk > ONE / 2 {
            Method::Look
        } else {
            Method::Plain
        }
    }

    /// Takes in an arrival: its first and last packet, if they are data, and its length.
    pub(super) fn observe(&mut self, first: Option<Last>, last: Option<Last>, bytes: usize) {
        let large = |last: &Last| last.received.payload >= PAYLOAD_MIN;
        let Some(first) = first.filter(large) else {
            average(&mut self.bulk, false);
            return;
        };
        let follows = self.last.is_some_and(|before| is_next(&before, &first));
        average(&mut self.in_order, follows);
        average(&mut self.bulk, bytes >= LOOK_MIN);
        self.hint = Some(first);
        self.last = last.filter(large);
    }

    pub(super) fn last(&self) -> Option<Last> {
        self.last
    }

    /// Takes in two packets of an arrival that follow one another: message and index of each.
    pub(super) fn observe_run(&mut self, one: Option<(u32, u32)>, two: Option<(u32, u32)>) {
        let (Some((message, index)), Some(next)) = (one, two) else { return };
        if next != (message, index.wrapping_add(1)) {
            self.chunk.broke_off(index.wrapping_add(1));
        }
    }

    /// How many packets, from the one `ahead` packets after `known` on, are likely to come in one
    /// run.
    pub(super) fn run_limit(&self, known: &Last, ahead: u32) -> u32 {
        match known.received.packet {
            Packet::Data(data) => self.chunk.left(data.index.wrapping_add(ahead)),
            _ => u32::MAX,
        }
    }

    pub(super) fn hint(&self) -> Option<Last> {
        self.hint
    }
}

/// Looks at the header that waits in a socket.
pub(super) fn look(
    datapath: &mut dyn Datapath,
    (engine, socket): (u32, usize),
    channels: &Channels,
    hint: Option<Last>,
) -> std::io::Result<Looked> {
    let mut bytes = [0; MAX_HEADER];
    let Some((length, from)) = datapath.peek(socket, &mut bytes)? else {
        return Ok(Looked::Empty);
    };
    let header = &bytes[..length.min(MAX_HEADER)];
    let known = hint.and_then(|hint| recognise(header, (&from, (engine, socket)), channels, &hint));
    Ok(known.map_or(Looked::Unknown, Looked::Packet))
}

/// The header does not say how long the payload behind it is, but its check covers the length: so
/// try what is likely. Full packets are the only ones worth planning for.
fn recognise(
    header: &[u8],
    (from, socket): (&Address, (u32, usize)),
    channels: &Channels,
    hint: &Last,
) -> Option<Last> {
    let payload = hint.received.payload;
    let likely = [hint.header_len, 48, 68, 56, 64, 80];
    for header_len in likely {
        let datagram = header_len + payload as usize;
        let Ok(Decoded::Packet { route, packet, header_len: actual }) =
            channels.decode(header, datagram)
        else {
            continue;
        };
        let received = Received { route, packet, payload, ecn: Ecn::default() };
        if actual == header_len && source_is_right(channels, &received, from, socket) {
            return Some(Last { received, header_len });
        }
    }
    None
}

/// Plans for the packets that follow `known`, beginning with the one `ahead` packets later.
/// False if there is nothing to plan for.
pub(super) fn draw(
    known: &Last,
    ahead: u32,
    nic: &Nic,
    memories: &Memories,
    (scatter, targets): (&mut Scatter, &mut Targets),
) -> bool {
    targets.count = 0;
    targets.header_len = known.header_len;
    let payload = known.received.payload;
    if payload < PAYLOAD_MIN {
        return false;
    }
    scatter.restart(known.header_len, payload as usize);
    for ahead in ahead..ahead + targets.limit.min(PACKETS_MAX as u32) {
        let Some(range) = nic.locate(&known.received, ahead) else { break };
        let Some(room) = memories.scatter(&range) else { break };
        if range.length > payload || range.length == 0 || !scatter.push(room) {
            break;
        }
        targets.ranges[targets.count] = range;
        targets.count += 1;
    }
    targets.count > 0
}

fn is_next(before: &Last, now: &Last) -> bool {
    let (Packet::Data(one), Packet::Data(two)) = (before.received.packet, now.received.packet)
    else {
        return false;
    };
    before.received.route == now.received.route
        && before.header_len == now.header_len
        && before.received.payload >= now.received.payload
        && one.message == two.message
        && two.psn == one.psn.next()
        && two.index == one.index.wrapping_add(1)
}

fn greatest_common_divisor(mut one: u32, mut two: u32) -> u32 {
    while two != 0 {
        (one, two) = (two, one % two);
    }
    one
}

fn average(value: &mut u32, happened: bool) {
    let sample = if happened { ONE } else { 0 };
    *value = *value - (*value >> WEIGHT) + (sample >> WEIGHT);
}
