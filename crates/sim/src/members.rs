//! The ranks of a group on one host: the state machine of a live rank each, and the operations by
//! which it uses the host's NIC.
//!
//! A rank does one thing at a time, in the order of a live rank's driver: it executes outputs of
//! its state machine until there is none, posts the operations that it has prepared, handles all
//! completions that have reached it meanwhile, and so on. Copies and combinations take time, all
//! else takes none. An operation takes [`Group::host_ps`](crate::Group::host_ps) to reach the NIC,
//! and a completion as long to reach the rank.
//!
//! Ranks of one host do as live ranks whose slots are mapped: the sender copies the message into
//! the slot, and notifies the receiver. Such a notification takes no packet.

mod memory;
mod posts;

pub(crate) use memory::PIECES;
pub(crate) use posts::jetty_of;

use crate::counts::Counts;
use crate::group::{GroupPlan, Planned};
use crate::plan::Plan;
use crate::waiting_rank::WaitingRank;
use fairway_collectives::{Content, Header, Outbox, Output, Posting, Rank, Token, Work};
use fairway_ub::{ChannelId, SegmentId, UbDevice};
use memory::Places;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An event that reaches a rank.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A message has arrived.
    Arrival { from: u32, header: Header },
    /// The operation with this number has completed.
    Ended(u64),
    /// The NIC has given up the host of this rank.
    Lost(u32),
}

/// An action scheduled on the host. The number is the rank's position on it.
#[derive(Debug)]
enum Act {
    /// A rank continues: it begins, or has finished what it was executing.
    Go(u32),
    /// An event reaches a rank.
    Event(u32, Event),
    /// An operation of a rank reaches the NIC.
    Post(u32, Posting<u64>),
}

/// A call of a rank: when it began, and when it was done, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) started_ps: u64,
    pub(crate) ended_ps: Option<u64>,
}

/// One rank.
struct Member {
    number: u32,
    rank: Rank,
    outbox: Outbox<u64>,
    /// The call under way; `None` before the first and after the last.
    work: Option<Work>,
    rounds: Vec<Round>,
    /// Events that wait until the rank has nothing else to do.
    inbox: VecDeque<Event>,
    /// True while a copy or a combination takes its time.
    is_busy: bool,
    /// The step that then ends.
    doing: Option<Token>,
    /// A rank whose host the NIC has given up: this rank has stopped because of it.
    lost: Option<u32>,
    places: Option<Places>,
}

/// The ranks of a host.
pub(crate) struct Members {
    segment: SegmentId,
    /// The channel to each other host, and the host of each channel; both sorted.
    channels: Vec<(u32, ChannelId)>,
    hosts: Vec<(ChannelId, u32)>,
    members: Vec<Member>,
    /// Actions by their times, and in the order in which they were scheduled.
    due: BTreeMap<(u64, u64), Act>,
    sequence: u64,
    /// Operations that wait for room in the NIC's queues.
    blocked: VecDeque<(u32, Posting<u64>)>,
    counts: Counts,
}

impl Members {
    /// Makes the ranks of a host, and posts their receives in its NIC.
    ///
    /// # Panics
    /// If the NIC's limits are too small.
    pub(crate) fn new(
        plan: &Plan,
        host: u32,
        nic: &mut UbDevice,
        segment: SegmentId,
        (channels, hosts): Channels,
    ) -> Members {
        let calls = plan.group.as_ref().expect("there is a group");
        let is_checked = plan.scenario.check;
        let make = |number: &u32| Member::new(calls, *number, is_checked);
        let members: Vec<Member> = calls.on_host(host).iter().map(make).collect();
        let mut new = Members {
            segment,
            channels,
            hosts,
            members,
            due: BTreeMap::new(),
            sequence: 0,
            blocked: VecDeque::new(),
            counts: Counts::default(),
        };
        for at in 0..new.members.len() as u32 {
            for _ in 0..calls.receives(new.members[at as usize].number) {
                new.post_receive(nic, at).expect("limits are made for this group");
            }
            new.schedule(0, Act::Go(at));
        }
        new
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns when the next action is due, if there is one.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Executes the actions that are due.
    pub(crate) fn act(&mut self, plan: &GroupPlan, nic: &mut UbDevice, now: u64) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Act::Go(at) => {
                    self.members[at as usize].is_busy = false;
                    self.executed(plan, now, at);
                    self.go(plan, now, at);
                }
                Act::Event(at, event) => {
                    self.members[at as usize].inbox.push_back(event);
                    self.go(plan, now, at);
                }
                Act::Post(at, posting) => self.command(plan, nic, now, (at, posting)),
            }
        }
    }

    /// What the ranks that have not finished wait for.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = WaitingRank> + '_ {
        let waits = self.members.iter().filter(|member| member.work.is_some());
        waits.map(|member| WaitingRank {
            rank: member.number,
            call: member.rounds.len() as u32,
            awaited: member.work.map(|work| member.rank.awaited(work)).unwrap_or_default(),
            lost: member.lost,
        })
    }

    /// The calls of each rank.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = (u32, &[Round])> {
        self.members.iter().map(|member| (member.number, member.rounds.as_slice()))
    }

    // ---- what ranks do ----

    /// Lets a rank execute what it can.
    fn go(&mut self, plan: &GroupPlan, now: u64, at: u32) {
        loop {
            let member = &mut self.members[at as usize];
            if member.is_busy || member.lost.is_some() {
                return;
            }
            if let Some(output) = member.rank.poll() {
                let ps = self.execute(plan, at, output);
                if ps > 0 {
                    self.members[at as usize].is_busy = true;
                    return self.schedule(now + ps, Act::Go(at));
                }
                self.executed(plan, now, at);
                continue;
            }
            self.flush(plan, now, at);
            let member = &mut self.members[at as usize];
            let begun = member.work.is_some();
            if begun && !member.end_call(plan, now) {
                if !member.handle_events() {
                    return;
                }
            } else if member.rounds.len() < plan.group.rounds as usize {
                member.start(&plan.calls[member.number as usize], now);
            } else {
                if begun {
                    self.counts.done += 1;
                }
                // Slots that are returned to it are of no use any more.
                member.inbox.clear();
                return;
            }
        }
    }

    /// Executes an output of a rank's state machine, or begins to. Returns the time that it takes,
    /// at whose end the step in `doing` ends.
    fn execute(&mut self, plan: &GroupPlan, at: u32, output: Output) -> u64 {
        let member = &mut self.members[at as usize];
        let host = plan.host(member.number);
        match output {
            Output::Write(write) if plan.host(write.to) == host => {
                member.outbox.notify_of_copy(&write);
                member.doing = Some(write.token);
                plan.group.copy_ps(write.bytes.bytes())
            }
            Output::Write(write) => {
                let goal = member.goal(plan, &write);
                match member.outbox.write(&write, goal) {
                    Some(_) => {
                        member.doing = Some(write.token);
                        plan.group.copy_ps(write.bytes.bytes())
                    }
                    None => 0,
                }
            }
            Output::SendKey { to, header, .. } => {
                let goal = member.slot_of(plan, to, header);
                member.outbox.write_key(to, header, goal);
                0
            }
            Output::TakeKey { token, .. } => {
                // All hosts have the same memory, so the key of a place is always known.
                member.doing = Some(token);
                0
            }
            Output::Notify { to, header } => {
                member.outbox.notify(to, header);
                0
            }
            Output::Combine { token, into, .. } => {
                member.doing = Some(token);
                plan.group.combine_ps(into.bytes())
            }
            Output::Fetch { .. } => unreachable!("no rank of a simulation lends its memory"),
            Output::Copy { token, from, into, .. } => {
                member.doing = Some(token);
                plan.group.copy_ps(from.bytes().min(into.bytes()))
            }
        }
    }

    /// Ends what a rank has executed, and posts operations if many are prepared.
    fn executed(&mut self, plan: &GroupPlan, now: u64, at: u32) {
        let member = &mut self.members[at as usize];
        if let Some(token) = member.doing.take() {
            member.rank.handle_end(token);
        }
        if member.outbox.take_due() {
            self.flush(plan, now, at);
        }
    }

    /// Sends the operations that a rank has prepared to the NIC, or to ranks of this host.
    fn flush(&mut self, plan: &GroupPlan, now: u64, at: u32) {
        let host_ps = plan.group.host_ps;
        while !self.members[at as usize].outbox.is_empty() {
            let member = &mut self.members[at as usize];
            let (own, count) = (member.number, member.outbox.next().count());
            let postings: Vec<Posting<u64>> = member.outbox.take(count).collect();
            for posting in postings {
                if plan.host(posting.to) == plan.host(own) {
                    assert!(posting.target.is_none(), "ranks of one host need no key");
                    let event = Event::Arrival { from: own, header: posting.header };
                    self.counts.messages += u64::from(posting.header.content != Content::Freed);
                    self.schedule(now + 2 * host_ps, Act::Event(plan.place(posting.to), event));
                } else {
                    self.schedule(now + host_ps, Act::Post(at, posting));
                }
            }
        }
    }

    fn schedule(&mut self, at: u64, act: Act) {
        self.sequence += 1;
        self.due.insert((at, self.sequence), act);
    }
}

impl Member {
    fn new(plan: &GroupPlan, number: u32, is_checked: bool) -> Member {
        let means = plan.group.means;
        let mut rank = Rank::new(number, plan.group.ranks(), means.slots);
        for &peer in &plan.calls[number as usize].peers {
            if plan.host(peer) == plan.host(number) {
                rank.stage_sends(peer);
                rank.stage_receives(peer);
            }
        }
        Member {
            number,
            rank,
            outbox: Outbox::new(number, means),
            work: None,
            rounds: Vec::new(),
            inbox: VecDeque::new(),
            is_busy: false,
            doing: None,
            lost: None,
            places: is_checked.then(|| Places::new(means.slot_bytes)),
        }
    }

    /// Begins the next call.
    fn start(&mut self, planned: &Planned, now: u64) {
        let schedule = Arc::clone(&planned.schedule);
        let work = self.rank.start(&planned.call, schedule, planned.protocol);
        self.work = Some(work.expect("all ranks call the same operation"));
        self.rounds.push(Round { started_ps: now, ended_ps: None });
    }

    /// Ends the call under way, if it is done.
    fn end_call(&mut self, plan: &GroupPlan, now: u64) -> bool {
        let Some(work) = self.work.filter(|work| self.rank.is_done(*work)) else { return false };
        self.rank.finish(work);
        self.work = None;
        if let Some(places) = &mut self.places {
            let host = plan.host(self.number);
            let planned = &plan.calls[self.number as usize];
            places.end_call(planned, |from| plan.host(from) == host);
        }
        self.rounds.last_mut().expect("it was begun").ended_ps = Some(now);
        true
    }

    /// Handles all events that have reached the rank. Returns false if there is none.
    fn handle_events(&mut self) -> bool {
        let any = !self.inbox.is_empty();
        for event in self.inbox.drain(..) {
            match event {
                Event::Arrival { from, header } => {
                    let outcome = self.rank.handle_arrival(from, header);
                    outcome.expect("the ranks of a group send what they expect of each other");
                }
                Event::Ended(id) => {
                    if let Some(token) = self.outbox.end(id) {
                        self.rank.handle_end(token);
                    }
                }
                Event::Lost(rank) => self.lost = Some(rank),
            }
        }
        any
    }
}

/// The channels to other hosts, by host, and their hosts, by channel.
pub(crate) type Channels = (Vec<(u32, ChannelId)>, Vec<(ChannelId, u32)>);
