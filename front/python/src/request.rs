//! Operations before they are posted.

use fairway::{
    AtomicOp, Error, Jetty, LocalSlice, MailboxAddress, NotifyTarget, Peer, Post, RemoteSlice, To,
};
use pyo3::prelude::*;

use crate::error::invalid;
use crate::memory::{Local, Place};

/// An operation with all of its arguments except the peer.
#[pyclass(frozen, module = "fairway._fairway")]
pub(crate) struct Request {
    local: Option<Py<Local>>,
    action: Action,
}

/// The remote side of an operation.
#[derive(Clone, Copy)]
enum Action {
    Write(RemoteSlice),
    Read(RemoteSlice),
    Put(MailboxAddress),
    Get(MailboxAddress),
    Send(To, Option<u64>),
    WriteNotify(RemoteSlice, NotifyTarget),
    Atomic { place: RemoteSlice, width: u8, change: AtomicOp },
}

impl Request {
    /// True if the end of its Jetty ends the operation. Mailboxes count the operations that they
    /// get, so those go on.
    pub(crate) fn ends_with_its_jetty(&self) -> bool {
        !matches!(self.action, Action::Put(_) | Action::Get(_))
    }

    /// Posts the operation on this Jetty with this number.
    pub(crate) fn post(&self, py: Python<'_>, jetty: &Jetty, peer: &Peer, id: u64) -> PyResult<()> {
        if let Action::Atomic { place, width, change } = self.action {
            let word = if width == 4 { place.word32() } else { place.word64() };
            let posted = jetty.atomic(peer, word, change, id);
            return posted.map_err(|error| crate::error::exception(py, &error));
        }
        let local = self.local.as_ref().ok_or_else(|| invalid(py, "the operation has no data"))?;
        local.get().with(py, |local| post_data(self.action, jetty, peer, (local, id)))
    }
}

/// Posts an operation that moves the data of `local`, with a number.
fn post_data(
    action: Action,
    jetty: &Jetty,
    peer: &Peer,
    (local, id): (LocalSlice<'_>, u64),
) -> Result<(), Error> {
    match action {
        Action::Write(place) => Post::write(jetty, peer, local, place, id),
        Action::Read(place) => Post::read(jetty, peer, local, place, id),
        Action::Put(address) => Post::put(jetty, peer, local, address, id),
        Action::Get(address) => Post::get(jetty, peer, local, address, id),
        Action::Send(to, None) => Post::send(jetty, peer, to, local, id),
        Action::Send(to, Some(immediate)) => {
            Post::send_immediate(jetty, peer, NotifyTarget { to, immediate }, local, id)
        }
        Action::WriteNotify(place, notify) => {
            Post::write_immediate(jetty, peer, local, place, notify, id)
        }
        Action::Atomic { .. } => unreachable!("atomics have no data"),
    }
}

#[pymethods]
impl Request {
    /// Copies local bytes to a place.
    #[staticmethod]
    fn write(local: Py<Local>, place: &Place) -> Request {
        Request { local: Some(local), action: Action::Write(place.slice()) }
    }

    /// Copies local bytes to a place; then a receive of the peer's Jetty completes with the number
    /// `immediate`.
    #[staticmethod]
    fn write_notify(
        local: Py<Local>,
        place: &Place,
        jetty: u32,
        token: u32,
        immediate: u64,
    ) -> Request {
        let notify = NotifyTarget { to: To::new(jetty).token(token), immediate };
        Request { local: Some(local), action: Action::WriteNotify(place.slice(), notify) }
    }

    /// Fills local bytes from a place.
    #[staticmethod]
    fn read(local: Py<Local>, place: &Place) -> Request {
        Request { local: Some(local), action: Action::Read(place.slice()) }
    }

    /// Copies local bytes into a mailbox.
    #[staticmethod]
    #[pyo3(signature = (local, address, key, offset, epoch=None))]
    fn put(local: Py<Local>, address: u64, key: u32, offset: u64, epoch: Option<u32>) -> Request {
        let address = MailboxAddress { address, key, offset, epoch };
        Request { local: Some(local), action: Action::Put(address) }
    }

    /// Fills local bytes from a mailbox.
    #[staticmethod]
    #[pyo3(signature = (local, address, key, offset, epoch=None))]
    fn get(local: Py<Local>, address: u64, key: u32, offset: u64, epoch: Option<u32>) -> Request {
        let address = MailboxAddress { address, key, offset, epoch };
        Request { local: Some(local), action: Action::Get(address) }
    }

    /// Copies local bytes into the next receive of a Jetty.
    #[staticmethod]
    #[pyo3(signature = (local, jetty, token, immediate=None))]
    fn send(local: Py<Local>, jetty: u32, token: u32, immediate: Option<u64>) -> Request {
        Request { local: Some(local), action: Action::Send(To::new(jetty).token(token), immediate) }
    }

    /// Changes a word of 4 or 8 bytes. `operands` is the value, or for `compare_swap` the expected
    /// value and the new one.
    #[staticmethod]
    fn atomic(
        py: Python<'_>,
        place: &Place,
        width: u8,
        name: &str,
        operands: (u64, u64),
    ) -> PyResult<Request> {
        let (first, second) = operands;
        let change = match name {
            "compare_swap" => AtomicOp::CompareSwap { expected: first, new: second },
            "swap" => AtomicOp::Swap(first),
            "load" => AtomicOp::Load,
            "add" => AtomicOp::Add(first),
            "and" => AtomicOp::And(first),
            "or" => AtomicOp::Or(first),
            "xor" => AtomicOp::Xor(first),
            _ => return Err(invalid(py, &format!("there is no atomic {name:?}"))),
        };
        if width != 4 && width != 8 {
            return Err(invalid(py, &format!("a word can't have {width} bytes: use 4 or 8")));
        }
        Ok(Request { local: None, action: Action::Atomic { place: place.slice(), width, change } })
    }
}
