//! What is to happen, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairway_engine::wire::Instant;

/// Things to come. Of two at one moment the one that was added first comes first.
///
/// The heap holds small entries, because it moves them often; what they stand for stays in place.
/// An entry that was taken leaves the heap at the next call: most things that happen add another
/// one, which then replaces it in one pass.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    /// The moment in picoseconds, the number in the order of adding, and the place in `things`.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    things: Vec<Option<T>>,
    free: Vec<usize>,
    added: u64,
    /// The first entry of the heap was taken.
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
        // What uses this ends long before its clock wraps.
        let entry = Reverse((at.as_ps(), self.added, place));
        if std::mem::take(&mut self.is_taken)
            && let Some(mut first) = self.heap.peek_mut()
        {
            *first = entry;
        } else {
            self.heap.push(entry);
        }
    }

    /// Takes the next one, and its moment.
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
