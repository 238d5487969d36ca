//! Congestion marks that an acknowledgement reports, path by path.

use super::path_set::PathSet;
use fairway_wire::PATH_REPORTS_MAX;

/// Marks that no acknowledged packet has taken yet, by path.
#[derive(Debug, Default)]
pub(super) struct PathMarks {
    paths: PathSet,
    count: u8,
    entries: [(u8, u8); PATH_REPORTS_MAX],
    /// Number of marks that were added.
    total: u32,
}

impl PathMarks {
    /// Adds marks of a path.
    pub(super) fn add(&mut self, path: u8, marks: u8) {
        let Some(entry) = self.entries.get_mut(usize::from(self.count)) else { return };
        if marks > 0 {
            *entry = (path, marks);
            self.count += 1;
            self.paths.insert(path);
            self.total += u32::from(marks);
        }
    }

    /// True, once for each of its marks, if the path has any.
    #[inline]
    pub(super) fn take_one(&mut self, path: u8) -> bool {
        if !self.paths.contains(path) {
            return false;
        }
        let mut of_path = self.entries[..usize::from(self.count)].iter_mut();
        let entry = of_path.find(|(of, marks)| *of == path && *marks > 0);
        match entry {
            Some((_, marks)) => *marks -= 1,
            None => {
                self.paths.remove(path);
                return false;
            }
        }
        true
    }

    /// The marks that no packet has taken: their paths and numbers.
    pub(super) fn rest(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let entries = self.entries[..usize::from(self.count)].iter();
        entries.copied().filter(|(_, marks)| *marks > 0)
    }

    /// Number of marks that were added.
    pub(super) fn total(&self) -> u32 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::PathMarks;

    #[test]
    fn each_mark_is_taken_once() {
        let mut marks = PathMarks::default();
        marks.add(3, 2);
        marks.add(200, 1);
        marks.add(4, 0);
        assert!(marks.take_one(3) && marks.take_one(3) && !marks.take_one(3));
        assert!(!marks.take_one(4) && !marks.take_one(0));
        assert!(marks.rest().eq([(200, 1)]));
        assert_eq!(marks.total(), 3);
    }
}
