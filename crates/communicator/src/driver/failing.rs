//! The end of a group: how it is found, reported and left.

use super::{Driver, Job};
use crate::error::{Error, Failure};
use crate::pulse::BEAT;
use crate::setup::CLOSED;
use crate::status::{self, Published};
use fairway::Event;
use fairway_collectives::{Header, Kind, RankError, Work};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time after which a rank looks at what the ranks that it waits for do.
const CHECK: Duration = Duration::from_secs(1);
/// Time for which a call still waits for a rank that has left. Ranks leave when they are notified
/// of a failure, and the one that found it may have notified them before this one.
const GRACE: Duration = Duration::from_millis(200);
/// Time for the answer.
const ANSWER: Duration = Duration::from_secs(2);

/// Why a group is over, as the ranks notify each other.
#[derive(Clone, Copy)]
enum Reason {
    Died,
    Mismatch,
    TimedOut,
    Aborted,
    Invalid,
}

impl Reason {
    fn of(failure: &Failure) -> Reason {
        match failure {
            Failure::Died { .. } => Reason::Died,
            Failure::Mismatch { .. } => Reason::Mismatch,
            Failure::TimedOut { .. } => Reason::TimedOut,
            Failure::Aborted { .. } => Reason::Aborted,
            Failure::Invalid { .. } => Reason::Invalid,
        }
    }

    fn from_number(number: u8) -> Reason {
        let all = [Reason::Died, Reason::Mismatch, Reason::TimedOut, Reason::Aborted];
        all.into_iter().find(|reason| *reason as u8 == number).unwrap_or(Reason::Invalid)
    }

    /// What a rank that is not to blame reports.
    fn explain(self, rank: u32) -> String {
        match self {
            Reason::Died => format!("rank {rank} is gone"),
            Reason::Mismatch => format!("rank {rank} called another operation"),
            Reason::TimedOut => format!("it has waited too long, for rank {rank}"),
            Reason::Aborted => "its application, or its NIC, has ended the group".to_string(),
            Reason::Invalid => format!("rank {rank} sent an invalid message"),
        }
    }
}

impl Driver {
    /// Ends the group because of a message.
    pub(super) fn fail_by(&mut self, error: RankError) {
        match error {
            RankError::Mismatch { peer } => self.fail(self.mismatch(peer)),
            // Calls that differ are the likely reason, if this rank's own has ended already.
            RankError::Invalid { peer } => match self.difference(peer) {
                Some((own, call)) => {
                    self.fail(Failure::Mismatch { one: (self.own, own), other: (peer, call) })
                }
                None => self.fail(Failure::Invalid { rank: peer }),
            },
            // That rank has notified all others.
            RankError::Failed { peer, rank, reason } => match Reason::from_number(reason) {
                Reason::Mismatch if rank == self.own => self.end(self.mismatch(peer)),
                Reason::Mismatch => self.end(self.mismatch_of(peer, rank)),
                Reason::Died => {
                    self.end(Failure::Died { rank, how: format!("rank {peer} reports it") });
                }
                reason => self.end(Failure::Aborted { rank: peer, why: reason.explain(rank) }),
            },
        }
    }

    /// Ends the group because the NIC of this rank has refused an operation. No call can go on
    /// without that operation, and none may use its buffers when its caller has the error.
    pub(super) fn fail_by_nic(&mut self, error: &Error) {
        self.abort(format!("its NIC has refused an operation: {error}"));
    }

    /// Ends the group: all calls fail, and the other ranks are notified.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.failure.is_some() {
            return;
        }
        let rank = failure.rank().unwrap_or(self.own);
        let header = Header::failed(rank, Reason::of(&failure) as u8);
        let is_gone = |to: u32| matches!(&failure, Failure::Died { rank, .. } if *rank == to);
        self.outbox.clear();
        let (own, ranks) = (self.own, self.connections.ranks());
        for to in (0..ranks).filter(|to| *to != own && !is_gone(*to)) {
            // One by one, because others may be gone as well.
            self.outbox.notify(to, header);
            let _ = self.post();
            self.outbox.clear();
        }
        self.end(failure);
    }

    /// Ends the group at this rank.
    fn end(&mut self, failure: Failure) {
        if self.failure.is_some() {
            return;
        }
        let failure = self.with_pause(failure);
        self.outbox.clear();
        self.failure = Some(failure.clone());
        if let Failure::Died { rank, .. } = &failure
            && let Some(connection) = self.connections.get(*rank)
        {
            // Nothing in flight to it needs a buffer any more. It may be closed already.
            let _ = connection.peer.close();
        }
        // No other rank takes what it reads from the buffers for a message from now on.
        self.seal.break_open();
        for (work, job) in std::mem::take(&mut self.jobs) {
            self.rank.finish(work);
            // Waits until the NIC needs its buffers no more.
            drop(job);
            self.ended.insert(work, Err(failure.clone()));
        }
    }

    /// Adds a pause of this rank to a failure that it may have caused: the end of another rank,
    /// which may have given this one up, as all the others have, or a time-out.
    fn with_pause(&self, failure: Failure) -> Failure {
        let pause = self.pulse.longest_pause(Instant::now());
        match failure {
            Failure::Died { rank, how } if pause >= self.options.silence_max() => {
                let seconds = pause.as_secs();
                let how = format!(
                    "{how}; this rank had stopped for {seconds} s, after which the others give \
                     it up"
                );
                Failure::Died { rank, how }
            }
            Failure::TimedOut { call, waited, awaited }
                if pause >= 3 * BEAT && 2 * pause >= waited =>
            {
                let call =
                    format!("{call} (this rank had stopped for {:.1} s)", pause.as_secs_f64());
                Failure::TimedOut { call, waited, awaited }
            }
            other => other,
        }
    }

    /// The connection to the peer at this address is closed.
    pub(super) fn lose(&mut self, peer: SocketAddr) {
        if let Some(rank) = self.connections.rank_at(peer) {
            self.connections.set_gone(rank, CLOSED);
        }
    }

    /// Looks for ranks that are gone, and for calls that take long.
    pub(super) fn look_after_peers(&mut self) {
        for event in self.context.poll_events() {
            let how = match &event {
                Event::PeerDead(_) => "it does not answer",
                Event::PeerClosed(_) => CLOSED,
                Event::KeysRefused(_) | Event::ExecutionLost(_) | Event::PathShortened(_) => {
                    "the connection had to be closed"
                }
                _ => continue,
            };
            let rank = event.peer().and_then(|peer| self.connections.rank_of(peer.channel()));
            let Some(rank) = rank else { continue };
            match event {
                // A rank that has left after its last call is missed by the next call only.
                Event::PeerClosed(_) => self.connections.set_gone(rank, how),
                _ => self.fail(Failure::Died { rank, how: how.to_string() }),
            }
        }
        for rank in self.watch.poll_ended(Instant::now()) {
            if !self.connections.has_closed(rank) {
                self.fail(Failure::Died { rank, how: "its process has ended".to_string() });
            }
        }
        if self.awaited_and_gone().is_some() {
            // Its last messages may have arrived since the completions were polled.
            self.catch_up();
        }
        let missed = self.awaited_and_gone();
        if missed.is_none() {
            self.missed_since = None;
        }
        if let Some((rank, how)) = missed {
            if self.missed_since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                self.fail(Failure::Died { rank, how: how.to_string() });
            }
        } else if self.failure.is_none() && self.checked.elapsed() > CHECK {
            self.checked = Instant::now();
            self.check_calls();
        }
    }

    /// A rank that is gone and for which a call waits, and how this rank found out.
    fn awaited_and_gone(&self) -> Option<(u32, &'static str)> {
        let awaited = self.jobs.keys().flat_map(|work| self.rank.awaited(*work));
        awaited.into_iter().find_map(|rank| Some((rank, self.connections.gone(rank)?)))
    }

    /// Compares the calls that take long with those of the ranks that they wait for, and ends the
    /// group if they differ or have taken too long.
    fn check_calls(&mut self) {
        let slow = self.jobs.iter().filter(|(_, job)| job.started.elapsed() > CHECK);
        let slow: Vec<_> = slow
            .map(|(work, job)| (*work, job.number, job.description.clone(), job.call.kind()))
            .collect();
        for (work, number, description, kind) in slow {
            let awaited = self.rank.awaited_or_sent_to(work);
            if kind != Kind::Exchange {
                for rank in &awaited {
                    let Some(published) = self.read_status(*rank) else { continue };
                    if let Some(call) = published.call(number)
                        && call != description
                    {
                        let (one, other) = ((self.own, description), (*rank, call));
                        return self.fail(Failure::Mismatch { one, other });
                    }
                }
            }
            let waited = match self.jobs.get(&work) {
                Some(job) => job.started.elapsed(),
                None => continue,
            };
            if waited > self.options.timeout {
                return self.fail(self.timed_out(description, waited, awaited));
            }
        }
    }

    fn timed_out(&self, call: String, waited: Duration, awaited: Vec<u32>) -> Failure {
        let state = |rank: u32| match self.read_status(rank).map(|published| published.last()) {
            Some(Some((number, call))) => (rank, format!("its last call, number {number}: {call}")),
            Some(None) => (rank, "it has not called anything yet".to_string()),
            None => (rank, "it does not answer".to_string()),
        };
        let awaited = awaited.into_iter().map(state).collect();
        Failure::TimedOut { call, waited, awaited }
    }

    /// This rank and `peer` called different operations.
    fn mismatch(&self, peer: u32) -> Failure {
        let (mine, theirs) = (self.status.published(), self.read_status(peer));
        let under_way = self.jobs.values().next_back();
        let differs = |job: &Job| {
            let call = theirs.as_ref()?.call(job.number)?;
            (call != job.description).then(|| (job.description.clone(), call))
        };
        let pair = under_way.and_then(differs);
        // The call may have ended at this rank, such as that of a root which has sent everything.
        let pair = pair.or_else(|| mine.as_ref()?.first_difference(theirs.as_ref()?));
        let (own, call) = pair.unwrap_or_else(|| {
            let last = |published: Option<Published>| Some(published?.last()?.1);
            let own = under_way.map(|job| job.description.clone()).or_else(|| last(mine));
            let own = own.unwrap_or_else(|| "nothing yet".to_string());
            let call = last(theirs).filter(|call| *call != own);
            (own, call.unwrap_or_else(|| "another operation".to_string()))
        });
        Failure::Mismatch { one: (self.own, own), other: (peer, call) }
    }

    /// The first calls with the same number that differ, of this rank and of `peer`.
    fn difference(&self, peer: u32) -> Option<(String, String)> {
        self.status.published()?.first_difference(&self.read_status(peer)?)
    }

    /// Two other ranks called different operations.
    fn mismatch_of(&self, one: u32, other: u32) -> Failure {
        let published = self.read_status(one).zip(self.read_status(other));
        let calls = published.and_then(|(one, other)| one.first_difference(&other));
        match calls {
            Some(calls) => Failure::Mismatch { one: (one, calls.0), other: (other, calls.1) },
            // One of them has left already.
            None => Failure::Aborted { rank: one, why: Reason::Mismatch.explain(other) },
        }
    }

    /// Reads the calls of another rank from its memory.
    fn read_status(&self, rank: u32) -> Option<Published> {
        let connection = self.connections.get(rank)?;
        let jetty = self.context.create_jetty(fairway::JettyOptions::default().depth(4)).ok()?;
        let memory = fairway::Memory::zeroed(status::BYTES as usize).ok()?;
        let segment = self.context.register(memory, fairway::Rights::NONE).ok()?;
        jetty.read(&connection.peer, &segment, connection.status, 0).ok()?;
        let _read = jetty.wait(ANSWER).ok()?.result().ok()?;
        let mut bytes = vec![0; status::BYTES as usize];
        segment.read_at(0, &mut bytes).ok()?;
        Some(Published::new(bytes))
    }

    /// Gives up the group, because the application does.
    pub(crate) fn abort(&mut self, why: String) {
        let rank = self.own;
        self.fail(Failure::Aborted { rank, why });
    }

    /// Time-out of a call that its caller waits for.
    pub(crate) fn give_up(&mut self, work: Work) {
        if let Some(job) = self.jobs.get(&work) {
            let (description, waited) = (job.description.clone(), job.started.elapsed());
            let awaited = self.rank.awaited_or_sent_to(work);
            let failure = self.timed_out(description, waited, awaited);
            self.fail(failure);
        }
    }
}
