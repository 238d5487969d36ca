//! The directory: which caches hold each line, for a limited number of lines.

/// The directory's record of one line.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) line: u64,
    /// One bit per host that may hold the line.
    sharers: Vec<u64>,
    pub(crate) owner: Option<usize>,
    used: u64,
}

impl Entry {
    /// Returns the hosts that may hold the line, in order.
    pub(crate) fn holders(&self) -> Vec<usize> {
        let bits = self.sharers.len() * 64;
        (0..bits).filter(|&host| self.sharers[host / 64] >> (host % 64) & 1 == 1).collect()
    }

    pub(crate) fn add(&mut self, host: usize) {
        self.sharers[host / 64] |= 1 << (host % 64);
    }

    /// Removes a host that no longer holds the line.
    pub(crate) fn remove(&mut self, host: usize) {
        self.sharers[host / 64] &= !(1 << (host % 64));
        self.disown(host);
    }

    pub(crate) fn disown(&mut self, host: usize) {
        if self.owner == Some(host) {
            self.owner = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sharers.fill(0);
        self.owner = None;
    }
}

/// Result of looking up a line's entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The line has an entry, which may be new.
    Entry,
    /// The line in this entry has to be recalled first.
    Evict(u64),
    /// Every entry that could be evicted is in use.
    Nothing,
}

/// The directory: sets of entries.
#[derive(Debug)]
pub(crate) struct Directory {
    sets: Vec<Vec<Entry>>,
    ways: usize,
    words: usize,
    clock: u64,
    in_use: u64,
    pub(crate) in_use_most: u64,
}

impl Directory {
    pub(crate) fn new(entries: usize, ways: usize, hosts: usize) -> Directory {
        let ways = ways.clamp(1, entries.max(1));
        let sets = vec![Vec::new(); (entries / ways).max(1)];
        let words = hosts.div_ceil(64);
        Directory { sets, ways, words, clock: 0, in_use: 0, in_use_most: 0 }
    }

    /// Size of the directory: per entry, one bit per host and eight bytes of tag and owner.
    pub(crate) fn bytes(&self, hosts: usize) -> u64 {
        (self.sets.len() * self.ways * (hosts.div_ceil(8) + 8)) as u64
    }

    pub(crate) fn get(&mut self, line: u64) -> Option<&mut Entry> {
        self.set(line).iter_mut().find(|entry| entry.line == line)
    }

    /// Finds or creates a line's entry. `is_busy` says which lines must not be evicted.
    pub(crate) fn find(&mut self, line: u64, is_busy: impl Fn(u64) -> bool) -> Found {
        self.clock += 1;
        let (clock, ways, words) = (self.clock, self.ways, self.words);
        if let Some(entry) = self.get(line) {
            entry.used = clock;
            return Found::Entry;
        }
        let set = self.set(line);
        if set.len() < ways {
            set.push(Entry { line, sharers: vec![0; words], owner: None, used: clock });
            self.in_use += 1;
            self.in_use_most = self.in_use_most.max(self.in_use);
            return Found::Entry;
        }
        let idle = set.iter().filter(|entry| !is_busy(entry.line));
        let oldest = idle.min_by_key(|entry| entry.used);
        oldest.map_or(Found::Nothing, |entry| Found::Evict(entry.line))
    }

    pub(crate) fn free(&mut self, line: u64) {
        let set = self.set(line);
        let before = set.len();
        set.retain(|entry| entry.line != line);
        self.in_use -= (before - self.set(line).len()) as u64;
    }

    fn set(&mut self, line: u64) -> &mut Vec<Entry> {
        let count = self.sets.len() as u64;
        &mut self.sets[(line % count) as usize]
    }
}
