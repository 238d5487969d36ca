//! The entry that is to be answered next, beside a search of the whole table.

use super::*;

/// The earliest entry in PSN order that is not answered, if its answer is to be sent.
fn searched(table: &Resources) -> Option<Psn> {
    let busy = table.entries.iter().filter(|entry| entry.stage != Stage::Answered);
    let first = busy.reduce(|a, b| if b.first.is_before(a.first) { b } else { a })?;
    matches!(first.stage, Stage::Answering { .. }).then_some(first.first)
}

fn chosen(table: &mut Resources) -> Option<Psn> {
    table.first_to_answer().map(|entry| entry.first)
}

/// A READ whose answer has four packets.
fn read(first: Psn) -> Resource {
    let kind = ResourceKind::Read { granted: Granted::NOTHING, length: 4096, from: 0 };
    Resource::new(first, 4, kind)
}

#[test]
fn remembered_entry_is_the_one_that_a_search_finds() {
    let mut table = Resources::new();
    table.reset(8);
    let mut psn = Psn::new(0xFF_FF00);
    let mut seed = 1_u32;
    let mut answered = 0;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (what, which) = (seed >> 28, seed >> 20 & 7);
        match what {
            0..3 if table.has_room() => {
                table.insert(read(psn));
                psn = psn.plus(4);
            }
            3..6 => {
                // Whatever came before a READ is in place.
                if let Some(entry) = table.get(Some(which))
                    && entry.stage == Stage::Waiting
                {
                    entry.stage = Stage::Answering { next: 0 };
                }
            }
            6 => {
                if let Some(entry) = table.find(psn.minus(1 + which * 4)) {
                    entry.repeat(which % 4);
                }
            }
            7 if which == 0 => table.call_off(psn.minus(6)),
            _ => {
                if let Some(entry) = table.first_to_answer()
                    && let Stage::Answering { next } = entry.stage
                {
                    entry.stage = match next {
                        3 => Stage::Answered,
                        _ => Stage::Answering { next: next + 1 },
                    };
                    answered += 1;
                }
            }
        }
        let found = searched(&table);
        assert_eq!(chosen(&mut table), found);
        assert_eq!(chosen(&mut table), found, "asked again");
    }
    assert!(answered > 1_000, "{answered}");
}
