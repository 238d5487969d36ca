//! Operations that are posted together.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use fairway_ub::WorkRequest;

use crate::error::Error;
use crate::post::{Operation, Post};
use crate::segment::Segment;
use crate::shared::Handle;

/// Operations to be posted together; see [`crate::Jetty::batch`]. The operations are those of
/// [`Post`]; the segments that they name must outlive the batch.
pub struct Batch<'a> {
    handle: &'a Arc<Handle>,
    requests: RefCell<Vec<WorkRequest>>,
    signaled: bool,
    /// Makes the lifetime invariant, so that a segment that lives shorter than `'a` is refused,
    /// even through a shared reference.
    segments: PhantomData<Cell<&'a Segment>>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(handle: &'a Arc<Handle>, spare: Vec<WorkRequest>) -> Self {
        let requests = RefCell::new(spare);
        Batch { handle, requests, signaled: true, segments: PhantomData }
    }

    /// Sets whether the operations added from now on report success (the default). Failures are
    /// always reported.
    pub fn signaled(&mut self, signaled: bool) -> &mut Self {
        self.signaled = signaled;
        self
    }

    /// Number of operations added so far.
    pub fn len(&self) -> usize {
        self.requests.borrow().len()
    }

    /// True if no operation has been added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the operations that were added.
    pub(crate) fn into_requests(self) -> Vec<WorkRequest> {
        self.requests.into_inner()
    }
}

impl<'a> Post<'a> for Batch<'a> {
    /// Stores the operation until the batch is posted.
    fn post(&self, operation: Operation<'_, 'a>) -> Result<(), Error> {
        let request = operation.request(self.handle)?;
        self.requests.borrow_mut().push(WorkRequest { signaled: self.signaled, ..request });
        Ok(())
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("operations", &self.len()).finish_non_exhaustive()
    }
}
