//! What has arrived by each path since the last acknowledgement, for the next one to report.

use fairway_wire::{
    Duration, ECHO_DELAY_UNIT_NS, Instant, PATH_REPORTS_MAX, PathReport, PathReports, Psn,
};

/// The last packet of a path, and how many packets of it had a congestion mark.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    psn: Psn,
    path: u8,
    marks: u8,
    retry: bool,
}

impl Entry {
    const NONE: Entry =
        Entry { at: Instant::ZERO, psn: Psn::new(0), path: 0, marks: 0, retry: false };
}

/// The paths by which packets have arrived since the last acknowledgement: as many as one
/// acknowledgement can report.
#[derive(Debug)]
pub(super) struct PathRegister {
    count: u8,
    entries: [Entry; PATH_REPORTS_MAX],
}

impl PathRegister {
    pub(super) const fn new() -> PathRegister {
        PathRegister { count: 0, entries: [Entry::NONE; PATH_REPORTS_MAX] }
    }

    /// True if nothing is to be reported.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if nothing is to be reported but what an acknowledgement that echoes `echo` tells.
    pub(super) fn tells_only(&self, echo: Psn) -> bool {
        let entries = &self.entries[..usize::from(self.count)];
        entries.iter().all(|entry| entry.psn == echo && entry.marks == 0)
    }

    /// Forgets what has been noted.
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }

    /// Notes that a packet has arrived by a path. False if there is no room for another path.
    #[inline]
    pub(super) fn note(
        &mut self,
        now: Instant,
        path: u8,
        (psn, retry): (Psn, bool),
        is_marked: bool,
    ) -> bool {
        let count = usize::from(self.count);
        // A chunk's packets follow each other, so the newest path is the likeliest.
        let known = self.entries[..count].iter_mut().rev().find(|entry| entry.path == path);
        let marks = u8::from(is_marked);
        let new = Entry { at: now, psn, path, marks, retry };
        if let Some(entry) = known {
            *entry = Entry { marks: entry.marks.saturating_add(marks), ..new };
        } else if let Some(entry) = self.entries.get_mut(count) {
            *entry = new;
            self.count += 1;
        } else {
            return false;
        }
        true
    }

    /// Reports what has been noted, to leave with an acknowledgement of everything up to
    /// `cumulative`, and forgets it. An acknowledgement that echoes a packet tells its round trip
    /// already, so that packet is reported only for its path's marks.
    pub(super) fn take(&mut self, now: Instant, cumulative: Psn, echo: Option<Psn>) -> PathReports {
        let mut reports = PathReports::NONE;
        for entry in &self.entries[..usize::from(self.count)] {
            let offset = entry.psn.distance_from(cumulative);
            if !PathReport::OFFSETS.contains(&offset) || entry.marks == 0 && echo == Some(entry.psn)
            {
                continue;
            }
            let delay = now.elapsed_since(entry.at);
            let report = PathReport {
                offset: offset as i16,
                retry: entry.retry,
                marks: entry.marks.min(PathReport::MARKS_MAX),
                delay: in_units(delay),
            };
            let has_room = reports.push(report);
            debug_assert!(has_room);
        }
        self.count = 0;
        reports
    }
}

/// A time in units of the echo's delay, saturating.
pub(super) fn in_units(delay: Duration) -> u16 {
    (delay.as_ns() / ECHO_DELAY_UNIT_NS).min(0xFFFF) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn each_path_has_one_report() {
        let mut register = PathRegister::new();
        let psn = |value| Psn::new(value);
        assert!(register.note(at(640), 3, (psn(10), false), true));
        assert!(register.note(at(1280), 7, (psn(12), true), false));
        assert!(register.note(at(1920), 3, (psn(11), false), true));
        let reports: Vec<_> = register.take(at(6400), psn(11), None).iter().collect();
        let expected = [
            PathReport { offset: 0, retry: false, marks: 2, delay: 70 },
            PathReport { offset: 1, retry: true, marks: 0, delay: 80 },
        ];
        assert_eq!(reports, expected);
        assert!(register.take(at(6400), psn(11), None).is_empty(), "each is reported once");
    }

    #[test]
    fn what_the_echo_tells_is_not_repeated() {
        let mut register = PathRegister::new();
        register.note(at(0), 1, (Psn::new(5), false), false);
        register.note(at(0), 2, (Psn::new(6), false), true);
        register.note(at(0), 4, (Psn::new(2100), false), true);
        assert_eq!(
            register.take(at(0), Psn::new(5), Some(Psn::new(5))).len(),
            1,
            "one is far away"
        );
        register.note(at(0), 2, (Psn::new(6), false), true);
        assert_eq!(register.take(at(0), Psn::new(5), Some(Psn::new(6))).len(), 1, "it has a mark");
    }

    #[test]
    fn counts_and_paths_are_bounded() {
        let mut register = PathRegister::new();
        for path in 0..PATH_REPORTS_MAX as u8 {
            assert!(register.note(at(0), path, (Psn::new(u32::from(path)), false), false));
        }
        assert!(!register.note(at(0), 200, (Psn::new(50), false), true));
        for _ in 0..300 {
            assert!(register.note(at(0), 0, (Psn::new(51), false), true));
        }
        let reports = register.take(at(1 << 40), Psn::new(50), None);
        assert_eq!(reports.len(), PATH_REPORTS_MAX);
        assert_eq!(reports.iter().map(|report| report.marks).max(), Some(PathReport::MARKS_MAX));
        assert!(reports.iter().all(|report| report.delay == u16::MAX));
    }
}
