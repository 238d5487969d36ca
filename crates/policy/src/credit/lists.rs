//! Lists of sources, of which each is in at most one list. Every operation takes constant time.

use alloc::boxed::Box;
use alloc::vec;

use super::SourceId;

/// Marks the end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    before: u32,
    after: u32,
    list: Option<u8>,
}

/// `N` doubly linked lists.
#[derive(Debug)]
pub(super) struct Lists<const N: usize> {
    nodes: Box<[Node]>,
    first: [u32; N],
    last: [u32; N],
}

impl<const N: usize> Lists<N> {
    /// Creates the lists for `sources` sources, all in no list.
    pub(super) fn new(sources: u32) -> Self {
        let node = Node { before: NONE, after: NONE, list: None };
        let nodes = vec![node; sources as usize].into_boxed_slice();
        Lists { nodes, first: [NONE; N], last: [NONE; N] }
    }

    pub(super) fn first(&self, list: usize) -> Option<SourceId> {
        (self.first[list] != NONE).then_some(SourceId(self.first[list]))
    }

    /// The sources of a list, in order.
    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = SourceId> + '_ {
        let next = |source: &SourceId| {
            let after = self.nodes[source.index()].after;
            (after != NONE).then_some(SourceId(after))
        };
        core::iter::successors(self.first(list), next)
    }

    /// The list that contains a source.
    pub(super) fn list_of(&self, source: SourceId) -> Option<usize> {
        self.nodes[source.index()].list.map(usize::from)
    }

    /// Moves a source to the end of a list, or out of all lists, unless it is already there.
    pub(super) fn place(&mut self, source: SourceId, list: Option<usize>) {
        if self.list_of(source) == list {
            return;
        }
        self.remove(source);
        let Some(list) = list else { return };
        let before = self.last[list];
        self.nodes[source.index()] = Node { before, after: NONE, list: Some(list as u8) };
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = source.0,
            None => self.first[list] = source.0,
        }
        self.last[list] = source.0;
    }

    /// Moves a source to the end of its list.
    pub(super) fn send_back(&mut self, source: SourceId) {
        let list = self.list_of(source);
        self.place(source, None);
        self.place(source, list);
    }

    fn remove(&mut self, source: SourceId) {
        let Node { before, after, list } = self.nodes[source.index()];
        let Some(list) = list.map(usize::from) else { return };
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => self.first[list] = after,
        }
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.before = before,
            None => self.last[list] = before,
        }
        self.nodes[source.index()] = Node { before: NONE, after: NONE, list: None };
    }
}

#[cfg(test)]
mod tests;
