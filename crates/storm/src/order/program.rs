//! Programs: the operations of a few Jetties, in posting order.

use super::clock::NODES;
use fairway_ub::OrderRequest;
use fairway_ub::wire::{ServiceMode, Tag};
use std::str::FromStr;
use std::{error, fmt};

/// Payload bytes of a packet.
pub const MTU: u32 = 32;
/// Bytes of memory that a node shares with its peers. All operations begin at the first byte, so
/// that they overlap.
pub const SHARED_BYTES: usize = 64;
/// Maximum number of operations of a program. Each has distinct bytes that identify it.
pub const OPERATIONS_MAX: usize = 8;

/// Error of parsing a program or bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What was expected, in the format that [`Program`] documents.
    pub(super) expected: &'static str,
    /// The text that was given.
    pub(super) text: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.text, self.expected)
    }
}

impl error::Error for ParseError {}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// WRITE of this many packets.
    Write(u32),
    /// READ of this many packets.
    Read(u32),
    /// Fetch-and-add of the first word.
    Atomic,
    /// SEND of this many packets.
    Send(u32),
    /// WRITE_IMM of one packet.
    WriteImmediate,
}

/// Whether an operation presents the right access secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Token {
    /// The right secret.
    #[default]
    Right,
    /// A wrong secret, so that the operation must be refused.
    Wrong,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The posting Jetty: an index into [`Program::jetties`].
    pub jetty: usize,
    /// Target node.
    pub node: usize,
    /// Kind of the operation.
    pub kind: Kind,
    /// Requested ordering.
    pub order: OrderRequest,
    /// Whether success generates a completion.
    pub signaled: bool,
    /// The access secret that it presents.
    pub token: Token,
}

/// A program: operations in the order in which they are posted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The node of each posting Jetty. On each node they are numbered from 1.
    pub jetties: Vec<usize>,
    /// The operations.
    pub operations: Vec<Operation>,
    /// A node that neither receives nor sends packets.
    pub dead: Option<usize>,
}

impl Operation {
    /// An operation of the first Jetty to node 1 that requests no order.
    pub fn new(kind: Kind) -> Self {
        let (order, token) = (OrderRequest::default(), Token::Right);
        Operation { jetty: 0, node: 1, kind, order, signaled: true, token }
    }

    /// Sets the service mode and the tag.
    #[must_use]
    pub fn tagged(mut self, mode: ServiceMode, tag: Tag) -> Self {
        (self.order.mode, self.order.tag) = (mode, tag);
        self
    }

    /// Adds a fence.
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.order.fence = true;
        self
    }

    /// Requests completion in order, both at the initiator and at the receiver.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.order.complete_in_order = true;
        self.order.receive_in_order = self.consumes_receive();
        self
    }

    /// Sets the posting Jetty.
    #[must_use]
    pub fn of(mut self, jetty: usize) -> Self {
        self.jetty = jetty;
        self
    }

    /// Sets the target node.
    #[must_use]
    pub fn to(mut self, node: usize) -> Self {
        self.node = node;
        self
    }

    /// Makes the operation present a wrong secret.
    #[must_use]
    pub fn refused(mut self) -> Self {
        self.token = Token::Wrong;
        self
    }

    /// True if its service mode guarantees delivery.
    pub fn is_reliable(&self) -> bool {
        self.order.mode != ServiceMode::Uno
    }

    /// True if it waits for earlier relaxed and strict operations.
    pub fn is_strict(&self) -> bool {
        self.is_reliable() && self.order.tag == Tag::So
    }

    /// True if later strict operations wait for it.
    pub fn is_awaited(&self) -> bool {
        self.is_reliable() && self.order.tag != Tag::No
    }

    /// True if a later fence waits for it.
    pub fn is_fetching(&self) -> bool {
        matches!(self.kind, Kind::Read(_) | Kind::Atomic)
    }

    /// True if it consumes a receive.
    pub fn consumes_receive(&self) -> bool {
        matches!(self.kind, Kind::Send(_) | Kind::WriteImmediate)
    }

    /// Number of packets of payload.
    pub fn packets(&self) -> u32 {
        match self.kind {
            Kind::Write(packets) | Kind::Read(packets) | Kind::Send(packets) => packets,
            Kind::Atomic | Kind::WriteImmediate => 1,
        }
    }

    /// Number of bytes that it moves.
    pub fn bytes(&self) -> usize {
        match self.kind {
            Kind::Atomic => 8,
            _ => (self.packets() * MTU) as usize,
        }
    }
}

impl Program {
    /// Makes a program of Jetties of node 0.
    pub fn new(operations: Vec<Operation>) -> Self {
        let jetties = operations.iter().map(|operation| operation.jetty + 1).max().unwrap_or(1);
        Program { jetties: vec![0; jetties], operations, dead: None }
    }

    /// True if operation `index` must fail.
    pub fn is_doomed(&self, index: usize) -> bool {
        let operation = &self.operations[index];
        let ends = [operation.node, self.jetties[operation.jetty]];
        let is_reachable = self.dead.is_none_or(|dead| !ends.contains(&dead));
        operation.is_reliable() && (operation.token == Token::Wrong || !is_reachable)
    }

    /// Number of nodes of the program.
    pub fn nodes(&self) -> usize {
        let targets = self.operations.iter().map(|operation| operation.node);
        let all = targets.chain(self.jetties.iter().copied());
        let nodes = all.max().unwrap_or(0) + 1;
        assert!(nodes <= NODES, "at most {NODES} nodes");
        nodes
    }

    /// Returns the bytes of operation `index`, which identify it: no two operations have a byte in
    /// common.
    pub fn payload(&self, index: usize) -> Vec<u8> {
        assert!(index < OPERATIONS_MAX, "at most {OPERATIONS_MAX} operations");
        let first = (index as u8 + 1) << 4;
        (0..self.operations[index].bytes()).map(|at| first | (at as u8 >> 3 & 15)).collect()
    }

    /// Returns the operation whose bytes begin with `byte`.
    pub fn owner(&self, byte: u8) -> Option<usize> {
        let index = usize::from(byte >> 4).checked_sub(1)?;
        (index < self.operations.len()).then_some(index)
    }

    /// Returns the operand of operation `index`, an atomic: no two atomics add the same.
    pub fn operand(&self, index: usize) -> u64 {
        1 << (8 * index)
    }

    /// Returns the atomic that adds `operand`.
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
            operation.set(word).ok_or_else(bad)?;
        }
        Ok(operation)
    }
}

impl Operation {
    fn set(&mut self, word: &str) -> Option<()> {
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

    /// Parses the printed form: the nodes of the Jetties, behind a slash the dead node, then the
    /// operations.
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
