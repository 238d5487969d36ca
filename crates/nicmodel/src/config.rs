//! The configuration of a run.

mod operations;

pub(crate) use operations::UB_MTU;

use crate::constants::{Constants, MOST};
use crate::error::ConfigError;

/// Largest latency of the wire, in nanoseconds: a second, as for the constants that are times.
const LINK_NS_MAX: f64 = 1e9;
/// Largest factor of the random excess of a time.
const JITTER_MAX: f64 = 1000.0;
/// Largest exponent of a Zipf distribution. With it, nearly every draw is the most popular.
const EXPONENT_MAX: f64 = 16.0;

/// How a host is attached, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stack {
    /// UB: loads and stores bypass the transport; everything else as `UbUrma`.
    UbLdst,
    /// UB: work requests; the NIC is on the chip.
    UbUrma,
    /// RoCEv2 RC over PCIe; small work requests are written with the doorbell.
    RoceBf,
    /// RoCEv2 RC over PCIe; work requests are fetched by DMA.
    RoceDma,
    /// As `RoceDma`; WRITEs are placed out of order and retransmitted selectively.
    RoceIrn,
    /// Paging over `RoceDma`, one page at a time.
    Infiniswap,
    /// Paging over `RoceDma` with a faster fault path and readahead.
    Fastswap,
    /// Loads and stores over a coherent fabric with a directory, for comparison.
    Coherent,
}

impl Stack {
    /// All stacks.
    pub const ALL: [Stack; 8] = [
        Stack::UbLdst,
        Stack::UbUrma,
        Stack::RoceBf,
        Stack::RoceDma,
        Stack::RoceIrn,
        Stack::Infiniswap,
        Stack::Fastswap,
        Stack::Coherent,
    ];

    /// Name of the stack on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Stack::UbLdst => "ub-ldst",
            Stack::UbUrma => "ub-urma",
            Stack::RoceBf => "roce-bf",
            Stack::RoceDma => "roce-dma",
            Stack::RoceIrn => "roce-irn",
            Stack::Infiniswap => "infiniswap",
            Stack::Fastswap => "fastswap",
            Stack::Coherent => "coherent",
        }
    }

    /// True for UB, whose NIC is on the host's own bus.
    pub const fn is_ub(self) -> bool {
        matches!(self, Stack::UbLdst | Stack::UbUrma)
    }

    /// True if the controller is on the host's own bus.
    pub const fn is_on_chip(self) -> bool {
        self.is_ub() || matches!(self, Stack::Coherent)
    }

    /// True if CPUs access remote memory by instructions, or by paging, which looks the same.
    pub const fn has_instructions(self) -> bool {
        matches!(self, Stack::UbLdst | Stack::Coherent) || self.swaps()
    }

    /// True for a paging stack.
    pub const fn swaps(self) -> bool {
        matches!(self, Stack::Infiniswap | Stack::Fastswap)
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Copies from the target.
    Read,
    /// Copies to the target.
    Write,
    /// Copies to the target's next receive.
    Send,
    /// Loads by an instruction of the CPU (`ub-ldst`, and the paging stacks); elsewhere a READ.
    Load,
    /// Stores by an instruction of the CPU, likewise; elsewhere a WRITE.
    Store,
    /// Adds to a word of 8 bytes.
    FetchAdd,
    /// Changes a word of 8 bytes if it has the expected value.
    CompareSwap,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Verb; 7] = [
        Verb::Read,
        Verb::Write,
        Verb::Send,
        Verb::Load,
        Verb::Store,
        Verb::FetchAdd,
        Verb::CompareSwap,
    ];

    /// Name of the verb on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Send => "send",
            Verb::Load => "load",
            Verb::Store => "store",
            Verb::FetchAdd => "fadd",
            Verb::CompareSwap => "cas",
        }
    }

    /// True if the request carries payload.
    pub const fn is_outgoing(self) -> bool {
        matches!(self, Verb::Write | Verb::Send | Verb::Store)
    }

    /// True if the response carries payload.
    pub const fn is_incoming(self) -> bool {
        matches!(self, Verb::Read | Verb::Load)
    }

    /// True for an atomic.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Verb::FetchAdd | Verb::CompareSwap)
    }
}

/// How the CPU caches remote memory (`ub-ldst` only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CachePolicy {
    /// Not at all.
    #[default]
    Uncached,
    /// Lines are cached; stores go through to the target.
    WriteThrough,
    /// Lines are cached; stores stay in the cache until the line is evicted.
    WriteBack,
}

/// How the host detects completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notice {
    /// By polling.
    #[default]
    Poll,
    /// By polling with a system call.
    Call,
    /// By interrupt and wake-up.
    Interrupt,
}

/// The order that operations request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ordering {
    /// No order.
    #[default]
    None,
    /// Strict, ordered by the initiator (ROI, SO).
    Roi,
    /// Strict, ordered by the target (ROT, SO).
    Rot,
    /// Strict, ordered by the lower layer (ROL, SO).
    Rol,
    /// Each operation waits for all earlier READs and atomics.
    Fence,
    /// Unreliable (UNO): WRITE and SEND of one packet.
    Uno,
}

impl Ordering {
    /// All orders.
    pub const ALL: [Ordering; 6] = [
        Ordering::None,
        Ordering::Roi,
        Ordering::Rot,
        Ordering::Rol,
        Ordering::Fence,
        Ordering::Uno,
    ];

    /// Name of the order on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Ordering::None => "none",
            Ordering::Roi => "roi",
            Ordering::Rot => "rot",
            Ordering::Rol => "rol",
            Ordering::Fence => "fence",
            Ordering::Uno => "uno",
        }
    }
}

/// What chooses the member of a service that receives a SEND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatching {
    /// The sender: every member has an endpoint of its own.
    #[default]
    Direct,
    /// A dispatcher at the target, which occupies a core.
    Cpu,
    /// A Jetty group: by the hint in the message.
    Hint,
    /// A Jetty group: each member in turn.
    Turn,
    /// A Jetty group: the member with the fewest messages to handle.
    Depth,
}

/// Kinds of packet that `loss` applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lossy {
    /// Requests, with their payload.
    pub requests: bool,
    /// Responses.
    pub responses: bool,
    /// Acknowledgements and refusals.
    pub acknowledgements: bool,
}

impl Default for Lossy {
    fn default() -> Self {
        Lossy { requests: true, responses: true, acknowledgements: true }
    }
}

/// The source of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkloadKind {
    /// Accesses in address order; with many hosts, each accesses all others.
    Bulk,
    /// As `Bulk`, but all hosts access host 1.
    Incast,
    /// Breadth-first search in a graph with as many vertices as keys.
    Search,
    /// Lookups in a hash table with as many buckets as keys.
    Probe,
    /// Each address is contained in the bytes that the previous operation returned.
    PointerChase,
    /// Contenders for one lock, which change the protected data and release the lock.
    CasLock,
    /// Participants that wait for each other at a barrier.
    Barrier,
    /// YCSB; the letter is A to F.
    Ycsb(char),
    /// Reads of lines with Zipf popularity.
    Zipf,
    /// SENDs to a service with as many members as there are remote Jetties.
    Fanout {
        /// What chooses the member.
        dispatch: Dispatching,
        /// True if the target's endpoints share their receives.
        shared: bool,
    },
    /// Every Jetty's application sets up access to every connection's host.
    Setup,
    /// One host changes lines and all others read them: each reader a fixed number of times per
    /// change.
    Share {
        /// Reads of each reader per change.
        reads: u32,
        /// True if all accesses reach the newest version (stores go to the target, and reads bypass
        /// caches). A coherent fabric pays for that in any case.
        fenced: bool,
    },
    /// Accesses every line in turn; if `dirty`, every tenth line is stored to.
    Scan {
        /// True if some lines are modified.
        dirty: bool,
    },
}

/// Features that can be switched off one at a time, so that their effect is run and not estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ablations {
    /// One transport context per pair of endpoints instead of Jetties and channels (`--without
    /// split`).
    pub split: bool,
    /// The UB NIC is behind PCIe (`--without bus`).
    pub bus: bool,
    /// Every operation is strictly ordered (`--without unordered`).
    pub unordered: bool,
}

/// Configuration of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The stack.
    pub stack: Stack,
    /// The workload.
    pub workload: WorkloadKind,
    /// The verb, for workloads that do not determine it.
    pub verb: Verb,
    /// Bytes per operation.
    pub payload: u32,
    /// One-way latency of the wire, in ns.
    pub link_ns: f64,
    /// Operations in flight per initiating host (contenders, participants, chains).
    pub concurrency: u32,
    /// Work requests that may share a doorbell.
    pub batch: u32,
    /// Number of hosts: with two, the first initiates; with more, all initiate, to all others.
    pub hosts: u32,
    /// Endpoints per host.
    pub jetties: u32,
    /// Remote nodes per host (represented by channels and queue pairs of their own).
    pub connections: u32,
    /// Endpoints at the target among which SENDs are distributed.
    pub remote_jetties: u32,
    /// Choice of the endpoints: in turn, or with Zipf popularity of this exponent.
    pub popularity: Option<f64>,
    /// Ordering that operations request.
    pub order: Ordering,
    /// Share of operations that request it, in percent.
    pub order_percent: u32,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Kinds of packet that can be lost.
    pub lossy: Lossy,
    /// Exponentially distributed excess on wire and DMA, as a factor of each time.
    pub jitter: f64,
    /// Maximum random delay of a packet, in transmission times of a full packet, as caused by paths
    /// of different length. Later packets can overtake it.
    pub reorder: u32,
    /// How the CPU caches.
    pub cache: CachePolicy,
    /// Share of hops of the pointer chase that stay within 32 lines, in percent.
    pub locality: u32,
    /// Working set of the workloads that have one: lines, keys or pages' worth of lines.
    pub keys: u64,
    /// Zipf's exponent.
    pub skew: f64,
    /// How completions are detected.
    pub notice: Notice,
    /// Open loop: mean operations per microsecond of all initiators together; `None` for a closed
    /// loop. Workloads whose next operation depends on an answer have a closed loop only.
    pub rate_mops: Option<f64>,
    /// Total number of operations.
    pub ops: u64,
    /// Bytes of payload of a packet.
    pub mtu: u32,
    /// The policies of UB channels and the scheduler of the NICs, as in `fairway perf --policy`.
    /// RoCE uses the scheduler and `cc=dcqcn` without parameters or `cc=fixed`; without `cc` in the
    /// text its window is the default's. A coherent fabric has the default only.
    pub policy: String,
    /// Features that are switched off.
    pub without: Ablations,
    /// Uses the published constants; nothing is ever occupied, and messages are stored and
    /// forwarded whole.
    pub oracle: bool,
    /// Seed of all random draws.
    pub seed: u64,
    /// The constants.
    pub constants: Constants,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            stack: Stack::UbUrma,
            workload: WorkloadKind::Bulk,
            verb: Verb::Read,
            payload: 64,
            link_ns: 100.0,
            concurrency: 1,
            batch: 1,
            hosts: 2,
            jetties: 1,
            connections: 1,
            remote_jetties: 1,
            popularity: None,
            order: Ordering::None,
            order_percent: 100,
            loss: 0.0,
            lossy: Lossy::default(),
            jitter: 0.0,
            reorder: 0,
            cache: CachePolicy::Uncached,
            locality: 0,
            keys: 10_000,
            skew: 0.99,
            notice: Notice::Poll,
            rate_mops: None,
            ops: 1000,
            mtu: 4096,
            policy: String::from(operations::USUAL_POLICY),
            without: Ablations::default(),
            oracle: false,
            seed: 1,
            constants: Constants::default(),
        }
    }
}

impl Config {
    /// Checks that the configuration can be run.
    ///
    /// # Errors
    /// Names the option that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let within = |name: &'static str, value: u64, low: u64, high: u64| {
            let fits = (low..=high).contains(&value);
            fits.then_some(()).ok_or(ConfigError::Range { name, value, low, high })
        };
        within("payload", self.payload.into(), 1, 1 << 20)?;
        within("concurrency", self.concurrency.into(), 1, 4096)?;
        within("batch", self.batch.into(), 1, 256)?;
        within("hosts", self.hosts.into(), 2, 160)?;
        within("ops", self.ops, 1, 100_000_000)?;
        let shares = matches!(self.workload, WorkloadKind::Share { .. });
        within("keys", self.keys, if shares { 1 } else { 32 }, 1 << 21)?;
        within("locality", self.locality.into(), 0, 100)?;
        within("reorder", self.reorder.into(), 0, 4096)?;
        within("order percent", self.order_percent.into(), 0, 100)?;
        if let WorkloadKind::Share { reads, .. } = self.workload {
            within("reads", reads.into(), 1, 1 << 20)?;
        }
        self.check_numbers()?;
        if self.reorder > 0 && (self.oracle || self.stack == Stack::Coherent) {
            return Err(ConfigError::Reorder);
        }
        self.constants.check()?;
        self.check_ports()?;
        if !self.oracle {
            within("jetties", self.jetties.into(), 1, 4096)?;
            within("connections", self.connections.into(), 1, 4096)?;
            within("remote jetties", self.remote_jetties.into(), 1, 1024)?;
            let pairs = u64::from(self.jetties) * u64::from(self.connections);
            let pairs = pairs * u64::from(self.remote_jetties) * u64::from(self.hosts - 1);
            let makes_pairs = !self.stack.is_ub() || self.without.split;
            if makes_pairs && self.workload != WorkloadKind::Setup {
                within("queue pairs", pairs, 1, 32_768)?;
            }
        }
        let by_instruction = matches!(self.verb, Verb::Load | Verb::Store);
        if self.stack == Stack::UbLdst && by_instruction && self.payload > 64 && !self.oracle {
            return Err(ConfigError::LongLoad(self.payload));
        }
        if self.workload == WorkloadKind::Ycsb('E') && self.cache != CachePolicy::Uncached {
            return Err(ConfigError::CachedRanges);
        }
        if !(0.0..1.0).contains(&self.loss) {
            return Err(ConfigError::Loss(self.loss));
        }
        if self.stack == Stack::Coherent && self.lossy != Lossy::default() {
            return Err(ConfigError::CoherentLosses);
        }
        if !self.stack.is_ub() && self.order != Ordering::None {
            return Err(ConfigError::RoceOrder);
        }
        if self.batch > 1 && (self.oracle || self.stack.swaps()) {
            return Err(ConfigError::Batch);
        }
        self.check_policies()?;
        self.check_caches()?;
        self.check_fanout()?;
        self.check_operations()?;
        if self.workload == WorkloadKind::Setup {
            check_setup(self)?;
        }
        if self.stack.swaps() && self.hosts > 2 {
            return Err(ConfigError::PagingHosts(self.hosts));
        }
        if self.stack.swaps() && !(self.verb.is_incoming() || self.verb == Verb::Store) {
            return Err(ConfigError::PagingVerb);
        }
        Ok(())
    }

    /// Checks that the buffer of a switch's port has room for a packet, if there is a switch.
    fn check_ports(&self) -> Result<(), ConfigError> {
        if self.hosts == 2 || self.oracle || self.stack == Stack::Coherent {
            return Ok(());
        }
        let is_bulk = matches!(self.workload, WorkloadKind::Bulk | WorkloadKind::Incast);
        let packet = if is_bulk { self.payload.min(self.mtu).max(1) } else { 1 };
        let (value, low) = (self.constants.port_kbytes, f64::from(packet) / 1000.0);
        let name = "port_kbytes";
        let fits = value >= low;
        fits.then_some(()).ok_or(ConfigError::Constant { name, value, low, high: MOST })
    }

    /// Checks the options that are no integers.
    fn check_numbers(&self) -> Result<(), ConfigError> {
        let numbers = [
            ("link ns", self.link_ns, LINK_NS_MAX),
            ("jitter", self.jitter, JITTER_MAX),
            ("popularity", self.popularity.unwrap_or_default(), EXPONENT_MAX),
            ("skew", self.skew, EXPONENT_MAX),
        ];
        for (name, value, high) in numbers {
            // No range has what is no number.
            if !(0.0..=high).contains(&value) {
                return Err(ConfigError::Number { name, value, high });
            }
        }
        Ok(())
    }

    fn check_fanout(&self) -> Result<(), ConfigError> {
        let Some(fanout) = self.fanout() else { return Ok(()) };
        let group = !matches!(fanout.dispatch, Dispatching::Direct | Dispatching::Cpu);
        if self.verb != Verb::Send || self.oracle {
            return Err(ConfigError::FanoutVerb);
        }
        if self.stack.swaps() || self.stack == Stack::Coherent {
            return Err(ConfigError::FanoutStack);
        }
        if group && !self.stack.is_ub() {
            return Err(ConfigError::RoceGroup);
        }
        if group && fanout.members > 32 {
            return Err(ConfigError::GroupMembers(fanout.members));
        }
        Ok(())
    }

    /// True if all hosts access all others, and not only host 1.
    pub(crate) fn is_mesh(&self) -> bool {
        self.workload == WorkloadKind::Bulk && self.hosts > 2
    }

    /// True if every access reaches the newest version past the caches of its own host.
    pub(crate) fn flushes(&self) -> bool {
        let fenced = matches!(self.workload, WorkloadKind::Share { fenced: true, .. });
        fenced && self.cache != CachePolicy::Uncached
    }

    /// Number of hosts that a host is connected to.
    pub(crate) fn peers_of(&self, host: usize) -> u32 {
        if self.is_mesh() || host == 1 { self.hosts - 1 } else { 1 }
    }

    fn check_caches(&self) -> Result<(), ConfigError> {
        let shares = matches!(self.workload, WorkloadKind::Share { .. });
        if shares && self.hosts < 3 {
            return Err(ConfigError::ShareHosts);
        }
        if self.stack == Stack::Coherent {
            if self.oracle || self.without != Ablations::default() {
                return Err(ConfigError::CoherentOracle);
            }
            let bulk = self.workload == WorkloadKind::Bulk && self.hosts > 2;
            if self.payload > 64 || self.workload == WorkloadKind::Ycsb('E') || bulk {
                return Err(ConfigError::CoherentLines);
            }
            if self.verb == Verb::Send {
                return Err(ConfigError::CoherentSend);
            }
            return Ok(());
        }
        if self.cache == CachePolicy::Uncached {
            return Ok(());
        }
        if self.stack != Stack::UbLdst {
            return Err(ConfigError::NoCache);
        }
        let reads_only = matches!(
            self.workload,
            WorkloadKind::Zipf | WorkloadKind::Scan { dirty: false } | WorkloadKind::PointerChase
        );
        if self.hosts > 2 && !(shares || reads_only) {
            return Err(ConfigError::Incoherent);
        }
        Ok(())
    }
}

/// Checks that connections of this stack can be set up in this number.
fn check_setup(config: &Config) -> Result<(), ConfigError> {
    if matches!(config.stack, Stack::Coherent) {
        return Err(ConfigError::CoherentSetup);
    }
    let pairs = u64::from(config.jetties) * u64::from(config.connections);
    let most = if config.oracle { 1 << 24 } else { 1 << 20 };
    if pairs > most {
        return Err(ConfigError::SetupPairs { pairs, most });
    }
    Ok(())
}
