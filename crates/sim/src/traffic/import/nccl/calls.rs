//! Calls of all ranks, matched to operations.

use super::line::{Call, Kind};
use super::{Communicator, Identity, Placed};
use crate::traffic::import::error::{ImportError, Place, Wrong};
use crate::traffic::import::graph::Graph;
use crate::traffic::{Collective, OperationKind};
use std::collections::{BTreeMap, VecDeque};

/// A collective operation, as the first rank that calls it does.
struct Collected {
    place: Place,
    call: Call,
    /// Operations of the graph.
    nodes: Vec<usize>,
    /// The ranks that call it, ascending.
    callers: Vec<usize>,
}

/// A message whose other end is not known yet.
struct Open {
    node: Option<usize>,
    bytes: u128,
    place: Place,
}

/// The matching of calls so far.
struct Matching<'a> {
    graph: &'a mut Graph,
    communicators: &'a BTreeMap<Identity, Communicator>,
    collected: BTreeMap<(Identity, usize), Collected>,
    /// Open sends, and open receives, by communicator, sender and receiver.
    sends: BTreeMap<(Identity, u32, u32), VecDeque<Open>>,
    receives: BTreeMap<(Identity, u32, u32), VecDeque<Open>>,
}

/// What a rank executes in one turn of a stream: a collective operation, or a group of messages.
struct Turn {
    stream: String,
    /// The group's communicator and count; `None` for a collective operation.
    group: Option<(Identity, u64)>,
    nodes: Vec<usize>,
    place: Place,
}

/// Adds the operations that all calls make.
pub(super) fn add(
    graph: &mut Graph,
    calls: &[Vec<Placed>],
    communicators: &BTreeMap<Identity, Communicator>,
) -> Result<(), ImportError> {
    let (collected, sends, receives) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut matching = Matching { graph, communicators, collected, sends, receives };
    let mut turns: Vec<Vec<Turn>> = Vec::with_capacity(calls.len());
    for (rank, calls) in calls.iter().enumerate() {
        turns.push(matching.rank(rank, calls)?);
    }
    matching.check()?;
    for (rank, turns) in turns.into_iter().enumerate() {
        let mut last: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for turn in turns.into_iter().filter(|turn| !turn.nodes.is_empty()) {
            let before = last.entry(turn.stream).or_default();
            for node in &turn.nodes {
                graph.wait(*node, before)?;
            }
            *before = match turn.nodes.as_slice() {
                [only] => vec![*only],
                several => vec![graph.join(rank as u32, several, &turn.place)?],
            };
        }
    }
    Ok(())
}

impl Matching<'_> {
    /// Matches the calls of a rank with those of the ranks before it.
    fn rank(&mut self, rank: usize, calls: &[Placed]) -> Result<Vec<Turn>, ImportError> {
        let mut turns: Vec<Turn> = Vec::new();
        let mut numbers: BTreeMap<&Identity, usize> = BTreeMap::new();
        // The turn of each stream that is still open for messages.
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for placed in calls {
            let Placed { call, place, identity } = placed;
            let message = call.kind.is_message();
            let group = message.then(|| (identity.clone(), call.count));
            let nodes = if message {
                self.message(rank, placed)?.into_iter().collect()
            } else {
                let number = numbers.entry(identity).or_default();
                *number += 1;
                self.collective(rank, placed, *number)?
            };
            let last = open.get(call.stream.as_str()).copied();
            let joins = last.filter(|last| group.is_some() && turns[*last].group == group);
            if let Some(joins) = joins {
                turns[joins].nodes.extend(nodes);
                continue;
            }
            open.insert(&call.stream, turns.len());
            let (stream, place) = (call.stream.clone(), place.clone());
            turns.push(Turn { stream, group, nodes, place });
        }
        Ok(turns)
    }

    fn collective(
        &mut self,
        rank: usize,
        placed: &Placed,
        number: usize,
    ) -> Result<Vec<usize>, ImportError> {
        let Placed { call, place, identity } = placed;
        let key = (identity.clone(), number);
        if let Some(known) = self.collected.get_mut(&key) {
            let first = &known.call;
            let root = |call: &Call| call.kind.has_root().then_some(call.root);
            if (first.kind, first.bytes, root(first)) != (call.kind, call.bytes, root(call)) {
                let (what, expected) = (describe(call), describe(first));
                let other = Box::new(known.place.clone());
                return Err(place.clone().is(Wrong::Differs { rank, what, other, expected }));
            }
            known.callers.push(rank);
            return Ok(known.nodes.clone());
        }
        let members = &self.communicators[identity].members;
        let members: Vec<u32> = members.values().map(|rank| *rank as u32).collect();
        let nodes = nodes(self.graph, call, members, number, place)?;
        let (place, call, callers) = (place.clone(), call.clone(), vec![rank]);
        let collected = Collected { place, call, nodes: nodes.clone(), callers };
        self.collected.insert(key, collected);
        Ok(nodes)
    }

    /// Matches an end of a message; returns its operation, or `None` for one to the rank itself.
    fn message(&mut self, rank: usize, placed: &Placed) -> Result<Option<usize>, ImportError> {
        let Placed { call, place, identity } = placed;
        // The root was checked to be a rank of the communicator.
        let peer = self.communicators[identity].members[&(call.root as u32)] as u32;
        let rank = rank as u32;
        let sends = call.kind == Kind::Send;
        let (from, to) = if sends { (rank, peer) } else { (peer, rank) };
        let key = (identity.clone(), from, to);
        let (own, others) = if sends {
            (&mut self.sends, &mut self.receives)
        } else {
            (&mut self.receives, &mut self.sends)
        };
        if let Some(other) = others.get_mut(&key).and_then(VecDeque::pop_front) {
            if other.bytes != call.bytes {
                let what = describe(call);
                let expected = format!("{} bytes", other.bytes);
                let (rank, other) = (rank as usize, Box::new(other.place));
                return Err(place.clone().is(Wrong::Differs { rank, what, other, expected }));
            }
            return Ok(other.node);
        }
        // Messages of a rank to itself, and empty ones, use no network.
        let node = if from == to || call.bytes == 0 {
            None
        } else {
            let ends = vec![from, to];
            let name = format!("send {from}->{to}");
            Some(self.graph.add(name, OperationKind::Send, ends, call.bytes, place)?)
        };
        let open = Open { node, bytes: call.bytes, place: place.clone() };
        own.entry(key).or_default().push_back(open);
        Ok(node)
    }

    /// Checks that every operation is called by all ranks of its communicator.
    fn check(&self) -> Result<(), ImportError> {
        for ((identity, number), collected) in &self.collected {
            let comm = &self.communicators[identity];
            let absent = |rank: &&usize| collected.callers.binary_search(rank).is_err();
            if let Some(rank) = comm.members.values().find(absent) {
                let call = &collected.call;
                let what = format!("{} (call {number} of {})", describe(call), call.comm);
                let wrong = Wrong::Absent { rank: *rank, what };
                return Err(collected.place.clone().is(wrong));
            }
        }
        for (open, what, missing) in
            [(&self.sends, "send", "recv"), (&self.receives, "recv", "send")]
        {
            let left = open.iter().find_map(|(key, queue)| Some((key, queue.front()?)));
            if let Some(((_, from, to), open)) = left {
                let wrong = Wrong::Unmatched { what, missing, from: from.to_string(), to: *to };
                return Err(open.place.clone().is(wrong));
            }
        }
        Ok(())
    }
}

/// A call in words.
fn describe(call: &Call) -> String {
    let root = if call.kind.has_root() { format!(" root {}", call.root) } else { String::new() };
    format!("{:?} of {} bytes{root}", call.kind, call.bytes)
}

/// Adds the operations of a collective call; there are several if it is made of messages, and none
/// if it is empty or has one rank.
fn nodes(
    graph: &mut Graph,
    call: &Call,
    mut members: Vec<u32>,
    number: usize,
    place: &Place,
) -> Result<Vec<usize>, ImportError> {
    let count = members.len();
    if count < 2 || call.bytes == 0 {
        return Ok(Vec::new());
    }
    let root = call.root as usize;
    if call.kind.has_root() {
        members.rotate_left(root);
    }
    let kind = match call.kind {
        Kind::AllReduce => OperationKind::Collective(Collective::RingAllReduce),
        Kind::Broadcast => OperationKind::Broadcast,
        Kind::Reduce => OperationKind::Reduce,
        Kind::AllGather => OperationKind::Collective(Collective::AllGather),
        Kind::ReduceScatter => OperationKind::Collective(Collective::ReduceScatter),
        Kind::AllToAll => OperationKind::AllToAll,
        Kind::Gather | Kind::Scatter | Kind::Send | Kind::Receive => OperationKind::Send,
    };
    let name = format!("{:?} {number}", call.kind);
    if kind != OperationKind::Send {
        let parts = if call.kind.counts_a_part() { count as u128 } else { 1 };
        return Ok(vec![graph.add(name, kind, members, call.bytes * parts, place)?]);
    }
    let (root, others) = (members[0], &members[1..]);
    let mut nodes = Vec::with_capacity(others.len());
    for other in others {
        let ends = if call.kind == Kind::Gather { [*other, root] } else { [root, *other] };
        nodes.push(graph.add(name.clone(), kind, ends.to_vec(), call.bytes, place)?);
    }
    Ok(nodes)
}
