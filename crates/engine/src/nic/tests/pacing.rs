//! Pacing: packets leave in bursts, on average at the rate that the policy sets.

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

/// When packets left, in microseconds, and how many each time. The clock wraps on the way.
fn departures(burst_packets: u32, times: usize) -> Vec<(u64, u32)> {
    let mut pair = Pair::new(1, 1);
    let EntryState::Open(channel) = &mut pair.nics[0].entries[pair.channels[0].index()].state
    else {
        panic!("an open channel");
    };
    channel.policy.congestion = Box::new(Paced { burst_packets });
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
        now = pair.nics[0].poll_timeout().expect("the pace");
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
