//! Operations that have completed when the call returns.
//!
//! Each operation runs on a separate endpoint, a *lane*, so that it neither takes nor delays
//! completions of the Jetty that it was called on. Lanes are reused by later calls. A lane whose
//! operation has been given up is aborted and dropped instead.

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

/// Capacity of a lane's completion queue. A lane runs one operation at a time.
const DEPTH: u32 = 2;

/// Idle endpoints of a Jetty for blocking operations.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    idle: Mutex<Vec<Jetty>>,
}

impl Lanes {
    /// Returns a lane for one caller, until [`Lanes::return_lane`].
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

    /// Keeps a lane that has no operation under way for a later call.
    pub(crate) fn return_lane(&self, lane: Jetty) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }
}

/// Blocking operations: each call posts an operation, waits for it and checks its result.
///
/// They run beside the Jetty's own operations: they add no completions to its queue, and no order
/// is guaranteed between the two. Calls from several threads run at the same time. The context must
/// have its progress thread, or be polled by another thread, as for [`Jetty::wait`].
///
/// After [`Error::Timeout`] the operation has been called off: it uses no memory of this side any
/// more. What had reached the peer by then may have been executed, in part, too.
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

    /// Sends all of `local` to a Jetty of the peer. The message is in a receive of that Jetty when
    /// the call returns. The sender that the peer sees ([`Completion::remote_jetty`]) is a lane,
    /// which accepts no answers. If the peer is to answer, use [`Jetty::send`] from this Jetty.
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

    /// Changes a word of the peer exactly once, and returns its previous value.
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

    /// Posts one operation on a lane and waits until it has completed.
    fn complete(
        &self,
        timeout: Duration,
        post: impl FnOnce(&Jetty) -> Result<(), Error>,
    ) -> Result<Completion, Error> {
        let running = Running::begin(self, post)?;
        let done = running.lane().wait(timeout)?;
        running.end();
        Ok(done.result()?)
    }
}

/// A lane with an operation under way, which is called off if this is dropped before its end.
pub(crate) struct Running<'a> {
    lanes: &'a Lanes,
    lane: Option<Jetty>,
}

impl<'a> Running<'a> {
    /// Posts an operation on a lane of the Jetty.
    pub(crate) fn begin(
        jetty: &'a Jetty,
        post: impl FnOnce(&Jetty) -> Result<(), Error>,
    ) -> Result<Running<'a>, Error> {
        let lanes = jetty.lanes();
        let lane = lanes.take(jetty.handle())?;
        match post(&lane) {
            Ok(()) => Ok(Running { lanes, lane: Some(lane) }),
            Err(error) => {
                lanes.return_lane(lane);
                Err(error)
            }
        }
    }

    pub(crate) fn lane(&self) -> &Jetty {
        self.lane.as_ref().expect("the operation is under way")
    }

    /// The operation has completed.
    pub(crate) fn end(mut self) {
        self.lanes.return_lane(self.lane.take().expect("the operation is under way"));
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            // An error reports that the context has been shut down, and all operations with it.
            let _ = lane.abort();
        }
    }
}
