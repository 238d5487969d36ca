//! Signal fidelity: how late this host reacts to incoming packets (UCCL §3.4 and Table 3).
//!
//! Two delays are measured, if `Builder::measure_control_latency` enables that:
//!
//! | delay | from | to |
//! |---|---|---|
//! | decision | an acknowledgement arrives | the congestion control that received it has decided |
//! | turn-round | data arrives, a run of packets in one call | the call begins that sends the first acknowledgement afterwards |
//!
//! Each delay has two starting points: when the kernel received the packets (`SO_TIMESTAMPNS`; over
//! loopback that is within the sender's system call), and when the receive call had returned. All
//! times are read from the real-time clock, because the kernel uses that; a delay during which the
//! clock was set back counts as zero.
//!
//! Every decision is attributed to its acknowledgement. In line with the data path it is made while
//! the protocol handles the acknowledgement. On a separate thread, congestion controls receive
//! several at once, but always the oldest first, and the number is counted. Both sides therefore
//! number the acknowledgements of a channel, and the later of the two events, the acknowledgement's
//! receipt or the decision, makes the sample.
//!
//! Without a [`Meter`] each place that would measure only checks whether there is one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairway_runtime::clock;

/// One measured delay, in nanoseconds (4.3 s at most).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySample {
    /// Delay since the kernel received the packet; as `since_call_ns` if there was no timestamp.
    pub since_kernel_ns: u32,
    /// Delay since the call that received the packet had returned.
    pub since_call_ns: u32,
}

/// Measured delays (`Builder::measure_control_latency`, `Context::take_control_latency`).
#[derive(Clone, Debug, Default)]
pub struct ControlLatency {
    /// From an acknowledgement to the congestion control's decision.
    pub decisions: Vec<LatencySample>,
    /// From data to its acknowledgement.
    pub turn_rounds: Vec<LatencySample>,
    /// Number of samples for which there was no room.
    pub dropped: u64,
    /// Number of samples of packets without a timestamp of the kernel.
    pub unstamped: u64,
}

/// Times at which a packet was received, in nanoseconds of the real-time clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Time of receipt by the kernel; zero if there is no timestamp.
    stamped: u64,
    /// Time at which the receive call had returned.
    called: u64,
}

/// A channel's acknowledgements without a decision yet, or decisions without an acknowledgement;
/// and its data that has not been acknowledged.
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

/// Collects samples of the data path's engines, and of the thread of congestion controls.
#[derive(Debug)]
pub struct Probe {
    state: Mutex<State>,
}

impl Probe {
    /// Creates a probe with capacity for `room` samples of each kind between two calls of
    /// [`Probe::take`].
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

    /// Appends the measurements since the last call to `to`.
    pub fn take(&self, to: &mut ControlLatency) {
        let mut state = self.state();
        let found = &mut state.found;
        to.decisions.append(&mut found.decisions);
        to.turn_rounds.append(&mut found.turn_rounds);
        to.dropped += std::mem::take(&mut found.dropped);
        to.unstamped += std::mem::take(&mut found.unstamped);
    }

    /// Resets a channel's record, because its number stands for a new channel.
    pub fn opened(&self, channel: usize) {
        if let Some(waiting) = self.state().channels.get_mut(channel) {
            *waiting = Waiting::default();
        }
    }

    /// Records that a congestion control has decided about the acknowledgement with this receipt.
    fn decided_about(&self, receipt: Receipt, at: u64) {
        self.state().decision(receipt, at);
    }

    /// Records an acknowledgement for a congestion control on another thread.
    fn note_handled(&self, channel: usize, receipt: Receipt) {
        let mut state = self.state();
        let Some(waiting) = state.channels.get_mut(channel) else { return };
        match waiting.decided.pop_front() {
            Some(at) => state.decision(receipt, at),
            None => waiting.handled.push_back(receipt),
        }
    }

    /// Records that a congestion control on another thread has decided about the next `count`
    /// acknowledgements.
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

/// Measures the traffic of one engine's sockets.
#[derive(Debug)]
pub struct Meter {
    probe: Arc<Probe>,
    /// True if congestion controls decide while the protocol handles their acknowledgements.
    in_line: bool,
    /// Receipt of the current arrival; `noted` is the channel whose data in it has been recorded.
    receipt: Receipt,
    noted: Option<usize>,
    /// Data whose acknowledgement leaves with the current run; `pending`: with the next one.
    leaving: Vec<Receipt>,
    pending: Vec<Receipt>,
}

impl Meter {
    /// Returns a meter that reports to this probe. `in_line`: congestion controls decide in the
    /// thread that receives.
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

    /// Records that a receive call has returned packets that the kernel received at `stamped_ns`.
    pub fn arrived(&mut self, stamped_ns: u64) {
        self.receipt = Receipt { stamped: stamped_ns, called: clock::real_ns() };
        self.noted = None;
    }

    /// Records that the protocol has handled an acknowledgement, and reported it to the congestion
    /// control.
    pub fn note_handled(&mut self, channel: usize) {
        if self.in_line {
            self.probe.decided_about(self.receipt, clock::real_ns());
        } else {
            self.probe.note_handled(channel, self.receipt);
        }
    }

    /// Records that the protocol has handled a packet of data.
    pub fn data(&mut self, channel: usize) {
        // The rest of the run arrived with it.
        if self.noted.replace(channel) == Some(channel) {
            return;
        }
        if let Some(waiting) = self.probe.state().channels.get_mut(channel) {
            waiting.data.push(self.receipt);
        }
    }

    /// Records that an acknowledgement of the channel was built. It belongs to the current run or,
    /// if that has no room for it, to the next one.
    pub fn acknowledges(&mut self, channel: usize, now: bool) {
        let list = if now { &mut self.leaving } else { &mut self.pending };
        if let Some(waiting) = self.probe.state().channels.get_mut(channel) {
            list.append(&mut waiting.data);
        }
    }

    /// Moves the acknowledgements for the next run to the current one.
    pub fn began_run(&mut self) {
        self.leaving.append(&mut self.pending);
    }

    /// Records that the run has been sent, by a call that began at `at`.
    pub fn left(&mut self, at: u64) {
        if self.leaving.is_empty() {
            return;
        }
        let mut state = self.probe.state();
        self.leaving.drain(..).for_each(|receipt| state.note_reply(receipt, at));
    }

    /// Records that the packets that waited to be sent are dropped.
    pub fn dropped(&mut self) {
        self.leaving.clear();
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests;
