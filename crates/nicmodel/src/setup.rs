//! Connection set-up as a workload: applications of one host set up access to remote hosts, until
//! every pair is usable, with every import.
//!
//! The control plane's messages are the live ones, as bytes: HELLO, WELCOME, CONFIRM and ACCEPT of
//! a TP channel, and REQ, REP and RTU of RoCE's connection manager (which is the protocol's).
//! Objects are created in the engines when the kernel has executed the call. One rule charges both
//! stacks: every kernel call occupies one of the kernel's workers, at either end; a message costs a
//! system call to send, the wire, and an interrupt and wake-up to receive. Data that a peer needs
//! beyond its connection (a segment's token, a Jetty's number) is imported: RoCE's REP contains it,
//! while for UB an application has to request it, and URMA enters the kernel for each Jetty and
//! each segment.
//!
//! The oracle is the artifact's own task list, which leaves imports out: N Jetties and M channels
//! against N times M queue pairs, distributed over the kernel's workers.

mod roce;
mod ub;

use crate::config::Config;
use crate::constants::ps;
use crate::error::{ConnectError, ModelError};
use crate::events::Events;
use crate::report::Report;
use crate::server::Server;
use std::collections::VecDeque;

/// An object to be created, which goes from stage to stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) stage: u32,
    began: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The objects that an application needs by itself.
    Own { app: usize },
    /// The objects that a host needs for a remote host.
    Host { remote: usize },
    /// The objects that an application needs for a remote host.
    Pair { app: usize, remote: usize },
}

/// Event with which a job continues.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    /// The job begins, or the object that it waited for has been created.
    Ready,
    /// The kernel of the local host (`None`) or of a remote one has executed the call.
    Called(Option<usize>),
    /// A message has arrived at the local host (`None`) or at a remote one.
    Message(Option<usize>, &'a [u8]),
    /// The time of [`Plane::poll_timeout`] has been reached.
    Timeout,
}

impl<'a> Input<'a> {
    /// Returns the message that has arrived, or nothing.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Input::Message(_, bytes) => bytes,
            Input::Ready | Input::Called(_) | Input::Timeout => &[],
        }
    }
}

/// A job's next action.
#[derive(Debug)]
pub(crate) enum Next {
    /// Calls the kernel of the local host (`None`) or of a remote one.
    Kernel(Option<usize>),
    /// Sends these messages to or from a remote host, and continues where they arrive.
    Send {
        remote: usize,
        outward: bool,
        messages: Vec<Vec<u8>>,
    },
    /// Waits until a message arrives or a timer fires.
    Wait,
    /// Waits until this object has been created.
    After(Work),
    Done,
}

/// The set-up procedure of one stack.
pub(crate) trait Plane {
    /// Executes what follows the stage that has ended.
    fn advance(&mut self, now: u64, job: &Job, input: Input<'_>) -> Result<Next, ConnectError>;
    /// Returns when a job continues even if nothing arrives, in picoseconds.
    fn poll_timeout(&self, work: Work) -> Option<u64>;
    /// Checks that all objects exist and that the two ends of each connection agree.
    fn check(&self) -> Result<(), ConnectError>;
    fn has_channels(&self) -> bool;
}

enum SimEvent {
    /// A job begins, or the object that it waited for has been created.
    Ready { job: usize },
    /// A kernel has executed a job's call.
    Called { job: usize, at: Option<usize> },
    /// A message is at a host's network port.
    Arrive { job: usize, bytes: Vec<u8>, at: Option<usize> },
    /// A message has reached the program that receives it.
    Receive { job: usize, bytes: Vec<u8>, at: Option<usize> },
    /// A job's timer fires.
    Timeout { job: usize },
}

struct Setup {
    config: Config,
    plane: Box<dyn Plane>,
    events: Events<SimEvent>,
    jobs: Vec<Job>,
    local: Server,
    remote: Vec<Server>,
    port: Server,
    ended: Vec<Work>,
    /// Jobs that wait for an object to be created.
    waiting: Vec<(Work, usize)>,
    /// By job: when its timer fires, if it has one.
    timers: Vec<Option<u64>>,
    /// Time at which the last job ended.
    ended_at: u64,
    /// By application: remote hosts for which set-up has not begun.
    left: Vec<VecDeque<usize>>,
    spans: Vec<u64>,
    calls: u64,
    messages: u64,
    bytes: u64,
}

/// Runs the set-up of a configuration.
pub(crate) fn run(config: &Config) -> Result<Report, ModelError> {
    if config.oracle {
        return Ok(published(config));
    }
    let plane: Box<dyn Plane> = match config.stack.is_ub() {
        true => Box::new(ub::UbPlane::new(config)?),
        false => Box::new(roce::RocePlane::new(config)?),
    };
    let workers = config.constants.kernel_workers.max(1.0) as usize;
    let (apps, hosts) = (config.jetties as usize, config.connections as usize);
    let mut setup = Setup {
        config: config.clone(),
        plane,
        events: Events::new(),
        jobs: Vec::new(),
        local: Server::new(workers),
        remote: vec![Server::new(workers); hosts],
        port: Server::new(1),
        ended: Vec::new(),
        waiting: Vec::new(),
        timers: Vec::new(),
        ended_at: 0,
        left: (0..apps).map(|app| (0..hosts).map(|step| (app + step) % hosts).collect()).collect(),
        spans: Vec::new(),
        calls: 0,
        messages: 0,
        bytes: 0,
    };
    if setup.plane.has_channels() {
        (0..hosts).for_each(|remote| setup.begin(Work::Host { remote }));
    }
    (0..apps).for_each(|app| setup.begin(Work::Own { app }));
    while let Some(event) = setup.events.next() {
        setup.handle_event(event)?;
    }
    Ok(setup.finish()?)
}

impl Setup {
    fn begin(&mut self, work: Work) {
        let now = self.events.now;
        self.jobs.push(Job { work, stage: 0, began: now });
        self.timers.push(None);
        let job = self.jobs.len() - 1;
        self.events.at(now, SimEvent::Ready { job });
    }

    fn handle_event(&mut self, event: SimEvent) -> Result<(), ConnectError> {
        let now = self.events.now;
        match event {
            SimEvent::Arrive { job, bytes, at } => {
                let constants = &self.config.constants;
                let hold = ps(constants.interrupt_hold_ns);
                let ready = now + self.kernel(at).enter(now, hold);
                let ready = ready + ps(self.config.constants.interrupt_ns);
                self.events.at(ready, SimEvent::Receive { job, bytes, at });
                Ok(())
            }
            SimEvent::Receive { job, bytes, at } => self.advance(job, Input::Message(at, &bytes)),
            SimEvent::Ready { job } => self.advance(job, Input::Ready),
            SimEvent::Called { job, at } => self.advance(job, Input::Called(at)),
            SimEvent::Timeout { job } => {
                self.timers[job] = None;
                self.advance(job, Input::Timeout)
            }
        }
    }

    fn kernel(&mut self, at: Option<usize>) -> &mut Server {
        match at {
            None => &mut self.local,
            Some(remote) => &mut self.remote[remote],
        }
    }

    fn advance(&mut self, index: usize, input: Input<'_>) -> Result<(), ConnectError> {
        let now = self.events.now;
        let job = self.jobs[index];
        let call = ps(self.config.constants.ioctl_ns);
        self.jobs[index].stage += 1;
        match self.plane.advance(now, &job, input)? {
            Next::Kernel(at) => {
                self.calls += 1;
                let ready = now + self.kernel(at).enter(now, call) + call;
                self.events.at(ready, SimEvent::Called { job: index, at });
            }
            Next::Send { remote, outward, messages } => {
                messages.into_iter().for_each(|bytes| self.send(index, (remote, outward), bytes));
            }
            Next::Wait => {}
            Next::After(work) => {
                self.jobs[index].stage -= 1;
                match self.ended.contains(&work) {
                    true => return Err(ConnectError::Unexpected("a job waits for what is there")),
                    false => self.waiting.push((work, index)),
                }
            }
            Next::Done => self.ended(job),
        }
        self.set_timer(index);
        Ok(())
    }

    /// Sends a message of a job to or from a remote host.
    fn send(&mut self, job: usize, (remote, outward): (usize, bool), bytes: Vec<u8>) {
        let now = self.events.now;
        let constants = &self.config.constants;
        let (send, link) = (ps(constants.interrupt_hold_ns), ps(self.config.link_ns));
        // Adds Ethernet, IPv4 and UDP headers. Everything that leaves the host leaves by one port.
        let wire_bytes = bytes.len() as f64 + 42.0 + constants.frame_bytes;
        let serial = ps(wire_bytes * 8.0 / constants.link_gbps);
        self.messages += 1;
        self.bytes += bytes.len() as u64;
        let (from, to) = if outward { (None, Some(remote)) } else { (Some(remote), None) };
        let left = now + self.kernel(from).enter(now, send) + send;
        let queued = if outward { self.port.enter(left, serial) } else { 0 };
        let arrival = left + queued + serial + link;
        self.events.at(arrival, SimEvent::Arrive { job, bytes, at: to });
    }

    /// Schedules a job's timer at the time that its protocol requests.
    fn set_timer(&mut self, job: usize) {
        let Some(at) = self.plane.poll_timeout(self.jobs[job].work) else { return };
        if self.timers[job].is_none_or(|set| at < set) {
            self.timers[job] = Some(at);
            self.events.at(at, SimEvent::Timeout { job });
        }
    }

    fn ended(&mut self, job: Job) {
        let now = self.events.now;
        self.ended_at = now;
        match job.work {
            Work::Own { app } => {
                // Each application sets up this many pairs at once.
                (0..self.config.concurrency).for_each(|_| self.next_pair(app));
                self.ended.push(job.work);
            }
            Work::Pair { app, .. } => {
                self.spans.push(now - job.began);
                self.next_pair(app);
            }
            Work::Host { .. } => self.ended.push(job.work),
        }
        let (ready, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(work, _)| *work == job.work);
        self.waiting = rest;
        for (_, job) in ready {
            self.events.at(now, SimEvent::Ready { job });
        }
    }

    fn next_pair(&mut self, app: usize) {
        if let Some(remote) = self.left[app].pop_front() {
            self.begin(Work::Pair { app, remote });
        }
    }

    fn finish(self) -> Result<Report, ConnectError> {
        let pairs = u64::from(self.config.jetties) * u64::from(self.config.connections);
        if self.spans.len() as u64 != pairs {
            return Err(ConnectError::Incomplete { usable: self.spans.len() as u64, pairs });
        }
        self.plane.check()?;
        let figures = vec![
            ("setup_us", self.ended_at as f64 / 1e6),
            ("kernel_calls", self.calls as f64),
            ("control_messages", self.messages as f64),
            ("control_bytes", self.bytes as f64),
        ];
        Ok(Report::of_spans(self.spans, self.ended_at, figures))
    }
}

/// Returns the result of the artifact's task list.
fn published(config: &Config) -> Report {
    let constants = &config.constants;
    let (apps, hosts) = (u64::from(config.jetties), u64::from(config.connections));
    let (call, exchange) = (ps(constants.ioctl_ns), ps(constants.exchange_us * 1000.0));
    let mut workers = vec![0; constants.kernel_workers.max(1.0) as usize];
    let count = workers.len();
    let mut number = 0;
    let mut deal = |tasks: u64, each: u64| {
        for _ in 0..tasks {
            workers[number % count] += each;
            number += 1;
        }
    };
    if config.stack.is_ub() {
        deal(apps, call);
        deal(hosts, call + exchange);
    } else {
        deal(apps * hosts, 4 * call + exchange);
    }
    let last = workers.into_iter().max().unwrap_or(0) + ps(constants.setup_end_ns);
    Report::of_spans(vec![last], last, vec![("setup_us", last as f64 / 1e6)])
}

#[cfg(test)]
mod tests;
