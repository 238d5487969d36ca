//! Order that operations may request.

use fairway_ub::wire::{ServiceMode, Tag};
use fairway_ub::{OrderRequest, Work};

use crate::error::Error;

/// The order in which an operation is executed and reported (UB §7.3). Operations without an order,
/// the default, may overtake each other and everything else.
///
/// Order is between the operations of one [`crate::Jetty`]:
///
/// | it is | it waits for | strict ones after it wait for it |
/// |---|---|---|
/// | unordered (tag NO) | nothing | no |
/// | [relaxed](Order::relaxed) (tag RO) | nothing | yes |
/// | [strict](Order::strict) (tag SO) | all ordered ones before it | yes |
/// | [in memory order](Order::in_memory) (tag MO) | nothing: its effect waits at the target | yes |
///
/// The [`ServiceMode`] selects the side that enforces the order: the initiator, which does not
/// issue operations that have to wait (ROI); the target, which sets them aside (ROT); or the
/// transport below (ROL, the default).
///
/// ```
/// use fairway::{Order, ServiceMode};
///
/// // Data may arrive in any order; the flag that says "it is there" comes last.
/// let data = Order::relaxed(ServiceMode::Rot);
/// let flag = Order::strict(ServiceMode::Rot).completing_in_order();
/// assert_ne!(data, flag);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Order(OrderRequest);

impl Order {
    /// No order, in this service mode.
    pub fn unordered(mode: ServiceMode) -> Order {
        Order::with_tag(mode, Tag::No)
    }

    /// The operation does not wait, but later strict ones wait for it.
    pub fn relaxed(mode: ServiceMode) -> Order {
        Order::with_tag(mode, Tag::Ro)
    }

    /// The operation is executed after every earlier relaxed and strict one.
    pub fn strict(mode: ServiceMode) -> Order {
        Order::with_tag(mode, Tag::So)
    }

    /// The peer's memory changes as if the operation was executed after every earlier ordered one
    /// of its Jetty, and before every later one with this order; a READ returns the bytes of that
    /// moment. Packets may still arrive in any order: the target sets early ones aside, so nothing
    /// waits for a round trip. Completions are in order, too.
    ///
    /// Available for WRITEs, SENDs (in mode ROL), READs and atomics (in mode ROT): the mode is
    /// chosen when the operation is posted.
    pub fn in_memory() -> Order {
        Order::with_tag(ServiceMode::Rol, Tag::Mo).completing_in_order()
    }

    /// An order with this service mode and tag.
    pub fn with_tag(mode: ServiceMode, tag: Tag) -> Order {
        Order(OrderRequest { mode, tag, ..OrderRequest::default() })
    }

    /// A single packet that is neither acknowledged nor retransmitted (mode UNO): for WRITE and
    /// SEND of at most [`crate::Peer::mtu`] bytes. The operation completes when it has been sent.
    pub fn unreliable() -> Order {
        Order::unordered(ServiceMode::Uno)
    }

    /// The operation is sent only when every earlier READ and atomic of its Jetty has completed.
    #[must_use]
    pub fn fenced(self) -> Order {
        Order(OrderRequest { fence: true, ..self.0 })
    }

    /// The operation's completion comes after those of every earlier operation of its Jetty.
    #[must_use]
    pub fn completing_in_order(self) -> Order {
        Order(OrderRequest { complete_in_order: true, ..self.0 })
    }

    /// The receive that the operation consumes at the peer completes after those of every earlier
    /// operation of its Jetty, to the same peer, that set this flag. Without effect on operations
    /// that consume none, such as READs, so one order may serve for all.
    #[must_use]
    pub fn receiving_in_order(self) -> Order {
        Order(OrderRequest { receive_in_order: true, ..self.0 })
    }

    /// Returns the order to request from the protocol for `work`.
    pub(crate) fn request(self, work: &Work) -> OrderRequest {
        let mode = match work {
            Work::Read { .. } | Work::Atomic { .. } if self.0.tag == Tag::Mo => ServiceMode::Rot,
            _ => self.0.mode,
        };
        OrderRequest { mode, ..self.0 }
    }

    /// Checks that `work` on `length` bytes can have this order, in packets of `packet` bytes.
    pub(crate) fn check(self, work: &Work, length: u64, packet: u32) -> Result<(), Error> {
        let operation = name_of(work);
        let bypasses = matches!(work, Work::Load { .. } | Work::Store { .. });
        if bypasses && self != Order::default() {
            return Err(Error::Parameter {
                name: "order",
                value: format!("for a {operation}"),
                remedy: "loads and stores bypass the transport and keep none: post a READ or \
                         WRITE where order counts",
            });
        }
        let memory = self.0.tag == Tag::Mo;
        let carried = !matches!(work, Work::Put { .. } | Work::Get { .. });
        if memory && (!carried || self.0.mode != ServiceMode::Rol) {
            return Err(Error::Parameter {
                name: "order",
                value: format!("memory order of a {operation} in mode {:?}", self.0.mode),
                remedy: "use Order::in_memory(), with WRITEs, SENDs, READs and atomics",
            });
        }
        if self.0.mode != ServiceMode::Uno {
            return Ok(());
        }
        if self != Order::unreliable() {
            return Err(Error::Parameter {
                name: "order",
                value: format!("for a {operation} in mode UNO"),
                remedy: "leave out tag, fence and in-order completion, or choose ROI, ROT or ROL",
            });
        }
        let carried = matches!(
            work,
            Work::Write { .. }
                | Work::WriteImmediate { .. }
                | Work::Send { .. }
                | Work::SendImmediate { .. }
        );
        if !carried || length > u64::from(packet) {
            return Err(Error::Unreliable { operation, length, packet });
        }
        Ok(())
    }
}

/// The operation's standard name.
pub(crate) fn name_of(work: &Work) -> &'static str {
    match work {
        Work::Write { .. } => "WRITE",
        Work::WriteImmediate { .. } => "WRITE_IMM",
        Work::Read { .. } => "READ",
        Work::Send { .. } => "SEND",
        Work::SendImmediate { .. } => "SEND_IMM",
        Work::Atomic { .. } => "atomic",
        Work::Put { .. } => "PUT",
        Work::Get { .. } => "GET",
        Work::Load { .. } => "load",
        Work::Store { .. } => "store",
    }
}
