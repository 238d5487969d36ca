//! Operations for programs that run on tokio. They require the feature `tokio`.
//!
//! The context's background thread drives the NIC and wakes the tasks, so a context needs its
//! progress thread ([`Builder::progress_thread`](crate::Builder::progress_thread)). Tokio is used
//! for time-outs, and for a thread that waits for a connection. [`Jetty::next_completion`] is a
//! future for any executor, and needs no feature.
//!
//! Dropping the future of an operation early calls the operation off, as a time-out does: it uses
//! no memory of this side any more. What had reached the peer by then may have been executed.

use std::future::Future;
use std::time::Duration;

use crate::blocking::Running;
use crate::completion::Completion;
use crate::context::Context;
use crate::error::Error;
use crate::jetty::Jetty;
use crate::key::RemoteSlice;
use crate::peer::Peer;
use crate::post::Post;
use crate::segment::LocalSlice;
use crate::server_address::ServerAddress;
use crate::word::{AtomicOp, RemoteWord};

impl Context {
    /// As [`Context::connect`], without blocking the task's thread.
    ///
    /// # Errors
    /// As [`Context::connect`]; or [`Error::ShutDown`] if the runtime ends meanwhile.
    pub async fn connect_async(
        &self,
        server: impl Into<ServerAddress>,
        timeout: Duration,
    ) -> Result<Peer, Error> {
        let (context, server) = (self.clone(), server.into());
        let connecting = ::tokio::task::spawn_blocking(move || context.connect(server, timeout));
        connecting.await.unwrap_or(Err(Error::ShutDown))
    }
}

impl Jetty {
    /// As [`Jetty::write_all`], for tasks of tokio.
    ///
    /// # Errors
    /// As [`Jetty::write_all`].
    pub async fn write_all_async<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        timeout: Duration,
    ) -> Result<(), Error> {
        self.complete_async(timeout, |lane| Post::write(lane, peer, local, remote, 0))
            .await
            .map(drop)
    }

    /// As [`Jetty::read_exact`], for tasks of tokio.
    ///
    /// # Errors
    /// As [`Jetty::read_exact`].
    pub async fn read_exact_async<'a>(
        &self,
        peer: &Peer,
        local: impl Into<LocalSlice<'a>>,
        remote: impl Into<RemoteSlice>,
        timeout: Duration,
    ) -> Result<(), Error> {
        self.complete_async(timeout, |lane| Post::read(lane, peer, local, remote, 0))
            .await
            .map(drop)
    }

    /// As [`Jetty::update`], for tasks of tokio.
    ///
    /// # Errors
    /// As [`Jetty::update`].
    pub async fn update_async(
        &self,
        peer: &Peer,
        word: impl Into<RemoteWord>,
        operation: AtomicOp,
        timeout: Duration,
    ) -> Result<u64, Error> {
        let post = |lane: &Jetty| Post::atomic(lane, peer, word, operation, 0);
        Ok(self.complete_async(timeout, post).await?.value)
    }

    /// Returns the next completion.
    ///
    /// # Errors
    /// As [`Jetty::wait`].
    pub async fn wait_async(&self, timeout: Duration) -> Result<Completion, Error> {
        within(timeout, self.next_completion()).await?
    }

    async fn complete_async(
        &self,
        timeout: Duration,
        post: impl FnOnce(&Jetty) -> Result<(), Error>,
    ) -> Result<Completion, Error> {
        // If this future is dropped while it waits, the operation is called off.
        let running = Running::begin(self, post)?;
        let done = running.lane().wait_async(timeout).await?;
        running.end();
        Ok(done.result()?)
    }
}

async fn within<T>(timeout: Duration, future: impl Future<Output = T>) -> Result<T, Error> {
    let ended = ::tokio::time::timeout(timeout, future).await;
    ended.map_err(|_| Error::Timeout { awaited: "completion", waited: timeout })
}
