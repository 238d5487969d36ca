//! Operations that are over when the call returns.
//!
//! Each runs on an endpoint of its own, a *lane*, so that it neither takes nor delays completions
//! of the Jetty that it was called on. Lanes are kept for the next call. One whose operation may
//! still be under way, after a time-out, is dropped instead.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::completion::Completion;
use crate::context::Context;
use crate::error::Error;
use crate::jetty::Jetty;
use crate::key::RemoteSlice;
use crate::options::JettyOptions;
use crate::peer::Peer;
use crate::post::Post;
use crate::segment::LocalSlice;
use crate::shared::Handle;
use crate::target::To;
use crate::word::{AtomicOp, RemoteWord};

/// Completions that a lane holds: one operation at a time.
const DEPTH: u32 = 2;

/// Endpoints of a Jetty for operations that are waited for one by one.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    idle: Mutex<Vec<Jetty>>,
}

impl Lanes {
    /// A lane for one caller until it is given back.
    pub(crate) fn take(&self, handle: &Arc<Handle>) -> Result<Jetty, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(
            || {
                let options = JettyOptions::default().depth(DEPTH);
                Context::of(handle.clone()).create_jetty(options)
            },
            Ok,
        )
    }

    /// Keeps a lane on which nothing is under way.
    pub(crate) fn return_lane(&self, lane: Jetty) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }
}

/// Blocking operations: posted, waited for and judged in one call.
///
/// They run beside the Jetty's own operations: they give it no completions, and no order holds
/// between the two. Calls from several threads run at the same time. A context has to have its
/// progress thread, or be polled by another thread, as for [`Jetty::wait`].
///
/// After [`Error::Timeout`] the operation may still be carried out, once. Its memory stays
/// registered until it has ended.
impl Jetty {
    /// Copies all of `local` to `remote`. The bytes are in place when the call returns.
    ///
    /// ```no_run
    /// # use fairway::{Error, Jetty, Peer, Segment, SegmentKey};
    /// # fn example(jetty: &Jetty, peer: &Peer, data: &Segment, key: SegmentKey)
    /// # -> Result<(), Error> {
    /// jetty.write_all(peer, data.slice(0..4096), key.at(0), std::time::Duration::from_secs(5))
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Failed`] if the peer refuses or is gone; or what keeps
    /// operations from being posted.
    pub fn write_all<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        timeout: Duration,
    ) -> Result<(), Error> {
        self.complete(timeout, |lane| Post::write(lane, peer, local, remote, 0)).map(drop)
    }

    /// Fills all of `local` from `remote`.
    ///
    /// # Errors
    /// As [`Jetty::write_all`]; or the local memory can't be written.
    pub fn read_exact<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        timeout: Duration,
    ) -> Result<(), Error> {
        self.complete(timeout, |lane| Post::read(lane, peer, local, remote, 0)).map(drop)
    }

    /// Sends all of `local` to a Jetty of the peer, whose receive has it when the call returns. The
    /// sender that the peer sees ([`Completion::remote_jetty`]) takes no answers: where the peer is
    /// to answer, [`Jetty::send`] from this Jetty.
    ///
    /// # Errors
    /// As [`Jetty::write_all`].
    pub fn send_all<'a>(
        &self,
        peer: &Peer,
        to: impl Into<To>,
        local: impl Into<LocalSlice<'a>>,
        timeout: Duration,
    ) -> Result<(), Error> {
        self.complete(timeout, |lane| Post::send(lane, peer, to, local, 0)).map(drop)
    }

    /// Changes a word of the peer, exactly once, and returns what it was before.
    ///
    /// # Errors
    /// As [`Jetty::write_all`]; or an operand is too large for the word. After
    /// [`Error::Timeout`] the word may have been changed.
    pub fn update(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        operation: AtomicOp,
        timeout: Duration,
    ) -> Result<u64, Error> {
        let done = self.complete(timeout, |lane| Post::atomic(lane, peer, word, operation, 0))?;
        Ok(done.value)
    }

    /// Runs one operation on a lane to its end.
    fn complete(
        &self,
        timeout: Duration,
        post: impl FnOnce(&Jetty) -> Result<(), Error>,
    ) -> Result<Completion, Error> {
        let lane = self.lanes().take(self.handle())?;
        if let Err(error) = post(&lane) {
            self.lanes().return_lane(lane);
            return Err(error);
        }
        let done = lane.wait(timeout)?;
        self.lanes().return_lane(lane);
        Ok(done.result()?)
    }
}
