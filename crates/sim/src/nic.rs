//! A host's NIC: Fairway's UB engine, or RoCE.

use super::packets::{PacketHeaders, PacketMeta};
use super::roce::RoceNic;
use super::scenario::Scenario;
use fairway_device::Ranges;
use fairway_device::drive::{Access, AccessOf, Driven, Driver};
use fairway_ub::wire::{Ecn, Instant, Priority, header_len};
use fairway_ub::{CompletionQueueId, LocalRange, Received, Status, Transmit, UbDevice};

/// Reports at once that an access was carried out, because payload has no bytes in the simulator.
/// Returns the first range of the payload: a WRITE goes to one region.
#[inline]
fn place<D: Driven>(
    driver: &mut Driver<D, ()>,
    now: Instant,
    access: &AccessOf<D, ()>,
) -> LocalRange {
    driver.handle_placed(now, access.token(), 0);
    match access {
        Access::Place { target, .. } => target.ranges()[0],
        Access::Copy { to, .. } => *to,
        Access::Store { .. } | Access::Atomic(_) => unreachable!("the simulator posts no atomics"),
    }
}

#[inline]
fn next_placed<D: Driven>(driver: &mut Driver<D, ()>, now: Instant) -> Option<LocalRange> {
    let access = driver.poll_access(now)?;
    Some(place(driver, now, &access))
}

/// The NIC of a host.
#[expect(clippy::large_enum_variant, reason = "of each host there is one, and that is boxed")]
pub(crate) enum HostNic {
    Fairway(Driver<UbDevice, ()>),
    Roce(Box<RoceNic>),
}

/// A packet that a NIC sends.
pub(crate) struct Outgoing {
    pub(crate) headers: PacketHeaders,
    /// Bytes on the wire, apart from the frame's own and the payload.
    pub(crate) header: u32,
    pub(crate) payload: u32,
    /// Destination host.
    pub(crate) destination: u32,
    /// Path number among all paths of the pair of hosts.
    pub(crate) path: u8,
    pub(crate) priority: Priority,
}

impl Outgoing {
    #[inline]
    fn of(transmit: &Transmit, scenario: &Scenario) -> Outgoing {
        let (route, payload) = (transmit.route, transmit.gather.length);
        let headers =
            Received { route, packet: transmit.packet, payload, ecn: Ecn::Capable, hops: 0 };
        Outgoing {
            headers: PacketHeaders::Fairway(headers),
            header: header_len(&transmit.packet) as u32,
            payload,
            destination: crate::endpoint::host_of(route.destination),
            path: scenario.path_of(&route),
            // In the simulator requests without payload have the class of control packets, too.
            priority: if payload == 0 { Priority::CONTROL } else { route.priority },
        }
    }
}

/// Counters that Fairway and RoCE NICs have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicCounts {
    /// Data packets sent, including retransmissions.
    pub(crate) data_sent: u64,
    /// Retransmitted data packets.
    pub(crate) resent: u64,
    /// Retransmissions of packets that had already arrived.
    pub(crate) spurious: u64,
    pub(crate) acks_sent: u64,
    pub(crate) timeouts: u64,
    /// Messages refused because no receive was posted.
    pub(crate) not_ready: u64,
    /// Greatest distance from the first missing packet to the last that had arrived.
    pub(crate) early_max: u64,
    /// Most packets at a time that waited to be executed.
    pub(crate) deferred_max: u64,
}

impl HostNic {
    /// Returns Fairway's engine. Hosts with ranks or streams always have it, as `setup` ensures.
    #[inline]
    pub(crate) fn fairway(&mut self) -> &mut UbDevice {
        match self {
            HostNic::Fairway(driver) => driver.device_mut(),
            HostNic::Roce(_) => unreachable!("ranks and streams have Fairway's engine"),
        }
    }

    /// Returns Fairway's engine, if the NIC has it.
    pub(crate) fn as_fairway(&self) -> Option<&UbDevice> {
        match self {
            HostNic::Fairway(driver) => Some(driver.device()),
            HostNic::Roce(_) => None,
        }
    }

    /// Lets the NIC signal pressure to its peers, or ceases to. RoCE has no such signal.
    pub(crate) fn set_pressure(&mut self, presses: bool) {
        if let HostNic::Fairway(driver) = self {
            driver.device_mut().set_pressure(presses);
        }
    }

    /// Passes a received packet to the NIC. Returns the place of its payload.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        headers: &mut PacketHeaders,
        meta: &PacketMeta,
    ) -> Option<LocalRange> {
        let ecn = if meta.marked { Ecn::Congested } else { Ecn::Capable };
        match (self, headers) {
            (HostNic::Fairway(driver), PacketHeaders::Fairway(received)) => {
                (received.ecn, received.hops) = (ecn, meta.switches());
                let access = driver.handle_packet(now, received, || ()).access()?;
                Some(place(driver, now, &access))
            }
            (HostNic::Roce(nic), PacketHeaders::Roce(received)) => {
                received.ecn = ecn;
                let access = nic.driver.handle_packet(now, received, || ()).access()?;
                Some(place(&mut nic.driver, now, &access))
            }
            _ => unreachable!("all hosts of a run are of one kind"),
        }
    }

    /// Carries out an access that was deferred: that of a packet that arrived too early, or a copy.
    /// Returns the place of its payload. Must be called after every [`Self::receive`] until it
    /// returns `None`.
    #[inline]
    pub(crate) fn next_placed(&mut self, now: Instant) -> Option<LocalRange> {
        match self {
            HostNic::Fairway(driver) => next_placed(driver, now),
            HostNic::Roce(nic) => next_placed(&mut nic.driver, now),
        }
    }

    /// Passes the header of a trimmed packet to the NIC. RoCE ignores it.
    pub(crate) fn receive_trimmed(&mut self, now: Instant, headers: &PacketHeaders) {
        if let (HostNic::Fairway(driver), PacketHeaders::Fairway(received)) = (self, headers) {
            driver.device_mut().handle_trimmed(now, received);
        }
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, scenario: &Scenario) -> Option<Outgoing> {
        match self {
            HostNic::Fairway(driver) => Some(Outgoing::of(&driver.poll_transmit(now)?, scenario)),
            HostNic::Roce(nic) => nic.poll_transmit(now),
        }
    }

    #[inline]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            HostNic::Fairway(driver) => driver.poll_timeout(),
            HostNic::Roce(nic) => nic.driver.poll_timeout(),
        }
    }

    /// Handles a timer that is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self {
            HostNic::Fairway(driver) => {
                let nic = driver.device_mut();
                nic.handle_timeout(now);
                while nic.poll_event().is_some() {}
            }
            HostNic::Roce(nic) => nic.driver.device_mut().handle_timeout(now),
        }
    }

    /// Returns the next completed operation: its number, and whether it succeeded.
    #[inline]
    pub(crate) fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<(u64, bool)> {
        match self {
            HostNic::Fairway(driver) => {
                let done = driver.device_mut().poll_completion(queue)?;
                Some((done.id, done.status == Status::Success))
            }
            HostNic::Roce(nic) => nic.poll_completion(),
        }
    }

    pub(crate) fn counts(&self) -> NicCounts {
        match self {
            HostNic::Fairway(driver) => {
                let counters = driver.device().counters();
                NicCounts {
                    data_sent: counters.data_sent + counters.data_resent,
                    resent: counters.data_resent,
                    spurious: counters.spurious,
                    acks_sent: counters.acks_sent,
                    timeouts: counters.timeouts,
                    not_ready: counters.not_ready + counters.sent_back,
                    early_max: counters.early_max,
                    deferred_max: counters.deferred_max,
                }
            }
            HostNic::Roce(nic) => nic.counts(),
        }
    }
}
