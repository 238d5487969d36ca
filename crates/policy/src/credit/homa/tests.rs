use alloc::vec::Vec;

use super::super::model::{Model, PACKET};
use super::*;
use crate::CreditSender;

const KIB: u64 = 1024;

fn parameters(overcommit: u64) -> HomaParameters {
    HomaParameters { window_bytes: 128 * KIB, overcommit, ..HomaParameters::default() }
}

fn model(parameters: HomaParameters, senders: usize) -> Model {
    let receiver = Box::new(Homa::new(parameters, senders as u32));
    Model::new(receiver, senders, || Box::new(CreditSender::homa(parameters.sender(), PACKET)))
}

/// Lets a sender request `kib`; the data that it sends without credit has arrived.
fn announce(homa: &mut Homa, source: u32, kib: u64) {
    homa.announced(Instant::ZERO, SourceId(source), &credit_request(kib));
    homa.on_data(Instant::ZERO, SourceId(source), 128 * 1024);
}

fn credit_request(kib: u64) -> CreditRequest {
    CreditRequest { total_bytes: kib * KIB, ..CreditRequest::default() }
}

fn granted(homa: &mut Homa) -> Vec<(u32, u32)> {
    let credits = core::iter::from_fn(|| homa.poll_credit(Instant::ZERO));
    credits.map(|credit| (credit.source.0, credit.bytes / 1024)).collect()
}

/// A policy whose next grants do not go to the sender that has waited longest.
fn homa(overcommit: u64) -> Homa {
    let mut homa = Homa::new(parameters(overcommit), 8);
    homa.grants = 1;
    homa
}

#[test]
fn the_shortest_has_its_window_and_data_calls_for_more() {
    let mut homa = homa(1);
    announce(&mut homa, 0, 500);
    assert_eq!(granted(&mut homa), [(0, 16); 8]);
    // A shorter message arrives: it gets the next grants, and earlier grants stay valid.
    announce(&mut homa, 1, 40);
    assert_eq!(granted(&mut homa), [(1, 16), (1, 16), (1, 8)]);
    homa.on_data(Instant::ZERO, SourceId(0), 16 * 1024);
    // Sender 1 has all its grants, so sender 0 has the shortest message that needs more.
    assert_eq!(granted(&mut homa), [(0, 16)]);
    assert_eq!(granted(&mut homa), []);
}

#[test]
fn as_many_as_the_overcommitment_have_grants() {
    let mut homa = homa(2);
    for (source, kib) in [(0, 900), (1, 300), (2, 600)] {
        announce(&mut homa, source, kib);
    }
    assert_eq!(granted(&mut homa), [[(1, 16); 8], [(2, 16); 8]].concat());
    homa.on_data(Instant::ZERO, SourceId(2), 32 * 1024);
    assert_eq!(granted(&mut homa), [(2, 16), (2, 16)]);
    homa.source_gone(Instant::ZERO, SourceId(1));
    assert_eq!(granted(&mut homa), [(0, 16); 8]);
    assert_eq!(homa.poll_at(), None);
}

#[test]
fn one_grant_in_twenty_is_the_oldests() {
    let mut homa = homa(1);
    announce(&mut homa, 5, 10_000);
    announce(&mut homa, 6, 5_000);
    let mut grants = Vec::new();
    for _ in 0..10 {
        grants.extend(granted(&mut homa));
        homa.on_data(Instant::ZERO, SourceId(6), 64 * 1024);
    }
    let oldest = grants.iter().filter(|grant| grant.0 == 5).count();
    assert_eq!((grants.len(), oldest), (46, 2));
}

#[test]
fn a_total_that_got_lost_is_repeated() {
    let mut homa = homa(1);
    announce(&mut homa, 0, 16);
    assert_eq!(granted(&mut homa), [(0, 16)]);
    let again = CreditRequest { blocked: true, ..credit_request(16) };
    homa.announced(Instant::ZERO, SourceId(0), &again);
    assert_eq!(granted(&mut homa), [(0, 0)]);
    homa.announced(Instant::ZERO, SourceId(99), &again);
    assert_eq!(granted(&mut homa), [], "no such channel");
}

#[test]
fn short_ones_finish_first_and_the_line_is_full() {
    let mut model = model(parameters(2), 8);
    // The messages of 1 to 8 MiB, 36 MiB in all, take 9216 slots.
    (0..8).for_each(|sender| model.post(sender, (sender as u64 + 1) << 20));
    model.finish(100_000);
    assert!(model.slot < 9_216 + 200, "{} slots", model.slot);
    let done: Vec<u64> = model.senders.iter().map(|sender| sender.done_at).collect();
    assert!(done.is_sorted(), "{done:?}");
    // The first message finishes long before it could have if the senders took turns.
    assert!(done[0] < 2_500, "{done:?}");
}

#[test]
fn long_message_does_not_starve_behind_a_stream_of_short_ones() {
    let mut model = model(parameters(1), 2);
    model.post(0, 1 << 30);
    model.run(1_000);
    // The other sender always has less data left, as much as the line carries.
    let mut packets = 0;
    for _ in 0..20 {
        model.post(1, 4 << 20);
        packets += model.measure(1_024)[0];
    }
    // A twentieth of the grants, and the data that these allow meanwhile.
    assert!(packets >= 700, "{packets} of 20,480");
}

#[test]
fn lost_grants_requests_and_data_only_cost_time() {
    for lose in [[20, 0], [0, 10], [50, 20]] {
        let mut model = model(parameters(4), 16);
        model.lose = lose;
        (0..16).for_each(|sender| model.post(sender, 2 << 20));
        model.finish(100_000);
        assert!(model.slot < 14_000, "{lose:?}: {} slots", model.slot);
    }
}

/// The grants that are due, as pairs of sender and class, each pair once.
fn classes(homa: &mut Homa) -> Vec<(u32, u8)> {
    let credits = core::iter::from_fn(|| homa.poll_credit(Instant::ZERO));
    let mut pairs: Vec<(u32, u8)> = credits.map(|credit| (credit.source.0, credit.class)).collect();
    pairs.dedup();
    pairs
}

#[test]
fn shorter_messages_are_granted_higher_classes_and_few_messages_low_ones() {
    // One unscheduled class for messages of at most 4 KiB, one for longer ones: five are left.
    let cutoffs = [4 * KIB, 0, 0];
    let mut homa = Homa::new(HomaParameters { cutoffs, ..parameters(0) }, 8);
    homa.grants = 1;
    announce(&mut homa, 0, 900);
    assert_eq!(classes(&mut homa), [(0, 0)], "the only message has the lowest class");
    homa.grants = 1;
    announce(&mut homa, 1, 300);
    announce(&mut homa, 2, 600);
    homa.on_data(Instant::ZERO, SourceId(0), 16 * 1024);
    // Remaining: sender 1 has 300 KiB, sender 2 has 600 and sender 0 has 884.
    assert_eq!(classes(&mut homa), [(1, 2), (2, 1), (0, 0)]);
}

#[test]
fn messages_beyond_the_classes_share_the_lowest() {
    // Four unscheduled classes, so three are left, and five messages have grants.
    let cutoffs = [KIB, 2 * KIB, 3 * KIB];
    let mut homa = Homa::new(HomaParameters { cutoffs, ..parameters(5) }, 8);
    homa.grants = 1;
    for source in 0..6 {
        announce(&mut homa, source, 200 * (u64::from(source) + 1));
    }
    // The sixth has none: five have grants at the same time.
    assert_eq!(classes(&mut homa), [(0, 2), (1, 1), (2, 0), (3, 0), (4, 0)]);
    let unscheduled = HomaParameters { cutoffs, ..parameters(0) }.sender().classes;
    assert_eq!([1, 2, 3, 4].map(|kib| unscheduled.class(kib * KIB)), [6, 5, 4, 3]);
    let one = HomaParameters { cutoffs: [0; 3], ..parameters(0) };
    assert_eq!((one.scheduled_classes(), one.sender().classes.class(1)), (6, 6));
}

#[test]
fn oldest_message_is_granted_the_lowest_class() {
    let mut homa = Homa::new(parameters(0), 8);
    announce(&mut homa, 0, 500);
    announce(&mut homa, 1, 40);
    let first = homa.poll_credit(Instant::ZERO).map(|credit| (credit.source.0, credit.class));
    let second = homa.poll_credit(Instant::ZERO).map(|credit| (credit.source.0, credit.class));
    assert_eq!((first, second), (Some((0, 0)), Some((1, 1))));
}
