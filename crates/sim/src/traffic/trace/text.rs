//! Traces as text: an operation a line.
//!
//! ```text
//! ranks 8
//! group pair 0,4
//! compute all 100us              # each rank, before anything else
//! sum: all-reduce 0-3 64M        # by a ring; "tree" goes up and down a binary tree
//! all-gather 4-7 16M
//! work: compute 0-3 1ms after=-  # beside the sum: it waits for nothing
//! all-reduce pair 8M tree after=sum,work
//! send 0->4 1M
//! ```

use super::{Operation, OperationKind, Trace};
use crate::quantity::{bytes, span};
use crate::traffic::Collective;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks at most: as many as a network has hosts.
const RANKS_MAX: u32 = 1 << 18;

/// Of all groups and operations together.
const MEMBERS_MAX: usize = 1 << 22;

/// What is known when a line is read.
#[derive(Default)]
struct Reader {
    trace: Trace,
    groups: BTreeMap<String, Vec<u32>>,
    /// Operations by name.
    names: BTreeMap<String, usize>,
    /// Ranks of all groups and operations together.
    members: usize,
}

/// Reads a trace.
///
/// # Errors
/// Names the line, and what is wrong with it.
pub fn parse_trace(text: &str) -> Result<Trace, String> {
    let mut reader = Reader::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        reader.read(&words).map_err(|error| format!("line {}: {error}", at + 1))?;
    }
    let trace = reader.trace;
    match (trace.ranks, trace.operations.is_empty()) {
        (0, _) => Err(String::from("a trace says first how many ranks there are: ranks 8")),
        (_, true) => Err(String::from("a trace without an operation: all-reduce all 64M")),
        _ => Ok(trace),
    }
}

impl Reader {
    fn read(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            [] => Ok(()),
            ["ranks", count] => {
                let count = count.parse().ok().filter(|count| (2..=RANKS_MAX).contains(count));
                let count = count.ok_or(format!("'{}': ranks are 2 to {RANKS_MAX}", words[1]))?;
                if self.trace.ranks > 0 {
                    return Err(String::from("the number of ranks was given before"));
                }
                self.trace.ranks = count;
                Ok(())
            }
            _ if self.trace.ranks == 0 => Err(String::from("ranks come first: ranks 8")),
            ["group", name, members] => {
                let members = self.ranks(members)?;
                let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
                if *name == "all" || !is_name || self.groups.contains_key(*name) {
                    return Err(format!(
                        "'{name}': a group needs a name of its own, with a letter"
                    ));
                }
                self.groups.insert((*name).to_owned(), members);
                Ok(())
            }
            [name, rest @ ..] if name.ends_with(':') => {
                let name = name.trim_end_matches(':');
                let fits = !name.is_empty() && name != "-" && !name.contains([',', '=', ':']);
                if !fits || self.names.contains_key(name) {
                    return Err(format!("'{name}:': an operation needs a name of its own"));
                }
                self.operation(Some(name), rest)?;
                self.names.insert(name.to_owned(), self.trace.operations.len() - 1);
                Ok(())
            }
            rest => self.operation(None, rest),
        }
    }

    fn operation(&mut self, name: Option<&str>, words: &[&str]) -> Result<(), String> {
        let (after, words) = match words {
            [before @ .., last] if last.starts_with("after=") => {
                (Some(self.after(&last["after=".len()..])?), before)
            }
            _ => (None, words),
        };
        let [what, who, how_much, rest @ ..] = words else {
            let words = words.join(" ");
            return Err(format!(
                "'{words}' is no operation: it takes what, who and how much, as all-reduce 0-7 64M"
            ));
        };
        let kind = kind(what, how_much, rest)?;
        let ranks = if *what == "send" { self.ends(who)? } else { self.ranks(who)? };
        let computes = matches!(kind, OperationKind::Compute { .. });
        let bytes = match bytes(how_much).filter(|bytes| *bytes > 0) {
            _ if computes => 0,
            Some(bytes) => bytes,
            None => return Err(format!("'{how_much}' is no size: as 64K, 64M, or less than 4G")),
        };
        let name = name.unwrap_or(what).to_owned();
        self.trace.operations.push(Operation { name, kind, ranks, bytes, after });
        Ok(())
    }

    /// `A->B`.
    fn ends(&self, text: &str) -> Result<Vec<u32>, String> {
        let wrong = || format!("'{text}': a send goes from one rank to another, as 0->4");
        let (from, to) = text.split_once("->").ok_or_else(wrong)?;
        let (from, to) = (self.rank(from)?, self.rank(to)?);
        if from == to { Err(wrong()) } else { Ok(vec![from, to]) }
    }

    /// `all`, a group's name, or `0-3,7`.
    fn ranks(&mut self, text: &str) -> Result<Vec<u32>, String> {
        let ranks = self.members_of(text)?;
        self.members += ranks.len();
        if self.members > MEMBERS_MAX {
            return Err(format!("more than {MEMBERS_MAX} ranks of operations: cut the trace up"));
        }
        Ok(ranks)
    }

    fn members_of(&self, text: &str) -> Result<Vec<u32>, String> {
        if text == "all" {
            return Ok((0..self.trace.ranks).collect());
        }
        if let Some(members) = self.groups.get(text) {
            return Ok(members.clone());
        }
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(format!("there is no group '{text}' above: group {text} 0-7"));
        }
        let mut ranks = Vec::new();
        let mut seen = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            for rank in self.rank(first)?..=self.rank(last)? {
                if !seen.insert(rank) {
                    return Err(format!("rank {rank} is twice in '{text}'"));
                }
                ranks.push(rank);
            }
        }
        if ranks.is_empty() {
            return Err(format!("'{text}' has no rank: write the lower one first"));
        }
        Ok(ranks)
    }

    fn rank(&self, text: &str) -> Result<u32, String> {
        let rank = text.parse().ok().filter(|rank| *rank < self.trace.ranks);
        let last = self.trace.ranks - 1;
        rank.ok_or_else(|| format!("'{text}' is no rank: they are 0 to {last}"))
    }

    /// Names of operations above, or `-`.
    fn after(&self, text: &str) -> Result<Vec<usize>, String> {
        if text == "-" {
            return Ok(Vec::new());
        }
        let known = |name: &str| {
            let at = self.names.get(name).copied();
            at.ok_or_else(|| format!("after={name}: no operation above has this name"))
        };
        text.split(',').map(known).collect()
    }
}

/// What an operation does.
fn kind(what: &str, how_much: &str, rest: &[&str]) -> Result<OperationKind, String> {
    let kind = match (what, rest) {
        ("compute", []) => {
            let ps = span(how_much).ok_or_else(|| {
                format!("'{how_much}' is no time: as 250us, with ps, ns, us, ms or s")
            })?;
            OperationKind::Compute { ps }
        }
        ("all-reduce", [] | ["ring"]) => OperationKind::Collective(Collective::RingAllReduce),
        ("all-reduce", ["tree"]) => OperationKind::Collective(Collective::TreeAllReduce),
        ("reduce-scatter", [] | ["ring"]) => OperationKind::Collective(Collective::ReduceScatter),
        ("all-gather", [] | ["ring"]) => OperationKind::Collective(Collective::AllGather),
        ("broadcast", [] | ["tree"]) => OperationKind::Broadcast,
        ("reduce", [] | ["tree"]) => OperationKind::Reduce,
        ("all-to-all", []) => OperationKind::AllToAll,
        ("send", []) => OperationKind::Send,
        (
            "compute" | "all-reduce" | "reduce-scatter" | "all-gather" | "broadcast" | "reduce"
            | "all-to-all" | "send",
            [word, ..],
        ) => return Err(format!("'{word}' is nothing that {what} takes")),
        _ => {
            return Err(format!(
                "'{what}' is no operation: they are compute, all-reduce, reduce-scatter, \
                 all-gather, broadcast, reduce, all-to-all and send"
            ));
        }
    };
    Ok(kind)
}
