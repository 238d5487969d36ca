use crate::emulate::{Decision, PathModel, Spec};

fn model(text: &str) -> PathModel {
    PathModel::new(&text.parse::<Spec>().expect("specification"), 1, 0)
}

#[test]
fn lost_fraction_is_the_configured_one() {
    let mut path = model("loss=1%,dup=2%");
    let decisions: Vec<Decision> = (0..100_000).map(|i| path.offer(i, 1500)).collect();
    let lost = decisions.iter().filter(|d| d.copies == 0).count();
    let twice = decisions.iter().filter(|d| d.copies == 2).count();
    // The bounds are five standard deviations; the seed is fixed, so this either always holds or
    // never.
    assert!((850..1150).contains(&lost), "{lost} lost");
    assert!((1750..2250).contains(&twice), "{twice} twice");
    assert_eq!(path.counters().lost as usize, lost);
    assert_eq!(path.counters().duplicated as usize, twice);
    assert!(decisions.iter().enumerate().all(|(i, d)| d.deliver_at_ns == i as u64));
}

#[test]
fn loss_of_none_and_of_all_is_exact() {
    let mut none = model("loss=0%");
    let mut all = model("loss=100%");
    for i in 0..10_000 {
        assert_eq!(none.offer(i, 100).copies, 1);
        assert_eq!(all.offer(i, 100).copies, 0);
    }
}

#[test]
fn a_limited_link_spaces_packets_exactly() {
    // 1,500 bytes at 7 Gb/s take 12,000/7 ns: after n packets, floor(12,000 n / 7), with no drift.
    let mut path = model("rate=7G,queue=1G,delay=3us");
    for n in 1..=10_000u64 {
        let decision = path.offer(0, 1500);
        assert_eq!(decision.deliver_at_ns, 12_000 * n / 7 + 3000);
    }
    // After a pause the link is idle again.
    let later = 1_000_000_000;
    assert_eq!(path.offer(later, 700).deliver_at_ns, later + 800 + 3000);
}

#[test]
fn the_queue_drops_its_tail_and_marks_from_the_threshold_on() {
    let mut path = model("rate=8G,queue=10000,ecn=4000");
    let decisions: Vec<Decision> = (0..12).map(|_| path.offer(0, 1000)).collect();
    let copies: Vec<u8> = decisions.iter().map(|d| d.copies).collect();
    assert_eq!(copies, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
    let marked: Vec<bool> = decisions.iter().map(|d| d.marked).collect();
    let (unmarked, rest) = marked.split_at(4);
    assert!(unmarked.iter().all(|m| !m) && rest[..6].iter().all(|m| *m));
    // At one byte per nanosecond, there is room for one more packet a microsecond later.
    assert_eq!(path.offer(1000, 1000).copies, 1);
    assert_eq!(path.offer(1000, 1000).copies, 0);
    assert_eq!(path.counters().overflowed, 3);
    assert_eq!(path.counters().marked, 7);
}

#[test]
fn a_blackhole_swallows_its_span_and_nothing_else() {
    let spec: Spec = "blackhole@10ns..20ns,blackhole@30ns..31ns".parse().expect("specification");
    let mut path = PathModel::new(&spec, 1, 0).starting_at(1000);
    let through: Vec<u64> = (1000..1040).filter(|&now| path.offer(now, 64).copies == 1).collect();
    let expected: Vec<u64> = (1000..1010).chain(1020..1030).chain(1031..1040).collect();
    assert_eq!(through, expected);
    assert_eq!(path.counters().blackholed, 11);
}

#[test]
fn jitter_stays_in_its_span_and_keeps_the_order() {
    let mut path = model("delay=50us,jitter=10us");
    let mut latest = 0;
    let mut extremes = (u64::MAX, 0);
    for i in 0..10_000u64 {
        let at = path.offer(i * 20_000, 64).deliver_at_ns;
        let taken = at - i * 20_000;
        assert!((50_000..=60_000).contains(&taken) && at >= latest);
        latest = at;
        extremes = (extremes.0.min(taken), extremes.1.max(taken));
    }
    assert!(extremes.0 < 50_100 && extremes.1 > 59_900, "{extremes:?}");
    // If packets are close together, one that would overtake waits for the one before it.
    let mut latest = 0;
    for i in 0..10_000 {
        let at = path.offer(1_000_000_000 + i, 64).deliver_at_ns;
        assert!(at >= latest);
        latest = at;
    }
}

#[test]
fn packets_are_held_behind_no_more_than_half_the_bound() {
    let mut path = model("reorder=64");
    let held: Vec<u32> =
        (0..100_000).map(|i| path.offer(i, 64).behind).filter(|&n| n > 0).collect();
    assert!((12_000..13_000).contains(&held.len()));
    assert_eq!((held.iter().min(), held.iter().max()), (Some(&1), Some(&32)));
}

#[test]
fn decisions_follow_from_the_seed_and_the_path() {
    let spec: Spec = "loss=5%,dup=5%,reorder=8,jitter=1us,rate=1G".parse().expect("spec");
    let decide = |seed, path| {
        let mut model = PathModel::new(&spec, seed, path);
        (0..1000).map(|i| model.offer(i * 5000, 500)).collect::<Vec<_>>()
    };
    assert_eq!(decide(7, 3), decide(7, 3));
    assert_ne!(decide(7, 3), decide(8, 3));
    assert_ne!(decide(7, 3), decide(7, 4));
}
