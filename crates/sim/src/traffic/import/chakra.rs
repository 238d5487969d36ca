//! Execution traces of Chakra: a file for each rank, as protobuf (`.et`, not compressed), as the
//! JSON that `chakra_jsonizer` makes of that, or as JSON with a `workload_graph`.
//!
//! The rank is the number before the ending of the file's name (`step.3.et`): numbers count from 0
//! or from 1, without a gap. Without such numbers it is the order of the files. Nodes wait for
//! those in `data_deps`, as in ASTRA-sim; `ctrl_deps` are the callers of functions in traces of
//! PyTorch. Communication nodes use the network, unless they are calls on the CPU without a
//! `comm_size`, whose kernels are nodes of their own; all others take their duration. `comm_size`
//! is the length of a rank's input in bytes, as ASTRA-sim reads it, so that of an all-gather is a
//! part of what each rank has in the end. Collective operations of one `pg_name` match in the
//! order of the files, and its members are the ranks that have such nodes; without `pg_name` all
//! ranks take part. Sends and receives match by their ends and `comm_tag`.

mod decode;

use super::error::{ImportError, Place, Wrong};
use super::graph::Graph;
use super::{Input, RANKS_MAX};
use crate::traffic::{Collective, OperationKind, Trace};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Kinds of nodes that communicate, by Chakra's numbers.
const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

/// A node of a rank's trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    id: u64,
    name: String,
    kind: u64,
    after: Vec<u64>,
    /// Duration in microseconds.
    micros: u64,
    communication: Option<u64>,
    bytes: Option<u64>,
    source: Option<u64>,
    destination: Option<u64>,
    root: Option<u64>,
    tag: u64,
    /// True for what runs on the CPU.
    is_on_cpu: bool,
    /// Process group.
    group: String,
}

/// The traces of all ranks, while they are matched.
struct Ranks<'a> {
    graph: Graph,
    nodes: Vec<Vec<(Node, Place)>>,
    /// Files by rank.
    names: Vec<&'a str>,
    /// Members of each process group.
    members: BTreeMap<String, BTreeSet<u32>>,
    /// Collective operations by group and number.
    collected: BTreeMap<(String, usize), Collected>,
    /// Open ends of messages by sender, receiver and tag: sends, receives.
    open: [BTreeMap<(u32, u32, u64), VecDeque<Open>>; 2],
}

/// A collective operation, as the first rank has it.
struct Collected {
    node: usize,
    first: Node,
    place: Place,
    ranks: BTreeSet<u32>,
}

/// An end of a message.
struct Open {
    node: Option<usize>,
    bytes: u64,
    place: Place,
}

/// Reads the traces of all ranks.
pub(super) fn read(inputs: &[Input<'_>]) -> Result<Trace, ImportError> {
    let count = inputs.len();
    if !(2..=RANKS_MAX as usize).contains(&count) {
        let file = inputs.first().map_or("", |input| input.name).to_owned();
        let remedy = "a trace of Chakra is a file for each rank: give them all";
        return Err(ImportError::Ranks { file, ranks: count, remedy });
    }
    let mut nodes = Vec::with_capacity(count);
    let mut names = Vec::with_capacity(count);
    for input in in_order(inputs)? {
        names.push(input.name);
        nodes.push(decode::nodes(input)?);
    }
    let mut members: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for (rank, nodes) in nodes.iter().enumerate() {
        for (node, _) in nodes.iter().filter(|(node, _)| node.network() == COLLECTIVE) {
            members.entry(node.group.clone()).or_default().insert(rank as u32);
        }
    }
    members.insert(String::new(), (0..count as u32).collect());
    let (graph, collected, open) = (Graph::default(), BTreeMap::new(), Default::default());
    let mut ranks = Ranks { graph, nodes, names, members, collected, open };
    for rank in 0..count {
        ranks.add(rank as u32)?;
    }
    ranks.check()?;
    ranks.graph.trace(count as u32)
}

/// The files in the order of their ranks: by the numbers in their names, if all have one.
fn in_order<'a, 'b>(inputs: &'b [Input<'a>]) -> Result<Vec<&'b Input<'a>>, ImportError> {
    let number = |input: &Input<'_>| {
        let (stem, _) = input.name.rsplit_once('.')?;
        let start = stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        stem[start..].parse::<u64>().ok()
    };
    let numbered = inputs.iter().map(|input| Some((number(input)?, input)));
    let Some(mut numbered) = numbered.collect::<Option<Vec<_>>>() else {
        return Ok(inputs.iter().collect());
    };
    numbered.sort_by_key(|(number, _)| *number);
    let first = numbered.first().map_or(0, |(number, _)| *number);
    if first > 1 {
        let file = numbered[0].1.name.to_owned();
        return Err(ImportError::FirstFile { file, number: first });
    }
    for pair in numbered.windows(2) {
        let ((before, one), (number, other)) = (pair[0], pair[1]);
        let (one, other) = (one.name.to_owned(), other.name.to_owned());
        if before == number {
            return Err(ImportError::SameNumber { one, other, number });
        }
        if before + 1 != number {
            return Err(ImportError::Gap { one, other, missing: before + 1 });
        }
    }
    Ok(numbered.into_iter().map(|(_, input)| input).collect())
}

impl Ranks<'_> {
    /// Adds the nodes of a rank.
    fn add(&mut self, rank: u32) -> Result<(), ImportError> {
        let nodes = std::mem::take(&mut self.nodes[rank as usize]);
        let mut added: BTreeMap<u64, Option<usize>> = BTreeMap::new();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for (node, place) in &nodes {
            let operation = match node.network() {
                SEND | RECEIVE => self.message(rank, node, place)?,
                COLLECTIVE => {
                    let number = numbers.entry(node.group.clone()).or_default();
                    *number += 1;
                    Some(self.collective(rank, node, *number, place)?)
                }
                _ => Some(self.compute(rank, node, place)?),
            };
            if added.insert(node.id, operation).is_some() {
                return Err(place.clone().is(Wrong::Twice(format!("node {}", node.id))));
            }
        }
        for (node, place) in &nodes {
            let Some(operation) = added[&node.id] else { continue };
            let mut before = Vec::with_capacity(node.after.len());
            for other in &node.after {
                let known = added.get(other).copied();
                let undefined = || Wrong::Undefined(format!("node {other}"));
                before.extend(known.ok_or_else(|| place.clone().is(undefined()))?);
            }
            self.graph.wait(operation, &before)?;
        }
        Ok(())
    }

    fn compute(&mut self, rank: u32, node: &Node, place: &Place) -> Result<usize, ImportError> {
        let ps = node.micros.checked_mul(1_000_000).filter(|ps| *ps <= crate::quantity::SPAN_MAX);
        let ps =
            ps.ok_or_else(|| place.clone().is(node.lacks("duration, at most 1000 seconds")))?;
        // What takes no time only joins others, and is no operation of its own.
        let name = if ps > 0 { node.name.clone() } else { String::new() };
        self.graph.add(name, OperationKind::Compute { ps }, vec![rank], 0, place)
    }

    fn collective(
        &mut self,
        rank: u32,
        node: &Node,
        number: usize,
        place: &Place,
    ) -> Result<usize, ImportError> {
        let key = (node.group.clone(), number);
        if let Some(known) = self.collected.get_mut(&key) {
            let of = |node: &Node| (node.communication, node.bytes, node.root);
            if of(&known.first) != of(node) {
                let (rank, other) = (rank as usize, Box::new(known.place.clone()));
                let (what, expected) = (node.describe(), known.first.describe());
                return Err(place.clone().is(Wrong::Differs { rank, what, other, expected }));
            }
            known.ranks.insert(rank);
            return Ok(known.node);
        }
        let mut members: Vec<u32> = self.members[&node.group].iter().copied().collect();
        let bytes =
            u128::from(node.bytes.ok_or_else(|| place.clone().is(node.lacks("comm_size")))?);
        let count = members.len() as u128;
        // Chakra's numbers; a barrier is a sum of one byte.
        let (kind, bytes) = match node.communication {
            Some(0) => (OperationKind::Collective(Collective::RingAllReduce), bytes),
            Some(1) => (OperationKind::Reduce, bytes),
            Some(2) => (OperationKind::Collective(Collective::AllGather), bytes * count),
            Some(5) => (OperationKind::Broadcast, bytes),
            Some(6) => (OperationKind::AllToAll, bytes),
            Some(7 | 8) => (OperationKind::Collective(Collective::ReduceScatter), bytes),
            Some(9) => (OperationKind::Collective(Collective::RingAllReduce), bytes.max(1)),
            _ => {
                let what = "comm_type: ALL_REDUCE (0), REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, \
                            REDUCE_SCATTER or BARRIER";
                return Err(place.clone().is(node.lacks(what)));
            }
        };
        if let Some(root) = node.root.filter(|_| matches!(node.communication, Some(1 | 5))) {
            let at = members.iter().position(|member| u64::from(*member) == root);
            members.rotate_left(at.ok_or_else(|| place.clone().is(node.lacks("root, a member")))?);
        }
        let operation = if members.len() < 2 {
            self.graph.add(String::new(), OperationKind::Compute { ps: 0 }, members, 0, place)?
        } else {
            self.graph.add(node.name.clone(), kind, members, bytes, place)?
        };
        let (first, place, ranks) = (node.clone(), place.clone(), BTreeSet::from([rank]));
        self.collected.insert(key, Collected { node: operation, first, place, ranks });
        Ok(operation)
    }

    /// Matches an end of a message; `None` for a message of a rank to itself.
    fn message(
        &mut self,
        rank: u32,
        node: &Node,
        place: &Place,
    ) -> Result<Option<usize>, ImportError> {
        let sends = node.kind == SEND;
        let (peer, what) = if sends {
            (node.destination, "comm_dst, the number of a rank")
        } else {
            (node.source, "comm_src, the number of a rank")
        };
        let ranks = self.names.len() as u64;
        let peer = peer.filter(|peer| *peer < ranks).map(|peer| peer as u32);
        let peer = peer.ok_or_else(|| place.clone().is(node.lacks(what)))?;
        let bytes = node.bytes.ok_or_else(|| place.clone().is(node.lacks("comm_size")))?;
        let (from, to) = if sends { (rank, peer) } else { (peer, rank) };
        let key = (from, to, node.tag);
        let (own, others) = (usize::from(!sends), usize::from(sends));
        if let Some(other) = self.open[others].get_mut(&key).and_then(VecDeque::pop_front) {
            if other.bytes != bytes {
                let (what, expected) = (node.describe(), format!("{} bytes", other.bytes));
                let (rank, other) = (rank as usize, Box::new(other.place));
                return Err(place.clone().is(Wrong::Differs { rank, what, other, expected }));
            }
            return Ok(other.node);
        }
        let operation = if from == to || bytes == 0 {
            None
        } else {
            let ends = vec![from, to];
            let name = node.name.clone();
            Some(self.graph.add(name, OperationKind::Send, ends, bytes.into(), place)?)
        };
        let open = Open { node: operation, bytes, place: place.clone() };
        self.open[own].entry(key).or_default().push_back(open);
        Ok(operation)
    }

    /// Checks that nothing lacks a counterpart.
    fn check(&self) -> Result<(), ImportError> {
        for ((group, number), collected) in &self.collected {
            let missing = self.members[group].difference(&collected.ranks).next();
            if let Some(rank) = missing {
                let what = format!("{} (number {number})", collected.first.describe());
                let wrong = Wrong::Absent { rank: *rank as usize, what };
                return Err(collected.place.clone().is(wrong));
            }
        }
        for (open, what, missing) in
            [(&self.open[0], "send", "recv"), (&self.open[1], "recv", "send")]
        {
            let left = open.iter().find_map(|(key, queue)| Some((key, queue.front()?)));
            if let Some(((from, to, _), open)) = left {
                let wrong = Wrong::Unmatched { what, missing, from: from.to_string(), to: *to };
                return Err(open.place.clone().is(wrong));
            }
        }
        Ok(())
    }
}

impl Node {
    /// The node's kind if it uses the network; else 0.
    fn network(&self) -> u64 {
        let calls_only = self.is_on_cpu && self.bytes.is_none();
        if matches!(self.kind, SEND | RECEIVE | COLLECTIVE) && !calls_only { self.kind } else { 0 }
    }

    fn lacks(&self, what: &'static str) -> Wrong {
        Wrong::Node { node: self.id, name: self.name.chars().take(60).collect(), what }
    }

    fn describe(&self) -> String {
        let number = |number: Option<u64>| number.map_or(String::from("no"), |n| n.to_string());
        let (kind, bytes) = (number(self.communication), number(self.bytes));
        format!("{} (comm_type {kind}, {bytes} bytes)", self.name)
    }
}
