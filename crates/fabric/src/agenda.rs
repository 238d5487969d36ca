//! What is to happen, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairway_engine::wire::Instant;

/// Things to come. Of two at one moment the one that was added first comes first.
///
/// The heap holds small entries, because it moves them often; what they stand for stays in place.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    /// The moment in picoseconds, the number in the order of adding, and the place in `things`.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    things: Vec<Option<T>>,
    free: Vec<usize>,
    added: u64,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Agenda { heap: BinaryHeap::new(), things: Vec::new(), free: Vec::new(), added: 0 }
    }

    pub(crate) fn add(&mut self, at: Instant, thing: T) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.things.push(None);
            self.things.len() - 1
        });
        self.things[place] = Some(thing);
        self.added += 1;
        // What uses this ends long before its clock wraps.
        self.heap.push(Reverse((at.as_ps(), self.added, place)));
    }

    /// Takes the next one, and its moment.
    pub(crate) fn next(&mut self) -> Option<(Instant, T)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
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
