//! Signal fidelity: how late this host acts on what comes (UCCL §3.4 and Table 3).
//!
//! Two delays are measured, if `Builder::measure_control_latency` asks for it:
//!
//! | delay | from | to |
//! |---|---|---|
//! | decision | an acknowledgement comes | the congestion control that was told of it has decided |
//! | turn-round | data comes, a run of packets in one call | the call begins that sends the first acknowledgement afterwards |
//!
//! Each begins twice: when the kernel received the packets (`SO_TIMESTAMPNS`; over loopback that is
//! within the sender's system call), and when our receive call had returned. All times are read
//! from the real-time clock, as that is the kernel's; a delay during which it was set back
//! counts as zero.
//!
//! A decision is attributed exactly. In line with the data path it is made while the engine handles
//! the acknowledgement. On a thread of their own, laws are told of several at once, but always of
//! the oldest, and how many is counted: so both sides number the acknowledgements of a channel, and
//! whichever comes second, the acknowledgement's receipt or the decision's time, makes the sample.
//!
//! Without a [`Meter`] each place that would measure asks whether there is one, and that is all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairway_runtime::clock;

/// How long one thing took, in nanoseconds (4.3 s at most).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySample {
    /// Since the kernel received the packet; as below if it did not say when.
    pub since_kernel_ns: u32,
    /// Since the call that received it had returned.
    pub since_call_ns: u32,
}

/// What was measured (`Builder::measure_control_latency`, `Context::take_control_latency`).
#[derive(Clone, Debug, Default)]
pub struct ControlLatency {
    /// From an acknowledgement to the congestion control's decision.
    pub decisions: Vec<LatencySample>,
    /// From data to its acknowledgement.
    pub turn_rounds: Vec<LatencySample>,
    /// Samples that found no room.
    pub dropped: u64,
    /// Samples of packets of which the kernel did not say when it received them.
    pub unstamped: u64,
}

/// When something came, in nanoseconds of the real-time clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// To the kernel; zero if it does not say.
    stamped: u64,
    /// To us.
    called: u64,
}

/// A channel's acknowledgements whose decision is not known yet, or the other way round; and its
/// data that is not acknowledged.
#[derive(Debug, Default)]
struct Waiting {
    handled: VecDeque<Receipt>,
    decided: VecDeque<u64>,
    data: Vec<Receipt>,
}

#[derive(Debug)]
struct State {
    room: usize,
    found: ControlLatency,
    channels: Vec<Waiting>,
}

/// Where samples come together: from the data path's engines, and from the thread of control laws.
#[derive(Debug)]
pub struct Probe {
    state: Mutex<State>,
}

impl Probe {
    /// With room for so many samples of each kind between two calls of [`Probe::take`].
    pub fn new(room: usize, channels: usize) -> Probe {
        let found = ControlLatency {
            decisions: Vec::with_capacity(room),
            turn_rounds: Vec::with_capacity(room),
            ..ControlLatency::default()
        };
        let channels = (0..channels).map(|_| Waiting::default()).collect();
        Probe { state: Mutex::new(State { room, found, channels }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was measured since it was last asked, added to `to`.
    pub fn take(&self, to: &mut ControlLatency) {
        let mut state = self.state();
        let found = &mut state.found;
        to.decisions.append(&mut found.decisions);
        to.turn_rounds.append(&mut found.turn_rounds);
        to.dropped += std::mem::take(&mut found.dropped);
        to.unstamped += std::mem::take(&mut found.unstamped);
    }

    /// A channel's number stands for a new one.
    pub fn opened(&self, channel: usize) {
        if let Some(waiting) = self.state().channels.get_mut(channel) {
            *waiting = Waiting::default();
        }
    }

    /// A congestion control has decided about the acknowledgement that came so.
    fn decided_about(&self, receipt: Receipt, at: u64) {
        self.state().decision(receipt, at);
    }

    /// A congestion control elsewhere is told of an acknowledgement.
    fn note_handled(&self, channel: usize, receipt: Receipt) {
        let mut state = self.state();
        let Some(waiting) = state.channels.get_mut(channel) else { return };
        match waiting.decided.pop_front() {
            Some(at) => state.decision(receipt, at),
            None => waiting.handled.push_back(receipt),
        }
    }

    /// A congestion control elsewhere has decided about the next `count` acknowledgements.
    pub fn decided(&self, channel: usize, count: u64) {
        let at = clock::real_ns();
        let mut state = self.state();
        for _ in 0..count {
            let Some(waiting) = state.channels.get_mut(channel) else { return };
            match waiting.handled.pop_front() {
                Some(receipt) => state.decision(receipt, at),
                None => waiting.decided.push_back(at),
            }
        }
    }
}

impl State {
    fn decision(&mut self, receipt: Receipt, at: u64) {
        let found = &mut self.found;
        let delay = delay(&mut found.unstamped, receipt, at);
        keep(&mut found.decisions, delay, self.room, &mut found.dropped);
    }

    fn note_reply(&mut self, receipt: Receipt, at: u64) {
        let found = &mut self.found;
        let delay = delay(&mut found.unstamped, receipt, at);
        keep(&mut found.turn_rounds, delay, self.room, &mut found.dropped);
    }
}

fn keep(list: &mut Vec<LatencySample>, delay: LatencySample, room: usize, dropped: &mut u64) {
    if list.len() < room {
        list.push(delay);
    } else {
        *dropped += 1;
    }
}

fn delay(unstamped: &mut u64, receipt: Receipt, at: u64) -> LatencySample {
    let since = |then: u64| u32::try_from(at.saturating_sub(then)).unwrap_or(u32::MAX);
    let since_call_ns = since(receipt.called);
    if receipt.stamped == 0 {
        *unstamped += 1;
        return LatencySample { since_kernel_ns: since_call_ns, since_call_ns };
    }
    LatencySample { since_kernel_ns: since(receipt.stamped), since_call_ns }
}

/// What measures the traffic of one engine's sockets.
#[derive(Debug)]
pub struct Meter {
    probe: Arc<Probe>,
    /// Congestion controls decide while the engine handles their acknowledgements.
    in_line: bool,
    /// Of the arrival at hand, and the channel whose data of it is noted.
    receipt: Receipt,
    noted: Option<usize>,
    /// Data whose acknowledgement leaves with the run at hand, and with the next one.
    leaving: Vec<Receipt>,
    pending: Vec<Receipt>,
}

impl Meter {
    /// A meter that reports to this probe. `in_line`: congestion controls decide in the thread that
    /// receives.
    pub fn new(probe: Arc<Probe>, in_line: bool) -> Meter {
        Meter {
            probe,
            in_line,
            receipt: Receipt::default(),
            noted: None,
            leaving: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// A receive call has brought something that the kernel received then.
    pub fn arrived(&mut self, stamped_ns: u64) {
        self.receipt = Receipt { stamped: stamped_ns, called: clock::real_ns() };
        self.noted = None;
    }

    /// The engine has handled an acknowledgement, and told the congestion control of it.
    pub fn note_handled(&mut self, channel: usize) {
        if self.in_line {
            self.probe.decided_about(self.receipt, clock::real_ns());
        } else {
            self.probe.note_handled(channel, self.receipt);
        }
    }

    /// The engine has handled a packet of data.
    pub fn data(&mut self, channel: usize) {
        // The rest of the run came with it.
        if self.noted.replace(channel) == Some(channel) {
            return;
        }
        if let Some(waiting) = self.probe.state().channels.get_mut(channel) {
            waiting.data.push(self.receipt);
        }
    }

    /// An acknowledgement of the channel was put together. It belongs to the run at hand, or, if
    /// that has no room for it, to the next one.
    pub fn acknowledges(&mut self, channel: usize, now: bool) {
        let list = if now { &mut self.leaving } else { &mut self.pending };
        if let Some(waiting) = self.probe.state().channels.get_mut(channel) {
            list.append(&mut waiting.data);
        }
    }

    /// What was put together for the next run is in this one now.
    pub fn began_run(&mut self) {
        self.leaving.append(&mut self.pending);
    }

    /// The run has left; the call that took it began at `at`.
    pub fn left(&mut self, at: u64) {
        if self.leaving.is_empty() {
            return;
        }
        let mut state = self.probe.state();
        self.leaving.drain(..).for_each(|receipt| state.note_reply(receipt, at));
    }

    /// What waited to be sent is dropped.
    pub fn dropped(&mut self) {
        self.leaving.clear();
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests;
