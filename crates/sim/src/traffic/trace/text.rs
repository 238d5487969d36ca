//! Traces as text: an operation a line.
//!
//! ```text
//! ranks 8
//! group pair 0,4
//! compute all 100us              # each rank, before anything else
//! sum: all-reduce 0-3 64M        # by a ring; or "tree", "halving", "doubling"
//! all-gather 4-7 16M
//! work: compute 0-3 1ms after=-  # beside the sum: it waits for nothing
//! all-reduce pair 8M tree after=sum,work
//! send 0->4 1M
//! ```

use super::{Operation, OperationKind, Trace};
use crate::quantity::{bytes, span};
use crate::traffic::Collective;
use crate::traffic::error::{TraceError, TraceLineError};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of ranks, which equals the maximum number of hosts.
pub(in crate::traffic) const RANKS_MAX: u32 = 1 << 18;

/// Maximum number of ranks of all groups and operations together.
pub(in crate::traffic) const MEMBERS_MAX: usize = 1 << 22;

/// State of the parser between lines.
#[derive(Default)]
struct Reader {
    trace: Trace,
    groups: BTreeMap<String, Vec<u32>>,
    /// Operations by name.
    names: BTreeMap<String, usize>,
    /// Ranks of all groups and operations together.
    members: usize,
}

/// Parses a trace.
///
/// # Errors
/// Names the line and what is wrong with it.
pub fn parse_trace(text: &str) -> Result<Trace, TraceError> {
    let mut reader = Reader::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        reader.read(&words).map_err(|error| TraceError::Line { line: at + 1, error })?;
    }
    let trace = reader.trace;
    match (trace.ranks, trace.operations.is_empty()) {
        (0, _) => Err(TraceError::NoRanks),
        (_, true) => Err(TraceError::NoOperation),
        _ => Ok(trace),
    }
}

impl Reader {
    fn read(&mut self, words: &[&str]) -> Result<(), TraceLineError> {
        match words {
            [] => Ok(()),
            ["ranks", count] => {
                let count = count.parse().ok().filter(|count| (2..=RANKS_MAX).contains(count));
                let count = count.ok_or_else(|| TraceLineError::RankCount(words[1].to_owned()))?;
                if self.trace.ranks > 0 {
                    return Err(TraceLineError::RanksTwice);
                }
                self.trace.ranks = count;
                Ok(())
            }
            _ if self.trace.ranks == 0 => Err(TraceLineError::RanksFirst),
            ["group", name, members] => {
                let members = self.ranks(members)?;
                let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
                if *name == "all" || !is_name || self.groups.contains_key(*name) {
                    return Err(TraceLineError::GroupName((*name).to_owned()));
                }
                self.groups.insert((*name).to_owned(), members);
                Ok(())
            }
            [name, rest @ ..] if name.ends_with(':') => {
                let name = name.trim_end_matches(':');
                let fits = !name.is_empty() && name != "-" && !name.contains([',', '=', ':']);
                if !fits || self.names.contains_key(name) {
                    return Err(TraceLineError::OperationName(name.to_owned()));
                }
                self.operation(Some(name), rest)?;
                self.names.insert(name.to_owned(), self.trace.operations.len() - 1);
                Ok(())
            }
            rest => self.operation(None, rest),
        }
    }

    fn operation(&mut self, name: Option<&str>, words: &[&str]) -> Result<(), TraceLineError> {
        let (after, words) = match words {
            [before @ .., last] if last.starts_with("after=") => {
                (Some(self.after(&last["after=".len()..])?), before)
            }
            _ => (None, words),
        };
        let [what, who, how_much, rest @ ..] = words else {
            return Err(TraceLineError::Words(words.join(" ")));
        };
        let kind = kind(what, how_much, rest)?;
        let ranks = if *what == "send" { self.ends(who)? } else { self.ranks(who)? };
        let computes = matches!(kind, OperationKind::Compute { .. });
        let bytes = match bytes(how_much).filter(|bytes| *bytes > 0) {
            _ if computes => 0,
            Some(bytes) => bytes,
            None => return Err(TraceLineError::Size((*how_much).to_owned())),
        };
        let name = name.unwrap_or(what).to_owned();
        self.trace.operations.push(Operation { name, kind, ranks, bytes, after });
        Ok(())
    }

    /// Parses `A->B`.
    fn ends(&self, text: &str) -> Result<Vec<u32>, TraceLineError> {
        let wrong = || TraceLineError::Ends(text.to_owned());
        let (from, to) = text.split_once("->").ok_or_else(wrong)?;
        let (from, to) = (self.rank(from)?, self.rank(to)?);
        if from == to { Err(wrong()) } else { Ok(vec![from, to]) }
    }

    /// Parses `all`, a group's name, or `0-3,7`.
    fn ranks(&mut self, text: &str) -> Result<Vec<u32>, TraceLineError> {
        let ranks = self.members_of(text)?;
        self.members += ranks.len();
        if self.members > MEMBERS_MAX {
            return Err(TraceLineError::TooManyMembers);
        }
        Ok(ranks)
    }

    fn members_of(&self, text: &str) -> Result<Vec<u32>, TraceLineError> {
        if text == "all" {
            return Ok((0..self.trace.ranks).collect());
        }
        if let Some(members) = self.groups.get(text) {
            return Ok(members.clone());
        }
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(TraceLineError::Group(text.to_owned()));
        }
        let mut ranks = Vec::new();
        let mut seen = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            for rank in self.rank(first)?..=self.rank(last)? {
                if !seen.insert(rank) {
                    return Err(TraceLineError::Twice { rank, list: text.to_owned() });
                }
                ranks.push(rank);
            }
        }
        if ranks.is_empty() {
            return Err(TraceLineError::Empty(text.to_owned()));
        }
        Ok(ranks)
    }

    fn rank(&self, text: &str) -> Result<u32, TraceLineError> {
        let rank = text.parse().ok().filter(|rank| *rank < self.trace.ranks);
        let last = self.trace.ranks - 1;
        rank.ok_or_else(|| TraceLineError::Rank { rank: text.to_owned(), last })
    }

    /// Parses names of operations above, or `-`.
    fn after(&self, text: &str) -> Result<Vec<usize>, TraceLineError> {
        if text == "-" {
            return Ok(Vec::new());
        }
        let known = |name: &str| {
            let at = self.names.get(name).copied();
            at.ok_or_else(|| TraceLineError::After(name.to_owned()))
        };
        text.split(',').map(known).collect()
    }
}

/// Parses the kind of an operation.
fn kind(what: &str, how_much: &str, rest: &[&str]) -> Result<OperationKind, TraceLineError> {
    let kind = match (what, rest) {
        ("compute", []) => {
            let ps = span(how_much).ok_or_else(|| TraceLineError::Time(how_much.to_owned()))?;
            OperationKind::Compute { ps }
        }
        ("all-reduce", [] | ["ring"]) => OperationKind::Collective(Collective::RingAllReduce),
        ("all-reduce", ["tree"]) => OperationKind::Collective(Collective::TreeAllReduce),
        ("all-reduce", ["halving"]) => OperationKind::Collective(Collective::HalvingAllReduce),
        ("all-reduce", ["doubling"]) => OperationKind::Collective(Collective::DoublingAllReduce),
        ("reduce-scatter", [] | ["ring"]) => OperationKind::Collective(Collective::ReduceScatter),
        ("all-gather", [] | ["ring"]) => OperationKind::Collective(Collective::AllGather),
        ("broadcast", [] | ["tree"]) => OperationKind::Broadcast,
        ("reduce", [] | ["tree"]) => OperationKind::Reduce,
        ("all-to-all", []) => OperationKind::AllToAll,
        ("all-to-all", ["pairwise"]) => OperationKind::Collective(Collective::PairwiseAllToAll),
        ("send", []) => OperationKind::Send,
        (
            "compute" | "all-reduce" | "reduce-scatter" | "all-gather" | "broadcast" | "reduce"
            | "all-to-all" | "send",
            [word, ..],
        ) => {
            let (word, operation) = ((*word).to_owned(), what.to_owned());
            return Err(TraceLineError::Option { word, operation });
        }
        _ => {
            return Err(TraceLineError::Operation(what.to_owned()));
        }
    };
    Ok(kind)
}
