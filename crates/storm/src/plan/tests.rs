use super::*;
use crate::recorded::RECORDED;

/// Seeds that were recorded before worlds had trimmed packets still stand for the same worlds.
#[test]
fn recorded_seeds_have_the_worlds_in_which_they_failed() {
    let failed = include_str!("../../seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let failed = failed.map(|line| line.split_whitespace().next().unwrap().parse().unwrap());
    for seed in failed.chain(RECORDED.iter().map(|recorded| recorded.plan())) {
        assert_eq!(Plan::draw(seed).network_faults.trim, 0, "{seed}");
    }
}
