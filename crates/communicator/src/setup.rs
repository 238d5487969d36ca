//! Connects all ranks of a group to each other.

use crate::driver::Parts;
use crate::error::{Error, Failure};
use crate::lending::{Seal, SealKey};
use crate::member::{Choices, Member};
use crate::near;
use crate::options::Options;
use crate::rendezvous::{self, Rendezvous};
use crate::status::Status;
use crate::watch::{LOOK, Watch};
use fairway::{
    ChannelId, Completion, Context, Jetty, JettyOptions, Memory, NotifyTarget, Peer, RemoteMemory,
    Rights, Segment, SegmentKey, To,
};
use fairway_collectives::{EAGER, Schedule};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// Lowest bits of the immediate data by which a rank introduces itself: no header has them. The
/// number of the rank follows from bit 8 on.
const HELLO: u64 = 7;

/// Bits of the second message of a rank, after it has connected to all others: whether it can read
/// the memory of all.
const READY: u64 = 1 << 48;
const READS_ALL: u64 = 1 << 49;

/// How a rank is gone that has left by itself.
pub(crate) const CLOSED: &str = "it has closed the connection";

/// Maximum number of ranks of a group.
const RANKS_MAX: u32 = 4096;

/// A rank whose host refuses packets to its address for this time has ended.
const REFUSED: Duration = Duration::from_secs(1);

/// Another rank.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    /// Its Jetty.
    pub(crate) to: To,
    /// Its slots.
    pub(crate) slots: SegmentKey,
    /// Descriptions of its calls.
    pub(crate) status: SegmentKey,
    /// Its slots, if they are mapped into this process.
    pub(crate) near: Option<RemoteMemory>,
    /// By which this rank reads what the other one lends, if it can.
    pub(crate) seal: Option<SealKey>,
}

/// All other ranks.
pub(crate) struct Connections {
    all: Vec<Option<Connection>>,
    by_channel: HashMap<ChannelId, u32>,
    gone: Vec<Option<&'static str>>,
}

impl Connections {
    /// Number of ranks, this one included.
    pub(crate) fn ranks(&self) -> u32 {
        self.all.len() as u32
    }

    /// The connection to a rank; `None` for this rank's own number.
    pub(crate) fn get(&self, rank: u32) -> Option<&Connection> {
        self.all.get(rank as usize)?.as_ref()
    }

    /// As [`Connections::get`], to be changed.
    pub(crate) fn get_mut(&mut self, rank: u32) -> Option<&mut Connection> {
        self.all.get_mut(rank as usize)?.as_mut()
    }

    pub(crate) fn rank_of(&self, channel: ChannelId) -> Option<u32> {
        self.by_channel.get(&channel).copied()
    }

    pub(crate) fn rank_at(&self, address: std::net::SocketAddr) -> Option<u32> {
        let is_there = |connection: &Option<Connection>| {
            connection.as_ref().is_some_and(|connection| connection.peer.address() == address)
        };
        self.all.iter().position(is_there).map(|rank| rank as u32)
    }

    /// Records that a rank is gone. That it has closed its connection says the most.
    pub(crate) fn set_gone(&mut self, rank: u32, how: &'static str) {
        let known = &mut self.gone[rank as usize];
        if known.is_none() || how == CLOSED {
            *known = Some(how);
        }
    }

    /// True if a rank has left by itself.
    pub(crate) fn has_closed(&self, rank: u32) -> bool {
        self.gone(rank) == Some(CLOSED)
    }

    /// How this rank found out that another one is gone, if it is.
    pub(crate) fn gone(&self, rank: u32) -> Option<&'static str> {
        self.gone[rank as usize]
    }
}

/// Length up to which messages to a rank stay on one path, in bytes: those of headers and keys.
/// The messages of a call are often its pieces, and one path may be slow, or be shared with others.
const SMALL: u32 = 1024;

/// What set-up makes: the parts of the driver, the messages that have already arrived, and the host
/// of each rank, by numbers from 0.
pub(crate) struct Group {
    pub(crate) parts: Parts,
    pub(crate) early: Vec<Completion>,
    pub(crate) hosts: Vec<u32>,
    /// True if all ranks can read the memory of each other.
    pub(crate) are_readers: bool,
}

/// Meets the other ranks at the rendezvous, and connects to all of them.
pub(crate) fn connect(
    rank: u32,
    ranks: u32,
    rendezvous: &mut dyn Rendezvous,
    options: Options,
) -> Result<Group, Error> {
    check(rank, ranks, &options)?;
    let deadline = rendezvous::deadline(options.setup_timeout);
    // A group's ranks stay connected, however long they are idle, and all may be on one host.
    let context = options.context.clone().evict_idle(None).room_for_peers(ranks);
    // A rank passes a message on when it is complete, so messages to one rank must not share the
    // rate and all be complete at the end.
    let context = context.message_turn(options.slot_bytes);
    let context = context.small_messages(SMALL);
    let context = context.peer_timeout(options.silence_max()).build()?;
    let address = context.local_addrs().first().copied();
    let address = address.filter(|address| !address.ip().is_unspecified()).ok_or_else(|| {
        Error::Option(
            "the context is bound to all addresses: \
             bind it to the one at which the other ranks can reach it"
                .to_string(),
        )
    })?;
    let token = RandomState::new().build_hasher().finish() as u32 | 1;
    let receives = options.means().receives(ranks);
    let jetty_options = JettyOptions::default().depth(2 * receives + 64).token(token);
    let jetty = context.create_jetty(jetty_options)?;
    let slots = context.register(near::slots(ranks, &options, &context)?, Rights::WRITE)?;
    let eager_bytes = ranks as usize * options.slots as usize * EAGER as usize;
    let eager = context.register(zeroed(eager_bytes)?, Rights::NONE)?;
    let status = Status::new(&context)?;
    for _ in 0..receives {
        jetty.post_receive(slots.slice(0..0), u64::MAX)?;
    }
    let seal = Seal::new(RandomState::new().build_hasher().finish());
    let own = Member {
        address,
        host: namespace_number("net"),
        processes: namespace_number("pid"),
        jetty: jetty.number(),
        token,
        slots: slots.key(),
        status: status.segment().key(),
        choices: Choices::of(&options),
        seal: seal.key(),
    };
    let members = meet(&own, (rank, ranks), rendezvous, &options)?;
    let watch = Watch::new(&own, &members);
    let means = (&context, &jetty, &slots);
    let mut arrivals = Arrivals::new(rank, members.len(), watch);
    let mut connections = mesh(rank, &members, means, (&mut arrivals, deadline))?;
    near::map(&mut connections, rank, &members, &options, &context);
    let are_readers = agree_to_read(&connections, (&jetty, &slots), &mut arrivals, deadline)?;
    let Arrivals { early, watch, .. } = arrivals;
    let mut different: Vec<u64> = members.iter().map(|member| member.host).collect();
    different.sort_unstable();
    different.dedup();
    let host = |member: &Member| different.binary_search(&member.host).unwrap_or(0) as u32;
    let hosts = members.iter().map(host).collect();
    let own = rank;
    let parts =
        Parts { context, jetty, own, connections, slots, eager, status, seal, options, watch };
    Ok(Group { parts, early, hosts, are_readers })
}

fn check(rank: u32, ranks: u32, options: &Options) -> Result<(), Error> {
    let slots = Schedule::SLOTS_MIN..=Schedule::SLOTS_MAX;
    let wrong = |text: String| Err(Error::Option(text));
    if ranks > RANKS_MAX {
        return wrong(format!("{ranks} ranks: a group has {RANKS_MAX} at most"));
    }
    if rank >= ranks {
        return wrong(format!("there is no rank {rank} of {ranks}: ranks count from 0"));
    }
    if !slots.contains(&options.slots) {
        let (min, max) = (slots.start(), slots.end());
        return wrong(format!("{} slots: choose from {min} to {max}", options.slots));
    }
    let bytes = options.slot_bytes;
    if bytes < 4096 || !bytes.is_multiple_of(8) {
        return wrong(format!("slots of {bytes} bytes: choose a multiple of 8 from 4096 on"));
    }
    Ok(())
}

/// Exchanges the records of all ranks.
fn meet(
    own: &Member,
    (rank, ranks): (u32, u32),
    rendezvous: &mut dyn Rendezvous,
    options: &Options,
) -> Result<Vec<Member>, Error> {
    let records = rendezvous.exchange(&own.to_bytes(), options.setup_timeout)?;
    let members: Option<Vec<_>> = records.iter().map(|bytes| Member::from_bytes(bytes)).collect();
    let members = members.filter(|members| members.len() == ranks as usize).ok_or_else(|| {
        Error::Rendezvous(
            "the ranks do not understand each other: run the same version at all of them"
                .to_string(),
        )
    })?;
    let differ = |member: &Member| own.choices.first_difference(&member.choices);
    let different = (0..).zip(&members).find_map(|(at, member)| Some((at, differ(member)?)));
    match different {
        Some((other, [mine, theirs])) => Err(Error::Option(format!(
            "ranks disagree: rank {other} has {theirs}, but rank {rank} has {mine}; \
             choose the same options at all ranks"
        ))),
        None => Ok(members),
    }
}

/// Messages of other ranks during set-up.
struct Arrivals {
    own: u32,
    peers: Vec<Option<Peer>>,
    /// For each rank that has connected to all others: whether it can read the memory of all.
    ready: Vec<Option<bool>>,
    /// Messages of calls that others have begun already.
    early: Vec<Completion>,
    watch: Watch,
}

impl Arrivals {
    fn new(own: u32, ranks: usize, watch: Watch) -> Arrivals {
        let (peers, ready) = (vec![None; ranks], vec![None; ranks]);
        Arrivals { own, peers, ready, early: Vec::new(), watch }
    }

    /// Fails if the process of another rank on this host has ended.
    fn check_processes(&mut self) -> Result<(), Error> {
        match self.watch.poll_ended(Instant::now()).first() {
            Some(rank) => Err(died(*rank, "its process has ended")),
            None => Ok(()),
        }
    }

    /// Receives messages until `is_there` is true for all other ranks.
    fn wait(
        &mut self,
        (jetty, slots): (&Jetty, &Segment),
        is_there: impl Fn(&Arrivals, usize) -> bool,
        deadline: Instant,
    ) -> Result<(), Error> {
        let own = self.own as usize;
        let others: Vec<_> = (0..self.peers.len()).filter(|rank| *rank != own).collect();
        loop {
            let missing = others.iter().filter(|rank| !is_there(self, **rank));
            let missing: Vec<_> = missing.map(usize::to_string).collect();
            if missing.is_empty() {
                return Ok(());
            }
            self.check_processes()?;
            let completion = match jetty.wait(left(deadline).min(LOOK)) {
                Ok(completion) => completion,
                Err(fairway::Error::Timeout { .. }) if Instant::now() < deadline => continue,
                Err(fairway::Error::Timeout { .. }) => {
                    return Err(Error::Rendezvous(format!(
                        "ranks {} did not connect in time: \
                         check that UDP packets between the hosts arrive",
                        missing.join(", ")
                    )));
                }
                Err(error) => return Err(error.into()),
            };
            let done = completion.result().map_err(fairway::Error::from)?;
            match done.immediate {
                Some(bits) if bits & 7 == HELLO => {
                    jetty.post_receive(slots.slice(0..0), u64::MAX)?;
                    self.take(bits, jetty.peer_of(&done));
                }
                Some(_) => self.early.push(done),
                None => {}
            }
        }
    }

    /// Takes a message of set-up.
    fn take(&mut self, bits: u64, peer: Option<Peer>) {
        let rank = (bits >> 8) as u32 as usize;
        if rank >= self.peers.len() {
            return;
        }
        if bits & READY != 0 {
            self.ready[rank] = Some(bits & READS_ALL != 0);
        } else {
            self.peers[rank] = peer;
        }
    }
}

/// Connects to a rank, which has listened at its address since before it told that address.
fn reach(
    rank: u32,
    member: &Member,
    context: &Context,
    (arrivals, deadline): (&mut Arrivals, Instant),
) -> Result<Peer, Error> {
    let mut refused = None;
    loop {
        arrivals.check_processes()?;
        match context.connect(member.address, left(deadline)) {
            Err(fairway::Error::NoListener { .. }) => {
                let since: &mut Instant = refused.get_or_insert_with(Instant::now);
                if since.elapsed() >= REFUSED || Instant::now() >= deadline {
                    return Err(died(rank, "no program listens at its address any more"));
                }
                std::thread::sleep(LOOK);
            }
            connected => return Ok(connected?),
        }
    }
}

fn died(rank: u32, how: &str) -> Error {
    Error::Failed(Failure::Died { rank, how: how.to_string() })
}

/// Connects to the ranks below, and waits for those above, which introduce themselves.
fn mesh(
    rank: u32,
    members: &[Member],
    (context, jetty, slots): (&Context, &Jetty, &Segment),
    (arrivals, deadline): (&mut Arrivals, Instant),
) -> Result<Connections, Error> {
    for (below, member) in members.iter().enumerate().take(rank as usize) {
        let peer = reach(below as u32, member, context, (arrivals, deadline))?;
        let hello = HELLO | u64::from(rank) << 8;
        let notify = NotifyTarget::new(To::new(member.jetty).token(member.token), hello);
        jetty.send_immediate(&peer, notify, slots.slice(0..0), u64::MAX)?;
        arrivals.peers[below] = Some(peer);
    }
    let is_connected = |arrivals: &Arrivals, rank: usize| arrivals.peers[rank].is_some();
    arrivals.wait((jetty, slots), is_connected, deadline)?;
    let mut connections = Connections {
        all: Vec::new(),
        by_channel: HashMap::new(),
        gone: vec![None; members.len()],
    };
    for (at, (peer, member)) in arrivals.peers.iter().zip(members).enumerate() {
        if let Some(peer) = peer {
            connections.by_channel.insert(peer.channel(), at as u32);
        }
        let to = To::new(member.jetty).token(member.token);
        let (slots, status) = (member.slots, member.status);
        let connection = |peer| Connection { peer, to, slots, status, near: None, seal: None };
        connections.all.push(peer.clone().map(connection));
    }
    Ok(connections)
}

/// Finds out whether all ranks can read the memory of each other, and share slots. All find the
/// same. Afterwards the slots of this rank say what the others can do.
fn agree_to_read(
    connections: &Connections,
    (jetty, slots): (&Jetty, &Segment),
    arrivals: &mut Arrivals,
    deadline: Instant,
) -> Result<bool, Error> {
    let others = || connections.all.iter().flatten();
    let reads_all = others().all(|other| other.near.is_some() && other.seal.is_some());
    let reads = if reads_all { READS_ALL } else { 0 };
    let ready = HELLO | u64::from(arrivals.own) << 8 | READY | reads;
    for other in others() {
        let notify = NotifyTarget::new(other.to, ready);
        jetty.send_immediate(&other.peer, notify, slots.slice(0..0), u64::MAX)?;
    }
    let is_ready = |arrivals: &Arrivals, rank: usize| arrivals.ready[rank].is_some();
    arrivals.wait((jetty, slots), is_ready, deadline)?;
    Ok(reads_all && arrivals.ready.iter().flatten().all(|reads| *reads))
}

fn zeroed(bytes: usize) -> Result<Memory, Error> {
    Ok(Memory::zeroed(bytes).map_err(fairway::Error::from)?)
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// A number of this host and one of its namespaces: equal for processes that share both.
fn namespace_number(kind: &str) -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
    let bytes = boot.iter().chain(network.as_os_str().as_encoded_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}
