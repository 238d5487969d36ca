//! Collective operations, as flows that wait for each other: the schedules of
//! `fairway-collectives`, which live ranks execute, with one flow for each message.
//!
//! A message travels when what it is made of has arrived; the time to combine numbers is not
//! modelled, and neither are the slots in which live ranks receive. `members` executes the state
//! machine of live ranks instead.

use super::{After, Flow};
use fairway_collectives::{Action, Algorithm, Call, ElementType, Reduction, Schedule, Shape};
use fairway_collectives::{Message, Piece, StepIndex};
use std::collections::HashMap;

/// Longest message without a limit, in whole words: that of a host's whole buffer.
const MESSAGE_BYTES: u32 = !7;

/// Number of slots that a live rank has for the messages of each other rank.
const SLOTS: u32 = 16;

/// Kind of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every host ends up with the sum, by two rounds of a ring.
    RingAllReduce,
    /// Every host ends up with all pieces, by a ring.
    AllGather,
    /// Every host ends up with the sum of one piece, by a ring.
    ReduceScatter,
    /// The sum goes up two binary trees, for a half of the buffer each, and down again.
    TreeAllReduce,
    /// Pairs of hosts exchange halves, quarters and so on, and then the results in reverse.
    HalvingAllReduce,
    /// Pairs of hosts at distances of 1, 2, 4 and so on exchange the whole buffer.
    DoublingAllReduce,
    /// The first host's buffer goes down a binary tree.
    Broadcast,
    /// The sum goes up a binary tree to the first host.
    Reduce,
    /// Each host sends an equal piece of its buffer to each other one.
    AllToAll,
    /// The same, to one other host and from one other host at a time.
    PairwiseAllToAll,
}

impl Collective {
    /// The operation of a workload's name.
    pub(crate) fn named(workload: &str) -> Option<Collective> {
        Some(match workload {
            "ring-allreduce" => Collective::RingAllReduce,
            "tree-allreduce" => Collective::TreeAllReduce,
            "halving-allreduce" => Collective::HalvingAllReduce,
            "doubling-allreduce" => Collective::DoublingAllReduce,
            "pairwise-alltoall" => Collective::PairwiseAllToAll,
            "all-gather" => Collective::AllGather,
            "reduce-scatter" => Collective::ReduceScatter,
            "broadcast" => Collective::Broadcast,
            "reduce" => Collective::Reduce,
            "direct-alltoall" => Collective::AllToAll,
            _ => return None,
        })
    }

    /// The operation as live ranks call it, and its algorithm.
    pub(crate) fn call(self, host: u32, hosts: u32, bytes: u32) -> (Call, Algorithm) {
        let (element, reduction) = (ElementType::U8, Reduction::Sum);
        let piece = u64::from(bytes.div_ceil(hosts).max(1));
        let (bytes, pieces) = (u64::from(bytes), vec![piece; hosts as usize]);
        let all_reduce = || Call::AllReduce { bytes, element, reduction };
        match self {
            // In equal pieces, the last of which may have bytes that are not there.
            Collective::RingAllReduce => {
                let bytes = piece * u64::from(hosts);
                (Call::AllReduce { bytes, element, reduction }, Algorithm::Ring)
            }
            Collective::TreeAllReduce => (all_reduce(), Algorithm::Tree),
            Collective::HalvingAllReduce => (all_reduce(), Algorithm::Halving),
            Collective::DoublingAllReduce => (all_reduce(), Algorithm::Doubling),
            Collective::AllGather => (Call::AllGather { pieces }, Algorithm::Ring),
            Collective::ReduceScatter => {
                (Call::ReduceScatter { pieces, element, reduction }, Algorithm::Ring)
            }
            Collective::Broadcast => (Call::Broadcast { bytes, root: 0 }, Algorithm::Tree),
            Collective::Reduce => {
                (Call::Reduce { bytes, element, reduction, root: 0 }, Algorithm::Tree)
            }
            Collective::AllToAll | Collective::PairwiseAllToAll => {
                let message = |rank| Message { rank, piece: Piece { offset: 0, bytes: piece } };
                let messages = || (0..hosts).filter(|rank| *rank != host).map(message).collect();
                let (sends, receives) = (messages(), messages());
                let call = Call::Exchange { is_collective: true, sends, receives };
                let is_pairwise = self == Collective::PairwiseAllToAll;
                (call, if is_pairwise { Algorithm::Pairwise } else { Algorithm::Direct })
            }
        }
    }

    /// Upper bound of the number of flows among so many hosts, with messages of at most
    /// `slot_bytes`.
    pub(crate) fn flows(self, hosts: usize, bytes: u32, slot_bytes: Option<u32>) -> usize {
        let rounds = hosts.max(2).next_power_of_two().ilog2() as usize;
        // Messages of the whole buffer, and of a host's piece of it.
        let whole = slot_bytes.map_or(1, |slot| bytes.div_ceil(slot).max(1)) as usize;
        let piece = slot_bytes.map_or(1, |slot| (bytes / hosts as u32 + 1).div_ceil(slot)) as usize;
        match self {
            Collective::Broadcast | Collective::Reduce => hosts.saturating_mul(whole),
            Collective::TreeAllReduce => hosts.saturating_mul(4 * whole),
            Collective::HalvingAllReduce => hosts.saturating_mul(2 * rounds + 2 + 4 * whole),
            Collective::DoublingAllReduce => hosts.saturating_mul((rounds + 2) * whole),
            Collective::RingAllReduce => hosts.saturating_mul(2 * hosts * piece),
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::AllToAll
            | Collective::PairwiseAllToAll => hosts.saturating_mul(hosts * piece),
        }
    }
}

/// Returns the flows of a collective over `bytes` per host, in messages of at most `slot_bytes`. A
/// flow comes after those for which it waits.
pub fn collective(kind: Collective, hosts: u32, bytes: u32, slot_bytes: Option<u32>) -> Vec<Flow> {
    let mut messages = Vec::new();
    for host in 0..hosts {
        let (call, algorithm) = kind.call(host, hosts, bytes);
        let shape = Shape {
            rank: host,
            ranks: hosts,
            slot_bytes: slot_bytes.unwrap_or(MESSAGE_BYTES),
            slots: SLOTS,
            is_in_place: true,
            hosts: &[],
        };
        add_messages(&Schedule::new(&call, algorithm, &shape), host, &mut messages);
    }
    in_order(messages)
}

/// The k-th message from one host to another: sender, receiver and k.
type Name = (u32, u32, u32);

/// A message of a schedule.
struct Sent {
    name: Name,
    bytes: u32,
    /// Messages that must have arrived at its sender.
    after: Vec<Name>,
}

/// Appends the messages that a host sends, each with those that it is made of.
fn add_messages(schedule: &Schedule, host: u32, to: &mut Vec<Sent>) {
    // For each step, the messages that it, or a step before it, has received.
    let mut needs: Vec<Vec<Name>> = Vec::with_capacity(schedule.steps().len());
    let mut received: HashMap<u32, u32> = HashMap::new();
    let mut sent: HashMap<u32, u32> = HashMap::new();
    let next = |counts: &mut HashMap<u32, u32>, peer| {
        let count = counts.entry(peer).or_insert(0);
        *count += 1;
        *count - 1
    };
    for step in schedule.steps() {
        let before = |step: &StepIndex| needs[step.index()].iter().copied();
        let mut after: Vec<Name> = step.after.iter().flat_map(before).collect();
        after.sort_unstable();
        after.dedup();
        match step.action {
            Action::Receive { from, .. } => after = vec![(from, host, next(&mut received, from))],
            Action::Send { to: peer, from, .. } => {
                let name = (host, peer, next(&mut sent, peer));
                let bytes = schedule.bytes(from).max(1);
                to.push(Sent { name, bytes, after });
                // What waits for the end of a send waits for nothing that has not arrived.
                after = Vec::new();
            }
            Action::Combine { .. } | Action::Copy { .. } => {}
        }
        needs.push(after);
    }
}

/// Converts messages to flows, in rounds: each after those that it waits for.
fn in_order(messages: Vec<Sent>) -> Vec<Flow> {
    let index: HashMap<Name, usize> =
        messages.iter().enumerate().map(|(at, message)| (message.name, at)).collect();
    let mut rounds: Vec<Option<u32>> = vec![None; messages.len()];
    for first in 0..messages.len() {
        // Depth-first, without recursion: chains are as long as rings.
        let mut open = vec![first];
        while let Some(at) = open.last().copied() {
            let before = messages[at].after.iter().map(|name| index[name]);
            let missing: Vec<_> = before.clone().filter(|at| rounds[*at].is_none()).collect();
            if missing.is_empty() {
                let round = before.filter_map(|at| rounds[at]).max().map_or(0, |last| last + 1);
                rounds[at] = Some(round);
                open.pop();
            } else {
                open.extend(missing);
            }
        }
    }
    let mut order: Vec<usize> = (0..messages.len()).collect();
    order.sort_by_key(|at| (rounds[*at], messages[*at].name.0));
    let mut places = vec![0; messages.len()];
    order.iter().enumerate().for_each(|(place, at)| places[*at] = place as u32);
    let flow = |at: &usize| {
        let Sent { name: (from, to, _), bytes, after } = &messages[*at];
        let after = after.iter().map(|name| After { flow: places[index[name]], delivered: true });
        Flow { after: after.collect(), ..Flow::new(*from, *to, *bytes) }
    };
    order.iter().map(flow).collect()
}
