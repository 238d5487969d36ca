//! Calls that a program has begun and waits for later.

use crate::background::Shared;
use crate::error::Error;
use fairway_collectives::Work;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A call that has begun. Dropping it waits for its end, because the NIC uses its buffers until
/// then.
#[must_use]
pub struct Pending {
    shared: Arc<Shared>,
    work: Option<Work>,
}

impl Pending {
    pub(crate) fn new(shared: Arc<Shared>, work: Work) -> Pending {
        Pending { shared, work: Some(work) }
    }

    /// True if the call has ended, in success or failure: [`Pending::wait`] then returns at once.
    pub fn is_done(&self) -> bool {
        self.work.is_none_or(|work| self.shared.has_ended(work))
    }

    /// Lets the background thread continue the call while no thread waits for it.
    pub fn continue_in_background(&self) {
        if !self.is_done() {
            self.shared.ring();
        }
    }

    /// Waits for the end of the call, for `time` at most. Returns true if it has ended, in success
    /// or failure, which [`Pending::wait`] returns. If it has not, it goes on.
    pub fn wait_a_while(&self, time: Duration) -> bool {
        self.work.is_none_or(|work| self.shared.wait_a_while(work, time))
    }

    /// Waits for the end of the call.
    ///
    /// # Errors
    /// [`Error::Failed`]: the group is over.
    pub fn wait(mut self) -> Result<(), Error> {
        match self.work.take() {
            Some(work) => self.shared.wait(work, None),
            None => Ok(()),
        }
    }

    /// Waits for the end of the call, for `timeout` at most.
    ///
    /// # Errors
    /// [`Error::Failed`]: the group is over. If the time is up, this call ends the group.
    pub fn wait_for(mut self, timeout: Duration) -> Result<(), Error> {
        match self.work.take() {
            Some(work) => self.shared.wait(work, Some(timeout)),
            None => Ok(()),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        if self.shared.is_of_this_process() {
            let _ = self.shared.wait(work, None);
        } else {
            // A child that was forked does not drive its parent's calls.
            std::mem::forget(self.shared.clone());
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}
