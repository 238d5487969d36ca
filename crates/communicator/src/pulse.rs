//! Notices that this process was stopped for a while: by a signal or a debugger, or with its host.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time between two beats of a process that runs.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// The beats of a thread that always runs.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// The last beat, and the longest time between two.
    state: Mutex<(Instant, Duration)>,
}

impl Pulse {
    pub(crate) fn new(now: Instant) -> Pulse {
        Pulse { state: Mutex::new((now, Duration::ZERO)) }
    }

    pub(crate) fn beat(&self, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, longest) = *state;
        *state = (now, longest.max(now.saturating_duration_since(last)));
    }

    /// The longest time without a beat, the time since the last one included.
    pub(crate) fn longest_pause(&self, now: Instant) -> Duration {
        let (last, longest) = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        longest.max(now.saturating_duration_since(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_is_known_before_the_next_beat_and_after_it() {
        let start = Instant::now();
        let second = |second| start + Duration::from_secs(second);
        let pulse = Pulse::new(start);
        for beat in 1..5 {
            pulse.beat(second(beat));
        }
        assert_eq!(pulse.longest_pause(second(5)), Duration::from_secs(1));
        assert_eq!(pulse.longest_pause(second(44)), Duration::from_secs(40));
        pulse.beat(second(44));
        assert_eq!(pulse.longest_pause(second(45)), Duration::from_secs(40));
    }
}
