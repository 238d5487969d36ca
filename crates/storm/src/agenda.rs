//! A queue of future events, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairway_ub::wire::Instant;

/// Future events. Of two events at the same time, the one added first comes first.
///
/// The heap moves its entries often, so they are small; the events themselves stay in place. A
/// taken entry leaves the heap only at the next call: most events add another one, which then
/// replaces the taken entry in a single pass.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    /// Time in picoseconds, sequence number of the addition, and index in `things`.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    things: Vec<Option<T>>,
    free: Vec<usize>,
    added: u64,
    /// True if the first entry of the heap was taken.
    is_taken: bool,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Agenda {
            heap: BinaryHeap::new(),
            things: Vec::new(),
            free: Vec::new(),
            added: 0,
            is_taken: false,
        }
    }

    pub(crate) fn add(&mut self, at: Instant, thing: T) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.things.push(None);
            self.things.len() - 1
        });
        self.things[place] = Some(thing);
        self.added += 1;
        // A run ends long before its clock wraps.
        let entry = Reverse((at.as_ps(), self.added, place));
        if std::mem::take(&mut self.is_taken)
            && let Some(mut first) = self.heap.peek_mut()
        {
            *first = entry;
        } else {
            self.heap.push(entry);
        }
    }

    /// Takes the next event, and returns it with its time.
    pub(crate) fn next(&mut self) -> Option<(Instant, T)> {
        if std::mem::take(&mut self.is_taken) {
            self.heap.pop();
        }
        let &Reverse((at, _, place)) = self.heap.peek()?;
        self.is_taken = true;
        self.free.push(place);
        Some((Instant::from_ps(at), self.things[place].take()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_in_the_order_of_time_and_then_of_adding() {
        let mut agenda = Agenda::new();
        let at = Instant::from_ps;
        for (time, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            agenda.add(at(time), name);
        }
        assert_eq!(agenda.next(), Some((at(3), 'b')));
        agenda.add(at(3), 'e');
        agenda.add(at(4), 'f');
        let rest: Vec<char> = std::iter::from_fn(|| agenda.next().map(|next| next.1)).collect();
        assert_eq!(rest, ['d', 'e', 'f', 'a', 'c']);
    }
}
