//! Groups: the ranks that execute a collective operation, as live ranks do.

use crate::endpoint::SLOT_BITS;
use crate::traffic::Collective;
use fairway_collectives::{Algorithm, Call, EAGER, Means, Protocol, Schedule, Shape};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of ranks of a group: that of live ranks.
pub const RANKS_MAX: u32 = 4096;

/// Maximum number of calls of a rank.
pub const ROUNDS_MAX: u32 = 1 << 16;

/// A group of ranks, and the operation that they call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The operation, and its algorithm.
    pub collective: Collective,
    /// Length of a rank's buffer in bytes.
    pub bytes: u32,
    /// Number of times that each rank calls the operation, one call after the other.
    pub rounds: u32,
    /// The host of each rank; ranks of one host are neighbours in this order or not.
    pub hosts: Vec<u32>,
    /// What a rank has for the messages of others.
    pub means: Means,
    /// Latency from a rank to its NIC, and back, in picoseconds.
    pub host_ps: u64,
    /// Rate at which a rank copies, in megabits per second.
    pub copy_megabits: u64,
    /// Rate at which a rank combines elements, in megabits of one operand per second.
    pub combine_megabits: u64,
}

impl Group {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// True if the number of ranks is allowed, and their slots fit into the memory of a host.
    pub(crate) fn has_valid_size(&self) -> bool {
        // Slots, and copies of short messages, are a piece of memory each.
        let memory = u64::from(self.ranks()) * u64::from(self.means.slots);
        (2..=RANKS_MAX).contains(&self.ranks())
            && memory * u64::from(self.means.slot_bytes.max(EAGER)) <= 1 << SLOT_BITS
    }

    /// Bus bandwidth of an operation that takes so long, in bytes per second, as nccl-tests counts
    /// it: what each link would have to carry if none were idle.
    pub fn bus_bandwidth(&self, ps: u64) -> u64 {
        let ranks = u128::from(self.ranks());
        let (times, per) = match self.collective {
            Collective::RingAllReduce
            | Collective::TreeAllReduce
            | Collective::HalvingAllReduce
            | Collective::DoublingAllReduce => (2 * (ranks - 1), ranks),
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::AllToAll
            | Collective::PairwiseAllToAll => (ranks - 1, ranks),
            Collective::Broadcast | Collective::Reduce => (1, 1),
        };
        (u128::from(self.bytes) * times * 1_000_000_000_000 / per / u128::from(ps.max(1))) as u64
    }

    /// Time to copy so many bytes, in picoseconds.
    pub(crate) fn copy_ps(&self, bytes: u32) -> u64 {
        u64::from(bytes) * 8_000_000 / self.copy_megabits
    }

    /// Time to combine so many bytes with as many others, in picoseconds.
    pub(crate) fn combine_ps(&self, bytes: u32) -> u64 {
        u64::from(bytes) * 8_000_000 / self.combine_megabits
    }
}

/// A call of one rank, as it is executed.
pub(crate) struct Planned {
    pub(crate) call: Call,
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) protocol: Protocol,
    /// The ranks with which it exchanges messages, in order.
    pub(crate) peers: Vec<u32>,
}

/// What all hosts of a run must know about a group.
pub(crate) struct GroupPlan {
    pub(crate) group: Group,
    /// The calls by rank.
    pub(crate) calls: Vec<Planned>,
    /// The ranks of each host, in order.
    on_host: Vec<Vec<u32>>,
    /// The position of each rank among those of its host.
    places: Vec<u32>,
}

impl GroupPlan {
    pub(crate) fn new(group: &Group, hosts: u32) -> GroupPlan {
        let (mut on_host, mut places) = (vec![Vec::new(); hosts as usize], Vec::new());
        for (rank, host) in (0..).zip(&group.hosts) {
            let own: &mut Vec<u32> = &mut on_host[*host as usize];
            places.push(own.len() as u32);
            own.push(rank);
        }
        let calls = (0..group.ranks()).map(|rank| plan(group, rank)).collect();
        GroupPlan { group: group.clone(), calls, on_host, places }
    }

    /// The ranks of a host, in order.
    pub(crate) fn on_host(&self, host: u32) -> &[u32] {
        &self.on_host[host as usize]
    }

    /// The host of a rank.
    pub(crate) fn host(&self, rank: u32) -> u32 {
        self.group.hosts[rank as usize]
    }

    /// The position of a rank among those of its host.
    pub(crate) fn place(&self, rank: u32) -> u32 {
        self.places[rank as usize]
    }

    /// The other hosts with which a rank exchanges messages, with repetitions.
    pub(crate) fn hosts_of_peers(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        let own = self.host(rank);
        let hosts = self.calls[rank as usize].peers.iter().map(|peer| self.host(*peer));
        hosts.filter(move |host| *host != own)
    }

    /// Number of pairs of a rank of this host and a rank of another host, that exchange messages.
    pub(crate) fn pairs(&self, host: u32) -> u32 {
        let each = self.on_host(host).iter().map(|rank| self.hosts_of_peers(*rank).count());
        each.sum::<usize>() as u32
    }

    /// Number of receives of a rank.
    pub(crate) fn receives(&self, rank: u32) -> u32 {
        // A live rank expects messages from all ranks, but only these send any.
        self.group.means.receives(self.calls[rank as usize].peers.len() as u32 + 1)
    }

    /// Bytes of all messages between different hosts.
    pub(crate) fn bytes(&self) -> u64 {
        let sent = |rank: &u32| {
            let schedule = &self.calls[*rank as usize].schedule;
            let elsewhere = |to: u32| self.host(to) != self.host(*rank);
            schedule
                .sent()
                .filter(|sent| elsewhere(sent.0))
                .map(|sent| u64::from(sent.1))
                .sum::<u64>()
        };
        let each: u64 = (0..self.group.ranks()).map(|rank| sent(&rank)).sum();
        each * u64::from(self.group.rounds)
    }
}

/// Plans the call of a rank as a live rank does whose input is the part of the output to which it
/// corresponds.
fn plan(group: &Group, rank: u32) -> Planned {
    let ranks = group.ranks();
    let (call, algorithm): (Call, Algorithm) = group.collective.call(rank, ranks, group.bytes);
    let shape = Shape {
        rank,
        ranks,
        slot_bytes: group.means.message_bytes(&call, ranks),
        slots: group.means.slots,
        is_in_place: true,
        hosts: &group.hosts,
    };
    let schedule = Schedule::new(&call, algorithm, &shape);
    let mut peers: Vec<u32> = schedule.sent().map(|sent| sent.0).collect();
    let all: Range<u32> = 0..ranks;
    peers.extend(all.filter(|from| !schedule.arrivals(*from).is_empty()));
    peers.sort_unstable();
    peers.dedup();
    let protocol = group.means.protocol(&call);
    Planned { call, schedule: Arc::new(schedule), protocol, peers }
}
