//! The memory that a device names for a caller that drives many.

use super::*;
use fairway_policy::MemoryVisitor;

/// Where the device names memory in a stage.
fn named(nic: &UbDevice, stage: u8) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut visit = |at: *const u8, bytes: usize| pieces.push((at.addr(), bytes));
    nic.visit_memory(stage, &mut MemoryVisitor::new(&mut visit));
    pieces
}

/// True if a value lies in one of the pieces.
fn has<T>(pieces: &[(usize, usize)], value: &T) -> bool {
    let at = core::ptr::from_ref(value).addr();
    pieces.iter().any(|(from, bytes)| (*from..from + bytes).contains(&at))
}

/// The sender's channel is named, and later the records and paths of what is in flight; a receiver
/// has none. What is named changes nothing.
#[test]
fn device_names_the_memory_of_its_next_packets() {
    let policy: PolicySpec = "cc=fixed:64K,path=reps".parse().unwrap();
    let mut pair = Pair::with_policy(0, 16, Profile::default(), 64, &policy);
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 100 * MTU);
    let sent = core::iter::from_fn(|| pair.nics[0].poll_transmit(pair.now)).count();
    assert!(sent > 4, "{sent} packets are in flight");
    let stages: Vec<_> =
        (0..UbDevice::MEMORY_STAGES).map(|stage| named(&pair.nics[0], stage)).collect();
    assert!(stages.iter().all(|pieces| !pieces.is_empty()), "{stages:?}");
    let channel = channel_at(&mut pair.nics[0].entries, pair.channels[0].record()).unwrap();
    let (channel, views) = (core::ptr::from_ref(&*channel), channel.path_views());
    assert!(stages[2].iter().any(|(at, _)| *at == channel.addr()));
    let view = views.iter().position(|view| view.in_flight > 0).unwrap();
    assert!(has(&stages[5], &views[view]), "path {view} has packets in flight");
    let idle = named(&pair.nics[1], UbDevice::MEMORY_STAGES - 1);
    assert!(idle.is_empty(), "a receiver uses no path");
    pair.nics[0].audit();
}
