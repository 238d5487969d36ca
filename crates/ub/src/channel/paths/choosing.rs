//! The choice of a path for a chunk, and for a packet that is sent again.

use super::Paths;
use fairway_policy::ChunkRequest;

/// Packets that take the paths by turns, whatever the policy prefers, because a path that is dead
/// takes away whatever is sent on it. Each kind has turns of its own: with common ones, kinds that
/// are repeated at regular intervals might always meet the same paths.
#[derive(Clone, Copy, Debug)]
pub(in crate::channel) enum PathTurn {
    /// Data that is sent again by paths which have timed out.
    DataAgain,
    /// Loads and stores that are repeated.
    Bypass,
    CreditRequest,
    KeepAlive,
    Close,
    Retire,
}

impl PathTurn {
    const COUNT: usize = PathTurn::Retire as usize + 1;
}

/// The path that was taken last, by [`PathTurn`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathTurns([u8; PathTurn::COUNT]);

impl PathTurns {
    /// True if no packet has taken a turn.
    pub(super) fn are_untaken(self) -> bool {
        self.0 == [0; PathTurn::COUNT]
    }
}

impl Paths {
    /// The usable path behind the one that this returned last.
    pub(in crate::channel) fn take_turn(&mut self, turn: PathTurn) -> u8 {
        self.grow_whole();
        let count = self.views.len();
        let last = &mut self.turns.0[turn as usize];
        let mut behind = (1..=count).map(|step| (usize::from(*last) + step) % count);
        if let Some(path) = behind.find(|path| self.views[*path].usable) {
            *last = path as u8;
        }
        *last
    }

    /// The path that was taken last, if it `stays` and is usable, or the next one.
    pub(in crate::channel) fn take_turn_unless(&mut self, stays: bool, turn: PathTurn) -> u8 {
        let last = self.turns.0[turn as usize];
        if stays && self.is_usable(last) { last } else { self.take_turn(turn) }
    }

    /// The path that the policy chooses, or the next usable one that is not `avoid`. A packet that
    /// is sent again (`avoid` is its path) takes one of the paths with the fewest time-outs: a
    /// policy that stays with a path, or goes to its neighbour, would never leave those that are
    /// dead. If the chosen path has timed out, these paths take turns.
    pub(super) fn choose(&mut self, request: &ChunkRequest, avoid: Option<u8>) -> u8 {
        self.grow_whole();
        let choice = self.choice.choose(&self.views, request);
        let count = self.views.len();
        let usable = |path: &usize| self.views[*path].usable;
        let others = |path: &usize| avoid != Some(*path as u8);
        let timeouts = |path: &usize| self.paths.get(*path).map_or(0, |path| path.timeouts);
        let has_failed = avoid.is_some() && timeouts(&choice) > 0;
        if choice < count && usable(&choice) && others(&choice) && !has_failed {
            return choice as u8;
        }
        let turn = &mut self.turns.0[PathTurn::DataAgain as usize];
        let first = if has_failed { usize::from(*turn) + 1 } else { choice };
        let from_first = (0..count).map(|step| (first + step) % count).filter(usable);
        let matching = from_first.clone().filter(others);
        let matched = match avoid {
            Some(_) => matching.min_by_key(timeouts),
            None => from_first.clone().next(),
        };
        let path = matched.or_else(|| from_first.clone().next()).unwrap_or(choice % count) as u8;
        if has_failed {
            *turn = path;
        }
        path
    }
}
