//! Tables of objects to which C holds handles. A handle is a number in the form of a pointer that
//! is never followed. Freed and invalid handles are recognised, also those of earlier tables.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// A table of objects by number. Handles of tables with different `kind`s differ.
pub(crate) struct Slots<T> {
    kind: usize,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Number of the next object, of any table. Objects of the same index differ by it, also those that
/// `RVMA_Finalize` has freed from those after the next `RVMA_Init`.
static NEXT_GENERATION: AtomicU32 = AtomicU32::new(0);

/// Handles have 64 bits: 28 for the index, 4 for the kind, 32 for the generation.
const KIND_SHIFT: u32 = 28;
const INDEX_MASK: usize = (1 << KIND_SHIFT) - 1;
const GENERATION_SHIFT: u32 = 32;
const _: () = assert!(usize::BITS == 64, "librvma is for 64-bit machines");

impl<T> Slots<T> {
    /// Creates an empty table; `kind` is 1 to 15.
    pub(crate) fn new(kind: usize) -> Self {
        debug_assert!((1..16).contains(&kind));
        Slots { kind, entries: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        let generation = NEXT_GENERATION.fetch_add(1, Ordering::Relaxed);
        *entry = Entry { generation, value: Some(value) };
        (generation as usize) << GENERATION_SHIFT | self.kind << KIND_SHIFT | index as usize
    }

    pub(crate) fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.entry(handle)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, handle: usize) -> Option<T> {
        let value = self.entry(handle)?.value.take()?;
        self.free.push((handle & INDEX_MASK) as u32);
        Some(value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }

    fn entry(&mut self, handle: usize) -> Option<&mut Entry<T>> {
        if handle >> KIND_SHIFT & 15 != self.kind {
            return None;
        }
        let entry = self.entries.get_mut(handle & INDEX_MASK)?;
        (entry.generation as usize == handle >> GENERATION_SHIFT).then_some(entry)
    }
}

/// Converts a handle to C's type.
pub(crate) fn to_pointer(handle: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_one_thing_once() {
        let (mut one, mut other) = (Slots::new(1), Slots::new(2));
        let first = one.insert("first");
        assert_ne!(first, 0);
        assert_eq!(other.insert("other") & INDEX_MASK, first & INDEX_MASK);
        assert_eq!(other.get_mut(first), None, "of another kind");
        assert_eq!(one.get_mut(first).copied(), Some("first"));
        assert_eq!(one.remove(first), Some("first"));
        assert_eq!(one.remove(first), None, "freed");
        let second = one.insert("second");
        assert_ne!(second, first);
        assert_eq!(one.get_mut(first), None, "the slot's earlier owner");
        assert_eq!(one.get_mut(second).copied(), Some("second"));
        assert_eq!(one.iter_mut().count(), 1);
    }

    #[test]
    fn handle_of_a_dropped_table_names_nothing_in_the_next_one() {
        let first = Slots::new(1).insert("first");
        let mut next = Slots::new(1);
        let second = next.insert("second");
        assert_eq!(second & INDEX_MASK, first & INDEX_MASK, "the same place");
        assert_eq!(next.get_mut(first), None);
        assert_eq!(next.remove(first), None);
        assert_eq!(next.remove(second), Some("second"));
    }

    #[test]
    fn rubbish_names_nothing() {
        let mut slots = Slots::new(3);
        slots.insert(());
        for handle in [0, 1, usize::MAX, 0x7fff_1234_5678, 3 << KIND_SHIFT | 1] {
            assert_eq!(slots.get_mut(handle), None, "{handle:#x}");
        }
    }
}
