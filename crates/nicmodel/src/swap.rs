//! Paging to remote memory: tracks pages that are resident, modified or in transit.

use crate::config::{Config, Stack};
use std::collections::{BTreeMap, BTreeSet};

/// Result of an access to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The page is resident.
    Resident,
    /// The page is being read or written back.
    OnItsWay,
    /// These adjacent pages must be read.
    Read(Vec<u64>),
}

/// The page table of a host.
#[derive(Debug)]
pub(crate) struct Pager {
    page_bytes: u64,
    /// Bytes of the memory; its last page may be shorter than the others.
    set_bytes: u64,
    capacity: usize,
    readahead: u64,
    clock: u64,
    /// By page: the time of the last use, and whether it was modified and used at all.
    resident: BTreeMap<u64, (u64, bool, bool)>,
    by_age: BTreeMap<u64, u64>,
    reading: BTreeSet<u64>,
    writing: BTreeSet<u64>,
    faults: u64,
    fetched: u64,
    written: u64,
    wasted: u64,
}

impl Pager {
    pub(crate) fn new(config: &Config) -> Pager {
        let constants = &config.constants;
        let page_bytes = constants.page_bytes.max(64.0) as u64;
        let set = crate::adapter::memory_bytes(config)[crate::adapter::EXPOSED] as u64;
        let fast = config.stack == Stack::Fastswap;
        Pager {
            page_bytes,
            set_bytes: set,
            capacity: constants.resident_pages.max(1.0) as usize,
            readahead: if fast { constants.readahead_pages.max(1.0) as u64 } else { 1 },
            clock: 0,
            resident: BTreeMap::new(),
            by_age: BTreeMap::new(),
            reading: BTreeSet::new(),
            writing: BTreeSet::new(),
            faults: 0,
            fetched: 0,
            written: 0,
            wasted: 0,
        }
    }

    /// Returns the first address of some adjacent pages, and the address behind them.
    pub(crate) fn range(&self, first: u64, count: u64) -> (u64, u64) {
        let end = ((first + count) * self.page_bytes).min(self.set_bytes);
        (first * self.page_bytes, end)
    }

    /// Returns the address behind the page of an address.
    pub(crate) fn page_end(&self, address: u64) -> u64 {
        self.range(address / self.page_bytes, 1).1
    }

    /// Accesses the page of an address.
    pub(crate) fn touch(&mut self, address: u64, store: bool) -> Fault {
        let page = address / self.page_bytes;
        if let Some(&(stamp, dirty, _)) = self.resident.get(&page) {
            self.by_age.remove(&stamp);
            self.clock += 1;
            self.by_age.insert(self.clock, page);
            self.resident.insert(page, (self.clock, dirty || store, true));
            return Fault::Resident;
        }
        if self.reading.contains(&page) || self.writing.contains(&page) {
            return Fault::OnItsWay;
        }
        self.faults += 1;
        let mut pages = vec![page];
        let end = self.set_bytes.div_ceil(self.page_bytes);
        for next in page + 1..(page + self.readahead).min(end) {
            let elsewhere = self.resident.contains_key(&next)
                || self.reading.contains(&next)
                || self.writing.contains(&next);
            if elsewhere {
                break;
            }
            pages.push(next);
        }
        self.reading.extend(&pages);
        Fault::Read(pages)
    }

    /// Installs pages that have arrived. Returns the evicted pages that must be written back.
    pub(crate) fn install(&mut self, pages: &[u64]) -> Vec<u64> {
        for &page in pages {
            self.reading.remove(&page);
            self.clock += 1;
            self.fetched += 1;
            self.resident.insert(page, (self.clock, false, false));
            self.by_age.insert(self.clock, page);
        }
        // The requested page is to be evicted last.
        if let Some(&first) = pages.first() {
            let used = self.resident.get(&first).copied().unwrap_or_default();
            self.by_age.remove(&used.0);
            self.clock += 1;
            self.by_age.insert(self.clock, first);
            self.resident.insert(first, (self.clock, used.1, used.2));
        }
        let mut gone = Vec::new();
        while self.resident.len() > self.capacity {
            let Some((_, page)) = self.by_age.pop_first() else { break };
            let Some((_, dirty, used)) = self.resident.remove(&page) else { continue };
            self.wasted += u64::from(!used);
            if dirty {
                self.writing.insert(page);
                self.written += 1;
                gone.push(page);
            }
        }
        gone
    }

    /// Handles the end of a page's write-back.
    pub(crate) fn written(&mut self, page: u64) {
        self.writing.remove(&page);
    }

    pub(crate) fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("page_faults", self.faults as f64),
            ("pages_fetched", self.fetched as f64),
            ("pages_written_back", self.written as f64),
            ("readahead_unused", self.wasted as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Pager};
    use crate::{Config, Stack};

    #[test]
    fn changed_pages_are_written_back_before_they_come_again() {
        let mut config = Config { stack: Stack::Fastswap, keys: 64 * 64, ..Config::default() };
        config.constants.resident_pages = 2.0;
        config.constants.readahead_pages = 2.0;
        let mut pager = Pager::new(&config);
        assert_eq!(pager.touch(0, true), Fault::Read(vec![0, 1]));
        assert_eq!(pager.touch(4096, false), Fault::OnItsWay);
        assert!(pager.install(&[0, 1]).is_empty());
        assert_eq!(pager.touch(8, true), Fault::Resident);
        assert_eq!(pager.touch(8192, false), Fault::Read(vec![2, 3]));
        assert_eq!(pager.install(&[2, 3]), vec![0], "the clean one just goes");
        assert_eq!(pager.touch(0, false), Fault::OnItsWay);
        pager.written(0);
        assert_eq!(pager.touch(0, false), Fault::Read(vec![0, 1]));
    }
}
