//! The barrier: in round *i* each rank notifies the one 2^i places after it, and waits for the one
//! 2^i places before it. After the last round, every rank knows of all others.

use crate::schedule::{Builder, Place, Region, Span};

pub(super) fn barrier(b: &mut Builder<'_>) {
    let (rank, ranks) = (b.rank(), b.ranks());
    let nothing = Span { offset: 0, bytes: 0 };
    let output = Region::Output(nothing);
    let mut before = None;
    let mut distance = 1;
    while distance < ranks {
        b.send((rank + distance) % ranks, Region::Input(nothing), Place::Slot, before);
        let arrived = b.receive((rank + ranks - distance) % ranks, 0, Place::Slot);
        before = Some(b.copy(Region::Received(arrived), output, before));
        distance *= 2;
    }
}
