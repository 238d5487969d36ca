//! Jetties: operations are posted to them and complete on them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairway_ub::policy::Share;
use fairway_ub::wire::{Duration as Span, JettyId};
use fairway_ub::{JettyState, ReceiveRequest, WorkRequest};

use crate::batch::Batch;
use crate::blocking::Lanes;
use crate::completion::{Completion, WrId};
use crate::core::{Core, WaitCondition};
use crate::error::Error;
use crate::next::NextCompletion;
use crate::peer::Peer;
use crate::post::{Operation, Post};
use crate::segment::{LocalSlice, Segment};
use crate::shared::Handle;

/// Maximum number of completions that one [`Jetty::poll`] returns.
const POLL_MAX: usize = 256;

/// An endpoint of the application.
///
/// Its methods post operations (they are those of [`Post`]), or post one and wait until it has
/// completed ([`Jetty::write_all`] and similar). All methods may be called from any thread.
/// Dropping a Jetty drops its posted receives. Its operations in flight go on without it, for as
/// long as the context has another handle; to be sure that they end, [`Jetty::drain`] it first, and
/// to call them off, [`Jetty::abort`].
pub struct Jetty {
    handle: Arc<Handle>,
    index: usize,
    id: JettyId,
    /// The requests of a batch. The vector is reused so that batches do not allocate in the long
    /// run.
    requests: Mutex<Vec<WorkRequest>>,
    lanes: Lanes,
}

impl Jetty {
    pub(crate) fn new(handle: Arc<Handle>, index: usize, id: JettyId) -> Self {
        Jetty { handle, index, id, requests: Mutex::new(Vec::new()), lanes: Lanes::default() }
    }

    /// The number that peers send to.
    pub fn number(&self) -> u32 {
        self.id.value()
    }

    /// Sets the tenant to which the Jetty's data belongs, and its weight, for schedulers. Both may
    /// be changed at any time.
    ///
    /// # Errors
    /// [`Error::Parameter`]: the weight is zero.
    pub fn set_share(&self, share: Share) -> Result<(), Error> {
        let set = self.handle.live()?.with(|core| core.nic.set_share(self.id, share));
        set.map_err(|error| Error::setup(error, "Jetty", None))
    }

    /// Sets a hint for the scheduler, which applies to everything this Jetty sends. The scheduler
    /// defines its meaning.
    pub fn set_hint(&self, hint: u64) {
        self.handle.here().with(|core| core.set_hint(self.id, hint));
    }

    /// Makes the 8-byte word at `offset` of `segment` the hint ([`Jetty::set_hint`]) from now on,
    /// in this machine's byte order. Every poll of the NIC reads the word, so a hint costs one
    /// store ([`Segment::atomic_u64`]): by this process, by another process that shares the memory
    /// ([`crate::Memory::shared`], [`crate::Memory::map_file`]), or by a peer with the key. While
    /// the NIC is idle the word is not read. When the segment is dropped, the last hint stays.
    ///
    /// # Errors
    /// The word leaves the segment, is not aligned, or the memory can't be written; or
    /// [`Error::Foreign`]: the segment is of another context.
    pub fn set_hint_word(&self, segment: &Segment, offset: u64) -> Result<(), Error> {
        if !segment.belongs_to(&self.handle) {
            return Err(Error::Foreign { what: "segment" });
        }
        segment.atomic_u64(offset)?;
        let memory = segment.memory();
        self.handle.live()?.with(|core| core.set_hint_word(self.id, memory, offset as usize));
        Ok(())
    }

    /// Posts `local` as the buffer of the next message that a peer sends to this Jetty. The receive
    /// may instead be consumed by a write with immediate data, which leaves `local` unchanged.
    ///
    /// # Errors
    /// As for [`Post`]'s operations; or the memory can't be written.
    pub fn post_receive<'a>(
        &self,
        local: impl Into<LocalSlice<'a>>,
        id: impl Into<WrId>,
    ) -> Result<(), Error> {
        let local = local.into().range(&self.handle, true)?;
        let request = ReceiveRequest { id: id.into().value(), local };
        self.handle.live()?.with(|core| core.post_receive(self.id, &request))
    }

    /// Posts several operations at once: `fill` adds them, and all are passed to the NIC together.
    /// Returns the number of operations posted, from the front; it is smaller than the number added
    /// if queues became full.
    ///
    /// # Errors
    /// What `fill` returned, and then nothing was posted; or why the first one was not taken.
    pub fn batch<'a>(
        &'a self,
        fill: impl FnOnce(&mut Batch<'a>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let shared = self.handle.live()?;
        let spare = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *requests)
        };
        let mut batch = Batch::new(&self.handle, spare);
        let filled = fill(&mut batch);
        let mut requests = batch.into_requests();
        let posted = match filled {
            Ok(()) => shared.with(|core| core.post(self.id, &requests)),
            Err(error) => Err(error),
        };
        requests.clear();
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner) = requests;
        posted
    }

    /// The Jetty's state.
    pub fn state(&self) -> JettyState {
        self.handle.here().with(|core| core.nic.jetty_state(self.id))
    }

    /// Number of operations of the Jetty that have not completed, including unsignaled ones.
    pub fn outstanding(&self) -> u32 {
        self.handle.here().with(|core| core.nic.outstanding(self.id))
    }

    /// Suspends the Jetty: it accepts no more operations, and peers that send to it have to wait.
    /// Operations already posted run to completion; [`crate::Event::JettyDrained`] reports when all
    /// have completed.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it is not ready.
    pub fn suspend(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Ready], JettyState::Suspended)
    }

    /// Resumes the Jetty after [`Jetty::suspend`], or after a failure suspended it.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it is not suspended.
    pub fn resume(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Suspended], JettyState::Ready)
    }

    /// Moves the Jetty to the error state. Operations that were not sent yet, and posted receives,
    /// complete as flushed. Peers that send to the Jetty receive the answer that it does not exist.
    /// Operations that were sent run to completion; [`crate::Event::JettyDrained`] reports when all
    /// have completed.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it has failed already.
    pub fn fail(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Ready, JettyState::Suspended], JettyState::Error)
    }

    /// Makes the Jetty ready again after [`Jetty::fail`], or after a failure.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it has not failed; [`Error::JettyBusy`]: [`Jetty::drain`] it first.
    pub fn reset(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Error], JettyState::Ready)
    }

    /// Waits until none of the Jetty's operations is under way. Their completions can be polled
    /// then. While the Jetty is ready other threads may post to it meanwhile; suspend it first to
    /// prevent that.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    pub fn drain(&self, timeout: Duration) -> Result<(), Error> {
        let awaited = "end of the Jetty's operations";
        self.handle.live()?.wait_for(awaited, Some(timeout), None, |core| {
            (core.nic.outstanding(self.id) == 0).then_some(())
        })
    }

    /// Ends everything that is under way at the Jetty: its operations and its receives complete as
    /// flushed, in the order in which they were posted, and none of them uses memory afterwards.
    /// What has reached a peer may have been executed, in part, too; what has not, has no effect.
    /// The Jetty can be used further.
    ///
    /// Loads and stores are not ended, but complete as flushed at once.
    ///
    /// # Errors
    /// [`Error::ShutDown`].
    pub fn abort(&self) -> Result<(), Error> {
        self.handle.live()?.with_quiesced(|core| core.abort_jetty(self.index));
        Ok(())
    }

    fn change_state(&self, from: &[JettyState], to: JettyState) -> Result<(), Error> {
        self.handle.live()?.with_quiesced(|core| core.set_jetty_state(self.id, from, to))
    }

    pub(crate) fn id(&self) -> JettyId {
        self.id
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Endpoints for blocking operations.
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn belongs_to(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.handle, handle)
    }

    /// Runs a poll of the NIC, then appends the new completions to `out`, and returns their number
    /// (at most 256 at a time).
    ///
    /// A call does not wait for completions. But a thread that calls this, or another method that
    /// polls, again and again in vain on a host with more busy threads than cores sleeps in it for
    /// up to 200 us, or until a packet arrives.
    pub fn poll(&self, out: &mut Vec<Completion>) -> usize {
        self.handle.here().poll(|core| core.take_completions(self.index, out, POLL_MAX))
    }

    /// As [`Jetty::poll`], but never sleeps: for a thread that has something to do if there is no
    /// completion, such as to post operations.
    pub fn poll_once(&self, out: &mut Vec<Completion>) -> usize {
        self.handle.here().poll_once(|core| core.take_completions(self.index, out, POLL_MAX))
    }

    /// Returns the next completion. Polls for a moment, then sleeps until there is one.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::ShutDown`] when the context was shut down and all completions
    /// have been returned.
    pub fn wait(&self, timeout: Duration) -> Result<Completion, Error> {
        let what = Some(WaitCondition::Completion(self.index));
        let next = |core: &mut Core| core.next_completion(self.index);
        self.handle.live()?.wait_for("completion", Some(timeout), what, next)?
    }

    /// As [`Jetty::wait`], but sleeps at once if there is no completion: for hosts where other
    /// threads that the program waits for need the core.
    ///
    /// # Errors
    /// As [`Jetty::wait`].
    pub fn wait_asleep(&self, timeout: Duration) -> Result<Completion, Error> {
        let what = Some(WaitCondition::Completion(self.index));
        let next = |core: &mut Core| core.next_completion(self.index);
        let awaited = ("completion", Some(timeout));
        self.handle.live()?.wait_polling(Span::ZERO, awaited, what, next)?
    }

    /// Returns the next completion as a future for any executor. The background thread drives the
    /// NIC meanwhile; a context without one ([`crate::Builder::progress_thread`]) wakes the task
    /// only when another thread polls. The future fails as [`Jetty::wait`] does, and has no time
    /// limit.
    pub fn next_completion(&self) -> NextCompletion<'_> {
        NextCompletion::new(&self.handle, self.index)
    }

    /// Returns the connection that carried the operation, while it exists.
    pub fn peer_of(&self, completion: &Completion) -> Option<Peer> {
        let state = self.handle.here().with(|core| core.peer_state(completion.channel))?;
        Some(Peer { handle: self.handle.clone(), state })
    }
}

impl<'a> Post<'a> for Jetty {
    /// Posts the operation at once.
    fn post(&self, operation: Operation<'_, 'a>) -> Result<(), Error> {
        let peer = operation.peer();
        let request = operation.request(&self.handle)?;
        let requests = std::slice::from_ref(&request);
        match self.handle.live()?.with(|core| core.post(self.id, requests)) {
            Ok(_) => Ok(()),
            Err(Error::ShutDown) if !peer.is_alive() => {
                Err(Error::PeerGone { peer: peer.address() })
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Jetty {
    fn drop(&mut self) {
        if let Ok(shared) = self.handle.live() {
            shared.with_quiesced(|core| core.drop_jetty(self.index));
        }
    }
}

impl fmt::Debug for Jetty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jetty").field("number", &self.number()).finish_non_exhaustive()
    }
}
