//! Attempts to connect, between the calls of `connect`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairway::{Context, Error, Peer, Refusal, without_signals};

use crate::guard::lock;
use crate::message::{HANDLE_BYTES, Handle};
use crate::nics::{Lease, Nics};
use crate::sender::Sender;
use crate::settings::CONNECT_TIMEOUT;
use crate::status::{Failure, Result, Status};

/// Longest time for which a try ignores that its attempt has been cancelled.
const TRY: Duration = Duration::from_secs(2);
/// Pause before the next try at a peer that has no room.
const PAUSE: Duration = Duration::from_millis(20);
/// An attempt that was not continued for this long has been abandoned.
const ABANDONED: Duration = Duration::from_secs(60);

/// An attempt, which a thread of its own begins.
struct Attempt {
    state: State,
    is_cancelled: Arc<AtomicBool>,
    /// When `connect` was last called for it.
    continued: Instant,
    lease: Lease,
}

/// How far an attempt has come.
enum State {
    /// The thread sets the connection up.
    Connecting(Option<JoinHandle<std::result::Result<Peer, Error>>>),
    /// The hello is on its way.
    Greeting(Arc<Sender>),
}

/// The attempts of an instance, by the number that a handle keeps.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<HashMap<u64, Attempt>>);

impl Attempts {
    /// `connect`: begins an attempt, or continues the one that the handle names. Returns the sender
    /// when its hello has arrived.
    pub(crate) fn connect(
        &self,
        nics: &Arc<Nics>,
        device: i32,
        bytes: &mut [u8; HANDLE_BYTES],
    ) -> Result<Option<Arc<Sender>>> {
        self.drop_abandoned();
        let mut handle = Handle::from_bytes(bytes)?;
        let known = lock(&self.0).remove(&handle.attempt);
        let mut attempt = match known {
            Some(attempt) => attempt,
            None if handle.attempt != 0 => {
                return Err(Failure::argument("the attempt to connect has been abandoned"));
            }
            None => {
                static NUMBERS: AtomicU64 = AtomicU64::new(1);
                handle.attempt = NUMBERS.fetch_add(1, Ordering::Relaxed);
                Attempt::begin(nics.lease(device)?, handle.address)?
            }
        };
        // A failed attempt is dropped here, and the handle may be tried again.
        let number = std::mem::take(&mut handle.attempt);
        *bytes = handle.to_bytes();
        let connected = attempt.advance(&handle)?;
        if connected.is_none() {
            lock(&self.0).insert(number, attempt);
            *bytes = Handle { attempt: number, ..handle }.to_bytes();
        }
        Ok(connected)
    }

    /// Drops the attempts that were not continued for a minute.
    pub(crate) fn drop_abandoned(&self) {
        let now = Instant::now();
        let is_old = |attempt: &Attempt| now.duration_since(attempt.continued) > ABANDONED;
        let mut attempts = lock(&self.0);
        let old: Vec<u64> =
            attempts.iter().filter(|(_, one)| is_old(one)).map(|(id, _)| *id).collect();
        let old: Vec<Attempt> = old.into_iter().filter_map(|id| attempts.remove(&id)).collect();
        drop(attempts);
        drop(old);
    }
}

impl Attempt {
    fn begin(lease: Lease, address: SocketAddr) -> Result<Attempt> {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (cancelled, context) = (is_cancelled.clone(), lease.context().clone());
        let body = move || set_up(&context, address, &cancelled);
        let builder = std::thread::Builder::new().name("fairway-connect".into());
        let thread = without_signals(|| builder.spawn(body)).map_err(|error| {
            Failure::new(Status::System, format!("start a thread to connect: {error}"))
        })?;
        let state = State::Connecting(Some(thread));
        Ok(Attempt { state, is_cancelled, continued: Instant::now(), lease })
    }

    fn advance(&mut self, handle: &Handle) -> Result<Option<Arc<Sender>>> {
        self.continued = Instant::now();
        if let State::Connecting(thread) = &mut self.state {
            let Some(ended) = thread.take_if(|thread| thread.is_finished()) else {
                return Ok(None);
            };
            let panicked = |_| Failure::new(Status::Internal, "the thread that connects panicked");
            let peer = ended.join().map_err(panicked)??;
            let sender = Sender::new(self.lease.clone(), peer, handle)?;
            self.state = State::Greeting(sender);
        }
        let State::Greeting(sender) = &self.state else { return Ok(None) };
        Ok(sender.is_greeted()?.then(|| sender.clone()))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Release);
        if let State::Connecting(Some(thread)) =
            std::mem::replace(&mut self.state, State::Connecting(None))
            && let Ok(Ok(peer)) = thread.join()
        {
            // An error reports that the connection has been closed.
            let _ = peer.close();
        }
    }
}

fn set_up(
    context: &Context,
    address: SocketAddr,
    is_cancelled: &AtomicBool,
) -> std::result::Result<Peer, Error> {
    let start = Instant::now();
    loop {
        let tried = context.connect(address, TRY);
        let is_over = start.elapsed() >= CONNECT_TIMEOUT || is_cancelled.load(Ordering::Acquire);
        match &tried {
            Err(Error::Unanswered { .. } | Error::NoSharedMemory { .. }) if !is_over => {}
            // Channels that have been closed there are free in a moment.
            Err(Error::Refused { reason: Refusal::NoResources, .. }) if !is_over => {
                std::thread::sleep(PAUSE);
            }
            _ => return tried,
        }
    }
}
