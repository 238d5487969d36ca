//! A trace of events as readable lines, and as one hash that two runs can compare.

use fairway_ub::wire::{Ack, AckFlags, Data, Instant, Operation, Order, Packet, Route};
use std::fmt;
use std::io::Write;

/// Destination of the lines, if any, and the hash of all events.
pub struct Trace {
    sink: Option<Box<dyn Write>>,
    hash: u64,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({:#018x})", self.hash)
    }
}

impl Trace {
    /// Makes a trace that writes to `sink`; with `None` only the hash is kept.
    pub fn new(sink: Option<Box<dyn Write>>) -> Self {
        Trace { sink, hash: 0xCBF2_9CE4_8422_2325 }
    }

    /// Hash of all events so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Adds `number` to the hash.
    pub(crate) fn stir(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }

    /// Adds `bytes` to the hash, eight at a time.
    pub(crate) fn stir_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.stir(u64::from_le_bytes(word));
        }
    }

    /// Writes a line, if the trace is on.
    pub(crate) fn line(&mut self, now: Instant, node: usize, text: impl FnOnce() -> String) {
        self.stir(now.as_ps() ^ (node as u64) << 56);
        if let Some(sink) = &mut self.sink {
            let ns = now.as_ps() / 1000;
            // A failure to write the trace must not change the run.
            let _ = writeln!(sink, "{:>9}.{:03} us  node {node}  {}", ns / 1000, ns % 1000, text());
        }
    }
}

/// Formats a packet in one line.
pub(crate) fn summary(route: &Route, packet: &Packet, payload: u32) -> String {
    let what = match packet {
        Packet::Data(data) => data_summary(data, payload),
        Packet::Ack(ack) => ack_summary(ack),
        Packet::Nak(nak) => {
            format!("NAK psn {} msg {} {:?}", nak.psn.value(), nak.message.value(), nak.reason)
        }
        Packet::Void(void) => format!("VOID psn {}", void.psn.value()),
        Packet::CreditRequest(demand) => format!("DEMAND {}", demand.total_bytes),
        Packet::Credit(credit) => format!("CREDIT {}", credit.total_bytes),
        Packet::Probe(probe) => match probe.turn_ns {
            Some(turn_ns) => format!("PROBE {} answered after {turn_ns} ns", probe.number),
            None => format!("PROBE {}", probe.number),
        },
        Packet::Retire(retire) => {
            let answer = if retire.answer { " answer" } else { "" };
            format!("RETIRE {:x}{answer}", retire.channel.value())
        }
        Packet::Close(close) => format!("CLOSE{}", if close.answer { " answer" } else { "" }),
        Packet::Datagram(datagram) => {
            format!("UNRELIABLE {} +{payload}", operation_summary(&datagram.operation))
        }
        Packet::Bypass(bypass) => {
            format!("BYPASS {} {:?} +{payload}", bypass.number, bypass.operation)
        }
    };
    format!(
        "{:06x}/{:x} > {:06x}/{:x} path {}: {what}",
        route.source.value(),
        route.source_tpn.value(),
        route.destination.value(),
        route.destination_tpn.value(),
        route.path
    )
}

fn data_summary(data: &Data, payload: u32) -> String {
    let operation = operation_summary(&data.operation);
    let order = match data.order {
        Order::NONE => String::new(),
        order => format!(" {order:?}"),
    };
    let flags = [(data.ack_request, " ask"), (data.retry, " retry"), (data.last, " last")];
    let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    let carried = data.carried.map(|ack| format!(" ACK {}", ack.cumulative().value()));
    let carried = carried.unwrap_or_default();
    format!(
        "psn {} msg {}[{}] slot {} {operation}{order} +{payload}{flags}{carried}",
        data.psn.value(),
        data.message.value(),
        data.index,
        data.slot
    )
}

fn operation_summary(operation: &Operation) -> String {
    match *operation {
        Operation::Write { access } => format!("WRITE {} bytes", { access.length }),
        Operation::WriteImmediate { access, .. } => {
            format!("WRITE_IMM {} bytes", { access.length })
        }
        Operation::Send { length, target } => {
            format!("SEND {length} bytes to {}", target.jetty.value())
        }
        Operation::SendImmediate { length, target, .. } => {
            format!("SEND_IMM {length} bytes to {}", target.jetty.value())
        }
        Operation::Continuation => String::from("START_KNOWN"),
        Operation::WritePart(part) => format!("WRITE part, {} bytes", { part.access.length }),
        Operation::ReadPart(part) => format!("READ part, {} bytes", { part.access.length }),
        Operation::Read { access } => format!("READ {} bytes", { access.length }),
        Operation::ReadResponse => String::from("RESPONSE"),
        Operation::Done { refusal: None, others, .. } => format!("DONE {}", 1 + others.len()),
        other => format!("{other:?}"),
    }
}

fn ack_summary(ack: &Ack) -> String {
    let mut text = format!("ACK {} window {}", ack.cumulative.value(), ack.window);
    if ack.flags.contains(AckFlags::ECHO) {
        text += &format!(" echo {}", ack.echo.value());
    }
    if ack.flags.contains(AckFlags::START_KNOWN) {
        text += &format!(" learned {}", ack.start_known.value());
    }
    if ack.flags.contains(AckFlags::SELECTIVE) {
        let map: Vec<String> = ack.sack.bitmap.iter().map(|word| format!("{word:x}")).collect();
        text += &format!(
            " sack {}..{} [{}]",
            ack.sack.base.value(),
            ack.sack.highest.value(),
            map.join(",")
        );
    }
    if ack.flags.contains(AckFlags::REQUEST) {
        text += " probe";
    }
    text
}
