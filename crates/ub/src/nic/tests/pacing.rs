//! Pacing: packets are sent in bursts, on average at the rate that the policy sets.

use super::*;
use crate::policy::{AckSample, CongestionControl, LossSample};

/// A rate at which one packet takes a microsecond.
struct Paced {
    burst_packets: u32,
}

/// Payload and headers, as windows count them.
const PACKET_BYTES: u32 = MTU + 80;

impl CongestionControl for Paced {
    fn name(&self) -> &'static str {
        "paced"
    }
    fn window_bytes(&self) -> u64 {
        u64::MAX
    }
    fn on_ack(&mut self, _sample: &AckSample) {}
    fn on_loss(&mut self, _sample: &LossSample) {}
    fn pacing_bytes_per_second(&self) -> Option<u64> {
        Some(u64::from(PACKET_BYTES) * 1_000_000)
    }
    fn pacing_burst_bytes(&self) -> u32 {
        self.burst_packets * PACKET_BYTES
    }
}

/// Times at which packets were sent, in microseconds, and how many each time. The clock wraps
/// meanwhile.
fn departures(burst_packets: u32, times: usize) -> Vec<(u64, u32)> {
    late_departures(burst_packets, times, Duration::ZERO)
}

/// The same for a host that is `late` each time. A round trip takes 40 us.
fn late_departures(burst_packets: u32, times: usize, late: Duration) -> Vec<(u64, u32)> {
    let mut pair = Pair::new(1, 1);
    let EntryState::Open(channel) = &mut pair.nics[0].entries[pair.channels[0].index()].state
    else {
        panic!("an open channel");
    };
    channel.set_controller(Box::new(Paced { burst_packets }));
    channel.set_round_trip(Duration::from_us(40));
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 64 * MTU);
    let (start, mut now) = (pair.now, pair.now);
    let mut departures = Vec::new();
    while departures.len() < times {
        let mut packets = 0;
        while pair.nics[0].poll_transmit(now).is_some() {
            packets += 1;
        }
        if packets > 0 {
            departures.push((now.since(start).as_us(), packets));
        }
        now = pair.nics[0].poll_timeout().expect("the pace") + late;
        pair.nics[0].handle_timeout(now);
    }
    departures
}

#[test]
fn without_a_burst_packets_are_spaced() {
    assert_eq!(departures(0, 4), [(0, 1), (1, 1), (2, 1), (3, 1)]);
}

#[test]
fn bursts_are_followed_by_the_time_they_take() {
    assert_eq!(departures(4, 4), [(0, 4), (4, 4), (8, 4), (12, 4)]);
}

#[test]
fn late_host_sends_what_its_rate_allows_meanwhile() {
    // Six microseconds late: that packet, and those of six more microseconds.
    let late = Duration::from_us(6);
    assert_eq!(late_departures(0, 4, late), [(0, 1), (7, 7), (14, 7), (21, 7)]);
}

#[test]
fn late_host_makes_up_for_a_quarter_of_a_round_trip_at_most() {
    let late = Duration::from_us(19);
    assert_eq!(late_departures(0, 3, late), [(0, 1), (20, 11), (40, 11)]);
}

#[test]
fn pause_without_packets_earns_no_burst() {
    let mut pair = Pair::new(1, 1);
    let EntryState::Open(channel) = &mut pair.nics[0].entries[pair.channels[0].index()].state
    else {
        panic!("an open channel");
    };
    channel.set_controller(Box::new(Paced { burst_packets: 0 }));
    channel.set_round_trip(Duration::from_us(400));
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, MTU);
    assert!(pair.nics[0].poll_transmit(pair.now).is_some());
    assert!(pair.nics[0].poll_transmit(pair.now).is_none());
    // The pace opens, and there is nothing to send.
    pair.now = pair.now + Duration::from_us(2);
    pair.nics[0].handle_timeout(pair.now);
    assert!(pair.nics[0].poll_transmit(pair.now).is_none());
    pair.now = pair.now + Duration::from_us(50);
    pair.post(2, Work::Write { remote }, 8 * MTU);
    assert!(pair.nics[0].poll_transmit(pair.now).is_some());
    assert!(pair.nics[0].poll_transmit(pair.now).is_none());
}

/// Number of 20 ms time slices that a WRITE of 4 MB takes between hosts that wait as long for a
/// core.
fn turns_of_busy_hosts(controller: &str) -> u32 {
    let mut pair = Pair::with_policy(1, 4, Profile::default(), 64, &controller.parse().unwrap());
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 4 << 20);
    for turn in 1..20_000 {
        pair.now = pair.now + Duration::from_ms(20);
        for side in 0..2 {
            for packet in std::mem::take(&mut pair.wires[side]) {
                pair.deliver(side, &packet);
            }
            pair.nics[side].handle_timeout(pair.now);
            while let Some(packet) = pair.nics[side].poll_transmit(pair.now) {
                pair.wires[1 - side].push_back(packet);
            }
        }
        if let Some(done) = pair.completions(0).first() {
            assert_eq!(done.status, Status::Success);
            return turn;
        }
    }
    panic!("it takes too long");
}

#[test]
fn busy_hosts_send_more_than_a_packet_in_a_turn() {
    // 4,096 packets: one in each time slice would take more than a minute.
    for controller in ["cc=cubic", "cc=timely", "cc=swift"] {
        let turns = turns_of_busy_hosts(controller);
        assert!(turns < 120, "{controller}: {turns}");
    }
}

/// A window of two packets, and a rate at which one packet takes ten milliseconds.
struct Crawling {
    is_window: bool,
}

impl CongestionControl for Crawling {
    fn name(&self) -> &'static str {
        "crawling"
    }
    fn window_bytes(&self) -> u64 {
        2 * u64::from(PACKET_BYTES)
    }
    fn on_ack(&mut self, _sample: &AckSample) {}
    fn on_loss(&mut self, _sample: &LossSample) {}
    fn pacing_bytes_per_second(&self) -> Option<u64> {
        Some(u64::from(PACKET_BYTES) * 100)
    }
    fn paces_within_window(&self) -> bool {
        self.is_window
    }
}

#[test]
fn pace_of_a_window_does_not_hold_packets_back_while_nothing_is_in_flight() {
    for is_window in [true, false] {
        let mut pair = Pair::new(1, 1);
        let EntryState::Open(channel) = &mut pair.nics[0].entries[pair.channels[0].index()].state
        else {
            panic!("an open channel");
        };
        channel.set_controller(Box::new(Crawling { is_window }));
        let remote = pair.remote();
        pair.post(1, Work::Write { remote }, 10 * MTU);
        // Every packet is acknowledged in the microsecond in which it is sent.
        pair.run_for(1_000);
        assert_eq!(pair.completions(0).len(), usize::from(is_window));
    }
}

impl Pair {
    /// Moves packets for so many microseconds. They take ten, and some of node 0 eleven.
    fn run_reordering(&mut self, microseconds: u32) {
        let mut random = Random::new(5);
        let mut under_way: Vec<(Instant, usize, Transmit)> = Vec::new();
        for _ in 0..microseconds {
            self.now = self.now + Duration::from_us(1);
            let now = self.now;
            let is_due = |(at, ..): &(Instant, usize, Transmit)| now.is_at_or_after(*at);
            let due: Vec<_> = under_way.iter().copied().filter(is_due).collect();
            under_way.retain(|packet| !is_due(packet));
            for (_, n, transmit) in due {
                self.deliver(n, &transmit);
            }
            for n in 0..2 {
                self.nics[n].handle_timeout(now);
                while let Some(transmit) = self.nics[n].poll_transmit(now) {
                    let is_late = n == 0 && random.number().is_multiple_of(20);
                    let takes = Duration::from_us(10 + u64::from(is_late));
                    under_way.push((now + takes, 1 - n, transmit));
                }
            }
        }
    }
}

const QUARTER: Duration = Duration::from_secs(21_600);

fn ageing(policy: &str) -> Pair {
    let day = Duration::from_secs(86_400);
    let profile = Profile::default().keep_alive(day).peer_dead(day.times(10));
    Pair::with_policy(0, 2, profile, 64, &policy.parse().unwrap())
}

/// Times wrap: half of them are later than the present.
#[test]
fn channel_sends_however_long_it_has_been_open() {
    for policy in ["cc=swift", "cc=cubic", "cc=dcqcn", "cc=nscc", "cc=hpcc", "cc=fixed:16M"] {
        let mut pair = ageing(policy);
        let remote = pair.remote();
        for quarter in 0..(230 * 4) {
            pair.now = pair.now + QUARTER;
            pair.post(quarter, Work::Write { remote }, 4000);
            pair.run_for(1000);
            assert_eq!(pair.completions(0).len(), 1, "{policy}, after {quarter} quarters of days");
        }
    }
}

#[test]
fn channel_sends_however_long_it_has_been_idle() {
    for policy in ["cc=swift", "cc=cubic", "cc=dcqcn", "cc=hpcc", "cc=fixed:16M"] {
        for days in [105, 110, 213, 214, 320] {
            let mut pair = ageing(policy);
            let remote = pair.remote();
            pair.post(0, Work::Write { remote }, 1_000_000);
            pair.run_until_idle(|_, _| false);
            assert_eq!(pair.completions(0).len(), 1);
            for _ in 0..days * 4 {
                pair.now = pair.now + QUARTER;
                pair.run_for(10);
            }
            pair.post(1, Work::Write { remote }, 20_000);
            pair.run_for(20_000);
            assert_eq!(pair.completions(0).len(), 1, "{policy}, after {days} days");
            assert_eq!(pair.nics[0].counters().data_resent, 0);
        }
    }
}

/// Packets that overtake others after a long rest prove no more of these lost than after a short
/// one.
#[test]
fn losses_are_judged_alike_however_long_the_channel_has_been_idle() {
    for policy in ["cc=cubic", "cc=cubic,loss=rack", "cc=swift,loss=sack"] {
        let resent = [1, 110, 220].map(|days| {
            let mut pair = ageing(policy);
            let remote = pair.remote();
            pair.post(0, Work::Write { remote }, 1_000_000);
            pair.run_reordering(20_000);
            for _ in 0..days * 4 {
                pair.now = pair.now + QUARTER;
                pair.run_for(10);
            }
            let before = pair.nics[0].counters().data_resent;
            pair.post(1, Work::Write { remote }, 1_000_000);
            pair.run_reordering(20_000);
            assert_eq!(pair.completions(0).len(), 2, "{policy}, after {days} days");
            pair.nics[0].counters().data_resent - before
        });
        assert!(resent.iter().all(|other| *other == resent[0]), "{policy}: {resent:?}");
    }
}
