//! AETH: the content of an acknowledgement (IBTA vol 1, 9.7.5).

use crate::{Duration, Msn};

/// ACK extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// The outcome of the request.
    pub syndrome: Syndrome,
    /// Number of messages that the responder has completed.
    pub msn: Msn,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// The request, and all before it, have been executed.
    Ack(Credits),
    /// The receiver was not ready: the requester has to retransmit after this time.
    RnrNak(RnrTimer),
    /// The request was refused.
    Nak(NakCode),
}

/// End-to-end credits: how many more messages that need a posted receive the responder can accept
/// (IBTA vol 1, 9.7.7.2), as a code of 5 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits(u8);

impl Credits {
    /// The responder counts no credits (code 31), so they do not limit a send queue.
    pub const UNLIMITED: Credits = Credits(31);

    /// The meaning of the credit codes: 0 to 4 one by one, then two steps to every doubling.
    const COUNTS: [u32; 31] = {
        let mut counts = [0; 31];
        let mut code = 0;
        while code < 31 {
            counts[code] = match code {
                0..4 => code as u32,
                // 4, 6, 8, 12, 16, 24, …
                _ if code.is_multiple_of(2) => 4 << ((code - 4) / 2),
                _ => 6 << ((code - 5) / 2),
            };
            code += 1;
        }
        counts
    };

    /// The number of credits, or `None` if credits are not counted.
    pub fn count(self) -> Option<u32> {
        Self::COUNTS.get(usize::from(self.0)).copied()
    }

    /// The largest code that stands for no more than `count` credits.
    pub fn at_most(count: u32) -> Credits {
        let codes = Self::COUNTS.iter().take_while(|&&promised| promised <= count).count();
        Credits((codes - 1) as u8)
    }

    /// The credits of the low 5 bits of `code`.
    pub const fn from_code(code: u8) -> Credits {
        Credits(code & 31)
    }

    /// The code on the wire.
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// How long a requester waits before it retransmits, as a code of 5 bits (IBTA vol 1, 9.7.5.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// Hundredths of a millisecond by code; code 0 is the longest.
    const HUNDREDTHS: [u32; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
        1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];

    /// The timer of the low 5 bits of `code`.
    pub const fn from_code(code: u8) -> RnrTimer {
        RnrTimer(code & 31)
    }

    /// The code on the wire.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time to wait: 10 µs to 655.36 ms.
    pub const fn duration(self) -> Duration {
        Duration::from_us(10 * Self::HUNDREDTHS[self.0 as usize] as u64)
    }
}

/// Why a request was refused (IBTA vol 1, 9.7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing: the requester has to retransmit everything from the PSN in BTH.
    PsnSequence = 0,
    /// The request is invalid here: its opcode, its length or the order of its packets.
    InvalidRequest = 1,
    /// The R_Key, the bounds or the rights do not permit the access.
    RemoteAccess = 2,
    /// The responder failed.
    RemoteOperational = 3,
    /// Used by reliable datagrams only.
    InvalidRdRequest = 4,
}

impl NakCode {
    const ALL: [NakCode; 5] = [
        NakCode::PsnSequence,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperational,
        NakCode::InvalidRdRequest,
    ];
}

impl Syndrome {
    /// The byte on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack(credits) => credits.code(),
            Syndrome::RnrNak(timer) => 0b01 << 5 | timer.code(),
            Syndrome::Nak(code) => 0b11 << 5 | code as u8,
        }
    }

    /// The syndrome in the byte on the wire, whose top bit is reserved; `None` for reserved values.
    pub fn from_byte(byte: u8) -> Option<Syndrome> {
        match byte >> 5 & 0b11 {
            0b00 => Some(Syndrome::Ack(Credits::from_code(byte))),
            0b01 => Some(Syndrome::RnrNak(RnrTimer::from_code(byte))),
            0b11 => NakCode::ALL.get(usize::from(byte & 31)).copied().map(Syndrome::Nak),
            _ => None,
        }
    }
}
