//! Caches with actual replacement: contexts in the NIC, and lines in a CPU.

use std::collections::{BTreeMap, HashMap};

/// Records of several sizes in a limited SRAM; the least recently used records are evicted.
#[derive(Debug)]
pub(crate) struct ContextCache {
    capacity: u64,
    used: u64,
    clock: u64,
    /// By key: the time of the last use, and the size.
    records: HashMap<u64, (u64, u64)>,
    by_age: BTreeMap<u64, u64>,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl ContextCache {
    pub(crate) fn new(capacity: u64) -> Self {
        let (records, by_age) = (HashMap::new(), BTreeMap::new());
        ContextCache { capacity, used: 0, clock: 0, records, by_age, hits: 0, misses: 0 }
    }

    /// Uses a record. Returns false if it had to be fetched.
    pub(crate) fn touch(&mut self, key: u64, bytes: u64) -> bool {
        let hit = self.insert(key, bytes);
        *(if hit { &mut self.hits } else { &mut self.misses }) += 1;
        hit
    }

    /// Inserts a record without counting a miss, as its set-up does. Returns false if it was
    /// absent.
    pub(crate) fn insert(&mut self, key: u64, bytes: u64) -> bool {
        self.clock += 1;
        let (clock, fresh) = (self.clock, (self.clock, bytes));
        let old = self.records.insert(key, fresh);
        if let Some((stamp, size)) = old {
            self.by_age.remove(&stamp);
            self.used -= size;
        }
        self.by_age.insert(clock, key);
        self.used += bytes;
        while self.used > self.capacity {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            if let Some((_, size)) = self.records.remove(&oldest) {
                self.used -= size;
            }
        }
        old.is_some()
    }

    /// Uses `count` other records once each: the effect of the other connections on this
    /// operation's records when connections are used in turn.
    pub(crate) fn others(&mut self, count: u64, bytes: u64) {
        // More records than fit would evict the same ones.
        let most = self.capacity / bytes.max(1) + 1;
        for other in 0..count.min(most) {
            self.insert(u64::MAX - other, bytes);
        }
    }
}

/// One level of a CPU cache with sets of ways; the least recently used way is evicted.
#[derive(Debug)]
pub(crate) struct LineCache {
    sets: Vec<Vec<Line>>,
    ways: usize,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    line: u64,
    used: u64,
    dirty: bool,
}

impl LineCache {
    pub(crate) fn new(lines: usize, ways: usize) -> Self {
        let ways = ways.clamp(1, lines.max(1));
        LineCache { sets: vec![Vec::new(); (lines / ways).max(1)], ways, clock: 0 }
    }

    /// Uses a line. Returns false if it is absent.
    pub(crate) fn touch(&mut self, line: u64, dirty: bool) -> bool {
        self.clock += 1;
        let clock = self.clock;
        let found = self.set(line).iter_mut().find(|entry| entry.line == line);
        found.is_some_and(|entry| {
            entry.used = clock;
            entry.dirty |= dirty;
            true
        })
    }

    /// Inserts a line. Returns the evicted line, if any, and whether it was modified.
    pub(crate) fn fill(&mut self, line: u64, dirty: bool) -> Option<(u64, bool)> {
        if self.touch(line, dirty) {
            return None;
        }
        let (clock, ways) = (self.clock, self.ways);
        let set = self.set(line);
        let fresh = Line { line, used: clock, dirty };
        if set.len() < ways {
            set.push(fresh);
            return None;
        }
        let oldest = set.iter_mut().min_by_key(|entry| entry.used)?;
        let gone = std::mem::replace(oldest, fresh);
        Some((gone.line, gone.dirty))
    }

    /// Returns whether a line is modified; `None` if it is absent.
    pub(crate) fn holds(&mut self, line: u64) -> Option<bool> {
        self.set(line).iter().find(|entry| entry.line == line).map(|entry| entry.dirty)
    }

    /// Marks a line as unmodified.
    pub(crate) fn clean(&mut self, line: u64) {
        if let Some(entry) = self.set(line).iter_mut().find(|entry| entry.line == line) {
            entry.dirty = false;
        }
    }

    /// Returns all modified lines.
    pub(crate) fn dirty_lines(&self) -> Vec<u64> {
        let all = self.sets.iter().flatten();
        all.filter(|entry| entry.dirty).map(|entry| entry.line).collect()
    }

    /// Removes a line.
    pub(crate) fn drop_line(&mut self, line: u64) {
        self.set(line).retain(|entry| entry.line != line);
    }

    fn set(&mut self, line: u64) -> &mut Vec<Line> {
        let count = self.sets.len() as u64;
        &mut self.sets[(line % count) as usize]
    }
}
