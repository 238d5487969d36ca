//! The receiving end of a connection.

use std::sync::{Arc, Mutex, Weak};

use fairway::{Completion, Jetty, Peer, Post, Segment, To};

use crate::guard::lock;
use crate::limits::{ANNOUNCEMENTS, GROUP_MAX, RECEIVES};
use crate::memory::{Registration, Use};
use crate::message::{ANNOUNCEMENT_BYTES, Announcement, Buffer, NUMBER_MASK, Notification};
use crate::nic::End;
use crate::nics::Lease;
use crate::object::Tagged;
use crate::request::{Ended, Request, Requests, table};
use crate::status::{Failure, Result, Status, is_full};

/// Number of the receives that notifications consume. Announcements have their place's index.
const NOTIFIED: u64 = 1 << 32;

/// A buffer to receive into.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Address of the first byte.
    pub(crate) data: usize,
    pub(crate) size: u64,
    pub(crate) tag: i32,
    /// `None` is allowed for buffers without bytes.
    pub(crate) memory: Option<&'a Registration>,
}

/// Announces buffers to the sender, and receives into them.
pub(crate) struct Receiver {
    peer: Peer,
    jetty: Jetty,
    /// The sender's endpoint.
    to: To,
    /// This end's endpoint, as the sender names it.
    notify: To,
    /// Announcements that are under way.
    outbox: Segment,
    requests: Box<[Tagged<Request>]>,
    state: Mutex<State>,
    lease: Lease,
}

struct State {
    receives: [Option<Receive>; RECEIVES],
    /// Places of the outbox that are in use, one bit each.
    under_way: u64,
    /// Receives that were posted for notifications which no announcement asked for yet.
    spare: usize,
    /// The number of the next announcement.
    next: u32,
    /// Why the connection has failed.
    failure: Option<Failure>,
    completions: Vec<Completion>,
}

const _: () = assert!(ANNOUNCEMENTS <= u64::BITS as usize);

/// A receive that has not been tested as ended.
struct Receive {
    number: u32,
    count: usize,
    /// Sizes of the buffers.
    posted: [u64; GROUP_MAX],
    /// The memory that the buffers are in.
    memory: [Option<Use>; GROUP_MAX],
    /// Sizes of the messages that arrived.
    sizes: [u32; GROUP_MAX],
    /// Buffers that have been filled, one bit each.
    filled: u32,
}

impl Receive {
    fn has_ended(&self) -> bool {
        self.filled.count_ones() as usize == self.count
    }
}

impl Receiver {
    /// Makes the receiving end of a connection whose sender has this endpoint.
    pub(crate) fn new(lease: Lease, peer: Peer, to: To) -> Result<Arc<Receiver>> {
        let (jetty, token) = lease.endpoint()?;
        let outbox = lease.scratch(ANNOUNCEMENTS * ANNOUNCEMENT_BYTES)?;
        let notify = To::new(jetty.number()).token(token);
        let state = State {
            receives: [const { None }; RECEIVES],
            under_way: 0,
            spare: 0,
            next: 0,
            failure: None,
            completions: Vec::new(),
        };
        let receiver = Arc::new_cyclic(|this: &Weak<Receiver>| {
            let owner: Weak<dyn Requests> = this.clone();
            let requests = table(RECEIVES, &owner);
            let state = Mutex::new(state);
            Receiver { peer, jetty, to, notify, outbox, requests, state, lease }
        });
        let end: Arc<dyn End> = receiver.clone();
        receiver.lease.add_end(Arc::downgrade(&end));
        Ok(receiver)
    }

    /// Registers memory for buffers: with the connection's NIC.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Posts buffers for one message each. `None`: too much is in flight.
    pub(crate) fn receive(&self, targets: &[Target<'_>]) -> Result<Option<&Tagged<Request>>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        self.poll(state);
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let Some(index) = state.receives.iter().position(Option::is_none) else { return Ok(None) };
        let place = state.under_way.trailing_ones() as usize;
        if place >= ANNOUNCEMENTS {
            return Ok(None);
        }
        let (mut announcement, mut receive) = self.announcement(state.next, targets.len());
        for (at, target) in targets.iter().enumerate() {
            announcement.buffers[at] = self.buffer(target)?;
            receive.posted[at] = target.size;
            receive.memory[at] = target.memory.map(Registration::begin_use);
        }
        while state.spare < targets.len() {
            match self.jetty.post_receive(self.lease.nothing().slice(0..0), NOTIFIED) {
                Ok(()) => state.spare += 1,
                Err(error) if is_full(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        match self.announce(&announcement, place) {
            Ok(()) => {}
            Err(error) if is_full(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        state.spare -= targets.len();
        state.under_way |= 1 << place;
        state.next = state.next.wrapping_add(1);
        state.receives[index] = Some(receive);
        Ok(Some(&self.requests[index]))
    }

    fn announcement(&self, number: u32, count: usize) -> (Announcement, Receive) {
        let buffers = [Buffer::default(); GROUP_MAX];
        let (posted, sizes) = ([0; GROUP_MAX], [0; GROUP_MAX]);
        let memory = [const { None }; GROUP_MAX];
        (
            Announcement { number, notify: self.notify, count, buffers },
            Receive { number, count, posted, memory, sizes, filled: 0 },
        )
    }

    fn buffer(&self, target: &Target<'_>) -> Result<Buffer> {
        let (segment, offset) = match target.memory {
            Some(memory) => {
                let range = memory.range(&self.lease, target.data, target.size)?;
                (memory.segment(), range.start)
            }
            None if target.size == 0 => (self.lease.nothing(), 0),
            None => return Err(Failure::argument("a buffer without memory handle")),
        };
        let key = segment.key();
        let (token_id, token_value) = (key.token_id, key.token_value);
        Ok(Buffer { tag: target.tag, token_id, token_value, offset, size: target.size })
    }

    fn announce(
        &self,
        announcement: &Announcement,
        place: usize,
    ) -> std::result::Result<(), fairway::Error> {
        let mut bytes = [0; ANNOUNCEMENT_BYTES];
        let length = announcement.write(&mut bytes);
        let start = (place * ANNOUNCEMENT_BYTES) as u64;
        self.outbox.write_at(start, &bytes[..length])?;
        let slice = self.outbox.slice(start..start + length as u64);
        Post::send(&self.jetty, &self.peer, self.to, slice, place as u64)
    }

    /// Takes completions, and looks whether the peer is there.
    fn poll(&self, state: &mut State) {
        // Asked before, so that what arrived until the end counts.
        let is_alive = self.peer.is_alive();
        let mut completions = std::mem::take(&mut state.completions);
        self.jetty.poll(&mut completions);
        for done in completions.drain(..) {
            if let Err(failure) = complete(state, done) {
                state.failure.get_or_insert(failure);
            }
        }
        state.completions = completions;
        if !is_alive {
            let address = self.peer.address();
            let text = format!("the sender at {address} has closed the connection, or is dead");
            state.failure.get_or_insert(Failure::remote(text));
        }
    }
}

fn complete(state: &mut State, done: Completion) -> Result<()> {
    let done = done.result()?;
    if done.id.value() != NOTIFIED {
        state.under_way &= !(1 << done.id.value());
        return Ok(());
    }
    let unexpected = || Failure::remote("the sender has reported what no receive asked for");
    let filled = Notification::from_immediate(done.immediate.ok_or_else(unexpected)?);
    let Notification { number, buffer, size } = filled;
    let of_number = |one: &&mut Receive| one.number & NUMBER_MASK == number;
    let receive = state.receives.iter_mut().flatten().find(of_number).ok_or_else(unexpected)?;
    let is_open = buffer < receive.count && receive.filled & 1 << buffer == 0;
    if !is_open || u64::from(size) > receive.posted[buffer] {
        return Err(unexpected());
    }
    receive.filled |= 1 << buffer;
    receive.sizes[buffer] = size;
    Ok(())
}

impl Requests for Receiver {
    fn test(&self, index: usize) -> Result<Option<Ended>> {
        let mut state = lock(&self.state);
        if !state.receives[index].as_ref().is_some_and(Receive::has_ended) {
            self.poll(&mut state);
        }
        match &state.receives[index] {
            None => Err(Failure::new(Status::Usage, "the request has ended before")),
            Some(receive) if receive.has_ended() => {
                let ended = Ended { count: receive.count, sizes: receive.sizes };
                state.receives[index] = None;
                Ok(Some(ended))
            }
            Some(_) => match &state.failure {
                Some(failure) => Err(failure.clone()),
                None => Ok(None),
            },
        }
    }
}

impl End for Receiver {
    fn abandon_memory(&self, number: u64) {
        let mut state = lock(&self.state);
        self.poll(&mut state);
        let uses = |receive: &Receive| {
            let mut memory = receive.memory.iter().flatten();
            !receive.has_ended() && memory.any(|memory| memory.is_of(number))
        };
        if state.receives.iter().flatten().any(uses) {
            let text = "memory was deregistered while a receive used it";
            state.failure.get_or_insert(Failure::new(Status::Usage, text));
            // An error reports that the connection has been closed.
            let _ = self.peer.close();
        }
    }
}

impl Drop for Receiver {
    /// Open receives are given up. Without any, the sender closes the connection: its last
    /// acknowledgements may still be under way.
    fn drop(&mut self) {
        let is_idle = {
            let mut state = lock(&self.state);
            self.poll(&mut state);
            state.receives.iter().flatten().all(Receive::has_ended)
        };
        if is_idle && self.peer.is_alive() {
            self.lease.linger(self.peer.clone());
        } else {
            // An error reports that the sender has closed the connection.
            let _ = self.peer.close();
        }
    }
}
