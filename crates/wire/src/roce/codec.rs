//! Encodes and decodes RoCEv2 packets. Sections are those of IBTA vol 1.

use super::packet::{
    AtomicEth, Bth, Deth, Operation, Packet, ReadFragment, Reth, SendFragment, Service, Tail,
    WriteFragment,
};
use super::syndrome::{Aeth, Syndrome};
use super::{DecodeError, ICRC_LEN, MAX_HEADER};
use crate::{Msn, Psn, Qpn};

/// BTH's opcodes (9.2, table 38): the upper three bits are the service.
mod opcode {
    pub const UC: u8 = 0x20;

    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_LAST_IMMEDIATE: u8 = 0x03;
    pub const SEND_ONLY: u8 = 0x04;
    pub const SEND_ONLY_IMMEDIATE: u8 = 0x05;
    pub const WRITE_FIRST: u8 = 0x06;
    pub const WRITE_MIDDLE: u8 = 0x07;
    pub const WRITE_LAST: u8 = 0x08;
    pub const WRITE_LAST_IMMEDIATE: u8 = 0x09;
    pub const WRITE_ONLY: u8 = 0x0a;
    pub const WRITE_ONLY_IMMEDIATE: u8 = 0x0b;
    pub const READ_REQUEST: u8 = 0x0c;
    pub const READ_RESPONSE_FIRST: u8 = 0x0d;
    pub const READ_RESPONSE_MIDDLE: u8 = 0x0e;
    pub const READ_RESPONSE_LAST: u8 = 0x0f;
    pub const READ_RESPONSE_ONLY: u8 = 0x10;
    pub const ACKNOWLEDGE: u8 = 0x11;
    pub const ATOMIC_ACKNOWLEDGE: u8 = 0x12;
    pub const COMPARE_SWAP: u8 = 0x13;
    pub const FETCH_ADD: u8 = 0x14;
    pub const SEND_LAST_INVALIDATE: u8 = 0x16;
    pub const SEND_ONLY_INVALIDATE: u8 = 0x17;
    pub const UD_SEND_ONLY: u8 = 0x64;
    pub const UD_SEND_ONLY_IMMEDIATE: u8 = 0x65;
    /// The congestion notification packet of Annex A17.
    pub const CNP: u8 = 0x81;
}

const BTH_LEN: usize = 12;
const RETH_LEN: usize = 16;
const AETH_LEN: usize = 4;
const ATOMIC_ETH_LEN: usize = 28;
const ATOMIC_ACK_ETH_LEN: usize = 8;
const DETH_LEN: usize = 8;
/// Length in bytes of ImmDt, and of IETH.
const IMMEDIATE_LEN: usize = 4;
/// Length in bytes of the reserved field behind BTH in a congestion notification.
const CNP_LEN: usize = 16;

/// The content of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The packet.
    pub packet: Packet,
    /// Where the payload begins, in bytes from the start of the datagram.
    pub header_len: usize,
    /// Length of the payload in bytes, without the padding behind it.
    pub payload_len: usize,
}

/// Length of a packet's headers in bytes.
pub fn header_len(packet: &Packet) -> usize {
    BTH_LEN + extension_len(opcode(&packet.operation)).unwrap_or(0)
}

/// Length of the whole datagram in bytes: headers, payload, padding and ICRC.
pub fn datagram_len(packet: &Packet, payload_len: usize) -> usize {
    header_len(packet) + payload_len + padding(payload_len) + ICRC_LEN
}

/// Bytes that fill `payload_len` up to a multiple of 4.
pub(super) const fn padding(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Writes the headers of `packet`, in front of `payload_len` bytes of payload, to the start of
/// `out`, and returns their length. [`Trailer`](super::Trailer) provides the bytes behind the
/// payload.
///
/// # Panics
///
/// If `out` is shorter than [`MAX_HEADER`]; if `payload_len` is not zero for a packet that carries
/// no payload; if a SEND over UC invalidates a key, for which UC has no opcode. All are mistakes of
/// the caller.
pub fn encode(packet: &Packet, payload_len: usize, out: &mut [u8]) -> usize {
    let Packet { bth, operation } = packet;
    assert!(payload_len == 0 || operation.carries_payload(), "payload behind a packet without any");
    let out: &mut [u8; MAX_HEADER] = out.first_chunk_mut().expect("room for MAX_HEADER bytes");
    let mut writer = Writer { out, length: 0 };
    let flags = flag(bth.solicited, 7) | flag(bth.migrated, 6) | (padding(payload_len) as u8) << 4;
    let [p_key1, p_key0] = bth.p_key.to_be_bytes();
    writer.put(&[opcode(operation), flags, p_key1, p_key0]);
    let congestion = flag(bth.fecn, 7) | flag(bth.becn, 6);
    writer.put_word(u32::from(congestion) << 24 | bth.destination.value());
    writer.put_word(u32::from(flag(bth.ack_request, 7)) << 24 | bth.psn.value());
    writer.put_extensions(operation);
    writer.length
}

/// Decodes the UDP payload of `datagram_len` bytes that begins with `header`.
///
/// `header` may be the whole datagram or only a prefix of it; a prefix of [`MAX_HEADER`] bytes is
/// always enough. Reserved bits are ignored, and the ICRC is not verified: see
/// [`Icrc`](super::Icrc).
pub fn decode(header: &[u8], datagram_len: usize) -> Result<Decoded, DecodeError> {
    let header = header.get(..datagram_len).unwrap_or(header);
    let available = header.len();
    let mut reader = Reader { rest: header };
    let short = DecodeError::TooShort { needed: BTH_LEN, available };
    let [code, flags, p_key1, p_key0] = reader.take().ok_or(short)?;
    let (second, third) = (reader.word().ok_or(short)?, reader.word().ok_or(short)?);
    if flags & 0xf != 0 {
        return Err(DecodeError::UnsupportedVersion(flags & 0xf));
    }
    let header_len = BTH_LEN + extension_len(code).ok_or(DecodeError::UnknownOpcode(code))?;
    let short = DecodeError::TooShort { needed: header_len, available };
    let operation = operation(code, &mut reader, short)?;
    let bth = Bth {
        destination: Qpn::new(second),
        psn: Psn::new(third),
        p_key: u16::from_be_bytes([p_key1, p_key0]),
        solicited: flags & 0x80 != 0,
        migrated: flags & 0x40 != 0,
        fecn: second & 1 << 31 != 0,
        becn: second & 1 << 30 != 0,
        ack_request: third & 1 << 31 != 0,
    };
    let payload_len = payload_len(datagram_len, header_len, usize::from(flags >> 4 & 0b11))?;
    if payload_len != 0 && !operation.carries_payload() {
        return Err(DecodeError::TooLong { extra: payload_len });
    }
    Ok(Decoded { packet: Packet { bth, operation }, header_len, payload_len })
}

/// Length of the payload; `pad` is the pad count in the header.
fn payload_len(datagram_len: usize, header_len: usize, pad: usize) -> Result<usize, DecodeError> {
    let needed = header_len + pad + ICRC_LEN;
    let short = DecodeError::TooShort { needed, available: datagram_len };
    let payload_len = datagram_len.checked_sub(needed).ok_or(short)?;
    match padding(payload_len) == pad {
        true => Ok(payload_len),
        false => Err(DecodeError::BadField { field: "PadCnt", value: pad as u32 }),
    }
}

fn opcode(operation: &Operation) -> u8 {
    match operation {
        Operation::Send { service, fragment } => {
            let code = match fragment {
                SendFragment::First => opcode::SEND_FIRST,
                SendFragment::Middle => opcode::SEND_MIDDLE,
                SendFragment::Last(Tail::Nothing) => opcode::SEND_LAST,
                SendFragment::Last(Tail::Immediate(_)) => opcode::SEND_LAST_IMMEDIATE,
                SendFragment::Last(Tail::Invalidate(_)) => opcode::SEND_LAST_INVALIDATE,
                SendFragment::Only(Tail::Nothing) => opcode::SEND_ONLY,
                SendFragment::Only(Tail::Immediate(_)) => opcode::SEND_ONLY_IMMEDIATE,
                SendFragment::Only(Tail::Invalidate(_)) => opcode::SEND_ONLY_INVALIDATE,
            };
            let reliable_only = code >= opcode::SEND_LAST_INVALIDATE;
            assert!(*service == Service::Rc || !reliable_only, "UC has no send with invalidate");
            service_bits(*service) | code
        }
        Operation::Write { service, fragment } => {
            service_bits(*service)
                | match fragment {
                    WriteFragment::First(_) => opcode::WRITE_FIRST,
                    WriteFragment::Middle => opcode::WRITE_MIDDLE,
                    WriteFragment::Last(None) => opcode::WRITE_LAST,
                    WriteFragment::Last(Some(_)) => opcode::WRITE_LAST_IMMEDIATE,
                    WriteFragment::Only(_, None) => opcode::WRITE_ONLY,
                    WriteFragment::Only(_, Some(_)) => opcode::WRITE_ONLY_IMMEDIATE,
                }
        }
        Operation::ReadRequest(_) => opcode::READ_REQUEST,
        Operation::ReadResponse(ReadFragment::First(_)) => opcode::READ_RESPONSE_FIRST,
        Operation::ReadResponse(ReadFragment::Middle) => opcode::READ_RESPONSE_MIDDLE,
        Operation::ReadResponse(ReadFragment::Last(_)) => opcode::READ_RESPONSE_LAST,
        Operation::ReadResponse(ReadFragment::Only(_)) => opcode::READ_RESPONSE_ONLY,
        Operation::Acknowledge(_) => opcode::ACKNOWLEDGE,
        Operation::AtomicAcknowledge { .. } => opcode::ATOMIC_ACKNOWLEDGE,
        Operation::CompareSwap(_) => opcode::COMPARE_SWAP,
        Operation::FetchAdd(_) => opcode::FETCH_ADD,
        Operation::Datagram { immediate: None, .. } => opcode::UD_SEND_ONLY,
        Operation::Datagram { immediate: Some(_), .. } => opcode::UD_SEND_ONLY_IMMEDIATE,
        Operation::Cnp => opcode::CNP,
    }
}

fn service_bits(service: Service) -> u8 {
    match service {
        Service::Rc => 0,
        Service::Uc => opcode::UC,
    }
}

/// The service of an opcode, and the opcode without its service bits. UC has the opcodes of RC up
/// to WRITE with immediate.
fn connected(code: u8) -> (Service, u8) {
    let plain = code & !opcode::UC;
    match code & opcode::UC != 0 && plain <= opcode::WRITE_ONLY_IMMEDIATE {
        true => (Service::Uc, plain),
        false => (Service::Rc, code),
    }
}

/// Length in bytes of the headers behind BTH; `None` for an unknown opcode.
fn extension_len(code: u8) -> Option<usize> {
    Some(match connected(code).1 {
        opcode::SEND_FIRST | opcode::SEND_MIDDLE | opcode::SEND_LAST | opcode::SEND_ONLY => 0,
        opcode::WRITE_MIDDLE | opcode::WRITE_LAST | opcode::READ_RESPONSE_MIDDLE => 0,
        opcode::SEND_LAST_IMMEDIATE
        | opcode::SEND_ONLY_IMMEDIATE
        | opcode::SEND_LAST_INVALIDATE
        | opcode::SEND_ONLY_INVALIDATE
        | opcode::WRITE_LAST_IMMEDIATE => IMMEDIATE_LEN,
        opcode::WRITE_FIRST | opcode::WRITE_ONLY | opcode::READ_REQUEST => RETH_LEN,
        opcode::WRITE_ONLY_IMMEDIATE => RETH_LEN + IMMEDIATE_LEN,
        opcode::READ_RESPONSE_FIRST
        | opcode::READ_RESPONSE_LAST
        | opcode::READ_RESPONSE_ONLY
        | opcode::ACKNOWLEDGE => AETH_LEN,
        opcode::ATOMIC_ACKNOWLEDGE => AETH_LEN + ATOMIC_ACK_ETH_LEN,
        opcode::COMPARE_SWAP | opcode::FETCH_ADD => ATOMIC_ETH_LEN,
        opcode::UD_SEND_ONLY => DETH_LEN,
        opcode::UD_SEND_ONLY_IMMEDIATE => DETH_LEN + IMMEDIATE_LEN,
        opcode::CNP => CNP_LEN,
        _ => return None,
    })
}

fn operation(
    code: u8,
    reader: &mut Reader<'_>,
    short: DecodeError,
) -> Result<Operation, DecodeError> {
    let (service, plain) = connected(code);
    let send = |fragment| Operation::Send { service, fragment };
    let write = |fragment| Operation::Write { service, fragment };
    Ok(match plain {
        opcode::SEND_FIRST => send(SendFragment::First),
        opcode::SEND_MIDDLE => send(SendFragment::Middle),
        opcode::SEND_LAST => send(SendFragment::Last(Tail::Nothing)),
        opcode::SEND_ONLY => send(SendFragment::Only(Tail::Nothing)),
        opcode::SEND_LAST_IMMEDIATE => {
            send(SendFragment::Last(Tail::Immediate(reader.word().ok_or(short)?)))
        }
        opcode::SEND_ONLY_IMMEDIATE => {
            send(SendFragment::Only(Tail::Immediate(reader.word().ok_or(short)?)))
        }
        opcode::SEND_LAST_INVALIDATE => {
            send(SendFragment::Last(Tail::Invalidate(reader.word().ok_or(short)?)))
        }
        opcode::SEND_ONLY_INVALIDATE => {
            send(SendFragment::Only(Tail::Invalidate(reader.word().ok_or(short)?)))
        }
        opcode::WRITE_FIRST => write(WriteFragment::First(reader.reth().ok_or(short)?)),
        opcode::WRITE_MIDDLE => write(WriteFragment::Middle),
        opcode::WRITE_LAST => write(WriteFragment::Last(None)),
        opcode::WRITE_LAST_IMMEDIATE => {
            write(WriteFragment::Last(Some(reader.word().ok_or(short)?)))
        }
        opcode::WRITE_ONLY => write(WriteFragment::Only(reader.reth().ok_or(short)?, None)),
        opcode::WRITE_ONLY_IMMEDIATE => {
            let reth = reader.reth().ok_or(short)?;
            write(WriteFragment::Only(reth, Some(reader.word().ok_or(short)?)))
        }
        opcode::READ_REQUEST => Operation::ReadRequest(reader.reth().ok_or(short)?),
        opcode::READ_RESPONSE_FIRST => {
            Operation::ReadResponse(ReadFragment::First(reader.aeth(short)?))
        }
        opcode::READ_RESPONSE_MIDDLE => Operation::ReadResponse(ReadFragment::Middle),
        opcode::READ_RESPONSE_LAST => {
            Operation::ReadResponse(ReadFragment::Last(reader.aeth(short)?))
        }
        opcode::READ_RESPONSE_ONLY => {
            Operation::ReadResponse(ReadFragment::Only(reader.aeth(short)?))
        }
        opcode::ACKNOWLEDGE => Operation::Acknowledge(reader.aeth(short)?),
        opcode::ATOMIC_ACKNOWLEDGE => {
            let aeth = reader.aeth(short)?;
            Operation::AtomicAcknowledge { aeth, original: reader.long().ok_or(short)? }
        }
        opcode::COMPARE_SWAP => Operation::CompareSwap(reader.atomic_eth().ok_or(short)?),
        opcode::FETCH_ADD => Operation::FetchAdd(reader.atomic_eth().ok_or(short)?),
        opcode::UD_SEND_ONLY => {
            Operation::Datagram { deth: reader.deth().ok_or(short)?, immediate: None }
        }
        opcode::UD_SEND_ONLY_IMMEDIATE => {
            let deth = reader.deth().ok_or(short)?;
            Operation::Datagram { deth, immediate: Some(reader.word().ok_or(short)?) }
        }
        opcode::CNP => {
            reader.take::<CNP_LEN>().ok_or(short)?;
            Operation::Cnp
        }
        _ => return Err(DecodeError::UnknownOpcode(code)),
    })
}

fn flag(set: bool, bit: u32) -> u8 {
    u8::from(set) << bit
}

struct Writer<'a> {
    out: &'a mut [u8; MAX_HEADER],
    length: usize,
}

impl Writer<'_> {
    fn put_extensions(&mut self, operation: &Operation) {
        match operation {
            Operation::Send {
                fragment: SendFragment::Last(tail) | SendFragment::Only(tail),
                ..
            } => match tail {
                Tail::Nothing => {}
                Tail::Immediate(word) | Tail::Invalidate(word) => self.put_word(*word),
            },
            Operation::Send { fragment: SendFragment::First | SendFragment::Middle, .. } => {}
            Operation::Write { fragment, .. } => match fragment {
                WriteFragment::First(reth) => self.put_reth(reth),
                WriteFragment::Middle => {}
                WriteFragment::Last(immediate) => self.put_immediate(immediate),
                WriteFragment::Only(reth, immediate) => {
                    self.put_reth(reth);
                    self.put_immediate(immediate);
                }
            },
            Operation::ReadRequest(reth) => self.put_reth(reth),
            Operation::ReadResponse(fragment) => match fragment {
                ReadFragment::First(aeth) | ReadFragment::Last(aeth) | ReadFragment::Only(aeth) => {
                    self.put_aeth(aeth);
                }
                ReadFragment::Middle => {}
            },
            Operation::Acknowledge(aeth) => self.put_aeth(aeth),
            Operation::AtomicAcknowledge { aeth, original } => {
                self.put_aeth(aeth);
                self.put(&original.to_be_bytes());
            }
            Operation::CompareSwap(atomic) | Operation::FetchAdd(atomic) => {
                self.put(&atomic.address.to_be_bytes());
                self.put_word(atomic.r_key);
                self.put(&atomic.swap_or_add.to_be_bytes());
                self.put(&atomic.compare.to_be_bytes());
            }
            Operation::Datagram { deth, immediate } => {
                self.put_word(deth.q_key);
                self.put_word(deth.source.value());
                self.put_immediate(immediate);
            }
            Operation::Cnp => self.put(&[0; CNP_LEN]),
        }
    }

    fn put_reth(&mut self, reth: &Reth) {
        self.put(&reth.address.to_be_bytes());
        self.put_word(reth.r_key);
        self.put_word(reth.length);
    }

    fn put_aeth(&mut self, aeth: &Aeth) {
        self.put_word(u32::from(aeth.syndrome.to_byte()) << 24 | aeth.msn.value());
    }

    fn put_immediate(&mut self, immediate: &Option<u32>) {
        if let Some(word) = immediate {
            self.put_word(*word);
        }
    }

    fn put_word(&mut self, word: u32) {
        self.put(&word.to_be_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn reth(&mut self) -> Option<Reth> {
        Some(Reth { address: self.long()?, r_key: self.word()?, length: self.word()? })
    }

    fn atomic_eth(&mut self) -> Option<AtomicEth> {
        let (address, r_key) = (self.long()?, self.word()?);
        Some(AtomicEth { address, r_key, swap_or_add: self.long()?, compare: self.long()? })
    }

    fn deth(&mut self) -> Option<Deth> {
        Some(Deth { q_key: self.word()?, source: Qpn::new(self.word()?) })
    }

    fn aeth(&mut self, short: DecodeError) -> Result<Aeth, DecodeError> {
        let word = self.word().ok_or(short)?;
        let byte = (word >> 24) as u8;
        let unknown = DecodeError::BadField { field: "Syndrome", value: u32::from(byte) };
        let syndrome = Syndrome::from_byte(byte).ok_or(unknown)?;
        Ok(Aeth { syndrome, msn: Msn::new(word) })
    }
}
