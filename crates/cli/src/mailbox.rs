//! The tool's own messages: a Jetty with buffers for short messages in both directions.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fairway::{
    ChannelId, Completion, CompletionKind, Context, Error, Jetty, JettyOptions, Limits, Memory,
    Peer, Rights, Segment, Status,
};

use crate::failure::Failure;

/// Largest number of unacknowledged messages to one peer, so that a peer that does not receive its
/// answers can't block those of others. A client has up to four requests under way, and may learn
/// of an answer before the answer is acknowledged, so there are twice as many.
const OUT_EACH: u64 = 8;

/// Largest number of messages to one peer that wait until an earlier one is acknowledged. Where
/// acknowledgements are lost, a client may have the answers to any number of requests before this
/// side learns of it; but it has at most four requests without an answer.
const WAITING_EACH: usize = 8;

/// Number of buffers for messages.
#[derive(Clone, Copy, Debug)]
struct Slots {
    out: u64,
    /// Buffers for incoming messages. A peer that begins messages and does not end them occupies a
    /// receive for each.
    receives: u64,
}

impl Slots {
    /// Enough buffers for `peers` peers, each of which uses as many as it may; or as many as a
    /// context has, if that is fewer.
    fn for_peers(peers: u32) -> Slots {
        let limits = Limits::default();
        let messages = u64::from(limits.message_slots);
        let (out, receives) = (OUT_EACH, messages + 1);
        // Other Jetties take the rest.
        let most = u64::from(limits.completions.min(limits.receives)) / 8 * 7;
        let peers = u64::from(peers).min(most / (out + receives));
        Slots { out: peers * out, receives: peers * receives }
    }

    /// Largest number of completions for all buffers.
    fn completions(self) -> u32 {
        u32::try_from(self.out + self.receives).unwrap_or(u32::MAX)
    }
}

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
    /// The peer whose message occupies each outgoing slot, and the number of slots of each peer.
    taken: Vec<Option<ChannelId>>,
    out: HashMap<ChannelId, u64>,
    /// Messages for which there was no slot, in the order in which they are to be sent.
    waiting: VecDeque<Waiting>,
    arrived: VecDeque<Completion>,
    scratch: Vec<Completion>,
    /// Status of the latest outgoing message that failed.
    failed: Option<Status>,
}

/// A message that waits for a slot.
struct Waiting {
    peer: Peer,
    target: u32,
    bytes: Vec<u8>,
}

impl State {
    /// Reserves a slot for a message to a peer.
    fn take(&mut self, peer: ChannelId) -> Option<u64> {
        let out = self.out.entry(peer).or_default();
        let slot = if *out < OUT_EACH { self.free.pop() } else { None };
        match slot {
            Some(slot) => {
                *out += 1;
                self.taken[slot as usize] = Some(peer);
            }
            None if *out == 0 => drop(self.out.remove(&peer)),
            None => {}
        }
        slot
    }

    /// Polls the NIC. Slots of messages that have been acknowledged are released at once; received
    /// messages wait in `arrived`.
    fn fetch(&mut self, jetty: &Jetty) {
        let mut scratch = std::mem::take(&mut self.scratch);
        jetty.poll(&mut scratch);
        for completion in scratch.drain(..) {
            match completion.kind {
                CompletionKind::Receive => self.arrived.push_back(completion),
                _ => self.finish(&completion),
            }
        }
        self.scratch = scratch;
    }

    /// Handles the completion of an outgoing message.
    fn finish(&mut self, completion: &Completion) {
        if completion.kind == CompletionKind::Send {
            self.free_slot(completion.id.value());
        }
        if completion.status != Status::Success {
            self.failed = Some(completion.status);
        }
    }

    fn free_slot(&mut self, slot: u64) {
        let Some(peer) = self.taken.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        if let Some(out) = self.out.get_mut(&peer) {
            *out -= 1;
            if *out == 0 {
                self.out.remove(&peer);
            }
        }
    }
}

/// A received message.
pub(crate) struct Mail {
    /// The peer that sent the message; `None` if the connection is closed already.
    pub(crate) peer: Option<Peer>,
    /// The sender's Jetty, to which answers go.
    pub(crate) sender: u32,
    /// Contents of the message.
    pub(crate) bytes: Vec<u8>,
}

impl Mailbox {
    /// Creates a mailbox for messages of up to `slot_bytes`, at the Jetty with this well-known
    /// number, or at any free one for a single peer.
    pub(crate) fn new(
        context: &Context,
        number: Option<u32>,
        slot_bytes: u64,
    ) -> Result<Self, Error> {
        let peers = if number.is_some() { Limits::default().channels } else { 1 };
        Mailbox::with(context, number, slot_bytes, Slots::for_peers(peers))
    }

    /// Creates a mailbox at the Jetty with this well-known number, of a context that has room for
    /// `peers` peers ([`fairway::Builder::room_for_peers`]).
    pub(crate) fn for_peers(
        context: &Context,
        number: u32,
        slot_bytes: u64,
        peers: u32,
    ) -> Result<Self, Error> {
        // A third more are connections of other addresses.
        let peers = (peers.saturating_mul(4) / 3).max(Limits::default().channels);
        Mailbox::with(context, Some(number), slot_bytes, Slots::for_peers(peers))
    }

    fn with(
        context: &Context,
        number: Option<u32>,
        slot_bytes: u64,
        slots: Slots,
    ) -> Result<Self, Error> {
        let depth = slots.completions();
        let jetty = context.create_jetty(JettyOptions::default().number(number).depth(depth))?;
        let memory = |count| Memory::zeroed((count * slot_bytes) as usize);
        let inbox = context.register(memory(slots.receives)?, Rights::NONE)?;
        let outbox = context.register(memory(slots.out)?, Rights::NONE)?;
        let state = State {
            free: (0..slots.out).collect(),
            taken: vec![None; slots.out as usize],
            out: HashMap::new(),
            waiting: VecDeque::new(),
            arrived: VecDeque::new(),
            scratch: Vec::new(),
            failed: None,
        };
        let mailbox = Mailbox { jetty, inbox, outbox, slot_bytes, state: Mutex::new(state) };
        for slot in 0..slots.receives {
            mailbox.offer(slot)?;
        }
        Ok(mailbox)
    }

    /// Sends a message, without waiting for its arrival.
    pub(crate) fn send(&self, peer: &Peer, target: u32, bytes: &[u8]) -> Result<(), Failure> {
        let length = bytes.len() as u64;
        if length > self.slot_bytes {
            return Err(Failure::failed(format!(
                "a message of {length} bytes is too long: at most {} fit",
                self.slot_bytes
            )));
        }
        let mut state = self.state();
        state.fetch(&self.jetty);
        self.send_waiting(&mut state);
        let waiting = state.waiting.iter().filter(|other| other.peer == *peer).count();
        let slot = if waiting == 0 { state.take(peer.channel()) } else { None };
        match slot {
            Some(slot) => Ok(self.post(&mut state, slot, peer, target, bytes)?),
            None if waiting < WAITING_EACH => {
                state.waiting.push_back(Waiting {
                    peer: peer.clone(),
                    target,
                    bytes: bytes.to_vec(),
                });
                Ok(())
            }
            None => Err(Failure::failed(format!(
                "{} messages to {} are not acknowledged, and at most {} may be: look whether that \
                 program still runs",
                state.out.get(&peer.channel()).unwrap_or(&0) + waiting as u64,
                peer.address(),
                OUT_EACH + WAITING_EACH as u64
            ))),
        }
    }

    /// Posts a message that occupies `slot`.
    fn post(
        &self,
        state: &mut State,
        slot: u64,
        peer: &Peer,
        target: u32,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let start = slot * self.slot_bytes;
        let local = self.outbox.slice(start..start + bytes.len() as u64);
        let posted = self
            .outbox
            .write_at(start, bytes)
            .and_then(|()| self.jetty.send(peer, target, local, slot));
        if posted.is_err() {
            state.free_slot(slot);
        }
        posted.map(drop)
    }

    /// Posts the messages that wait and for which there are slots now. One that can't be posted is
    /// dropped, because its connection has ended, which is reported separately.
    fn send_waiting(&self, state: &mut State) {
        let mut rest = VecDeque::new();
        while let Some(next) = state.waiting.pop_front() {
            match state.take(next.peer.channel()) {
                Some(slot) => {
                    let _ = self.post(state, slot, &next.peer, next.target, &next.bytes);
                }
                None => rest.push_back(next),
            }
        }
        state.waiting = rest;
    }

    /// Returns a received message, if there is one. Polls the NIC.
    pub(crate) fn poll(&self) -> Result<Option<Mail>, Failure> {
        let mut state = self.state();
        if state.arrived.is_empty() {
            state.fetch(&self.jetty);
        }
        self.send_waiting(&mut state);
        let arrived = state.arrived.pop_front();
        drop(state);
        arrived.map_or(Ok(None), |completion| self.take(&completion))
    }

    /// Waits for a message; `None` if none arrived in time.
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

    /// Waits for the answer of `peer` to an earlier message.
    pub(crate) fn answer(
        &self,
        peer: &Peer,
        awaited: &str,
        timeout: Duration,
    ) -> Result<Vec<u8>, Failure> {
        self.answer_while(peer, awaited, timeout, || Ok(()))
    }

    /// Like [`answer`](Self::answer), but fails as soon as `check` does, which is called several
    /// times a second.
    pub(crate) fn answer_while(
        &self,
        peer: &Peer,
        awaited: &str,
        timeout: Duration,
        check: impl Fn() -> Result<(), Failure>,
    ) -> Result<Vec<u8>, Failure> {
        /// Interval of the checks whether the peer is dead.
        const STEP: Duration = Duration::from_millis(200);
        let deadline = Instant::now() + timeout;
        loop {
            check()?;
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
                None if !peer.is_alive() && !peer.was_received() => {
                    return Err(Failure::failed(format!(
                        "{} answered the request to connect, but no packet has come through the \
                         connection: let UDP pass between all ports of both sides, and have NATs \
                         keep the source ports (not `masquerade random`)",
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

    /// Returns the message that a completion reports, if it is a receive. A server ignores the
    /// failure of an outgoing message, because the connection is gone and that is reported
    /// separately.
    fn take(&self, completion: &Completion) -> Result<Option<Mail>, Failure> {
        if completion.kind != CompletionKind::Receive {
            let mut state = self.state();
            state.finish(completion);
            self.send_waiting(&mut state);
            return Ok(None);
        }
        let mut mail = None;
        if completion.status == Status::Success {
            let mut bytes = vec![0; completion.bytes as usize];
            self.inbox.read_at(completion.id.value() * self.slot_bytes, &mut bytes)?;
            let peer = self.jetty.peer_of(completion);
            mail = Some(Mail { peer, sender: completion.remote_jetty.value(), bytes });
        }
        self.offer(completion.id.value())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use fairway::Event;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn context() -> Context {
        let builder = Context::builder().bind(std::net::Ipv4Addr::LOCALHOST.into());
        builder.buffer_bytes(1 << 20).build().expect("a context")
    }

    /// Regression test: a client that posted no receives for the answers to its messages occupied
    /// all slots of a server.
    #[test]
    fn peer_that_takes_no_answers_leaves_slots_to_others() {
        let server = context();
        let mailbox = Mailbox::new(&server, Some(1001), 64).expect("a mailbox");
        let connected = |client: &Context| {
            client.connect(server.local_addrs()[0], TIMEOUT).expect("a connection");
            match server.wait_event(TIMEOUT) {
                Ok(Event::Connected(peer)) => peer,
                other => panic!("{other:?}"),
            }
        };
        let (greedy, honest) = (context(), context());
        let (to_greedy, to_honest) = (connected(&greedy), connected(&honest));
        let silent = greedy.create_jetty(JettyOptions::default()).expect("a Jetty");
        let sent = (0..200)
            .filter(|_| mailbox.send(&to_greedy, silent.number(), b"answer").is_ok())
            .count();
        assert_eq!(sent as u64, OUT_EACH + WAITING_EACH as u64);
        let inbox = Mailbox::new(&honest, None, 64).expect("a mailbox");
        for _ in 0..4 * OUT_EACH {
            // Slots of messages that have been acknowledged are released on demand.
            mailbox.send(&to_honest, inbox.jetty.number(), b"answer").expect("a slot");
            let until = Instant::now() + TIMEOUT;
            let mail = loop {
                // A message whose slot is still in use leaves when a poll finds it released.
                assert!(mailbox.poll().expect("no error").is_none());
                if let Some(mail) = inbox.wait(Duration::from_millis(1)).expect("no error") {
                    break mail;
                }
                assert!(Instant::now() < until, "a message has not arrived");
            };
            assert_eq!(mail.bytes, b"answer");
        }
        while mailbox.state().out.contains_key(&to_honest.channel()) {
            assert!(mailbox.poll().expect("no error").is_none());
        }
    }
    /// Regression test: `fairway perf` ended with an error when the acknowledgements of its answers
    /// were late.
    #[test]
    fn messages_wait_for_acknowledgements_of_earlier_ones() {
        let server = context();
        let mailbox = Mailbox::new(&server, Some(1001), 64).expect("a mailbox");
        let client = context();
        client.connect(server.local_addrs()[0], TIMEOUT).expect("a connection");
        let Ok(Event::Connected(peer)) = server.wait_event(TIMEOUT) else { panic!("no peer") };
        // Messages are acknowledged only when receives for them are posted, which is later.
        let late = client.create_jetty(JettyOptions::default()).expect("a Jetty");
        let inbox = client.register(Memory::zeroed(16 * 64).expect("memory"), Rights::NONE);
        let inbox = inbox.expect("a segment");
        let count = OUT_EACH + WAITING_EACH as u64;
        for number in 0..count {
            mailbox.send(&peer, late.number(), &number.to_le_bytes()).expect("a slot, or a wait");
        }
        assert_eq!(mailbox.state().waiting.len(), WAITING_EACH);
        let refused = mailbox.send(&peer, late.number(), b"one more").expect_err("refused");
        assert!(refused.to_string().contains("16 messages to 127.0.0.1"), "{refused}");
        for number in 0..count {
            late.post_receive(inbox.slice(number * 64..(number + 1) * 64), number)
                .expect("a receive");
        }
        let mut arrived = Vec::new();
        while arrived.len() < count as usize {
            assert!(mailbox.poll().expect("no error").is_none());
            let Ok(completion) = late.wait(Duration::from_millis(1)) else { continue };
            let mut bytes = [0; 8];
            inbox.read_at(completion.id.value() * 64, &mut bytes).expect("in the segment");
            arrived.push(u64::from_le_bytes(bytes));
        }
        arrived.sort_unstable();
        assert_eq!(arrived, (0..count).collect::<Vec<_>>());
    }
}
