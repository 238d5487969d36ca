//! Executes what the state machine of the rank asks for, by the operations of a Jetty.

mod bytes;
mod failing;
mod lending;

use crate::buffer::Buffer;
use crate::error::{Error, Failure};
use crate::lending::Seal;
use crate::options::Options;
use crate::pulse::Pulse;
use crate::setup::Connections;
use crate::spin;
use crate::status::{self, Status};
use crate::watch::Watch;
use fairway::{
    Completion, CompletionKind, Context, Jetty, LocalSlice, NotifyTarget, Order, Post, Rights,
    Segment, SegmentKey, ServiceMode,
};
use fairway_collectives::{
    Call, EAGER, Header, KEY_BYTES, Memory, Outbox, Output, Protocol, Rank, RankError, Schedule,
    Source, Span, Target, Work, Write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of receives.
const PLAIN: u64 = u64::MAX;
/// The number of a call that is not compared with those of other ranks.
const UNNUMBERED: u64 = u64::MAX;
/// Time for the last messages of a rank that leaves.
const CLOSE: Duration = Duration::from_secs(2);
/// Time for which a rank can be read after its group has failed, if its process lives on.
const LINGER: Duration = Duration::from_millis(500);

/// A call under way, or that has ended and waits for its caller.
struct Job {
    call: Call,
    description: String,
    /// Its number among the calls of this rank, [`UNNUMBERED`] for sends and receives.
    number: u64,
    input: Buffer,
    /// `None`: input and output are the same bytes from their first on.
    output: Option<Buffer>,
    /// Offset of the output in the input, if they are one buffer.
    output_offset: u64,
    /// Offset of the input in the same buffer.
    input_offset: u64,
    keys: BTreeMap<u32, (SegmentKey, u64)>,
    started: Instant,
}

/// The end of a call.
pub(crate) type Outcome = Result<(), Failure>;

/// The remote bytes of a WRITE.
#[derive(Clone, Copy)]
struct Goal {
    key: SegmentKey,
    offset: u64,
}

/// One rank: its state machine, its NIC and its calls.
pub(crate) struct Driver {
    context: Context,
    jetty: Jetty,
    rank: Rank,
    own: u32,
    connections: Connections,
    /// Slots for the messages of all ranks, `slots` of `slot_bytes` for each.
    slots: Segment,
    /// Copies of short messages, one for each slot of each other rank.
    eager: Segment,
    status: Status,
    /// Broken when the group ends.
    seal: Seal,
    options: Options,
    jobs: BTreeMap<Work, Job>,
    ended: BTreeMap<Work, Outcome>,
    outbox: Outbox<Goal>,
    completions: Vec<Completion>,
    failure: Option<Failure>,
    /// The first message that ends the group, until the messages before it have been handled.
    unfit: Option<RankError>,
    /// Bytes of another rank that are being combined.
    scratch: Box<[u8]>,
    /// A failure that was found in the middle of a call.
    found: Option<Failure>,
    /// For each rank: whether it is known to share slots with this one.
    is_near: Vec<bool>,
    /// True if an operation has failed since the peers were looked at.
    has_gone: bool,
    /// Since when a call has waited for a rank that has left.
    missed_since: Option<Instant>,
    checked: Instant,
    watch: Watch,
    pulse: Arc<Pulse>,
    /// True if other ranks need the core on which this one would poll.
    is_crowded: bool,
}

/// The parts of which a driver is made.
pub(crate) struct Parts {
    pub(crate) context: Context,
    pub(crate) jetty: Jetty,
    pub(crate) own: u32,
    pub(crate) connections: Connections,
    pub(crate) slots: Segment,
    pub(crate) eager: Segment,
    pub(crate) status: Status,
    pub(crate) seal: Seal,
    pub(crate) options: Options,
    pub(crate) watch: Watch,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> Driver {
        let Parts { context, jetty, own, connections, slots, eager, status, seal, options, watch } =
            parts;
        let mut rank = Rank::new(own, connections.ranks(), options.slots);
        rank.return_late();
        rank.bound_slots(options.slot_bytes);
        let outbox = Outbox::new(own, options.means());
        for to in 0..connections.ranks() {
            if connections.get(to).is_some_and(|connection| connection.near.is_some()) {
                rank.stage_sends(to);
            }
        }
        Driver {
            rank,
            is_near: vec![false; connections.ranks() as usize],
            context,
            jetty,
            own,
            connections,
            slots,
            eager,
            status,
            seal,
            options,
            jobs: BTreeMap::new(),
            ended: BTreeMap::new(),
            outbox,
            completions: Vec::new(),
            failure: None,
            unfit: None,
            scratch: vec![0; bytes::SCRATCH].into(),
            found: None,
            has_gone: false,
            missed_since: None,
            checked: Instant::now(),
            watch,
            pulse: Arc::new(Pulse::new(Instant::now())),
            is_crowded: false,
        }
    }

    /// Sleeps without polling before, because the host has fewer cores than ranks.
    pub(crate) fn sleep_at_once(&mut self) {
        self.is_crowded = true;
    }

    /// What notices that this process was stopped.
    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        self.pulse.clone()
    }

    /// Handles messages that have arrived during set-up.
    pub(crate) fn adopt(&mut self, early: Vec<Completion>) {
        self.handle_completions(early);
    }

    /// Waits until the messages of this rank have arrived, and closes its connections.
    pub(crate) fn close(&self) {
        if let Some(Failure::Mismatch { .. } | Failure::TimedOut { .. }) = &self.failure {
            // The others may be about to read what this rank called.
            std::thread::sleep(LINGER);
        }
        // A rank that is gone cannot be waited for, and the process ends its memory anyway.
        let _ = self.jetty.drain(CLOSE);
        let _ = self.context.shutdown(CLOSE);
    }

    /// The failure that ended the group, if one did.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Number of calls that have ended and wait for their callers.
    pub(crate) fn calls_ended(&self) -> usize {
        self.ended.len()
    }

    /// True if calls are under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Begins a call. If the NIC refuses one of its operations, the group ends, and with it the
    /// call: an error means that no byte of the buffers is used any more. `output` is `None` if the
    /// input buffer is also the output's; then the offsets say where in it input and output begin.
    pub(crate) fn start(
        &mut self,
        (call, label): (Call, &str),
        (schedule, protocol): (Arc<Schedule>, Protocol),
        (input, output): (Buffer, Option<Buffer>),
        [input_offset, output_offset]: [u64; 2],
    ) -> Result<Work, Error> {
        if self.failure.is_none() {
            // The group may be over already.
            self.catch_up();
        }
        if let Some(failure) = &self.failure {
            return Err(Error::Failed(failure.clone()));
        }
        let description = status::describe(&call, label);
        // Ranks have different sends and receives, and are compared by their other calls.
        let number = match &call {
            Call::Exchange { is_collective: false, .. } => UNNUMBERED,
            _ => self.status.begin(&description)?,
        };
        self.find_near_ranks()?;
        if number != UNNUMBERED && !label.is_empty() {
            self.rank.label_next(label);
        }
        let keys = BTreeMap::new();
        let started = Instant::now();
        let (begun, error) = match self.rank.start(&call, schedule, protocol) {
            Ok(work) => (work, None),
            Err((work, error)) => (work, Some(error)),
        };
        let job = Job {
            call,
            description,
            number,
            input,
            output,
            output_offset,
            input_offset,
            keys,
            started,
        };
        self.jobs.insert(begun, job);
        if let Some(error) = error {
            self.fail_by(error);
        }
        self.advance();
        Ok(begun)
    }

    /// Takes the outcome of a call that has ended.
    pub(crate) fn take(&mut self, work: Work) -> Option<Outcome> {
        self.ended.remove(&work)
    }

    /// True if the call has ended.
    pub(crate) fn has_ended(&self, work: Work) -> bool {
        self.ended.contains_key(&work)
    }

    /// Does what can be done now. If that is nothing, polls for `spin`, and then sleeps until a
    /// packet arrives, or for `time`.
    pub(crate) fn progress(&mut self, spin: Duration, time: Duration) {
        let mut completions = std::mem::take(&mut self.completions);
        let polled = spin::poll(&self.jetty, &mut completions, spin);
        if polled == 0 && !time.is_zero() {
            let waited = match self.is_crowded {
                true => self.jetty.wait_asleep(time),
                false => self.jetty.wait(time),
            };
            match waited {
                Ok(completion) => completions.push(completion),
                Err(fairway::Error::Timeout { .. }) => {}
                Err(error) => self.fail_by_nic(&error.into()),
            }
        }
        let is_idle = completions.is_empty();
        self.handle_completions(completions);
        if is_idle || std::mem::take(&mut self.has_gone) {
            self.look_after_peers();
        }
    }

    /// Handles all messages that have arrived, and does what can be done now. Does not sleep, which
    /// a poll does in vain where ranks outnumber cores: others wait for what this one is to send.
    fn catch_up(&mut self) {
        let mut completions = std::mem::take(&mut self.completions);
        while self.jetty.poll_once(&mut completions) > 0 {}
        self.handle_completions(completions);
    }

    fn handle_completions(&mut self, mut completions: Vec<Completion>) {
        for completion in completions.drain(..) {
            if let Err(error) = self.handle_completion(&completion) {
                self.fail_by_nic(&error);
            }
        }
        self.completions = completions;
        self.advance();
        // Calls whose messages have arrived end well, even if the group is over.
        if let Some(error) = self.unfit.take() {
            self.fail_by(error);
        }
    }

    fn handle_completion(&mut self, completion: &Completion) -> Result<(), Error> {
        let from = self.connections.rank_of(completion.channel);
        let is_receive =
            matches!(completion.kind, CompletionKind::Receive | CompletionKind::ReceiveWrite);
        if !completion.is_success()
            && let Some(rank) = from
        {
            // A rank may have left after its last call, without a word about what it received.
            // Events tell whether it died; a call that waits for it fails in any case.
            self.connections.set_gone(rank, "an operation to it failed");
            self.has_gone = true;
        }
        if is_receive && completion.is_success() {
            self.jetty.post_receive(self.slots.slice(0..0), PLAIN)?;
            let (Some(from), Some(bits)) = (from, completion.immediate) else { return Ok(()) };
            let header = Header::from_bits(bits).filter(|_| self.failure.is_none());
            let Some(header) = header else { return Ok(()) };
            if let Err(error) = self.rank.handle_arrival(from, header) {
                self.unfit.get_or_insert(error);
            }
        } else if !is_receive {
            self.end_token(completion.id.value());
        }
        Ok(())
    }

    /// Ends what waits for the operation with this number, if anything does.
    fn end_token(&mut self, id: u64) {
        if let Some(token) = self.outbox.end(id) {
            self.rank.handle_end(token);
        }
    }

    /// Executes outputs of the state machine until there is none, and ends calls that are done.
    /// Ends the group if the NIC refuses an operation.
    fn advance(&mut self) {
        if let Err(error) = self.execute_all() {
            self.fail_by_nic(&error);
        }
    }

    fn execute_all(&mut self) -> Result<(), Error> {
        if self.failure.is_none() {
            while let Some(output) = self.rank.poll() {
                self.execute(output)?;
                if self.outbox.take_due() {
                    self.post()?;
                }
            }
            self.post()?;
            let rank = &self.rank;
            let done = self.jobs.keys().copied().filter(|work| rank.is_done(*work));
            for work in done.collect::<Vec<_>>() {
                self.rank.finish(work);
                // Dropping the job returns its buffers.
                self.jobs.remove(&work);
                self.ended.insert(work, Ok(()));
            }
            if let Some(failure) = self.found.take() {
                self.fail(failure);
            }
        }
        Ok(())
    }

    fn execute(&mut self, output: Output) -> Result<(), Error> {
        match output {
            Output::Write(write) => self.write(&write)?,
            Output::SendKey { work, to, header } => self.send_key(work, to, header)?,
            Output::TakeKey { token, work, from, slot } => {
                let mut record = [0; KEY];
                self.slots.read_at(self.outbox.slot_offset(from, slot), &mut record)?;
                let (key, base) = record.split_at(SegmentKey::BYTES);
                let key = SegmentKey::from_bytes(key.try_into().expect("its length"));
                let base = u64::from_be_bytes(base.try_into().expect("eight bytes"));
                if let Some(job) = self.jobs.get_mut(&work) {
                    job.keys.insert(from, (key, base));
                }
                self.rank.handle_end(token);
            }
            Output::Fetch { token, work, from, slot, into } => {
                if self.fetch(work, (from, slot), into)? {
                    self.rank.handle_end(token);
                }
            }
            Output::Notify { to, header } => self.outbox.notify(to, header),
            Output::Combine { token, work, both, into, is_last } => {
                if self.combine(work, both, into, is_last)? {
                    self.rank.handle_end(token);
                }
            }
            Output::Copy { token, work, from, into } => {
                self.copy(work, from, into);
                self.rank.handle_end(token);
            }
        }
        Ok(())
    }

    /// Prepares a WRITE of bytes of this rank. Short ones, and those to a rank whose slots are
    /// mapped, are copied.
    fn write(&mut self, write: &Write) -> Result<(), Error> {
        let Write { token, work, to, bytes: memory, target, header } = *write;
        let goal = match target {
            Target::Lent => {
                self.lend(write);
                return Ok(());
            }
            Target::Slot => self.slot_of(to, header.slot),
            Target::Output(offset) => {
                let key = self.jobs.get(&work).and_then(|job| job.keys.get(&to));
                let (key, base) = *key.expect("the state machine waits for the key");
                // The base comes from the other rank, whose NIC refuses what is out of range.
                Goal { key, offset: base.saturating_add(offset) }
            }
        };
        if let Some(connection) = self.connections.get(to)
            && let Some(near) = &connection.near
            && goal.key == connection.slots
            && self.copy_to_near(work, memory, (near, goal.offset))
        {
            self.outbox.notify_of_copy(write);
            self.rank.handle_end(token);
            return Ok(());
        }
        if memory.bytes() > EAGER {
            self.register(work, memory)?;
        }
        if let Some(at) = self.outbox.write(write, goal) {
            self.copy_to_eager(work, memory, at)?;
            self.rank.handle_end(token);
        }
        Ok(())
    }

    /// Registers the buffer of bytes that are sent from it.
    fn register(&mut self, work: Work, memory: Memory) -> Result<(), Error> {
        let job = self.jobs.get_mut(&work).expect("a call under way has a job");
        match memory {
            Memory::Slot { .. } | Memory::Lent { .. } => {}
            Memory::Input(_) => job.input.register(&self.context, job.input_rights())?,
            Memory::Output(_) => job.register_output(&self.context)?,
        }
        Ok(())
    }

    /// Sends the key of a call's output buffer, and where in the segment the output begins.
    fn send_key(&mut self, work: Work, to: u32, header: Header) -> Result<(), Error> {
        let job = self.jobs.get_mut(&work).expect("a call under way has a job");
        job.register_output(&self.context)?;
        let key = job.output_buffer().key().expect("it was registered");
        let mut record = [0; KEY];
        record[..SegmentKey::BYTES].copy_from_slice(&key.to_bytes());
        record[SegmentKey::BYTES..].copy_from_slice(&job.output_offset.to_be_bytes());
        let goal = self.slot_of(to, header.slot);
        let at = self.outbox.write_key(to, header, goal);
        self.eager.write_at(at, &record)?;
        Ok(())
    }

    /// Posts what is prepared, as far as the NIC has room.
    fn post(&mut self) -> Result<(), Error> {
        while !self.outbox.is_empty() {
            let (outbox, connections) = (&self.outbox, &self.connections);
            let taken = self.jetty.batch(|batch| {
                for posting in outbox.next() {
                    let Some(connection) = connections.get(posting.to) else { continue };
                    let local = self.local(posting.source);
                    batch.signaled(posting.is_signaled());
                    let notify = NotifyTarget::new(connection.to, posting.header.to_bits());
                    let order = Order::unordered(ServiceMode::Rol);
                    let (peer, post) = (&connection.peer, batch.ordered(order));
                    match posting.target {
                        Some(Goal { key, offset }) => {
                            post.write_immediate(peer, local, key.at(offset), notify, posting.id)?;
                        }
                        None => post.send_immediate(peer, notify, local, posting.id)?,
                    }
                }
                Ok(())
            });
            match taken {
                Ok(0) => break,
                Ok(count) => drop(self.outbox.take(count)),
                Err(fairway::Error::PeerGone { peer }) => {
                    // The first one was not taken.
                    self.lose(peer);
                    let lost = self.outbox.take(1).map(|lost| lost.id).last();
                    lost.into_iter().for_each(|id| self.end_token(id));
                }
                Err(fairway::Error::Limit { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The local bytes of an operation.
    fn local(&self, source: Source) -> LocalSlice<'_> {
        let (segment, at, bytes) = match source {
            Source::Nothing => (&self.slots, 0, 0),
            Source::Copied { at, bytes } => (&self.eager, at, bytes),
            Source::Own(_, Memory::Slot { from, slot, bytes }) => {
                (&self.slots, self.outbox.slot_offset(from, slot), bytes)
            }
            Source::Own(_, Memory::Lent { .. }) => unreachable!("no rank sends what is lent"),
            Source::Own(work, Memory::Input(Span { offset, bytes })) => {
                let job = self.job(work);
                (registered(&job.input), job.input_offset + offset, bytes)
            }
            Source::Own(work, Memory::Output(Span { offset, bytes })) => {
                let job = self.job(work);
                (registered(job.output_buffer()), job.output_offset + offset, bytes)
            }
        };
        segment.slice(at..at + u64::from(bytes))
    }

    /// A slot of another rank for messages of this one.
    fn slot_of(&self, to: u32, slot: u8) -> Goal {
        let connection = self.connections.get(to).expect("a rank sends to others only");
        Goal { key: connection.slots, offset: self.outbox.remote_slot_offset(slot) }
    }
}

/// Length of a key, and of the offset of the output.
const KEY: usize = SegmentKey::BYTES + 8;
const _: () = assert!(KEY == KEY_BYTES as usize);

/// The segment of a buffer from which bytes are sent.
fn registered(buffer: &Buffer) -> &Segment {
    buffer.segment().expect("it was registered when the operation was prepared")
}

impl Job {
    fn output_buffer(&self) -> &Buffer {
        self.output.as_ref().unwrap_or(&self.input)
    }

    /// Rights of other ranks to the input: they write to it if it is also the output.
    fn input_rights(&self) -> Rights {
        match self.output {
            Some(_) => Rights::NONE,
            None => Rights::WRITE,
        }
    }

    fn register_output(&mut self, context: &Context) -> Result<(), fairway::Error> {
        self.output.as_mut().unwrap_or(&mut self.input).register(context, Rights::WRITE)
    }
}
