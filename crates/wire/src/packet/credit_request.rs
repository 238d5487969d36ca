//! Packets without a sequence number that may be lost: what they say is said again.

/// What a sender would like to send on credit (RTS of EQDS). May be lost: it is said again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditRequest {
    /// Bytes, headers included: all since the channel opened, those that have been sent and those
    /// that wait. At most [`CREDIT_MAX`].
    pub total_bytes: u64,
    /// Some of what waits has been lost before.
    pub resend: bool,
    /// It has no credit left, and waits.
    pub blocked: bool,
}

/// What a receiver has granted. May be lost: the next one says it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Bytes, headers included: all since the channel opened. At most [`CREDIT_MAX`].
    pub total_bytes: u64,
}

/// Measures the round trip of a path out of band, or answers one that does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// The question's number, which its answer repeats: 31 bits.
    pub number: u32,
    /// In an answer, how long it was since the question had arrived; `None` in a question. In
    /// nanoseconds, saturating.
    pub turn_ns: Option<u32>,
}

impl Probe {
    /// The highest number.
    pub const NUMBER_MAX: u32 = (1 << 31) - 1;
}

/// The highest total of demand or credit, in bytes.
pub const CREDIT_MAX: u64 = (1 << 62) - 1;
