//! The memory behind every segment the engine knows.

use std::sync::Arc;

use fairway_engine::{LocalRange, SegmentId};
use fairway_port::RawSlice;

use crate::memory::{Memory, SharedBytes};

/// Memory by segment index. What is in here stays mapped.
#[derive(Default)]
pub(crate) struct Memories {
    live: Vec<Option<Arc<Memory>>>,
    /// Released by the engine, but perhaps named by packets that still wait to be sent.
    released: Vec<Arc<Memory>>,
}

impl Memories {
    pub(crate) fn insert(&mut self, id: SegmentId, memory: Arc<Memory>) {
        let index = id.index();
        if index >= self.live.len() {
            self.live.resize_with(index + 1, || None);
        }
        self.live[index] = Some(memory);
    }

    /// The engine has no use for it any more.
    pub(crate) fn release(&mut self, id: SegmentId) {
        self.released.extend(self.live.get_mut(id.index()).and_then(Option::take));
    }

    /// What a segment's memory was is its owner's again: what still names it finds as much that is
    /// nobody's.
    pub(crate) fn blind(&mut self, id: SegmentId) {
        if let Some(Some(memory)) = self.live.get_mut(id.index()) {
            // Memory that is never touched costs nothing; without it, nothing is found.
            match Memory::zeroed(memory.len()) {
                Ok(blind) => *memory = Arc::new(blind),
                Err(_) => self.live[id.index()] = None,
            }
        }
    }

    /// Frees what was released, if no packet waits to be sent.
    pub(crate) fn bury(&mut self, nothing_waits: bool) {
        if nothing_waits && !self.released.is_empty() {
            self.released.clear();
        }
    }

    /// The bytes of a range to be sent; `None` if they are not there.
    pub(crate) fn gather(&self, range: &LocalRange) -> Option<RawSlice> {
        if range.length == 0 {
            return Some(RawSlice::EMPTY);
        }
        let memory = self.holder(range)?;
        // SAFETY: within the memory (checked by `holder`), which stays mapped while it is in
        // `live` or `released`; it leaves the latter only when no packet waits to be sent.
        Some(unsafe {
            let start = memory.start().as_ptr().add(range.offset as usize);
            RawSlice::new(start, range.length as usize)
        })
    }

    /// The bytes of a range, to be copied out; `None` if they are not there.
    pub(crate) fn source(&self, range: &LocalRange) -> Option<SharedBytes> {
        let memory = self.holder(range)?;
        Some(memory.bytes(range.offset as usize, range.length as usize))
    }

    /// Room for a payload to be copied into; `None` if it is not there or can't be written.
    pub(crate) fn target(&self, range: &LocalRange) -> Option<SharedBytes> {
        let memory = self.holder(range).filter(|memory| memory.is_writable())?;
        Some(memory.bytes(range.offset as usize, range.length as usize))
    }

    /// Where a range begins in this process; `None` if it is not there.
    pub(crate) fn address_of(&self, range: &LocalRange) -> Option<usize> {
        let memory = self.holder(range)?;
        Some(memory.start().as_ptr() as usize + range.offset as usize)
    }

    fn holder(&self, range: &LocalRange) -> Option<&Memory> {
        let memory = self.live.get(range.segment.index())?.as_deref()?;
        memory.contains(range.offset, range.length as usize).then_some(memory)
    }
}
