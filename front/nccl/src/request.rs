//! Requests: what `isend` and `irecv` return and `test` asks for.

use std::sync::Weak;

use crate::limits::GROUP_MAX;
use crate::object::{Object, Tagged};
use crate::status::{Failure, Result};

/// A request, as C names it. It is part of its end of the connection.
pub(crate) struct Request {
    owner: Weak<dyn Requests>,
    index: usize,
}

/// An end of a connection, to which requests belong.
pub(crate) trait Requests: Send + Sync {
    /// Returns the sizes if the request of this index has ended; then it is free for other
    /// messages.
    fn test(&self, index: usize) -> Result<Option<Ended>>;
}

impl Object for Request {
    const NAME: &'static str = "request";
    const TAG: u64 = 0x6661_6972_6e63_6302;
}

/// All `count` requests of an end.
pub(crate) fn table(count: usize, owner: &Weak<dyn Requests>) -> Box<[Tagged<Request>]> {
    (0..count).map(|index| Tagged::new(Request { owner: owner.clone(), index })).collect()
}

/// Sizes of a request that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ended {
    pub(crate) count: usize,
    pub(crate) sizes: [u32; GROUP_MAX],
}

impl Request {
    /// As [`Requests::test`].
    pub(crate) fn test(&self) -> Result<Option<Ended>> {
        let closed = || Failure::argument("the request's connection has been closed");
        self.owner.upgrade().ok_or_else(closed)?.test(self.index)
    }
}
