//! Messages between the two sides of a measurement.
//!
//! Each row of a measurement is one session (and each flow, if several are measured at once): `Run`
//! and `Ready`, the operations, any number of `Check` and `Checked`, then `Finish` and `Verdict`.
//! Every message begins with [`PROTOCOL`], the version and its kind; fields are big-endian.

use fairway::{MailboxAddress, SegmentKey};

use super::operation::Operation;
use super::order::OrderRequest;
use super::slots::{Mismatch, Payload, Tally};
use crate::codec::{MessageError, Reader, Writer};

/// Number of the server's Jetty for these messages.
pub(crate) const JETTY: u32 = 1000;
/// Length of the longest message in bytes: a `Finish` of [`SLOTS_MAX`] generations.
pub(crate) const MESSAGE_BYTES: u64 = 64 * 1024 + 64;
/// Mailbox address of both sides for puts.
pub(crate) const MAILBOX: u64 = 0x5055_5453;
/// Largest number of an initiator's slots.
pub(crate) const SLOTS_MAX: u32 = 16 * 1024;

const PROTOCOL: [u8; 4] = *b"FwPf";
const VERSION: u8 = 3;

/// Parameters of a session that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Number that distinguishes a client's simultaneous sessions.
    pub(crate) session: u32,
    pub(crate) operation: Operation,
    /// Bytes per operation.
    pub(crate) size: u64,
    pub(crate) slots: u32,
    pub(crate) depth: u32,
    pub(crate) seed: u64,
    /// Bytes from one stamp to the next.
    pub(crate) block: u32,
    pub(crate) verify: bool,
    /// Whether the server's application answers every message.
    pub(crate) ping_pong: bool,
    /// Order requested for every operation.
    pub(crate) order: OrderRequest,
}

impl Run {
    /// Mailbox address for puts of this session, on either side.
    pub(crate) fn mail_to(&self) -> MailboxAddress {
        MailboxAddress::new(MAILBOX, self.seed as u32)
    }
}

/// Counters of one side during a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    pub(crate) sent: u64,
    pub(crate) resent: u64,
    pub(crate) duplicate: u64,
    pub(crate) acks: u64,
    /// Data packets that left out their address, because the receiver had recorded it.
    pub(crate) continuation_packets: u64,
    /// Header bytes saved by those packets.
    pub(crate) saved_bytes: u64,
    /// Unreliable packets that arrived.
    pub(crate) datagrams: u64,
    /// Operations that waited at the initiator for earlier ones.
    pub(crate) gated: u64,
    /// Operations that the target looked up in its tracker.
    pub(crate) gates_passed: u64,
    /// Operations that the target deferred until those before them were executed.
    pub(crate) held: u64,
    /// Operations that the target returned because they arrived too early.
    pub(crate) sent_back: u64,
}

impl Packets {
    /// The counters in the order in which they are sent.
    fn fields(&mut self) -> [&mut u64; 11] {
        let Packets {
            sent,
            resent,
            duplicate,
            acks,
            continuation_packets,
            saved_bytes,
            datagrams,
            gated,
            gates_passed,
            held,
            sent_back,
        } = self;
        [
            sent,
            resent,
            duplicate,
            acks,
            continuation_packets,
            saved_bytes,
            datagrams,
            gated,
            gates_passed,
            held,
            sent_back,
        ]
    }

    /// The increase since `before`.
    pub(crate) fn since(mut self, mut before: Packets) -> Packets {
        for (now, before) in self.fields().into_iter().zip(before.fields()) {
            *now = now.saturating_sub(*before);
        }
        self
    }

    /// The sum of both sides' counters.
    pub(crate) fn with(mut self, mut other: Packets) -> Packets {
        for (own, other) in self.fields().into_iter().zip(other.fields()) {
            *own += *other;
        }
        self
    }
}

/// A message of client or server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// From the client: requests a session.
    Run(Run),
    /// From the server: the key of the memory, and the Jetty for the operations.
    Ready { key: SegmentKey, jetty: u32 },
    /// From the client: this slot is idle and is to be compared.
    Check(u32, Payload),
    /// From the server: the result of the comparison, and its duration.
    Checked { tally: Tally, spent_ns: u64 },
    /// From the client: the session ends. The generation of every slot; zero if it was never used.
    Finish(u32, Vec<u32>),
    /// From the server: the results of all comparisons, and the counters.
    Verdict { tally: Tally, messages: u64, packets: Packets },
    /// From the server: the request is refused, for this reason.
    Refusal(String),
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let start = |kind| Writer::message(PROTOCOL, VERSION, kind);
        match self {
            Message::Run(run) => {
                let mut out = start(1);
                out.u8(run.operation as u8);
                out.u8(u8::from(run.verify) | u8::from(run.ping_pong) << 1);
                out.u8(run.order.to_byte());
                out.u64(run.size);
                [run.session, run.slots, run.depth, run.block]
                    .iter()
                    .for_each(|value| out.u32(*value));
                out.u64(run.seed);
                out.finish()
            }
            Message::Ready { key, jetty } => {
                let mut out = start(2);
                out.bytes(&key.to_bytes());
                out.u32(*jetty);
                out.finish()
            }
            Message::Check(session, payload) => {
                let mut out = start(3);
                out.u32(*session);
                out.u32(payload.slot);
                out.u32(payload.generation);
                out.finish()
            }
            Message::Checked { tally, spent_ns } => {
                let mut out = start(4);
                put_tally(&mut out, tally);
                out.u64(*spent_ns);
                out.finish()
            }
            Message::Finish(session, generations) => {
                let mut out = start(5);
                out.u32(*session);
                generations.iter().for_each(|generation| out.u32(*generation));
                out.finish()
            }
            Message::Verdict { tally, messages, packets } => {
                let mut out = start(6);
                put_tally(&mut out, tally);
                out.u64(*messages);
                let mut packets = *packets;
                packets.fields().into_iter().for_each(|value| out.u64(*value));
                out.finish()
            }
            Message::Refusal(reason) => {
                let mut out = start(7);
                out.bytes(reason.as_bytes());
                out.finish()
            }
        }
    }

    /// Decodes the message in `bytes`, or returns why there is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        let (kind, fields) = Reader::message("fairway perf", PROTOCOL, VERSION, bytes)?;
        Self::fields(kind, fields).ok_or(MessageError::Kind(kind))
    }

    fn fields(kind: u8, mut fields: Reader<'_>) -> Option<Message> {
        let message = match kind {
            1 => Message::Run(take_run(&mut fields)?),
            2 => Message::Ready {
                key: SegmentKey::from_bytes(&fields.array()?),
                jetty: fields.u32()?,
            },
            3 => {
                let session = fields.u32()?;
                Message::Check(session, Payload { slot: fields.u32()?, generation: fields.u32()? })
            }
            4 => Message::Checked { tally: take_tally(&mut fields)?, spent_ns: fields.u64()? },
            5 => {
                let session = fields.u32()?;
                let mut generations = Vec::new();
                while let Some(generation) = fields.u32() {
                    generations.push(generation);
                }
                Message::Finish(session, generations)
            }
            6 => {
                let tally = take_tally(&mut fields)?;
                let messages = fields.u64()?;
                let mut packets = Packets::default();
                for field in packets.fields() {
                    *field = fields.u64()?;
                }
                Message::Verdict { tally, messages, packets }
            }
            7 => Message::Refusal(String::from_utf8_lossy(fields.rest()).into_owned()),
            _ => return None,
        };
        fields.end(message)
    }
}

fn take_run(fields: &mut Reader<'_>) -> Option<Run> {
    let operation = *Operation::ALL.get(usize::from(fields.u8()?))?;
    let flags = fields.u8()?;
    Some(Run {
        operation,
        verify: flags & 1 != 0,
        ping_pong: flags & 2 != 0,
        order: OrderRequest::from_byte(fields.u8()?)?,
        size: fields.u64()?,
        session: fields.u32()?,
        slots: fields.u32()?,
        depth: fields.u32()?,
        block: fields.u32()?,
        seed: fields.u64()?,
    })
}

fn put_tally(out: &mut Writer, tally: &Tally) {
    [tally.verified, tally.mismatches, tally.misplaced].iter().for_each(|value| out.u64(*value));
    let Some(Mismatch { payload, offset, expected, found }) = tally.first else {
        return out.u8(0);
    };
    out.u8(1);
    out.u32(payload.slot);
    out.u32(payload.generation);
    out.u64(offset);
    out.u8(expected);
    out.u8(found);
}

fn take_tally(fields: &mut Reader<'_>) -> Option<Tally> {
    let mut tally = Tally {
        verified: fields.u64()?,
        mismatches: fields.u64()?,
        misplaced: fields.u64()?,
        first: None,
    };
    if fields.u8()? != 0 {
        tally.first = Some(Mismatch {
            payload: Payload { slot: fields.u32()?, generation: fields.u32()? },
            offset: fields.u64()?,
            expected: fields.u8()?,
            found: fields.u8()?,
        });
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let payload = Payload { slot: 3, generation: 9 };
        let first = Some(Mismatch { payload, offset: 77, expected: 1, found: 2 });
        let tally = Tally { verified: 5, mismatches: 4, first, misplaced: 2 };
        let key = SegmentKey { token_id: 1, token_value: 2, address: 3, length: 4 };
        let run = Run {
            session: 5,
            operation: Operation::Send,
            size: 65_536,
            slots: 128,
            depth: 64,
            seed: 7,
            block: 4096,
            verify: true,
            ping_pong: true,
            order: OrderRequest::from_byte(0b1_1001).expect("an order"),
        };
        let mut packets = Packets::default();
        for (value, field) in (1..).zip(packets.fields()) {
            *field = value;
        }
        vec![
            Message::Run(run),
            Message::Run(Run { operation: Operation::Put, verify: false, ..run }),
            Message::Ready { key, jetty: 8 },
            Message::Check(5, payload),
            Message::Checked { tally, spent_ns: 6 },
            Message::Checked { tally: Tally::default(), spent_ns: 6 },
            Message::Finish(5, vec![]),
            Message::Finish(5, vec![1, 2, 3]),
            Message::Verdict { tally, messages: 8, packets },
            Message::Refusal("no".into()),
        ]
    }

    #[test]
    fn every_message_survives() {
        for message in messages() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error() {
        for message in messages() {
            let bytes = message.encode();
            for end in 0..bytes.len() {
                // Texts and lists have no fixed length.
                let open = matches!(message, Message::Refusal(_) | Message::Finish(..));
                assert!(open || Message::decode(&bytes[..end]).is_err(), "{message:?} {end}");
            }
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0xff;
                let _ = Message::decode(&damaged);
            }
        }
        let mut other = messages()[0].encode();
        other[4] = 9;
        assert!(
            Message::decode(&other).is_err_and(|error| error.to_string().contains("version 9"))
        );
    }
}
