//! Jetties: where operations are posted, and where their completions come back.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairway_engine::policy::Share;
use fairway_engine::wire::JettyId;
use fairway_engine::{JettyState, ReceiveRequest, WorkRequest};

use crate::batch::Batch;
use crate::blocking::Lanes;
use crate::completion::{Completion, WrId};
use crate::core::WaitCondition;
use crate::error::Error;
use crate::next::NextCompletion;
use crate::peer::Peer;
use crate::post::{Operation, Post};
use crate::segment::{LocalSlice, Segment};
use crate::shared::Handle;

/// Most completions one [`Jetty::poll`] takes.
const POLL_MAX: usize = 256;

/// An endpoint of the application.
///
/// Its methods post operations (they are those of [`Post`]), or post one and wait for its end
/// ([`Jetty::write_all`] and the like). All methods may be called from any thread.
/// Dropping a Jetty drops its posted receives; operations in flight still finish.
pub struct Jetty {
    handle: Arc<Handle>,
    index: usize,
    id: JettyId,
    /// The requests of a batch, kept so that batches allocate nothing in the long run.
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

    /// Sets the tenant that the Jetty's data belongs to, and its weight, for schedulers. May be
    /// changed at any time.
    ///
    /// # Errors
    /// [`Error::Parameter`]: the weight is zero.
    pub fn set_share(&self, share: Share) -> Result<(), Error> {
        let set = self.handle.shared.with(|core| core.nic.set_share(self.id, share));
        set.map_err(|error| Error::setup(error, "Jetty", None))
    }

    /// What the application asks for, for all it sends from here, in the terms of the scheduler.
    pub fn set_hint(&self, hint: u64) {
        self.handle.shared.with(|core| core.set_hint(self.id, hint));
    }

    /// From now on the hint ([`Jetty::set_hint`]) is what the 8-byte word at `offset` of `segment`
    /// holds, in this machine's byte order. It is looked at with every poll of the NIC, so a hint
    /// costs a store ([`Segment::atomic_u64`]): by this process, by another one that shares the
    /// memory ([`crate::Memory::shared`], [`crate::Memory::map_file`]), or by a peer with the key.
    /// While the NIC is idle the hint is not read. When the segment goes, the last hint stays.
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
        self.handle.shared.with(|core| core.set_hint_word(self.id, memory, offset as usize));
        Ok(())
    }

    /// Offers `local` to the next message that a peer sends to this Jetty (or its completion to
    /// the next write with immediate data, which leaves the bytes alone).
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
        self.handle.shared.with(|core| core.post_receive(self.id, &request))
    }

    /// Posts several operations at once: `fill` names them, and all are handed over together.
    /// Returns how many were posted, from the front; fewer than named if queues became full.
    ///
    /// # Errors
    /// What `fill` returned, and then nothing was posted; or why the first one was not taken.
    pub fn batch<'a>(
        &'a self,
        fill: impl FnOnce(&mut Batch<'a>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let spare = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *requests)
        };
        let mut batch = Batch::new(&self.handle, spare);
        let filled = fill(&mut batch);
        let mut requests = batch.into_requests();
        let posted = match filled {
            Ok(()) => self.handle.shared.with(|core| core.post(self.id, &requests)),
            Err(error) => Err(error),
        };
        requests.clear();
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner) = requests;
        posted
    }

    /// What it is now.
    pub fn state(&self) -> JettyState {
        self.handle.shared.with(|core| core.nic.jetty_state(self.id))
    }

    /// Operations of it that have not completed, unsignaled ones included.
    pub fn outstanding(&self) -> u32 {
        self.handle.shared.with(|core| core.nic.outstanding(self.id))
    }

    /// Takes no more operations, and lets peers that send to it wait. What was posted runs to its
    /// end; [`crate::Event::JettyDrained`] says when.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it is not ready.
    pub fn suspend(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Ready], JettyState::Suspended)
    }

    /// Goes on after [`Jetty::suspend`], or after a failure suspended it.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it is not suspended.
    pub fn resume(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Suspended], JettyState::Ready)
    }

    /// Takes it to the error state: operations that were not sent yet, and posted receives,
    /// complete as flushed; peers that send to it are told that it does not exist; and what was
    /// sent runs to its end, which [`crate::Event::JettyDrained`] announces.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it has failed already.
    pub fn fail(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Ready, JettyState::Suspended], JettyState::Error)
    }

    /// Makes it ready again after [`Jetty::fail`], or after a failure.
    ///
    /// # Errors
    /// [`Error::JettyState`]: it has not failed; [`Error::JettyBusy`]: [`Jetty::drain`] it first.
    pub fn reset(&self) -> Result<(), Error> {
        self.change_state(&[JettyState::Error], JettyState::Ready)
    }

    /// Waits until none of its operations is under way. Their completions are there then. While it
    /// is ready others may post to it meanwhile: suspend it to keep them from that.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    pub fn drain(&self, timeout: Duration) -> Result<(), Error> {
        let awaited = "end of the Jetty's operations";
        self.handle.shared.wait_for(awaited, Some(timeout), None, |core| {
            (core.nic.outstanding(self.id) == 0).then_some(())
        })
    }

    fn change_state(&self, from: &[JettyState], to: JettyState) -> Result<(), Error> {
        self.handle.shared.with_quiesced(|core| core.set_jetty_state(self.id, from, to))
    }

    pub(crate) fn id(&self) -> JettyId {
        self.id
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Endpoints for operations that are waited for one by one.
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn belongs_to(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.handle, handle)
    }

    /// Runs a poll of the NIC, then appends what has completed to `out`, and returns how many that
    /// were (at most 256 at a time).
    pub fn poll(&self, out: &mut Vec<Completion>) -> usize {
        self.handle.shared.poll(|core| core.take_completions(self.index, out, POLL_MAX))
    }

    /// The next completion. Polls for a moment, then sleeps until there is one.
    ///
    /// # Errors
    /// [`Error::Timeout`].
    pub fn wait(&self, timeout: Duration) -> Result<Completion, Error> {
        let what = Some(WaitCondition::Completion(self.index));
        self.handle
            .shared
            .wait_for("completion", Some(timeout), what, |core| core.take_completion(self.index))
            .map(Completion::from)
    }

    /// The next completion, as a future for any executor. The background thread drives the NIC
    /// meanwhile.
    pub fn next_completion(&self) -> NextCompletion<'_> {
        NextCompletion::new(&self.handle.shared, self.index)
    }

    /// The connection a completion came over, while it lasts.
    pub fn peer_of(&self, completion: &Completion) -> Option<Peer> {
        let state = self.handle.shared.with(|core| core.peer_state(completion.channel))?;
        Some(Peer { handle: self.handle.clone(), state })
    }
}

impl<'a> Post<'a> for Jetty {
    /// Posts it at once.
    fn post(&self, operation: Operation<'_, 'a>) -> Result<(), Error> {
        let peer = operation.peer();
        let request = operation.request(&self.handle)?;
        let requests = std::slice::from_ref(&request);
        match self.handle.shared.with(|core| core.post(self.id, requests)) {
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
        self.handle.shared.with_quiesced(|core| core.drop_jetty(self.index));
    }
}

impl fmt::Debug for Jetty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jetty").field("number", &self.number()).finish_non_exhaustive()
    }
}
