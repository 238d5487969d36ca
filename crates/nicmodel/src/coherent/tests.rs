use super::{Home, Kind, Message};

fn request(home: &mut Home, from: usize, kind: Kind, line: u64) -> Vec<(usize, Kind)> {
    home.handle_request(from, Message { kind, line });
    said(home)
}

fn said(home: &mut Home) -> Vec<(usize, Kind)> {
    std::iter::from_fn(|| home.poll_transmit()).map(|(to, message)| (to, message.kind)).collect()
}

const SHARED: Kind = Kind::Grant { owned: false, data: true };
const OWNED: Kind = Kind::Grant { owned: true, data: true };
const GIVE_UP: Kind = Kind::Snoop { keep: false };

#[test]
fn owner_of_a_line_holds_the_only_copy() {
    let mut home = Home::new(8, 2, 70);
    for host in [3, 65, 69] {
        assert_eq!(request(&mut home, host, Kind::GetShared, 5), [(host, SHARED)]);
        home.handle_arrived(5);
    }
    let snoops = request(&mut home, 65, Kind::GetOwned { whole: false }, 5);
    assert_eq!(snoops, [(3, GIVE_UP), (69, GIVE_UP)]);
    assert_eq!(request(&mut home, 3, Kind::GetShared, 5), [], "one request at a time");
    home.handle_answer(3, 5, true);
    assert_eq!(said(&mut home), [], "not before all have answered");
    home.handle_answer(69, 5, false);
    assert_eq!(said(&mut home), [(65, OWNED)]);
    home.handle_arrived(5);
    assert_eq!(said(&mut home), [(65, Kind::Snoop { keep: true })], "the next is served");
    home.handle_answer(65, 5, true);
    assert_eq!(said(&mut home), [(3, SHARED)]);
    home.handle_arrived(5);
    let both = request(&mut home, 9, Kind::GetOwned { whole: true }, 5);
    assert_eq!(both, [(3, GIVE_UP), (65, GIVE_UP)], "both have it now");
}

#[test]
fn copies_are_granted_side_by_side() {
    let mut home = Home::new(8, 2, 4);
    assert_eq!(request(&mut home, 2, Kind::GetOwned { whole: true }, 5).len(), 1);
    home.handle_arrived(5);
    assert_eq!(request(&mut home, 0, Kind::GetShared, 5), [(2, Kind::Snoop { keep: true })]);
    assert_eq!(request(&mut home, 3, Kind::GetShared, 5), []);
    home.handle_answer(2, 5, true);
    assert_eq!(said(&mut home), [(0, SHARED), (3, SHARED)]);
    assert_eq!(request(&mut home, 2, Kind::GetOwned { whole: false }, 5), []);
    home.handle_arrived(5);
    assert_eq!(said(&mut home), [], "one of two has arrived");
    home.handle_arrived(5);
    assert_eq!(said(&mut home), [(0, GIVE_UP), (3, GIVE_UP)]);
}

#[test]
fn a_full_set_calls_its_oldest_line_back() {
    // Two sets of two ways: even lines and odd lines.
    let mut home = Home::new(4, 2, 4);
    for line in [0, 2, 1] {
        assert_eq!(request(&mut home, 2, Kind::GetShared, line), [(2, SHARED)]);
        home.handle_arrived(line);
    }
    assert_eq!(request(&mut home, 3, Kind::GetShared, 4), [(2, GIVE_UP)]);
    home.handle_answer(2, 0, true);
    assert_eq!(said(&mut home), [(3, SHARED)]);
    home.handle_arrived(4);
    let counts = home.counts();
    assert_eq!((counts.back_invalidations, counts.snoops, counts.entries_most), (1, 1, 3));
    assert_eq!(counts.directory_bytes, 4 * (1 + 8));
}

#[test]
fn line_written_back_while_snooped_is_taken_once() {
    let mut home = Home::new(4, 2, 4);
    assert_eq!(request(&mut home, 2, Kind::GetOwned { whole: true }, 7).len(), 1);
    home.handle_arrived(7);
    // The owner returns the line while it is being snooped for another cache.
    assert_eq!(request(&mut home, 3, Kind::GetShared, 7), [(2, Kind::Snoop { keep: true })]);
    assert!(home.wants(2, 7));
    home.handle_returned(2, 7);
    assert_eq!(said(&mut home), [(2, Kind::Returned)]);
    home.handle_answer(2, 7, false);
    assert_eq!(said(&mut home), [(3, SHARED)]);
    home.handle_arrived(7);
    assert!(!home.wants(2, 7), "late, after a snoop has fetched it: no cache requests it");
    assert_eq!(request(&mut home, 2, Kind::GetOwned { whole: true }, 7), [(3, GIVE_UP)]);
}
