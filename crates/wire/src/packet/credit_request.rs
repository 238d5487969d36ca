//! Packets without a sequence number. A later one repeats the content, so each may be lost.

use super::Priority;

/// Credit request: how much a sender could send (RTS of EQDS). May be lost, because it is repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreditRequest {
    /// Bytes, headers included, that the sender has sent or that are waiting, counted since the
    /// channel opened. At most [`CREDIT_MAX`].
    pub total_bytes: u64,
    /// True if some of the waiting bytes were lost before.
    pub resend: bool,
    /// True if the sender has no credit left and waits for some.
    pub blocked: bool,
}

/// Credit that a receiver has granted. May be lost, because the next one repeats the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Bytes, headers included, granted since the channel opened. At most [`CREDIT_MAX`].
    pub total_bytes: u64,
    /// The class of data that is sent on credit from now on, a class of data.
    pub class: Priority,
}

/// A request that measures the round trip of a path out of band, or the answer to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// The request's number, which its answer repeats: 31 bits.
    pub number: u32,
    /// In an answer, the time since the request had arrived, in nanoseconds, saturating; `None` in
    /// a request.
    pub turn_ns: Option<u32>,
}

impl Probe {
    /// The highest number.
    pub const NUMBER_MAX: u32 = (1 << 31) - 1;
}

/// The highest total of a credit request or a credit, in bytes.
pub const CREDIT_MAX: u64 = (1 << 62) - 1;
