//! Channels that rest continue as if they had not.

use super::*;

/// Resumes the channel of a side, with everything that is not a number as at first.
fn resume(pair: &mut Pair, n: usize) {
    let limits = *pair.nics[n].limits();
    let config = ChannelConfig {
        leader: None,
        engine: 0,
        remote: Cna::new(2 - n as u32),
        remote_tpn: pair.channels[1 - n].tpn(),
        first_psn: Psn::new(0),
        remote_first_psn: Psn::new(0),
        first_message: Msn::new(0),
        unreliable: true,
        bypass: true,
        parts: false,
        retires: false,
        carried_acks: false,
        mtu: MTU,
        paths: 4,
        remote_window: limits.receive_window(),
        remote_message_slots: 64,
        remote_read_slots: limits.read_slots,
        policy: "cc=swift".parse::<PolicySpec>().unwrap().build(MTU),
    };
    pair.nics[n].resume_channel(pair.now, pair.channels[n], config).unwrap();
}

fn write(pair: &mut Pair, id: u64, length: u32) {
    let remote = pair.remote();
    pair.post(id, Work::Write { remote }, length);
}

/// Both ends rest between two WRITEs, whose packet numbers go on across the wrap; a copy of an old
/// packet that arrives after that is acknowledged and not placed.
#[test]
fn resting_channels_continue_where_they_stopped() {
    let mut pair = Pair::new(0xFF_FFF0, 4);
    let mut last = None;
    for id in 0..5 {
        write(&mut pair, id, 10_000 + id as u32);
        pair.run_until_idle(|_, transmit| {
            if matches!(transmit.packet, Packet::Data(_)) {
                last = Some(*transmit);
            }
            false
        });
        let done = pair.completions(0);
        assert_eq!((done.len(), done[0].id, done[0].status), (1, id, Status::Success));
        // What the retransmission and other timers wait for has to pass first.
        pair.run_for(20_000);
        for n in 0..2 {
            let (channel, blocks) = (pair.channels[n], pair.nics[n].usage().send_blocks);
            assert!(pair.nics[n].rest_channel(channel, false), "side {n} after message {id}");
            assert!(pair.nics[n].is_resting(channel) && !pair.nics[n].is_open(channel));
            assert_eq!(pair.nics[n].unopened(channel.tpn()), Some(channel));
            assert!(pair.nics[n].usage().send_blocks <= blocks);
            pair.nics[n].audit();
            resume(&mut pair, n);
            assert_eq!(pair.nics[n].unopened(channel.tpn()), None);
            assert_eq!(pair.nics[n].usage().send_blocks, blocks, "a block is held as before");
        }
        let placed = pair.placed[1];
        pair.deliver(1, &last.expect("a data packet"));
        assert_eq!(pair.placed[1], placed, "a copy is not placed");
        pair.run_until_idle(|_, _| false);
    }
    assert_eq!(pair.nics[0].counters().data_resent, 0);
    let counters = pair.nics[0].counters();
    assert_eq!(counters.spurious, 5, "each copy is reported once, before and after a rest");
}

/// A channel does not rest while anything is under way or owed, or if it would forget what its
/// policies have learned.
#[test]
fn busy_channels_do_not_rest() {
    let mut pair = Pair::new(7, 4);
    let [first, second] = pair.channels;
    // It has sent nothing yet.
    assert!(pair.nics[0].rest_channel(first, true));
    assert!(!pair.nics[0].rest_channel(first, true), "it rests already");
    let refused = pair.nics[0].close_channel(pair.now, first);
    assert_eq!(refused, Err(SetupError::Missing));
    resume(&mut pair, 0);
    write(&mut pair, 1, 100_000);
    assert!(!pair.nics[0].rest_channel(first, false), "a message waits");
    let transmit = pair.nics[0].poll_transmit(pair.now).expect("a packet");
    pair.deliver(1, &transmit);
    assert!(!pair.nics[0].rest_channel(first, false), "a packet is in flight");
    assert!(!pair.nics[1].rest_channel(second, false), "an acknowledgement is owed");
    pair.run_until_idle(|_, _| false);
    pair.run_for(20_000);
    assert!(!pair.nics[0].rest_channel(first, true), "it has measured round trips");
    assert!(pair.nics[1].rest_channel(second, true), "it has only received");
    assert!(pair.nics[0].rest_channel(first, false));
}

/// With `allocates_on_use`, everything is the same, and unused paths have no record.
#[test]
fn paths_that_are_allocated_on_use_behave_the_same() {
    let policy = "cc=swift,path=reps".parse().unwrap();
    let run = |on_use: bool| {
        let limits = Limits { channels: 4, jetties: 8, ..Limits::default() };
        let limits = limits.allocates_on_use(on_use);
        let new = |n| UbDevice::new(Cna::new(n), &limits, &Profile::default(), u64::from(n));
        let mut pair = Pair::between([1, 2].map(new), 3, 64, &policy);
        write(&mut pair, 1, 1000);
        pair.run_until_idle(|_, _| false);
        let small = pair.nics[0].paths(pair.channels[0]).len();
        for id in 2..5 {
            write(&mut pair, id, 300_000);
            pair.run_until_idle(|number, _| number % 50 == 7);
        }
        let effects = core::mem::take(&mut pair.effects);
        let counters = pair.nics.each_ref().map(|nic| *nic.counters());
        let views = pair.nics[0].paths(pair.channels[0]).len();
        let received = pair.nics[1].paths(pair.channels[1]).len();
        let count = pair.nics[0].path_count(pair.channels[0]);
        (effects, counters, pair.sent, (small, views, received, count))
    };
    let (eager, on_use) = (run(false), run(true));
    assert_eq!((&eager.0, eager.1, eager.2), (&on_use.0, on_use.1, on_use.2));
    assert_eq!(eager.3, (64, 64, 64, 64));
    assert_eq!(on_use.3, (1, 64, 0, 64), "a small message uses the first path, a receiver none");
}
