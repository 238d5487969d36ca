//! What the engine asks of a receiver that decides when its senders may send.
//!
//! A sender says how much it wants to send ([`CongestionControl::credit_request`]), the receiver
//! grants credit, and the sender spends it ([`CongestionControl::allowance_bytes`]). Both numbers
//! are *running totals* on the wire: a packet of either kind that is lost is made good by the next
//! one, and none is counted twice. A receiver's NIC has one [`CreditPolicy`] for all its senders.
//!
//! [`CongestionControl::credit_request`]: crate::CongestionControl::demand
//! [`CongestionControl::allowance_bytes`]: crate::CongestionControl::allowance_bytes

pub use fairway_wire::CreditRequest;
use fairway_wire::{Duration, Instant};

mod account;
mod eqds;
mod homa;
mod lists;
#[cfg(test)]
mod model;
mod sender;

pub use eqds::{Eqds, EqdsParameters};
pub use homa::{Homa, HomaParameters};
pub use sender::{CreditSender, CreditSenderParameters};

/// A sender as its receiver knows it: one of the receiver's TP channels. A dense index, which is
/// used again after [`CreditPolicy::source_gone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

impl SourceId {
    /// Its place in arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a receiver tells a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The sender that it is granted to.
    pub source: SourceId,
    /// Bytes more than it has been granted so far. Zero repeats the running total, for a sender
    /// that seems to have missed some of it.
    pub bytes: u32,
}

/// Decides which sender may send when. One object per NIC, at the receiver.
///
/// After each call that tells it something, and when [`Self::poll_at`] is there, the engine calls
/// [`Self::poll_credit`] until there is none.
pub trait CreditPolicy: Send {
    /// The name under which it is chosen.
    fn name(&self) -> &'static str;
    /// A sender has said what it wants.
    fn announced(&mut self, now: Instant, source: SourceId, credit_request: &CreditRequest);
    /// Data has arrived, `bytes` with headers, on credit or not.
    fn on_data(&mut self, now: Instant, source: SourceId, bytes: u32);
    /// A channel has closed.
    fn source_gone(&mut self, now: Instant, source: SourceId);
    /// The next credit, if one is due.
    fn poll_credit(&mut self, now: Instant) -> Option<Credit>;
    /// When the next one is due, if that is known.
    fn poll_at(&self) -> Option<Instant>;
}

/// How long `bytes` take at `bits_per_second`, which is not zero.
fn time_of(bytes: u64, bits_per_second: u64) -> Duration {
    const PS_PER_SECOND: u128 = 1_000_000_000_000;
    let picoseconds = u128::from(bytes) * 8 * PS_PER_SECOND / u128::from(bits_per_second);
    Duration::from_ps(u64::try_from(picoseconds).unwrap_or(u64::MAX))
}
