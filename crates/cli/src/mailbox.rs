//! The tool's own messages: a Jetty with buffers for short messages to and fro.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fairway_softnic::{
    Completion, CompletionKind, Context, Error, Jetty, JettyOptions, Memory, Peer, Post, Rights,
    Segment, Status,
};

use crate::failure::Failure;

/// Messages that may be on their way out, and receives posted.
const SLOTS: u64 = 64;

/// Sends and receives messages of limited length.
pub(crate) struct Mailbox {
    jetty: Jetty,
    inbox: Segment,
    outbox: Segment,
    slot_bytes: u64,
    state: Mutex<State>,
}

struct State {
    free: Vec<u64>,
    arrived: VecDeque<Completion>,
    scratch: Vec<Completion>,
    /// How the latest of our messages that failed did.
    failed: Option<Status>,
}

/// A message that arrived.
pub(crate) struct Mail {
    /// Whom it came from; `None` if the connection has gone already.
    pub(crate) peer: Option<Peer>,
    /// The sender's Jetty, where answers go.
    pub(crate) sender: u32,
    /// What it says.
    pub(crate) bytes: Vec<u8>,
}

impl Mailbox {
    /// A mailbox at the Jetty of this number, or any free one, for messages up to `slot_bytes`.
    pub(crate) fn new(
        context: &Context,
        number: Option<u32>,
        slot_bytes: u64,
    ) -> Result<Self, Error> {
        let jetty = context.create_jetty(JettyOptions {
            number,
            depth: 4 * SLOTS as u32,
            ..Default::default()
        })?;
        let memory = || Memory::zeroed((SLOTS * slot_bytes) as usize);
        let inbox = context.register(memory()?, Rights::NONE)?;
        let outbox = context.register(memory()?, Rights::NONE)?;
        let state = State {
            free: (0..SLOTS).collect(),
            arrived: VecDeque::new(),
            scratch: Vec::new(),
            failed: None,
        };
        let mailbox = Mailbox { jetty, inbox, outbox, slot_bytes, state: Mutex::new(state) };
        for slot in 0..SLOTS {
            mailbox.offer(slot)?;
        }
        Ok(mailbox)
    }

    /// Sends a message. Does not wait for it to arrive.
    pub(crate) fn send(&self, peer: &Peer, target: u32, bytes: &[u8]) -> Result<(), Failure> {
        let length = bytes.len() as u64;
        if length > self.slot_bytes {
            return Err(Failure::failed(format!(
                "a message of {length} bytes is too long: at most {} fit",
                self.slot_bytes
            )));
        }
        let slot = self.state().free.pop().ok_or_else(|| {
            Failure::failed("too many messages are unanswered: try again with fewer clients")
        })?;
        let start = slot * self.slot_bytes;
        self.outbox.write_at(start, bytes)?;
        let posted = self.jetty.send(peer, target, self.outbox.slice(start..start + length), slot);
        if posted.is_err() {
            self.state().free.push(slot);
        }
        Ok(posted?)
    }

    /// A message, if one is there. Runs a turn of the NIC.
    pub(crate) fn poll(&self) -> Result<Option<Mail>, Failure> {
        let mut state = self.state();
        if state.arrived.is_empty() {
            let State { arrived, scratch, .. } = &mut *state;
            self.jetty.poll(scratch);
            arrived.extend(scratch.drain(..));
        }
        let arrived = state.arrived.pop_front();
        drop(state);
        arrived.map_or(Ok(None), |completion| self.take(&completion))
    }

    /// Waits for a message; `None` if none came in time.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<Option<Mail>, Failure> {
        let deadline = Instant::now() + timeout;
        loop {
            let early = self.state().arrived.pop_front();
            let completion = match early {
                Some(completion) => completion,
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match self.jetty.wait(left) {
                        Ok(completion) => completion,
                        Err(Error::Timeout { .. }) => return Ok(None),
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            if let Some(mail) = self.take(&completion)? {
                return Ok(Some(mail));
            }
        }
    }

    /// Waits for the answer of `peer` to what was sent before.
    pub(crate) fn answer(
        &self,
        peer: &Peer,
        awaited: &str,
        timeout: Duration,
    ) -> Result<Vec<u8>, Failure> {
        /// How often a dead peer is looked for.
        const STEP: Duration = Duration::from_millis(200);
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.wait(left.min(STEP))? {
                Some(mail) => return Ok(mail.bytes),
                None if self.state().failed == Some(Status::RemoteNoJetty) => {
                    return Err(Failure::failed(format!(
                        "{} is a Fairway program, but not of this kind: check the port, and that \
                         `fairway serve` or `fairway perf --server` runs there",
                        peer.address()
                    )));
                }
                None if !peer.is_alive() => {
                    return Err(Failure::failed(format!(
                        "the connection to {} has ended while waiting for {awaited}: look what \
                         became of the server, and try again",
                        peer.address()
                    )));
                }
                None if left.is_zero() => {
                    return Err(Failure::failed(format!(
                        "no {awaited} from {} within {timeout:?}: is it busy with another client? \
                         Try again",
                        peer.address()
                    )));
                }
                None => {}
            }
        }
    }

    /// What a completion brings, if it is a message. A message of ours that failed is no news to a
    /// server: the connection it was for is gone, and that is told otherwise.
    fn take(&self, completion: &Completion) -> Result<Option<Mail>, Failure> {
        if completion.kind != CompletionKind::Receive {
            let mut state = self.state();
            if completion.kind == CompletionKind::Send {
                state.free.push(completion.id);
            }
            if completion.status != Status::Success {
                state.failed = Some(completion.status);
            }
            return Ok(None);
        }
        let mut mail = None;
        if completion.status == Status::Success {
            let mut bytes = vec![0; completion.bytes as usize];
            self.inbox.read_at(completion.id * self.slot_bytes, &mut bytes)?;
            let peer = self.jetty.peer_of(completion);
            mail = Some(Mail { peer, sender: completion.remote_jetty.value(), bytes });
        }
        self.offer(completion.id)?;
        Ok(mail)
    }

    fn offer(&self, slot: u64) -> Result<(), Error> {
        let start = slot * self.slot_bytes;
        self.jetty.post_receive(self.inbox.slice(start..start + self.slot_bytes), slot)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
