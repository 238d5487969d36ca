//! MP-RDMA: a congestion window for each path.
//!
//! **Control law**, in packets, for the window `w` of the path of an acknowledgement:
//!
//! ```text
//! a packet arrived unmarked:   w += 1 / w
//! a packet arrived marked:     w −= 1 / 2
//! packets were lost:           w /= 2        at most once per round trip
//! ```
//!
//! A path has room while fewer packets than its window are in flight on it. A chunk takes the next
//! path with room, or (`pick=p2c`) of two random paths with room the one with the shorter round
//! trip; if no path has room, nothing leaves. A congested path therefore carries little, and no
//! other path shares its state.
//!
//! **Source:** Lu et al., *Multi-Path Transport for RDMA in Datacenters* (MP-RDMA), NSDI 2018,
//! §3.2; UCCL §4.1 has per-path congestion state beside a global one.
//!
//! **Where this differs:**
//! * MP-RDMA keeps one number for all paths and lets each acknowledgement send on its own path,
//!   which is equivalent to a window per path while all are busy. Here each path has a window,
//!   since the protocol counts the packets in flight per path anyway.
//! * Acknowledgements report marks of the whole channel; they count for the path on which they
//!   arrived.
//! * A window is never below one packet, because no acknowledgement would ever arrive for a path
//!   that may not send. (The protocol excludes dead paths.)
//!
//! The congestion control of the channel still limits all paths together; `cc=fixed:8M` leaves the
//! decision to the paths.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::Instant;

use crate::compact::Fixed;
use crate::power_of_two::PowerOfTwo;
use crate::{ChunkRequest, PathAck, PathChoice, PathView};

/// Most paths of a channel.
const PATHS: usize = fairway_wire::PATHS_MAX as usize;

/// How a path is chosen among those that have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The paths take turns.
    #[default]
    Turns,
    /// The better of two random paths.
    PowerOfTwo,
}

/// Parameters of [`MultipathWindow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathParameters {
    /// The initial window of a path in packets; not zero.
    pub initial_packets: u64,
    /// The largest window of a path, at most [`MultipathParameters::LARGEST_PACKETS`].
    pub max_packets: u64,
    /// How a path is chosen among those that have room.
    pub pick: Pick,
}

impl MultipathParameters {
    /// Upper limit of all windows, in packets.
    pub const LARGEST_PACKETS: u64 = 16_384;
}

impl Default for MultipathParameters {
    fn default() -> Self {
        MultipathParameters { initial_packets: 16, max_packets: 1024, pick: Pick::Turns }
    }
}

#[derive(Clone, Copy, Debug)]
struct Window {
    packets: Fixed,
    last_loss: Option<Instant>,
}

/// The MP-RDMA path choice.
#[derive(Clone, Debug)]
pub struct MultipathWindow {
    parameters: MultipathParameters,
    windows: Box<[Window]>,
    next: usize,
}

impl MultipathWindow {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "mp-rdma";

    /// Creates the path choice with `parameters`.
    pub fn new(parameters: MultipathParameters) -> MultipathWindow {
        let max_packets = parameters.max_packets.clamp(1, MultipathParameters::LARGEST_PACKETS);
        let initial_packets = parameters.initial_packets.clamp(1, max_packets);
        let window = Window { packets: Fixed::from_int(initial_packets as i32), last_loss: None };
        MultipathWindow {
            parameters: MultipathParameters { initial_packets, max_packets, ..parameters },
            windows: vec![window; PATHS].into_boxed_slice(),
            next: 0,
        }
    }

    /// The window of a path in whole packets.
    pub fn window_packets(&self, path: usize) -> u32 {
        self.windows.get(path).map_or(0, |window| window.packets.floor() as u32)
    }

    fn has_room_on(&self, path: usize, view: &PathView) -> bool {
        view.usable && view.in_flight < self.window_packets(path)
    }

    /// Sets a window to `to` of its old value, within the limits.
    fn set(&mut self, path: usize, to: impl FnOnce(Fixed) -> Fixed) {
        let most = Fixed::from_int(self.parameters.max_packets as i32);
        if let Some(window) = self.windows.get_mut(path) {
            window.packets = to(window.packets).clamp(Fixed::ONE, most);
        }
    }

    /// The next path for which `suits` holds, after the last one chosen.
    fn in_turn(&mut self, paths: &[PathView], suits: impl Fn(usize) -> bool) -> Option<usize> {
        let first = self.next % paths.len().max(1);
        let chosen = (first..paths.len()).chain(0..first).find(|path| suits(*path))?;
        self.next = chosen + 1;
        Some(chosen)
    }
}

impl PathChoice for MultipathWindow {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn has_room(&self, paths: &[PathView]) -> bool {
        paths.iter().enumerate().any(|(path, view)| self.has_room_on(path, view))
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        let with_room = |path: usize| self.has_room_on(path, &paths[path]);
        if self.parameters.pick == Pick::PowerOfTwo
            && let Some(path) = PowerOfTwo::among(paths, request.random, with_room)
        {
            return path;
        }
        let room: [bool; PATHS] =
            core::array::from_fn(|path| path < paths.len() && with_room(path));
        // No path has room, but the packet must leave, for example a retransmission: any usable
        // path will do.
        let found = self.in_turn(paths, |path| room.get(path).is_some_and(|room| *room));
        found.or_else(|| self.in_turn(paths, |path| paths[path].usable)).unwrap_or(0)
    }

    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        let marked = ack.marked_packets.min(ack.acked_packets);
        let unmarked = u64::from(ack.acked_packets - marked);
        self.set(path, |window| {
            let grown = window + Fixed::ratio(unmarked << 16, window.to_bits() as u64);
            grown - Fixed::ratio(u64::from(marked), 2)
        });
    }

    fn on_loss(&mut self, path: usize, sample: &crate::LossSample) {
        let Some(window) = self.windows.get_mut(path) else { return };
        let apart = |last| sample.now.elapsed_since(last) >= sample.smoothed_rtt;
        if window.last_loss.is_none_or(apart) {
            window.last_loss = Some(sample.now);
            self.set(path, |window| window.divide(Fixed::from_int(2)));
        }
    }
}

#[cfg(test)]
mod tests;
