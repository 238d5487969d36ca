//! What a host's NIC is: Fairway's engine, or the engine's RoCE side.

use super::packets::Cold;
use super::roce::RoceNic;
use super::scenario::Scenario;
use fairway_engine::wire::{Ecn, Instant, header_len};
use fairway_engine::{CompletionQueueId, LocalRange, Nic, Received, Status, Transmit, Verdict};

/// The NIC of a host.
#[expect(clippy::large_enum_variant, reason = "of each host there is one, and that is boxed")]
pub(crate) enum HostNic {
    Fairway(Nic),
    Roce(Box<RoceNic>),
}

/// A packet that a NIC hands out.
pub(crate) struct Outgoing {
    pub(crate) cold: Cold,
    /// What its headers take, with all that belongs to no frame and to no payload.
    pub(crate) header: u32,
    pub(crate) payload: u32,
    /// The host it is for.
    pub(crate) destination: u32,
    /// The path, among all of its pair of hosts.
    pub(crate) path: u8,
}

impl Outgoing {
    #[inline]
    fn of(transmit: &Transmit, scenario: &Scenario) -> Outgoing {
        let (route, payload) = (transmit.route, transmit.gather.length);
        let cold = Received { route, packet: transmit.packet, payload, ecn: Ecn::Capable };
        Outgoing {
            cold: Cold::Fairway(cold),
            header: header_len(&transmit.packet) as u32,
            payload,
            destination: crate::endpoint::host_of(route.destination),
            path: scenario.path_of(&route),
        }
    }
}

/// What NICs count, those of a kind added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicCounts {
    /// Data packets, sent for the first time or again.
    pub(crate) data_sent: u64,
    /// Those that were sent again.
    pub(crate) resent: u64,
    /// Of those, for nothing.
    pub(crate) spurious: u64,
    pub(crate) acks_sent: u64,
    pub(crate) timeouts: u64,
    /// Refusals for want of a receive.
    pub(crate) not_ready: u64,
}

impl HostNic {
    /// Fairway's engine, of which there is one where ranks or streams are: `setup` sees to that.
    #[inline]
    pub(crate) fn fairway(&mut self) -> &mut Nic {
        match self {
            HostNic::Fairway(nic) => nic,
            HostNic::Roce(_) => unreachable!("ranks and streams have Fairway's engine"),
        }
    }

    /// Fairway's engine, if it is that.
    pub(crate) fn as_fairway(&self) -> Option<&Nic> {
        match self {
            HostNic::Fairway(nic) => Some(nic),
            HostNic::Roce(_) => None,
        }
    }

    /// A packet has come: where its payload now is.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        cold: &mut Cold,
        marked: bool,
    ) -> Option<LocalRange> {
        let ecn = if marked { Ecn::Congested } else { Ecn::Capable };
        match (self, cold) {
            (HostNic::Fairway(nic), Cold::Fairway(received)) => {
                received.ecn = ecn;
                match nic.handle_packet(now, received) {
                    Verdict::Place(placement) => {
                        nic.handle_placed(now, placement.token, 0);
                        Some(placement.target)
                    }
                    Verdict::Own(_) => unreachable!("nobody posts atomics"),
                    Verdict::Done | Verdict::Drop(_) => None,
                }
            }
            (HostNic::Roce(nic), Cold::Roce(received)) => {
                received.ecn = ecn;
                nic.receive(now, received)
            }
            _ => unreachable!("all hosts of a run are of one kind"),
        }
    }

    /// The turn of a packet that came too early has come: where its payload now is. To be asked
    /// after every [`Self::receive`] until it says `None`.
    #[inline]
    pub(crate) fn recall(&mut self, now: Instant) -> Option<LocalRange> {
        match self {
            HostNic::Fairway(_) => None,
            HostNic::Roce(nic) => nic.recall(now),
        }
    }

    /// What is left of a packet that was trimmed has come. RoCE knows nothing of such.
    pub(crate) fn receive_trimmed(&mut self, now: Instant, cold: &Cold) {
        if let (HostNic::Fairway(nic), Cold::Fairway(received)) = (self, cold) {
            nic.handle_trimmed(now, received);
        }
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, scenario: &Scenario) -> Option<Outgoing> {
        match self {
            HostNic::Fairway(nic) => Some(Outgoing::of(&nic.poll_transmit(now)?, scenario)),
            HostNic::Roce(nic) => nic.poll_transmit(now),
        }
    }

    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            HostNic::Fairway(nic) => nic.poll_timeout(),
            HostNic::Roce(nic) => nic.host.poll_timeout(),
        }
    }

    /// A deadline has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self {
            HostNic::Fairway(nic) => {
                nic.handle_timeout(now);
                while nic.poll_event().is_some() {}
            }
            HostNic::Roce(nic) => nic.host.handle_timeout(now),
        }
    }

    /// The next operation that has ended: its number, and whether all went well.
    #[inline]
    pub(crate) fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<(u64, bool)> {
        match self {
            HostNic::Fairway(nic) => {
                let done = nic.poll_completion(queue)?;
                Some((done.id, done.status == Status::Success))
            }
            HostNic::Roce(nic) => nic.poll_completion(),
        }
    }

    pub(crate) fn counts(&self) -> NicCounts {
        match self {
            HostNic::Fairway(nic) => {
                let counters = nic.counters();
                NicCounts {
                    data_sent: counters.data_sent,
                    resent: counters.data_resent,
                    spurious: counters.spurious,
                    acks_sent: counters.acks_sent,
                    timeouts: counters.timeouts,
                    not_ready: counters.not_ready + counters.sent_back,
                }
            }
            HostNic::Roce(nic) => nic.counts(),
        }
    }
}
