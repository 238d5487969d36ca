//! Schedules in GOAL, the text form of LogGOPSim and ATLAHS.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 100
//! l2: send 8b to 1 tag 5
//! l2 requires l1
//! }
//! rank 1 {
//! l1: recv 8b from 0 tag 5
//! }
//! ```
//!
//! `calc` is in nanoseconds. Operations of a rank that do not wait for each other run at once:
//! `cpu` and `nic` have no effect. A receive matches the first send of its sender and tag that no
//! receive above has matched; `-1` stands for any. Source: T. Hoefler, T. Schneider, A. Lumsdaine,
//! "LogGOPSim: Simulating Large-Scale Applications in the LogGOPS Model".

use super::error::{ImportError, Place, Wrong};
use super::{Input, RANKS_MAX, Schedule};
use crate::traffic::trace::FLOWS_MAX;
use crate::traffic::{After, Flow, Span};
use std::collections::{BTreeMap, VecDeque};

/// What a rank does.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Send { to: u32, bytes: u32, tag: u64 },
    Receive { from: Option<u32>, tag: Option<u64> },
    Compute { ps: u64 },
}

/// An operation of a rank.
struct Node {
    rank: u32,
    kind: Kind,
    line: usize,
    /// Operations that must have ended, and such that must have begun.
    ended: Vec<usize>,
    begun: Vec<usize>,
    /// The send of a receive.
    sent: Option<usize>,
}

/// True if the text begins as a schedule does.
pub(super) fn is_likely(text: &str) -> bool {
    let mut words = Words::new("", text);
    words.next().is_ok_and(|word| matches!(word, Some(word) if word.text == "num_ranks"))
}

/// Reads a schedule.
pub(super) fn read(input: &Input<'_>) -> Result<Schedule, ImportError> {
    let text = String::from_utf8_lossy(input.bytes);
    let mut reader = Reader::new(input.name, &text)?;
    reader.ranks()?;
    let file = input.name;
    if reader.nodes.is_empty() {
        let remedy = "the schedule has no operation: rank 0 { l1: send 8b to 1 }";
        return Err(ImportError::Nothing { file: file.to_owned(), remedy });
    }
    let ranks = reader.count;
    let mut nodes = reader.nodes;
    match_messages(file, &mut nodes)?;
    check_order(file, &nodes)?;
    flows(file, ranks, &nodes)
}

/// A word of a schedule: a name, a number, or a character.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    line: usize,
}

/// Cuts a schedule into words.
struct Words<'a> {
    file: &'a str,
    rest: &'a str,
    line: usize,
}

impl<'a> Words<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        Words { file, rest: text, line: 1 }
    }

    /// Passes `bytes` over.
    fn skip(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }

    /// The next word; `None` at the end.
    fn next(&mut self) -> Result<Option<Word<'a>>, ImportError> {
        loop {
            // Semicolons and ends of lines separate statements that are clear without them.
            let gap = self.rest.find(|c: char| !c.is_whitespace() && c != ';');
            self.skip(gap.unwrap_or(self.rest.len()));
            if self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").map(|end| end + 2);
                let end =
                    end.ok_or_else(|| self.expected(self.rest, "the end of a comment, */"))?;
                self.skip(end);
            } else {
                break;
            }
        }
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let of = |holds: &dyn Fn(char) -> bool, from: usize| {
            let end = self.rest[from..].find(|c: char| !holds(c));
            end.map_or(self.rest.len(), |end| from + end)
        };
        let length = match first {
            '-' => of(&|c| c.is_ascii_digit(), 1),
            c if c.is_ascii_digit() => of(&|c| c.is_ascii_digit(), 0),
            c if part(c) => of(&part, 0),
            c => c.len_utf8(),
        };
        let word = Word { text: &self.rest[..length], line: self.line };
        self.skip(length);
        Ok(Some(word))
    }

    fn expected(&self, found: &str, expected: &'static str) -> ImportError {
        let found = found.chars().take(40).collect();
        Place::line(self.file, self.line).is(Wrong::Expected { found, expected })
    }
}

/// Reads a schedule word by word.
struct Reader<'a> {
    words: Words<'a>,
    /// The word that comes next.
    next: Option<Word<'a>>,
    count: u32,
    nodes: Vec<Node>,
}

impl<'a> Reader<'a> {
    /// Begins to read, with the number of ranks.
    fn new(file: &'a str, text: &'a str) -> Result<Self, ImportError> {
        let mut words = Words::new(file, text);
        let next = words.next()?;
        let mut reader = Reader { words, next, count: 0, nodes: Vec::new() };
        reader.word("num_ranks", "num_ranks and the number of ranks")?;
        let (count, line) = reader.number("the number of ranks")?;
        let fits = u32::try_from(count).ok().filter(|count| (2..=RANKS_MAX).contains(count));
        reader.count = fits.ok_or_else(|| {
            let expected = "num_ranks from 2 to 262144";
            Place::line(file, line).is(Wrong::Expected { found: count.to_string(), expected })
        })?;
        Ok(reader)
    }

    fn take(&mut self) -> Result<Option<Word<'a>>, ImportError> {
        let next = self.words.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn wrong(&self, word: Option<Word<'_>>, expected: &'static str) -> ImportError {
        match word {
            Some(word) => {
                let found = word.text.chars().take(40).collect();
                Place::line(self.words.file, word.line).is(Wrong::Expected { found, expected })
            }
            None => self.words.expected("the end of the file", expected),
        }
    }

    fn word(&mut self, text: &str, expected: &'static str) -> Result<Word<'a>, ImportError> {
        match self.take()? {
            Some(word) if word.text == text => Ok(word),
            other => Err(self.wrong(other, expected)),
        }
    }

    /// Reads a number, and returns it with its line.
    fn number(&mut self, expected: &'static str) -> Result<(u64, usize), ImportError> {
        let word = self.take()?;
        let number = word.and_then(|word| Some((word.text.parse().ok()?, word.line)));
        number.ok_or_else(|| self.wrong(word, expected))
    }

    /// Reads a number, or -1 for any.
    fn number_or_any(&mut self, expected: &'static str) -> Result<Option<u64>, ImportError> {
        if self.next.is_some_and(|word| word.text == "-1") {
            self.take()?;
            return Ok(None);
        }
        Ok(Some(self.number(expected)?.0))
    }

    /// Reads the number of a rank.
    fn rank(&mut self) -> Result<u32, ImportError> {
        let (rank, line) = self.number("the number of a rank")?;
        let last = self.count - 1;
        let fits = u32::try_from(rank).ok().filter(|rank| *rank <= last);
        fits.ok_or_else(|| Place::line(self.words.file, line).is(Wrong::Rank { rank, last }))
    }

    /// Reads all ranks.
    fn ranks(&mut self) -> Result<(), ImportError> {
        let mut seen = std::collections::BTreeSet::new();
        while let Some(word) = self.next {
            self.word("rank", "rank and its number, or the end of the file")?;
            let rank = self.rank()?;
            if !seen.insert(rank) {
                let twice = Wrong::Twice(format!("rank {rank}"));
                return Err(Place::line(self.words.file, word.line).is(twice));
            }
            self.word("{", "{")?;
            self.statements(rank)?;
        }
        Ok(())
    }

    /// Reads the statements of a rank, and the brace behind them.
    fn statements(&mut self, rank: u32) -> Result<(), ImportError> {
        const EXPECTED: &str = "a label, send, recv, calc or }";
        let mut labels = BTreeMap::new();
        // Labels may be defined after they are used.
        let mut waits = Vec::new();
        loop {
            let first = self.take()?;
            let Some(word) = first else { return Err(self.wrong(first, EXPECTED)) };
            match word.text {
                "}" => break,
                "send" | "recv" | "calc" => self.operation(rank, word)?,
                label if label.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    let verb = self.take()?;
                    match verb.map(|verb| verb.text) {
                        Some(":") => {
                            let operation = self.take()?;
                            let Some(what) = operation else {
                                return Err(self.wrong(operation, "send, recv or calc"));
                            };
                            if labels.insert(label, self.nodes.len()).is_some() {
                                let twice = Wrong::Twice(label.to_owned());
                                return Err(Place::line(self.words.file, word.line).is(twice));
                            }
                            self.operation(rank, what)?;
                        }
                        Some(verb @ ("requires" | "irequires")) => {
                            let other = self.take()?;
                            let Some(other) = other else {
                                return Err(self.wrong(other, "a label"));
                            };
                            waits.push((word, verb == "requires", other));
                        }
                        _ => return Err(self.wrong(verb, "':', requires or irequires")),
                    }
                }
                _ => return Err(self.wrong(first, EXPECTED)),
            }
        }
        for (waiting, for_end, other) in waits {
            let find = |word: Word<'_>| {
                let undefined = || Wrong::Undefined(word.text.to_owned());
                let place = || Place::line(self.words.file, word.line);
                labels.get(word.text).copied().ok_or_else(|| place().is(undefined()))
            };
            let (waiting, other) = (find(waiting)?, find(other)?);
            let node = &mut self.nodes[waiting];
            if for_end { node.ended.push(other) } else { node.begun.push(other) }
        }
        Ok(())
    }

    /// Reads an operation behind its first word.
    fn operation(&mut self, rank: u32, what: Word<'_>) -> Result<(), ImportError> {
        let place = Place::line(self.words.file, what.line);
        let kind = match what.text {
            "calc" => {
                let (ns, _) = self.number("nanoseconds")?;
                let ps = ns.checked_mul(1000).filter(|ps| *ps <= crate::quantity::SPAN_MAX);
                let expected = "at most 1000000000000 nanoseconds";
                let ps = ps.ok_or_else(|| {
                    place.clone().is(Wrong::Expected { found: ns.to_string(), expected })
                })?;
                Kind::Compute { ps }
            }
            "send" | "recv" => {
                let (bytes, _) = self.number("a number of bytes, as 8b")?;
                self.word("b", "b behind the number of bytes")?;
                let large = || place.clone().is(Wrong::Bytes { bytes: bytes.into() });
                // An empty message has one byte here, because flows cannot be empty.
                let bytes = u32::try_from(bytes).map_err(|_| large())?.max(1);
                if what.text == "send" {
                    self.word("to", "to and a rank")?;
                    Kind::Send { to: self.rank()?, bytes, tag: 0 }
                } else {
                    self.word("from", "from and a rank")?;
                    let is_any = self.next.is_some_and(|word| word.text == "-1");
                    let from = if is_any { None } else { Some(self.rank()?) };
                    if is_any {
                        self.take()?;
                    }
                    Kind::Receive { from, tag: Some(0) }
                }
            }
            _ => {
                return Err(self
                    .wrong(Some(Word { text: what.text, line: what.line }), "send, recv or calc"));
            }
        };
        let kind = self.attributes(kind)?;
        if self.nodes.len() >= FLOWS_MAX {
            return Err(place.is(Wrong::TooLong));
        }
        let (ended, begun) = (Vec::new(), Vec::new());
        self.nodes.push(Node { rank, kind, line: what.line, ended, begun, sent: None });
        Ok(())
    }

    /// Reads `tag`, `cpu` and `nic` behind an operation.
    fn attributes(&mut self, mut kind: Kind) -> Result<Kind, ImportError> {
        while let Some(word) = self.next {
            match (word.text, &mut kind) {
                ("tag", Kind::Send { tag, .. }) => {
                    self.take()?;
                    *tag = self.number("a tag")?.0;
                }
                ("tag", Kind::Receive { tag, .. }) => {
                    self.take()?;
                    *tag = self.number_or_any("a tag, or -1 for any")?;
                }
                ("cpu" | "nic", _) => {
                    self.take()?;
                    self.number("a number")?;
                }
                _ => break,
            }
        }
        Ok(kind)
    }
}

/// Finds the send of each receive: first for receives of one sender and tag, then for all others.
fn match_messages(file: &str, nodes: &mut [Node]) -> Result<(), ImportError> {
    let mut sends: BTreeMap<u32, BTreeMap<(u32, u64), VecDeque<usize>>> = BTreeMap::new();
    for (number, node) in nodes.iter().enumerate() {
        if let Kind::Send { to, tag, .. } = node.kind {
            let queue = sends.entry(to).or_default().entry((node.rank, tag)).or_default();
            queue.push_back(number);
        }
    }
    for exact in [true, false] {
        for node in nodes.iter_mut() {
            let Kind::Receive { from, tag } = node.kind else { continue };
            if (from.is_some() && tag.is_some()) != exact {
                continue;
            }
            let queues = sends.entry(node.rank).or_default();
            let fits = |(sender, sent): &(u32, u64)| {
                from.is_none_or(|from| from == *sender) && tag.is_none_or(|tag| tag == *sent)
            };
            let key = match (from, tag) {
                (Some(from), Some(tag)) => Some((from, tag)),
                // Of several, the one that is first in the file.
                _ => {
                    let open = queues.iter().filter(|(key, queue)| fits(key) && !queue.is_empty());
                    open.min_by_key(|(_, queue)| queue.front()).map(|(key, _)| *key)
                }
            };
            let queue = key.and_then(|key| queues.get_mut(&key));
            node.sent = queue.and_then(VecDeque::pop_front);
            if node.sent.is_none() {
                let from = from.map_or(String::from("any"), |from| from.to_string());
                let wrong = Wrong::Unmatched { what: "recv", missing: "send", from, to: node.rank };
                return Err(Place::line(file, node.line).is(wrong));
            }
        }
    }
    let left =
        sends.iter().flat_map(|(to, queues)| queues.values().flatten().map(move |at| (to, at)));
    if let Some((to, number)) = left.min_by_key(|(_, number)| **number) {
        let from = nodes[*number].rank.to_string();
        let wrong = Wrong::Unmatched { what: "send", missing: "recv", from, to: *to };
        return Err(Place::line(file, nodes[*number].line).is(wrong));
    }
    Ok(())
}

/// Checks that no operation waits for itself.
fn check_order(file: &str, nodes: &[Node]) -> Result<(), ImportError> {
    let before = |node: &Node| {
        node.ended
            .iter()
            .copied()
            .chain(node.begun.iter().copied())
            .chain(node.sent)
            .collect::<Vec<_>>()
    };
    let waits: usize = nodes.iter().map(|node| before(node).len()).sum();
    if waits.saturating_add(2 * nodes.len()) > FLOWS_MAX {
        return Err(Place::line(file, 1).is(Wrong::TooLong));
    }
    let mut after = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0; nodes.len()];
    for (number, node) in nodes.iter().enumerate() {
        for other in before(node) {
            after[other].push(number);
            missing[number] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|number| missing[*number] == 0).collect();
    while let Some(number) = ready.pop() {
        for next in &after[number] {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    match (0..nodes.len()).find(|number| missing[*number] > 0) {
        None => Ok(()),
        Some(stuck) => {
            let (rank, line) = (nodes[stuck].rank, nodes[stuck].line);
            let circle = Wrong::Circle(format!("an operation of rank {rank}"));
            Err(Place::line(file, line).is(circle))
        }
    }
}

/// Makes flows of operations: a send is a flow, everything else a step. An operation on whose
/// beginning others wait has a step for that.
fn flows(file: &str, ranks: u32, nodes: &[Node]) -> Result<Schedule, ImportError> {
    let mut has_start = vec![false; nodes.len()];
    nodes.iter().flat_map(|node| &node.begun).for_each(|other| has_start[*other] = true);
    let mut index = Vec::with_capacity(nodes.len());
    let mut count = 0;
    for starts in &has_start {
        count += usize::from(*starts);
        index.push(count as u32);
        count += 1;
    }
    if count > FLOWS_MAX {
        return Err(Place::line(file, 1).is(Wrong::TooLong));
    }
    let mut schedule = Schedule { ranks, ..Schedule::default() };
    let is_message = |node: &Node| matches!(node.kind, Kind::Send { to, .. } if to != node.rank);
    let end = |number: usize, delivered| After { flow: index[number], delivered };
    for (number, node) in nodes.iter().enumerate() {
        let ended = node.ended.iter().map(|other| end(*other, !is_message(&nodes[*other])));
        let begun =
            node.begun.iter().map(|other| After { flow: index[*other] - 1, delivered: true });
        let mut after: Vec<After> = ended.chain(begun).collect();
        if has_start[number] {
            schedule.flows.push(Flow { after, ..Flow::new(node.rank, node.rank, 0) });
            after = vec![After { flow: index[number] - 1, delivered: true }];
        }
        after.extend(node.sent.map(|sent| end(sent, true)));
        let flow = match node.kind {
            Kind::Send { to, bytes, .. } if to != node.rank => Flow::new(node.rank, to, bytes),
            _ => Flow::new(node.rank, node.rank, 0),
        };
        let ps = if let Kind::Compute { ps } = node.kind { ps } else { 0 };
        let (start_ps, delay_ps) = if after.is_empty() { (ps, 0) } else { (0, ps) };
        let first = schedule.flows.len() - usize::from(has_start[number]);
        schedule.flows.push(Flow { after, start_ps, delay_ps, ..flow });
        add_to_span(&mut schedule, node, first);
    }
    Ok(schedule)
}

/// Counts the flows from `first` on for the rank of an operation.
fn add_to_span(schedule: &mut Schedule, node: &Node, first: usize) {
    let name = format!("rank {}", node.rank);
    if schedule.spans.last().is_none_or(|span| span.name != name) {
        schedule.spans.push(Span { name, ranks: 1, bytes: 0, flows: first..first });
    }
    let end = schedule.flows.len();
    if let Some(span) = schedule.spans.last_mut() {
        span.flows.end = end;
        span.bytes = span.bytes.saturating_add(schedule.flows[end - 1].bytes);
    }
}
