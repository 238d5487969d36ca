//! The sending end of a connection.

use std::sync::{Arc, Mutex, Weak};

use fairway::{Completion, Jetty, NotifyTarget, Peer, Post, Segment, To};

use crate::guard::lock;
use crate::limits::{ANNOUNCEMENTS, GROUP_MAX, SENDS};
use crate::memory::{Registration, Use, checked_size};
use crate::message::{ANNOUNCEMENT_BYTES, HELLO_BYTES, Handle, Hello, Notification};
use crate::nic::End;
use crate::nics::Lease;
use crate::object::Tagged;
use crate::request::{Ended, Request, Requests, table};
use crate::sender::announced::{Announced, Place};
use crate::status::{Failure, Result, Status, is_full};

mod announced;

/// Numbers of posted work: sends have their index, the others these and up.
const HELLO: u64 = 1 << 32;
const INBOX: u64 = 1 << 33;

/// A message to send.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    /// Address of the first byte.
    pub(crate) data: usize,
    pub(crate) size: u64,
    pub(crate) tag: i32,
    /// `None` is allowed for messages without bytes.
    pub(crate) memory: Option<&'a Registration>,
}

/// Sends messages into the buffers that the receiver announces.
pub(crate) struct Sender {
    peer: Peer,
    jetty: Jetty,
    /// Places for announcements.
    inbox: Segment,
    /// The hello, until it has arrived.
    greeting: Segment,
    requests: Box<[Tagged<Request>]>,
    state: Mutex<State>,
    lease: Lease,
}

struct State {
    announced: Announced,
    sends: Vec<Send>,
    free: Vec<usize>,
    is_greeted: bool,
    /// Why the connection has failed.
    failure: Option<Failure>,
    completions: Vec<Completion>,
}

/// The state of a send.
enum Send {
    Free,
    /// The WRITE is in flight; it reads this memory.
    InFlight {
        size: u32,
        memory: Option<Use>,
    },
    Arrived {
        size: u32,
    },
}

impl Sender {
    /// Makes the sending end of a new connection, and greets the listener that `handle` names.
    pub(crate) fn new(lease: Lease, peer: Peer, handle: &Handle) -> Result<Arc<Sender>> {
        let (jetty, token) = lease.endpoint()?;
        let inbox = lease.scratch(ANNOUNCEMENTS * ANNOUNCEMENT_BYTES)?;
        let greeting = lease.scratch(HELLO_BYTES)?;
        let state = State {
            announced: Announced::default(),
            sends: (0..SENDS).map(|_| Send::Free).collect(),
            free: (0..SENDS).rev().collect(),
            is_greeted: false,
            failure: None,
            completions: Vec::new(),
        };
        let sender = Arc::new_cyclic(|this: &Weak<Sender>| {
            let owner: Weak<dyn Requests> = this.clone();
            let requests = table(SENDS, &owner);
            let state = Mutex::new(state);
            Sender { peer, jetty, inbox, greeting, requests, state, lease }
        });
        for place in 0..ANNOUNCEMENTS {
            sender.post_receive(place)?;
        }
        let end: Arc<dyn End> = sender.clone();
        sender.lease.add_end(Arc::downgrade(&end));
        let from = To::new(sender.jetty.number()).token(token);
        let hello = Hello { secret: handle.secret, from };
        sender.greeting.write_at(0, &hello.to_bytes())?;
        sender.jetty.send(&sender.peer, handle.to, &sender.greeting, HELLO)?;
        Ok(sender)
    }

    /// True if the listener has received the hello.
    pub(crate) fn is_greeted(&self) -> Result<bool> {
        let mut state = lock(&self.state);
        self.poll(&mut state);
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state.is_greeted),
        }
    }

    /// Registers memory for messages: with the connection's NIC.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Sends a message into the oldest announced buffer of its tag. `None`: there is none, or too
    /// much is in flight.
    pub(crate) fn send(&self, message: &Message<'_>) -> Result<Option<&Tagged<Request>>> {
        let mut state = lock(&self.state);
        let mut place = state.announced.find(message.tag);
        if place.is_none() {
            self.poll(&mut state);
            place = state.announced.find(message.tag);
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let (Some(place), Some(index)) = (place, state.free.last().copied()) else {
            return Ok(None);
        };
        let size = checked_size(message.size)?;
        if message.size > place.buffer.size {
            let posted = place.buffer.size;
            let text = format!("{size} bytes are sent to a receive of {posted} bytes");
            return Err(Failure::new(Status::Usage, text));
        }
        let memory = message.memory.map(Registration::begin_use);
        match self.write(message, &place, index) {
            Ok(()) => {}
            Err(Posted::Later) => return Ok(None),
            Err(Posted::Never(failure)) => return Err(failure),
        }
        state.announced.take(&place);
        state.free.pop();
        state.sends[index] = Send::InFlight { size, memory };
        Ok(Some(&self.requests[index]))
    }

    fn write(
        &self,
        message: &Message<'_>,
        place: &Place,
        index: usize,
    ) -> std::result::Result<(), Posted> {
        let nothing = self.lease.nothing();
        let local = match message.memory {
            Some(memory) => {
                let range = memory.range(&self.lease, message.data, message.size)?;
                memory.segment().slice(range)
            }
            None if message.size == 0 => nothing.slice(0..0),
            None => return Err(Failure::argument("a message without memory handle").into()),
        };
        let (number, buffer) = (place.number, place.index);
        let notification = Notification { number, buffer, size: message.size as u32 };
        let notify = NotifyTarget::new(place.notify, notification.to_immediate());
        let remote = place.buffer.key().at(place.buffer.offset);
        let posted =
            Post::write_immediate(&self.jetty, &self.peer, local, remote, notify, index as u64);
        posted.map_err(|error| match is_full(&error) {
            true => Posted::Later,
            false => Posted::Never(error.into()),
        })
    }

    /// Takes completions, and looks whether the peer is there.
    fn poll(&self, state: &mut State) {
        // Asked before, so that what arrived until the end counts.
        let is_alive = self.peer.is_alive();
        let mut completions = std::mem::take(&mut state.completions);
        self.jetty.poll(&mut completions);
        for done in completions.drain(..) {
            if let Err(failure) = self.complete(state, done) {
                state.failure.get_or_insert(failure);
            }
        }
        state.completions = completions;
        if !is_alive {
            let address = self.peer.address();
            let text = format!("the receiver at {address} has closed the connection, or is dead");
            state.failure.get_or_insert(Failure::remote(text));
        }
    }

    fn complete(&self, state: &mut State, done: Completion) -> Result<()> {
        let done = done.result()?;
        match done.id.value() {
            HELLO => state.is_greeted = true,
            id if id >= INBOX => {
                let place = (id - INBOX) as usize;
                let mut bytes = [0; ANNOUNCEMENT_BYTES];
                let bytes = &mut bytes[..ANNOUNCEMENT_BYTES.min(done.bytes as usize)];
                self.inbox.read_at((place * ANNOUNCEMENT_BYTES) as u64, bytes)?;
                self.post_receive(place)?;
                state.announced.add(bytes)?;
            }
            index => {
                let send = &mut state.sends[index as usize];
                if let &mut Send::InFlight { size, .. } = send {
                    *send = Send::Arrived { size };
                }
            }
        }
        Ok(())
    }

    fn post_receive(&self, place: usize) -> Result<()> {
        let start = (place * ANNOUNCEMENT_BYTES) as u64;
        let slice = self.inbox.slice(start..start + ANNOUNCEMENT_BYTES as u64);
        Ok(self.jetty.post_receive(slice, INBOX + place as u64)?)
    }
}

/// Why a WRITE was not posted.
enum Posted {
    /// Too much is in flight.
    Later,
    Never(Failure),
}

impl From<Failure> for Posted {
    fn from(failure: Failure) -> Posted {
        Posted::Never(failure)
    }
}

impl Requests for Sender {
    fn test(&self, index: usize) -> Result<Option<Ended>> {
        let mut state = lock(&self.state);
        if !matches!(state.sends[index], Send::Arrived { .. }) {
            self.poll(&mut state);
        }
        match &state.sends[index] {
            Send::Free => Err(Failure::new(Status::Usage, "the request has ended before")),
            Send::InFlight { .. } => match &state.failure {
                Some(failure) => Err(failure.clone()),
                None => Ok(None),
            },
            &Send::Arrived { size } => {
                state.sends[index] = Send::Free;
                state.free.push(index);
                let mut sizes = [0; GROUP_MAX];
                sizes[0] = size;
                Ok(Some(Ended { count: 1, sizes }))
            }
        }
    }
}

impl End for Sender {
    fn abandon_memory(&self, number: u64) {
        let mut state = lock(&self.state);
        self.poll(&mut state);
        let uses = |send: &Send| match send {
            Send::InFlight { memory: Some(memory), .. } => memory.is_of(number),
            _ => false,
        };
        if state.sends.iter().any(uses) {
            let text = "memory was deregistered while it was being sent";
            state.failure.get_or_insert(Failure::new(Status::Usage, text));
            // An error reports that the connection has been closed.
            let _ = self.peer.close();
        }
    }
}

impl Drop for Sender {
    /// Everything that was sent has arrived, or is given up.
    fn drop(&mut self) {
        // An error reports that the receiver has closed the connection.
        let _ = self.peer.close();
    }
}
