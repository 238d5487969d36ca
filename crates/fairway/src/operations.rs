//! The operations of [`Post`] as methods of a Jetty, so that no import is needed to use them.

use crate::completion::WrId;
use crate::error::Error;
use crate::jetty::Jetty;
use crate::key::RemoteSlice;
use crate::mailbox::MailboxAddress;
use crate::order::Order;
use crate::peer::Peer;
use crate::post::{Ordered, Post};
use crate::segment::LocalSlice;
use crate::target::{NotifyTarget, To};
use crate::word::{AtomicOp, RemoteWord};

/// Operations that are posted at once, and complete later: [`Jetty::wait`], [`Jetty::poll`].
///
/// They are those of [`Post`], which [`crate::Batch`] and [`Jetty::ordered`] provide, too.
impl Jetty {
    /// Returns a view of the Jetty that posts operations with this order, by the methods of
    /// [`Post`].
    pub fn ordered(&self, order: Order) -> Ordered<'_, Self> {
        Post::ordered(self, order)
    }

    /// Copies `local` to `remote`.
    ///
    /// # Errors
    /// As [`Post`] says of all operations.
    pub fn write<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::write(self, peer, local, remote, id)
    }

    /// Copies `local` to `remote`; then a receive of the peer's Jetty completes with the immediate
    /// data.
    ///
    /// # Errors
    /// As [`Post`] says of all operations.
    pub fn write_immediate<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        notify: NotifyTarget,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::write_immediate(self, peer, local, remote, notify, id)
    }

    /// Copies from `remote` to `local`.
    ///
    /// # Errors
    /// As [`Post`] says of all operations; or the local memory can't be written.
    pub fn read<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::read(self, peer, local, remote, id)
    }

    /// Copies `local` into the next receive that the Jetty of the peer, or a member of the group,
    /// has posted.
    ///
    /// # Errors
    /// As [`Post`] says of all operations.
    pub fn send<'a>(
        &self,
        peer: &Peer,
        to: impl Into<To>,
        local: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::send(self, peer, to, local, id)
    }

    /// As [`Jetty::send`], with immediate data for the receive's completion.
    ///
    /// # Errors
    /// As [`Post`] says of all operations.
    pub fn send_immediate<'a>(
        &self,
        peer: &Peer,
        notify: NotifyTarget,
        local: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::send_immediate(self, peer, notify, local, id)
    }

    /// Copies `local` into a mailbox of the peer; see [`crate::Mailbox`].
    ///
    /// # Errors
    /// As [`Post`] says of all operations.
    pub fn put<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        to: impl Into<MailboxAddress>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::put(self, peer, local, to, id)
    }

    /// Copies from a mailbox of the peer to `local`: from the buffer of the current epoch, or of a
    /// retired one.
    ///
    /// # Errors
    /// As [`Post`] says of all operations; or the local memory can't be written.
    pub fn get<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        from: impl Into<MailboxAddress>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::get(self, peer, local, from, id)
    }

    /// Copies up to 64 bytes from `remote` to `local` without transport state: faster than a READ,
    /// and without any order. An aligned word of 1, 2, 4 or 8 bytes is loaded in one access.
    ///
    /// # Errors
    /// As [`Post`] says of all operations; or [`Error::Width`], or the local memory can't be
    /// written.
    pub fn load<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::load(self, peer, local, remote, id)
    }

    /// Copies up to 64 bytes of `local` to `remote`, likewise without transport state.
    ///
    /// # Errors
    /// As [`Post`] says of all operations; or [`Error::Width`].
    pub fn store<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::store(self, peer, local, remote, id)
    }

    /// Changes a word exactly once, atomically with all other atomics on it, including those of the
    /// peer's own CPUs. [`crate::Completion::value`] returns its previous value.
    ///
    /// # Errors
    /// As [`Post`] says of all operations; or an operand is too large for the word.
    pub fn atomic(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        operation: AtomicOp,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::atomic(self, peer, word, operation, id)
    }

    /// Sets the word to `new` if it equals `expected`.
    ///
    /// # Errors
    /// As [`Jetty::atomic`].
    pub fn compare_swap(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        expected: u64,
        new: u64,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::compare_swap(self, peer, word, expected, new, id)
    }

    /// Sets the word to `value`.
    ///
    /// # Errors
    /// As [`Jetty::atomic`].
    pub fn swap(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        value: u64,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::swap(self, peer, word, value, id)
    }

    /// Adds to the word, wrapping. [`AtomicOp`] lists the other arithmetic operations.
    ///
    /// # Errors
    /// As [`Jetty::atomic`].
    pub fn fetch_add(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        value: u64,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        Post::fetch_add(self, peer, word, value, id)
    }
}
