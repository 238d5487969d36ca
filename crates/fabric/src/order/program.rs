//! Programs: what a few Jetties ask for, in posting order.

use super::clock::NODES;
use fairway_engine::OrderRequest;
use fairway_engine::wire::{ServiceMode, Tag};
use std::str::FromStr;
use std::{error, fmt};

/// Payload bytes of a packet.
pub const MTU: u32 = 32;
/// Bytes of memory that a node shows to its peers. All operations begin at its first byte, so that
/// all of them touch each other's bytes.
pub const SHARED_BYTES: usize = 64;
/// Operations of a program at most: each has bytes of its own by which it is known.
pub const OPERATIONS_MAX: usize = 8;

/// A text that is no program, or no bounds of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What stands there in the format that [`Program`] documents.
    pub(super) expected: &'static str,
    /// What was given.
    pub(super) text: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl error::Error for ParseError {}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// WRITE of so many packets.
    Write(u32),
    /// READ of so many packets.
    Read(u32),
    /// Fetch-and-add of the first word.
    Atomic,
    /// SEND of so many packets.
    Send(u32),
    /// WRITE_IMM of one packet.
    WriteImmediate,
}

/// Does the operation show the right secret?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Token {
    /// Yes.
    #[default]
    Right,
    /// No: it is to be refused.
    Wrong,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Whose: an index into [`Program::jetties`].
    pub jetty: usize,
    /// The node it goes to.
    pub node: usize,
    /// What it does.
    pub kind: Kind,
    /// What it asks of the order.
    pub order: OrderRequest,
    /// Does its success make a completion?
    pub signaled: bool,
    /// The secret it shows.
    pub token: Token,
}

/// Operations in the order in which they are posted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The node of each Jetty that posts. On each node they are numbered from 1.
    pub jetties: Vec<usize>,
    /// What is posted.
    pub operations: Vec<Operation>,
    /// A node that hears nothing and says nothing.
    pub dead: Option<usize>,
}

impl Operation {
    /// An operation of the first Jetty to node 1 that asks for nothing.
    pub fn new(kind: Kind) -> Self {
        let (order, token) = (OrderRequest::default(), Token::Right);
        Operation { jetty: 0, node: 1, kind, order, signaled: true, token }
    }

    /// Mode and tag.
    #[must_use]
    pub fn tagged(mut self, mode: ServiceMode, tag: Tag) -> Self {
        (self.order.mode, self.order.tag) = (mode, tag);
        self
    }

    /// With a fence.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.order.fence = true;
        self
    }

    /// Completing in order, here and at the receiver.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.order.complete_in_order = true;
        self.order.receive_in_order = self.consumes_receive();
        self
    }

    /// Of Jetty `jetty`.
    #[must_use]
    pub fn of(mut self, jetty: usize) -> Self {
        self.jetty = jetty;
        self
    }

    /// To `node`.
    #[must_use]
    pub fn to(mut self, node: usize) -> Self {
        self.node = node;
        self
    }

    /// With the wrong secret.
    #[must_use]
    pub fn refused(mut self) -> Self {
        self.token = Token::Wrong;
        self
    }

    /// Does its service mode promise that it arrives?
    pub fn is_reliable(&self) -> bool {
        self.order.mode != ServiceMode::Uno
    }

    /// Does it wait for relaxed and strict ones?
    pub fn is_strict(&self) -> bool {
        self.is_reliable() && self.order.tag == Tag::So
    }

    /// Do strict ones wait for it?
    pub fn is_awaited(&self) -> bool {
        self.is_reliable() && self.order.tag != Tag::No
    }

    /// Does a fence wait for it?
    pub fn is_fetching(&self) -> bool {
        matches!(self.kind, Kind::Read(_) | Kind::Atomic)
    }

    /// Does it use up a receive?
    pub fn consumes_receive(&self) -> bool {
        matches!(self.kind, Kind::Send(_) | Kind::WriteImmediate)
    }

    /// Packets of payload that it moves.
    pub fn packets(&self) -> u32 {
        match self.kind {
            Kind::Write(packets) | Kind::Read(packets) | Kind::Send(packets) => packets,
            Kind::Atomic | Kind::WriteImmediate => 1,
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self) -> usize {
        match self.kind {
            Kind::Atomic => 8,
            _ => (self.packets() * MTU) as usize,
        }
    }
}

impl Program {
    /// A program of Jetties of node 0.
    pub fn new(operations: Vec<Operation>) -> Self {
        let jetties = operations.iter().map(|operation| operation.jetty + 1).max().unwrap_or(1);
        Program { jetties: vec![0; jetties], operations, dead: None }
    }

    /// Is operation `index` to fail?
    pub fn is_doomed(&self, index: usize) -> bool {
        let operation = &self.operations[index];
        let ends = [operation.node, self.jetties[operation.jetty]];
        let is_heard = self.dead.is_none_or(|dead| !ends.contains(&dead));
        operation.is_reliable() && (operation.token == Token::Wrong || !is_heard)
    }

    /// Nodes that take part.
    pub fn nodes(&self) -> usize {
        let targets = self.operations.iter().map(|operation| operation.node);
        let all = targets.chain(self.jetties.iter().copied());
        let nodes = all.max().unwrap_or(0) + 1;
        assert!(nodes <= NODES, "at most {NODES} nodes");
        nodes
    }

    /// The bytes of operation `index`, by which it is known: no two operations share one.
    pub fn payload(&self, index: usize) -> Vec<u8> {
        assert!(index < OPERATIONS_MAX, "at most {OPERATIONS_MAX} operations");
        let first = (index as u8 + 1) << 4;
        (0..self.operations[index].bytes()).map(|at| first | (at as u8 >> 3 & 15)).collect()
    }

    /// Whose bytes begin with `byte`.
    pub fn owner(&self, byte: u8) -> Option<usize> {
        let index = usize::from(byte >> 4).checked_sub(1)?;
        (index < self.operations.len()).then_some(index)
    }

    /// What operation `index`, an atomic, adds: no two atomics add the same.
    pub fn operand(&self, index: usize) -> u64 {
        1 << (8 * index)
    }

    /// The atomic that adds `operand`.
    pub fn adder(&self, operand: u64) -> Option<usize> {
        let is_it = |&index: &usize| {
            self.operations[index].kind == Kind::Atomic && self.operand(index) == operand
        };
        (0..self.operations.len()).find(is_it)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, packets) = match self.kind {
            Kind::Write(packets) => ('W', packets),
            Kind::Read(packets) => ('R', packets),
            Kind::Atomic => ('A', 1),
            Kind::Send(packets) => ('S', packets),
            Kind::WriteImmediate => ('I', 1),
        };
        write!(f, "{}{kind}{packets}>{}", self.jetty, self.node)?;
        let order = self.order;
        let words = [
            (order.mode == ServiceMode::Roi, "roi"),
            (order.mode == ServiceMode::Rot, "rot"),
            (order.mode == ServiceMode::Rol, "rol"),
            (order.mode == ServiceMode::Uno, "uno"),
            (order.tag == Tag::Ro, "ro"),
            (order.tag == Tag::So, "so"),
            (order.fence, "fence"),
            (order.complete_in_order, "cio"),
            (order.receive_in_order, "rio"),
            (!self.signaled, "quiet"),
            (self.token == Token::Wrong, "wrong"),
        ];
        words.iter().filter(|(is, _)| *is).try_for_each(|(_, word)| write!(f, ".{word}"))
    }
}

impl FromStr for Operation {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bad = || ParseError { expected: "an operation", text: text.to_owned() };
        let mut words = text.split('.');
        let head: Vec<char> = words.next().unwrap_or("").chars().collect();
        let &[jetty, kind, packets, '>', node] = &head[..] else { return Err(bad()) };
        let digit = |digit: char| digit.to_digit(10).ok_or_else(bad);
        let packets = digit(packets)?;
        let kind = match kind {
            'W' => Kind::Write(packets),
            'R' => Kind::Read(packets),
            'A' => Kind::Atomic,
            'S' => Kind::Send(packets),
            'I' => Kind::WriteImmediate,
            _ => return Err(bad()),
        };
        let mut operation =
            Operation::new(kind).of(digit(jetty)? as usize).to(digit(node)? as usize);
        for word in words {
            operation.ask(word).ok_or_else(bad)?;
        }
        Ok(operation)
    }
}

impl Operation {
    fn ask(&mut self, word: &str) -> Option<()> {
        let order = &mut self.order;
        match word {
            "roi" => order.mode = ServiceMode::Roi,
            "rot" => order.mode = ServiceMode::Rot,
            "rol" => order.mode = ServiceMode::Rol,
            "uno" => order.mode = ServiceMode::Uno,
            "ro" => order.tag = Tag::Ro,
            "so" => order.tag = Tag::So,
            "fence" => order.fence = true,
            "cio" => order.complete_in_order = true,
            "rio" => order.receive_in_order = true,
            "quiet" => self.signaled = false,
            "wrong" => self.token = Token::Wrong,
            _ => return None,
        }
        Some(())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.jetties.iter().map(ToString::to_string).collect();
        write!(f, "{}", nodes.join(","))?;
        if let Some(dead) = self.dead {
            write!(f, "/{dead}")?;
        }
        self.operations.iter().try_for_each(|operation| write!(f, " {operation}"))
    }
}

impl FromStr for Program {
    type Err = ParseError;

    /// As printed: the nodes of the Jetties, behind a slash the dead node, then the operations.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut words = text.split_whitespace();
        let wrong = || ParseError { expected: "a program", text: text.to_owned() };
        let nodes = words.next().ok_or_else(wrong)?;
        let node = |word: &str| {
            word.parse().map_err(|_| ParseError { expected: "a node", text: word.to_owned() })
        };
        let (nodes, dead) = match nodes.split_once('/') {
            Some((nodes, dead)) => (nodes, Some(node(dead)?)),
            None => (nodes, None),
        };
        let jetties = nodes.split(',').map(node).collect::<Result<Vec<usize>, _>>()?;
        let operations = words.map(str::parse).collect::<Result<Vec<Operation>, _>>()?;
        let known = |operation: &Operation| operation.jetty < jetties.len();
        if operations.is_empty() || !operations.iter().all(known) {
            return Err(wrong());
        }
        Ok(Program { jetties, operations, dead })
    }
}
