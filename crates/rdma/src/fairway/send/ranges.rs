//! The ranges of a send: mostly one, so a list is kept elsewhere.

use fairway_roce::{SGE_MAX, ScatterList};
use fairway_ub::LocalRange;

/// The ranges of a list that are not empty.
pub(super) enum Ranges {
    None,
    One(LocalRange),
    Several(Box<ScatterList>),
}

impl Ranges {
    /// Returns the ranges of `list`; `None` if they are too long together.
    pub(super) fn of(list: &ScatterList) -> Option<Ranges> {
        if let [range] = list.ranges()
            && range.length > 0
        {
            return Some(Ranges::One(*range));
        }
        let mut ranges = [LocalRange::default(); SGE_MAX];
        let mut count = 0;
        for range in list.ranges().iter().filter(|range| range.length > 0) {
            ranges[count] = *range;
            count += 1;
        }
        Some(match ranges[..count] {
            [] => Ranges::None,
            [range] => Ranges::One(range),
            _ => Ranges::Several(Box::new(ScatterList::new(&ranges[..count])?)),
        })
    }

    pub(super) fn as_slice(&self) -> &[LocalRange] {
        match self {
            Ranges::None => &[],
            Ranges::One(range) => std::slice::from_ref(range),
            Ranges::Several(list) => list.ranges(),
        }
    }

    pub(super) fn list(&self) -> ScatterList {
        match self {
            Ranges::None => ScatterList::EMPTY,
            Ranges::One(range) => (*range).into(),
            Ranges::Several(list) => **list,
        }
    }
}

#[cfg(test)]
mod tests {
    use fairway_ub::SegmentId;

    use super::*;

    #[test]
    fn ranges_of_a_list_are_those_with_bytes_in_order() {
        let range = |length| LocalRange { segment: SegmentId::new(3), offset: 8, length };
        for lengths in [&[][..], &[0], &[5], &[0, 5], &[5, 0, 7], &[1, 2, 3, 4, 5, 6]] {
            let all: Vec<LocalRange> = lengths.iter().map(|length| range(*length)).collect();
            let list = ScatterList::new(&all).expect("a list");
            let full: Vec<LocalRange> = all.into_iter().filter(|it| it.length > 0).collect();
            let ranges = Ranges::of(&list).expect("ranges");
            assert_eq!(ranges.as_slice(), full, "{lengths:?}");
            assert_eq!(ranges.list().ranges(), full, "{lengths:?}");
        }
    }
}
