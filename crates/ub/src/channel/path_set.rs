//! Sets of a channel's paths.

/// A set of a channel's paths, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathSet([u64; 4]);

impl PathSet {
    #[inline]
    pub(super) fn insert(&mut self, path: u8) {
        self.0[usize::from(path) / 64] |= 1 << (path % 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, path: u8) {
        self.0[usize::from(path) / 64] &= !(1 << (path % 64));
    }

    #[inline]
    pub(super) fn contains(&self, path: u8) -> bool {
        self.0[usize::from(path) / 64] & 1 << (path % 64) != 0
    }

    pub(super) fn clear(&mut self) {
        self.0 = [0; 4];
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Removes the path with the lowest number and returns it.
    pub(super) fn pop_first(&mut self) -> Option<u8> {
        let word = self.0.iter().position(|bits| *bits != 0)?;
        let bit = self.0[word].trailing_zeros();
        self.0[word] &= self.0[word] - 1;
        Some(word as u8 * 64 + bit as u8)
    }
}

impl IntoIterator for PathSet {
    type Item = u8;
    type IntoIter = Members;

    fn into_iter(self) -> Members {
        Members { words: self.0, word: 0 }
    }
}

/// The paths of a set, in ascending order of their numbers.
pub(super) struct Members {
    words: [u64; 4],
    word: usize,
}

impl Iterator for Members {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        while let Some(bits) = self.words.get_mut(self.word) {
            if *bits != 0 {
                let bit = bits.trailing_zeros();
                *bits &= *bits - 1;
                return Some(self.word as u8 * 64 + bit as u8);
            }
            self.word += 1;
        }
        None
    }
}
