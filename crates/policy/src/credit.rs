//! The interface between the protocol and a receiver that decides when its senders may send.
//!
//! A sender requests credit ([`CongestionControl::credit_request`]), the receiver grants it, and
//! the sender spends it ([`CongestionControl::allowance_bytes`]). Both numbers are *running totals*
//! on the wire: a lost packet of either kind is replaced by the next one, and none counts twice. A
//! receiver's NIC has one [`CreditPolicy`] for all its senders.
//!
//! [`CongestionControl::credit_request`]: crate::CongestionControl::credit_request
//! [`CongestionControl::allowance_bytes`]: crate::CongestionControl::allowance_bytes

pub use fairway_wire::CreditRequest;
use fairway_wire::{Duration, Instant};

mod account;
mod classes;
mod eqds;
mod homa;
mod lists;
#[cfg(test)]
mod model;
mod sender;

pub use classes::{DATA_CLASSES, UnscheduledClasses};
pub use eqds::{Eqds, EqdsParameters};
pub use homa::{Homa, HomaParameters};
pub use sender::{CreditSender, CreditSenderParameters};

/// A sender, as identified by its receiver: one of the receiver's TP channels. It is a dense index,
/// which is reused after [`CreditPolicy::source_gone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

impl SourceId {
    /// The number as an index of arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A grant of a receiver to a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The sender that receives the grant.
    pub source: SourceId,
    /// Bytes granted in addition to all earlier grants. Zero repeats the running total, for a
    /// sender that seems to have missed an earlier grant.
    pub bytes: u32,
    /// Class of data, 0 (the lowest) to 6, in which the sender is to send on its credit.
    pub class: u8,
}

/// Decides which sender may send when. One object per NIC, at the receiver.
///
/// After each call of [`Self::announced`], [`Self::on_data`] or [`Self::source_gone`], and at the
/// time of [`Self::poll_at`], the protocol calls [`Self::poll_credit`] until it returns `None`.
pub trait CreditPolicy: Send {
    /// Name of the policy in a specification.
    fn name(&self) -> &'static str;
    /// A credit request of a sender has arrived.
    fn announced(&mut self, now: Instant, source: SourceId, credit_request: &CreditRequest);
    /// `bytes` of data, headers included, have arrived, with or without credit.
    fn on_data(&mut self, now: Instant, source: SourceId, bytes: u32);
    /// The channel of a sender has closed.
    fn source_gone(&mut self, now: Instant, source: SourceId);
    /// The next grant, if one is due.
    fn poll_credit(&mut self, now: Instant) -> Option<Credit>;
    /// When the next grant is due, if that is known.
    fn poll_at(&self) -> Option<Instant>;
}

/// Transmission time of `bytes` at `bits_per_second`, which is not zero.
fn time_of(bytes: u64, bits_per_second: u64) -> Duration {
    const PS_PER_SECOND: u128 = 1_000_000_000_000;
    let picoseconds = u128::from(bytes) * 8 * PS_PER_SECOND / u128::from(bits_per_second);
    Duration::from_ps(u64::try_from(picoseconds).unwrap_or(u64::MAX))
}
