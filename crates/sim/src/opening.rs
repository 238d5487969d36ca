//! Channels that a host opens when it first uses them, and that rest when they are no longer used.
//!
//! A channel's state is the same as if it had been opened at the beginning of the run, because
//! nothing happens on a channel before its first use. (Only keep-alives do: unused channels send
//! none here.) A host with many peers lets a channel rest that has nothing under way and whose
//! policies are not needed again: it has sent all its flows, or none yet. When it is used after
//! all, it continues where it stopped ([`fairway_ub::UbDevice::rest_channel`]).

use super::host::Host;
use super::nic::HostNic;
use super::packets::PacketHeaders;
use super::plan::Plan;
use super::setup::Wiring;
use fairway_ub::ChannelId;
use fairway_ub::wire::Instant;
use std::collections::VecDeque;
use std::sync::Arc;

/// Time after which a channel is looked at whose message has ended, and looked at again if it could
/// not rest: it may still have to acknowledge something.
const LOOK_PS: u64 = 4_000_000;
/// How often a channel is looked at that has sent all its flows, and one that has not: that one is
/// looked at again when its next flow has completed.
const LOOKS: u8 = 64;
const LOOKS_BEFORE_SENDING: u8 = 4;
/// Channels that a host looks at in one turn.
const LOOKS_PER_TURN: usize = 4;
/// Until this time a channel is opened as if the run had just begun. Later, its first keep-alive
/// would be overdue.
const AS_AT_BEGIN_PS: u64 = 400_000_000_000;

/// A channel that may be able to rest, given by its place among the host's pairs.
struct Candidate {
    place: u32,
    due: u64,
    looks: u8,
}

/// What a host needs to open its channels, and to let them rest.
pub(crate) struct OnUse {
    wiring: Arc<Wiring>,
    host: u32,
    /// By pair: flows to the peer that have not completed. Empty if channels do not rest.
    left: Vec<u32>,
    /// Channels that may be able to rest, in the order in which they are looked at.
    candidates: VecDeque<Candidate>,
}

impl OnUse {
    pub(crate) fn new(wiring: &Arc<Wiring>, plan: &Plan, host: u32) -> OnUse {
        let new = OnUse {
            wiring: Arc::clone(wiring),
            host,
            left: Vec::new(),
            candidates: VecDeque::new(),
        };
        let ends = &wiring.ends[host as usize];
        if (ends.len() as u32) < plan.scenario.rest_from_peers {
            return new;
        }
        let mut left = vec![0; ends.len()];
        for &flow in &plan.outbound[host as usize] {
            let flow = &plan.scenario.flows[flow as usize];
            if !flow.is_step() {
                left[new.place(flow.destination) as usize] += 1;
            }
        }
        OnUse { left, ..new }
    }

    /// The place of a peer among the host's pairs.
    fn place(&self, peer: u32) -> u32 {
        let ends = &self.wiring.ends[self.host as usize];
        let place = ends.binary_search_by_key(&peer, |end| end.peer);
        place.expect("a pair for every flow") as u32
    }

    fn channel(&self, place: u32) -> ChannelId {
        self.wiring.channel(self.host, place, 0).0
    }

    /// Notes that a flow to a peer has completed.
    pub(crate) fn completed(&mut self, now: u64, peer: u32) {
        if !self.left.is_empty() {
            let place = self.place(peer);
            self.left[place as usize] -= 1;
            self.consider(now, place);
        }
    }

    /// Notes that a flow of a peer is in place here.
    pub(crate) fn delivered(&mut self, now: u64, peer: u32) {
        if !self.left.is_empty() {
            self.consider(now, self.place(peer));
        }
    }

    fn consider(&mut self, now: u64, place: u32) {
        self.candidates.push_back(Candidate { place, due: now + LOOK_PS, looks: 0 });
    }
}

impl Host {
    /// Opens the channel to a peer if it is not open, and returns it.
    pub(crate) fn open_toward(&mut self, now: u64, peer: u32) -> ChannelId {
        let on_use = self.on_use.as_ref().expect("channels are opened on use");
        let place = on_use.place(peer);
        let channel = on_use.channel(place);
        self.open_unopened(now, channel);
        channel
    }

    /// Opens the channel of a packet that has arrived, if it is not open.
    #[inline]
    pub(crate) fn open_for(&mut self, now: u64, headers: &PacketHeaders) {
        let (HostNic::Fairway(driver), PacketHeaders::Fairway(received)) = (&self.nic, headers)
        else {
            return;
        };
        if let Some(channel) = driver.device().unopened(received.route.destination_tpn) {
            self.open_unopened(now, channel);
        }
    }

    #[cold]
    fn open_place(&mut self, now: u64, place: u32) {
        let on_use = self.on_use.take().expect("channels are opened on use");
        let at = Instant::from_ps(if now < AS_AT_BEGIN_PS { 0 } else { now });
        let opened = on_use.wiring.open(self, at, (on_use.host, place as usize));
        opened.expect("limits are made for these channels");
        self.on_use = Some(on_use);
    }

    fn open_unopened(&mut self, now: u64, channel: ChannelId) {
        if self.nic.fairway().unopened(channel.tpn()).is_some() {
            // Channels were reserved in the order of the pairs.
            self.open_place(now, channel.index() as u32);
        }
    }

    /// Opens all channels, and lets none rest from now on.
    pub(crate) fn open_all(&mut self) {
        let Some(on_use) = &mut self.on_use else { return };
        on_use.left = Vec::new();
        on_use.candidates.clear();
        for place in 0..on_use.wiring.ends[on_use.host as usize].len() as u32 {
            let channel = self.on_use.as_ref().map(|on_use| on_use.channel(place));
            channel.into_iter().for_each(|channel| self.open_unopened(0, channel));
        }
    }

    /// Lets channels rest that are not used any more, if there are any.
    #[inline]
    pub(crate) fn rest_unused(&mut self, now: u64) {
        for _ in 0..LOOKS_PER_TURN {
            let Some(on_use) = &mut self.on_use else { return };
            if on_use.candidates.front().is_none_or(|first| first.due > now) {
                return;
            }
            self.rest_next(now);
        }
    }

    fn rest_next(&mut self, now: u64) {
        let Some(on_use) = &mut self.on_use else { return };
        let Some(candidate) = on_use.candidates.pop_front() else { return };
        let Candidate { place, looks, .. } = candidate;
        let (channel, sends_again) = (on_use.channel(place), on_use.left[place as usize] > 0);
        let rests = self.nic.fairway().rest_channel(channel, sends_again);
        let most = if sends_again { LOOKS_BEFORE_SENDING } else { LOOKS };
        if !rests && looks < most {
            let again = Candidate { place, due: now + LOOK_PS, looks: looks + 1 };
            on_use.candidates.push_back(again);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::nic::HostNic;
    use crate::{Settings, Simulation};

    /// Number of channels of an all-to-all of 16 hosts that rest at its end, and of those that are
    /// open.
    fn resting(rest_from_peers: u32, end: &str) -> (usize, usize) {
        let mut settings = Settings::default();
        let lines = format!("workload all-to-all\nnodes 16\nbytes 4K\nend {end}");
        settings.read(&lines).expect("settings");
        let mut scenario = settings.build(1).expect("a scenario");
        scenario.rest_from_peers = rest_from_peers;
        let mut simulation = Simulation::new(scenario, 1).expect("a run");
        while simulation.step() {}
        let hosts = simulation.partitions[0].hosts.iter().flatten();
        let counts = hosts.map(|host| {
            let on_use = host.on_use.as_ref().expect("channels are opened on use");
            let HostNic::Fairway(driver) = &host.nic else { unreachable!("hosts are Fairway's") };
            let channels: Vec<_> = (0..15).map(|place| on_use.channel(place)).collect();
            let nic = driver.device();
            let rest = channels.iter().filter(|channel| nic.is_resting(**channel)).count();
            (rest, channels.iter().filter(|channel| nic.is_open(**channel)).count())
        });
        counts.fold((0, 0), |sum, host| (sum.0 + host.0, sum.1 + host.1))
    }

    #[test]
    fn channels_open_on_use_and_rest_after_it() {
        let all = 16 * 15;
        assert_eq!(resting(u32::MAX, "1ms"), (0, all));
        let (rest, open) = resting(0, "1ms");
        assert!(rest > all / 4 && rest + open == all, "{rest} of {all} rest at the end");
        // The first packet of each host is on its wire: it has posted all, and received none.
        assert_eq!(resting(0, "1ns"), (0, all));
    }
}
