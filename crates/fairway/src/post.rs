//! The operations, defined once for all the ways to post them.

use fairway_ub::wire::BYPASS_BYTES;
use fairway_ub::{LocalRange, Work, WorkRequest};
use std::sync::Arc;

use crate::completion::WrId;
use crate::error::Error;
use crate::key::RemoteSlice;
use crate::mailbox::MailboxAddress;
use crate::order::{Order, name_of};
use crate::peer::Peer;
use crate::segment::LocalSlice;
use crate::shared::Handle;
use crate::target::{NotifyTarget, To};
use crate::word::{AtomicOp, RemoteWord};

/// Accepts operations: a [`crate::Jetty`] posts each at once, a [`crate::Batch`] collects them to
/// post them together, and the result of [`Post::ordered`] adds an [`Order`] to each.
///
/// Every operation has a number of the caller's choice, which its completion contains. Every method
/// fails, and posts nothing, if a range is not within its segment, an object belongs to another
/// context, the peer is gone, or too much is in flight.
///
/// ```no_run
/// # use fairway::{Jetty, Order, Peer, Post, Segment, SegmentKey, ServiceMode};
/// # fn example(jetty: &Jetty, peer: &Peer, data: &Segment, key: SegmentKey)
/// # -> Result<(), fairway::Error> {
/// jetty.write(peer, data.slice(0..4096), key, 1)?;
/// // Not before everything that was relaxed or strict:
/// let last = jetty.ordered(Order::strict(ServiceMode::Rot));
/// last.fetch_add(peer, key.at(4096).word64(), 1, 2)?;
/// # Ok(())
/// # }
/// ```
pub trait Post<'a> {
    /// Accepts an operation.
    ///
    /// # Errors
    /// Nothing was posted: see above.
    fn post(&self, operation: Operation<'_, 'a>) -> Result<(), Error>;

    /// Returns a view that posts operations with this order.
    fn ordered(&self, order: Order) -> Ordered<'_, Self>
    where
        Self: Sized,
    {
        Ordered { inner: self, order }
    }

    /// Copies `local` to `remote`.
    ///
    /// # Errors
    /// As for all operations.
    fn write(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let work = Work::Write { remote: remote.into().range() };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Copies `local` to `remote`; then a receive of the peer's Jetty completes with the immediate
    /// data.
    ///
    /// # Errors
    /// As for all operations.
    fn write_immediate(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        notify: NotifyTarget,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let (remote, target) = (remote.into().range(), notify.to.target()?);
        let work = Work::WriteImmediate { remote, target, immediate: notify.immediate };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Copies from `remote` to `local`.
    ///
    /// # Errors
    /// As for all operations; or the local memory can't be written.
    fn read(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let work = Work::Read { remote: remote.into().range() };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Copies `local` into the next receive that the Jetty of the peer, or a member of the group,
    /// has posted.
    ///
    /// # Errors
    /// As for all operations.
    fn send(
        &self,
        peer: &Peer,
        to: impl Into<To>,
        local: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let work = Work::Send { target: to.into().target()? };
        self.post(Operation::new(peer, local, work, id))
    }

    /// As [`Post::send`], with immediate data for the receive's completion.
    ///
    /// # Errors
    /// As for all operations.
    fn send_immediate(
        &self,
        peer: &Peer,
        notify: NotifyTarget,
        local: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let target = notify.to.target()?;
        let work = Work::SendImmediate { target, immediate: notify.immediate };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Copies `local` into a mailbox of the peer; see [`crate::Mailbox`].
    ///
    /// # Errors
    /// As for all operations.
    fn put(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        to: impl Into<MailboxAddress>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let to = to.into();
        let work = Work::Put { mailbox: to.mailbox(), offset: to.offset, epoch: to.epoch };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Copies from a mailbox of the peer to `local`: from the buffer of the current epoch, or of a
    /// retired one.
    ///
    /// # Errors
    /// As for all operations; or the local memory can't be written.
    fn get(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        from: impl Into<MailboxAddress>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let from = from.into();
        let work = Work::Get { mailbox: from.mailbox(), offset: from.offset, epoch: from.epoch };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Copies up to 64 bytes from `remote` to `local` without transport state: faster than a READ,
    /// and without any order. An aligned word of 1, 2, 4 or 8 bytes is loaded in one access.
    ///
    /// # Errors
    /// As for all operations; or [`Error::Width`], or the local memory can't be written.
    fn load(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let work = Work::Load { remote: remote.into().range() };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Copies up to 64 bytes of `local` to `remote`, likewise without transport state.
    ///
    /// # Errors
    /// As for all operations; or [`Error::Width`].
    fn store(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let work = Work::Store { remote: remote.into().range() };
        self.post(Operation::new(peer, local, work, id))
    }

    /// Changes a word exactly once, atomically with all other atomics on it, including those of the
    /// peer's own CPUs. [`crate::Completion::value`] returns its previous value.
    ///
    /// # Errors
    /// As for all operations; or an operand is too large for the word.
    fn atomic(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        operation: AtomicOp,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let work = word.into().work(operation)?;
        self.post(Operation { peer, local: None, work, id: id.into(), order: None })
    }

    /// Sets the word to `new` if it equals `expected`.
    ///
    /// # Errors
    /// As [`Post::atomic`].
    fn compare_swap(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        expected: u64,
        new: u64,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        self.atomic(peer, word, AtomicOp::CompareSwap { expected, new }, id)
    }

    /// Sets the word to `value`.
    ///
    /// # Errors
    /// As [`Post::atomic`].
    fn swap(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        value: u64,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        self.atomic(peer, word, AtomicOp::Swap(value), id)
    }

    /// Adds to the word, wrapping. [`AtomicOp`] lists the other arithmetic operations.
    ///
    /// # Errors
    /// As [`Post::atomic`].
    fn fetch_add(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        value: u64,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        self.atomic(peer, word, AtomicOp::Add(value), id)
    }
}

/// An operation on its way to be posted, as implementors of [`Post`] receive it.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'p, 'a> {
    peer: &'p Peer,
    local: Option<LocalSlice<'a>>,
    work: Work,
    id: WrId,
    order: Option<Order>,
}

impl<'p, 'a> Operation<'p, 'a> {
    fn new(
        peer: &'p Peer,
        local: impl Into<LocalSlice<'a>>,
        work: Work,
        id: impl Into<WrId>,
    ) -> Self {
        Operation { peer, local: Some(local.into()), work, id: id.into(), order: None }
    }

    /// The peer that the operation addresses.
    pub fn peer(&self) -> &'p Peer {
        self.peer
    }

    /// The caller's number for the operation.
    pub fn id(&self) -> WrId {
        self.id
    }

    /// Sets this order, unless the operation has one already.
    #[must_use]
    pub fn or_order(self, order: Order) -> Self {
        Operation { order: self.order.or(Some(order)), ..self }
    }

    /// Checks the arguments and returns a signaled request.
    pub(crate) fn request(self, handle: &Arc<Handle>) -> Result<WorkRequest, Error> {
        let Operation { peer, local, work, id, order } = self;
        if !peer.belongs_to(handle) {
            return Err(Error::Foreign { what: "peer" });
        }
        let written = matches!(work, Work::Read { .. } | Work::Get { .. } | Work::Load { .. });
        let local = match local {
            Some(local) => local.range(handle, written)?,
            None => LocalRange::default(),
        };
        let bypasses = matches!(work, Work::Load { .. } | Work::Store { .. });
        if bypasses && !(1..=BYPASS_BYTES).contains(&local.length) {
            let (operation, length) = (name_of(&work), u64::from(local.length));
            return Err(Error::Width { operation, length });
        }
        let order = order.unwrap_or_default();
        order.check(&work, u64::from(local.length), peer.mtu())?;
        let channel = peer.channel();
        let order = order.request(&work);
        let id = id.value();
        Ok(WorkRequest { id, channel, work, local, signaled: true, order })
    }
}

/// Adds an order to operations on their way; see [`Post::ordered`].
#[derive(Debug)]
pub struct Ordered<'p, P> {
    inner: &'p P,
    order: Order,
}

impl<'a, P: Post<'a>> Post<'a> for Ordered<'_, P> {
    fn post(&self, operation: Operation<'_, 'a>) -> Result<(), Error> {
        self.inner.post(operation.or_order(self.order))
    }
}
