//! Congestion controls on events: in line, and elsewhere.

use super::*;

/// Where the controllers of both ends run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    Direct,
    InLine(u32),
    Elsewhere,
}

fn run(policy: &str, home: Home, paths: u32, lose: u64) -> Pair {
    let spec: PolicySpec = policy.parse().unwrap();
    let mut processors = Vec::new();
    let mut pair = Pair::with_homes(paths, &spec, |nic| match home {
        Home::Direct => {}
        Home::InLine(budget) => nic.coalesce_congestion(Some(budget)),
        Home::Elsewhere => processors.push(nic.detach_congestion()),
    });
    pair.processors = processors;
    for nic in &mut pair.nics {
        nic.set_credit_policy(spec.build_credit(4));
    }
    let remote = pair.remote();
    for id in 0..4 {
        pair.post(10 * id, Work::Write { remote }, 300_000);
        pair.post(10 * id + 1, Work::Read { remote }, 100_000);
    }
    let mut random = Random::new(lose);
    pair.run_until_idle(|_, _| lose > 0 && random.number().is_multiple_of(lose));
    pair
}

#[test]
fn operations_complete_wherever_controllers_run() {
    for policy in ["cc=swift", "cc=cubic", "cc=dcqcn", "cc=eqds", "cc=homa", "cc=timely"] {
        for home in [Home::InLine(1), Home::InLine(u32::MAX), Home::Elsewhere] {
            for lose in [0, 15] {
                let mut pair = run(policy, home, 4, lose);
                let done = pair.completions(0);
                assert_eq!(done.len(), 8, "{policy} {home:?} {lose}");
                assert!(done.iter().all(|done| done.status == Status::Success));
                if home == Home::Elsewhere {
                    assert!(pair.processors[0].stats().handled > 0);
                } else {
                    assert!(pair.nics[0].congestion_stats().unwrap().handled > 0);
                }
            }
        }
    }
}

/// With no bound on the events processed between two packets, every packet is the same.
#[test]
fn in_line_and_without_delay_nothing_changes() {
    for policy in ["cc=swift", "cc=cubic", "cc=caqm", "cc=dcqcn", "cc=backpressure"] {
        for lose in [0, 12] {
            let direct = run(policy, Home::Direct, 1, lose);
            let events = run(policy, Home::InLine(u32::MAX), 1, lose);
            for n in 0..2 {
                let counters = [&direct, &events].map(|pair| *pair.nics[n].counters());
                assert_eq!(counters[0], counters[1], "{policy} {lose}");
                let channel = direct.channels[n];
                let windows = [&direct, &events].map(|pair| pair.nics[n].window(channel));
                assert_eq!(windows[0], windows[1], "{policy} {lose}");
            }
            assert_eq!(direct.now, events.now, "{policy} {lose}");
        }
    }
}

#[test]
fn controller_of_a_closed_channel_is_dropped() {
    let spec: PolicySpec = "cc=swift".parse().unwrap();
    let mut processors = Vec::new();
    let mut pair = Pair::with_homes(1, &spec, |nic| processors.push(nic.detach_congestion()));
    let controller = pair.nics[0].poll_controller().unwrap();
    assert!(pair.nics[0].poll_controller().is_none());
    processors[0].adopt(controller);
    assert_eq!(alloc::format!("{:?}", processors[0]).find("1 controllers"), Some(20));
    let channel = pair.channels[0];
    pair.nics[0].close_channel(pair.now, channel).unwrap();
    for _ in 0..100 {
        pair.run_until_idle(|_, _| false);
        let next = pair.nics.iter().filter_map(UbDevice::poll_timeout).reduce(Instant::min);
        pair.now = next.map_or(pair.now, |next| pair.now.max(next));
    }
    processors[0].run(10);
    assert_eq!(alloc::format!("{:?}", processors[0]).find("0 controllers"), Some(20));
}

/// Writes over a channel while its events wait, closes the channel, and then runs the processors.
/// Returns the acknowledged bytes that they handled.
fn handled_bytes(threads: u32) -> u64 {
    let spec: PolicySpec = "cc=swift".parse().unwrap();
    let steering = crate::control::Steering::new(threads);
    let mut pools = Vec::new();
    let mut pair =
        Pair::with_homes(1, &spec, |nic| pools.push(nic.detach_congestion_to(steering).into_vec()));
    let mut sender = pools.remove(0);
    while let Some(controller) = pair.nics[0].poll_controller() {
        let thread = steering.thread_of(controller.channel());
        sender[thread as usize].adopt(controller);
    }
    let remote = pair.remote();
    (0..4).for_each(|id| pair.post(id, Work::Write { remote }, 50_000));
    pair.run_until_idle(|_, _| false);
    let channel = pair.channels[0];
    let owner = steering.thread_of(channel.index() as u32) as usize;
    assert!(!sender[owner].ready().is_empty());
    pair.nics[0].close_channel(pair.now, channel).unwrap();
    for _ in 0..100 {
        pair.run_until_idle(|_, _| false);
        let next = pair.nics.iter().filter_map(UbDevice::poll_timeout).reduce(Instant::min);
        pair.now = next.map_or(pair.now, |next| pair.now.max(next));
    }
    while sender[owner].run_one().is_some() {}
    let debug = alloc::format!("{:?}", sender[owner]);
    assert!(debug.contains("(0 controllers"), "{debug}");
    for (thread, other) in sender.iter_mut().enumerate() {
        let is_owner = thread == owner;
        assert!(is_owner || other.run_one().is_none(), "{thread} is not the channel's");
    }
    sender[owner].stats().bytes
}

/// Only the processor of the channel receives its events, loses none of them, and forgets the
/// channel, which is closed while they are queued.
#[test]
fn channel_is_steered_to_one_processor_which_loses_no_event_when_it_closes() {
    let bytes = handled_bytes(1);
    assert!(bytes > 200_000, "{bytes}: payload and headers");
    for threads in [2, 3, 7] {
        assert_eq!(handled_bytes(threads), bytes, "{threads}");
    }
}
