//! Operations that are posted together.

use std::fmt;
use std::sync::Arc;

use fairway_engine::wire::{JettyId, Target};
use fairway_engine::{OrderRequest, Work, WorkRequest};

use crate::error::Error;
use crate::jetty::Notify;
use crate::key::RemoteSlice;
use crate::peer::Peer;
use crate::segment::LocalSlice;
use crate::shared::Handle;

/// Operations to be posted together; see [`crate::Jetty::batch`]. What they name has to outlive
/// the batch.
pub struct Batch<'a> {
    handle: &'a Arc<Handle>,
    requests: Vec<WorkRequest>,
    signaled: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(handle: &'a Arc<Handle>, spare: Vec<WorkRequest>) -> Self {
        Batch { handle, requests: spare, signaled: true }
    }

    /// Whether the operations named from now on report success (the default). Failure is always
    /// reported.
    pub fn signaled(&mut self, signaled: bool) -> &mut Self {
        self.signaled = signaled;
        self
    }

    /// As [`crate::Jetty::write`].
    ///
    /// # Errors
    /// The range is not within its segment, or an object is of another context.
    pub fn write(
        &mut self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: u64,
    ) -> Result<(), Error> {
        let work = Work::Write { remote: remote.into().range() };
        self.add(peer, local.into(), work, id)
    }

    /// As [`crate::Jetty::write_immediate`].
    ///
    /// # Errors
    /// As [`Batch::write`].
    pub fn write_immediate(
        &mut self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        notify: Notify,
        id: u64,
    ) -> Result<(), Error> {
        let work = notify.write(remote.into())?;
        self.add(peer, local.into(), work, id)
    }

    /// As [`crate::Jetty::read`].
    ///
    /// # Errors
    /// As [`Batch::write`]; or the local memory can't be written.
    pub fn read(
        &mut self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        id: u64,
    ) -> Result<(), Error> {
        let work = Work::Read { remote: remote.into().range() };
        self.add(peer, local.into(), work, id)
    }

    /// As [`crate::Jetty::send`].
    ///
    /// # Errors
    /// As [`Batch::write`].
    pub fn send(
        &mut self,
        peer: &Peer,
        target: u32,
        local: impl Into<LocalSlice<'a>>,
        id: u64,
    ) -> Result<(), Error> {
        let work = Work::Send { target: jetty_id(target)? };
        self.add(peer, local.into(), work, id)
    }

    /// As [`crate::Jetty::send_immediate`].
    ///
    /// # Errors
    /// As [`Batch::write`].
    pub fn send_immediate(
        &mut self,
        peer: &Peer,
        notify: Notify,
        local: impl Into<LocalSlice<'a>>,
        id: u64,
    ) -> Result<(), Error> {
        let work = notify.send()?;
        self.add(peer, local.into(), work, id)
    }

    /// Number of operations named so far.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// True if none was.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) fn requests(&self) -> &[WorkRequest] {
        &self.requests
    }

    /// The emptied vector, for the next batch.
    pub(crate) fn into_spare(mut self) -> Vec<WorkRequest> {
        self.requests.clear();
        self.requests
    }

    fn add(
        &mut self,
        peer: &Peer,
        local: LocalSlice<'a>,
        work: Work,
        id: u64,
    ) -> Result<(), Error> {
        let request = request(self.handle, peer, local, work, id)?;
        self.requests.push(WorkRequest { signaled: self.signaled, ..request });
        Ok(())
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("operations", &self.len()).finish_non_exhaustive()
    }
}

/// A signaled request, its arguments checked.
pub(crate) fn request(
    handle: &Arc<Handle>,
    peer: &Peer,
    local: LocalSlice<'_>,
    work: Work,
    id: u64,
) -> Result<WorkRequest, Error> {
    if !peer.belongs_to(handle) {
        return Err(Error::Foreign { what: "peer" });
    }
    let local = local.range(handle, matches!(work, Work::Read { .. }))?;
    Ok(WorkRequest {
        id,
        channel: peer.channel(),
        work,
        local,
        signaled: true,
        order: OrderRequest::default(),
    })
}

/// A Jetty as the wire has it.
pub(crate) fn jetty_id(number: u32) -> Result<Target, Error> {
    if number > JettyId::MAX {
        return Err(Error::Number { name: "Jetty", value: number });
    }
    Ok(Target { jetty: JettyId::new(number), ..Target::default() })
}
