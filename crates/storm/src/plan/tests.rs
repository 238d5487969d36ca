use super::*;
use crate::recorded::RECORDED;

/// Seeds that were recorded since then.
const NEWER: [u64; 1] = [83_117_351];

/// Seeds that were recorded before worlds had trimmed packets still stand for the same worlds.
#[test]
fn recorded_seeds_have_the_worlds_in_which_they_failed() {
    let failed = include_str!("../../seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let failed = failed.map(|line| line.split_whitespace().next().unwrap().parse().unwrap());
    let all = failed.chain(RECORDED.iter().map(|recorded| recorded.plan()));
    for seed in all.filter(|seed| !NEWER.contains(seed)) {
        assert_eq!(Plan::draw(seed).network_faults.trim, 0, "{seed}");
    }
}
