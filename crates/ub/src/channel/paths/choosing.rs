//! The choice of a path for a chunk, and for a packet that is sent again.

use super::Paths;
use fairway_policy::ChunkRequest;

impl Paths {
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
        let first = if has_failed { usize::from(self.turn) + 1 } else { choice };
        let from_first = (0..count).map(|step| (first + step) % count).filter(usable);
        let matching = from_first.clone().filter(others);
        let matched = match avoid {
            Some(_) => matching.min_by_key(timeouts),
            None => from_first.clone().next(),
        };
        let path = matched.or_else(|| from_first.clone().next()).unwrap_or(choice % count) as u8;
        if has_failed {
            self.turn = path;
        }
        path
    }
}
