//! Flowlets: all chunks use one path, and after a pause another one.
//!
//! **Rule:** a chunk that leaves within `gap` after the one before takes the same path. After a
//! longer pause packets on another path can no longer overtake earlier ones, so the chunk takes a
//! usable path drawn at random, which may be the same.
//!
//! **Source:** Vanini et al., *Let It Flow: Resilient Asymmetric Load Balancing with Flowlet
//! Switching*, NSDI 2017, §4: paths need not be compared, because a slow path ends flowlets.
//!
//! **Where this differs:**
//! * The sender's NIC detects the pauses, and not the switches.
//! * `gap` is by default the smoothed round trip of the path in use, because a NIC knows that;
//!   until it is measured, the path stays. The paper chooses 500 us for its testbed of 1 Gb/s.
//! * A pause is between chunks, and a NIC that sends all the time has none: then the path stays,
//!   as with one path.

use fairway_wire::{Duration, Instant};

use crate::{ChunkRequest, PathChoice, PathView};

/// Parameters of [`Flowlet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowletParameters {
    /// The pause after which the path may change; zero for the round trip of the path in use.
    pub gap: Duration,
}

/// The path choice by flowlets.
#[derive(Clone, Debug)]
pub struct Flowlet {
    parameters: FlowletParameters,
    /// The path in use, and when its last chunk left.
    current: Option<(usize, Instant)>,
}

impl Flowlet {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "flowlet";

    /// Creates the path choice; the first path is drawn at the first chunk.
    pub fn new(parameters: FlowletParameters) -> Self {
        Flowlet { parameters, current: None }
    }

    /// True if the pause before a chunk has ended the flowlet.
    fn has_ended(&self, view: &PathView, last: Instant, now: Instant) -> bool {
        let gap = match self.parameters.gap {
            Duration::ZERO => view.smoothed_rtt,
            gap => gap,
        };
        gap > Duration::ZERO && now.elapsed_since(last) > gap
    }
}

impl PathChoice for Flowlet {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        let kept = self.current.filter(|(path, last)| {
            let view = paths.get(*path).filter(|view| view.usable);
            view.is_some_and(|view| !self.has_ended(view, *last, request.now))
        });
        let path = kept.map_or_else(|| drawn(paths, request.random), |(path, _)| path);
        self.current = Some((path, request.now));
        path
    }
}

/// A usable path, drawn at random; the first if none is usable.
fn drawn(paths: &[PathView], random: u32) -> usize {
    let usable = || paths.iter().enumerate().filter(|(_, path)| path.usable);
    let number = (u64::from(random) * usable().count() as u64) >> 32;
    usable().nth(number as usize).map_or(0, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_us(100);

    fn paths() -> [PathView; 4] {
        [PathView { smoothed_rtt: RTT, usable: true, ..PathView::default() }; 4]
    }

    fn choose(flowlet: &mut Flowlet, paths: &[PathView], us: u64, random: u32) -> usize {
        // The clock wraps after 500 us.
        let now = Instant::from_ps(0) - Duration::from_us(500) + Duration::from_us(us);
        flowlet.choose(paths, &ChunkRequest { now, bytes: 1, random })
    }

    #[test]
    fn a_path_is_kept_until_a_pause_of_a_round_trip() {
        let (mut flowlet, paths) = (Flowlet::new(FlowletParameters::default()), paths());
        assert_eq!(choose(&mut flowlet, &paths, 0, u32::MAX), 3);
        for turn in 1..20 {
            assert_eq!(choose(&mut flowlet, &paths, 100 * turn, 0), 3, "{turn}");
        }
        assert_eq!(choose(&mut flowlet, &paths, 2001, 0), 0);
        assert_eq!(choose(&mut flowlet, &paths, 2050, 1 << 31), 0);
    }

    #[test]
    fn the_pause_can_be_set() {
        let parameters = FlowletParameters { gap: Duration::from_us(7) };
        let (mut flowlet, paths) = (Flowlet::new(parameters), paths());
        assert_eq!(choose(&mut flowlet, &paths, 0, 0), 0);
        assert_eq!(choose(&mut flowlet, &paths, 7, u32::MAX), 0);
        assert_eq!(choose(&mut flowlet, &paths, 15, u32::MAX), 3);
    }

    #[test]
    fn a_dead_path_is_left_at_once_and_an_unmeasured_one_is_kept() {
        let (mut flowlet, mut paths) = (Flowlet::new(FlowletParameters::default()), paths());
        paths[0].smoothed_rtt = Duration::ZERO;
        assert_eq!(choose(&mut flowlet, &paths, 0, 0), 0);
        assert_eq!(choose(&mut flowlet, &paths, 5000, u32::MAX), 0);
        paths[0].usable = false;
        paths[3].usable = false;
        assert_eq!(choose(&mut flowlet, &paths, 5001, u32::MAX), 2);
        paths.iter_mut().for_each(|path| path.usable = false);
        assert!(choose(&mut flowlet, &paths, 5002, 77) < 4);
    }
}
