//! Errors of configurations and runs. Each message names the value, what is allowed, and what to
//! do.

use crate::config::Verb;
use fairway_roce::{self as roce, ChangeError, cm};
use fairway_ub::policy::PolicyError;
use fairway_ub::setup::Outcome;
use fairway_ub::{PostError, SetupError, Status};
use thiserror::Error;

/// Why a configuration cannot be run.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An option is out of range.
    #[error("{name} is {value}: {low} to {high} is possible")]
    Range {
        /// The option.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The lowest allowed value.
        low: u64,
        /// The highest allowed value.
        high: u64,
    },
    /// An option that is no integer is out of range, or not a number.
    #[error("{name} is {value}: a number from 0 to {high} is possible")]
    Number {
        /// The option.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The highest allowed value.
        high: f64,
    },
    /// The probability of a loss is not a probability.
    #[error("loss is {0}: at least 0 and less than 1 is wanted")]
    Loss(f64),
    /// The value of a constant is outside the allowed range.
    #[error("{name}={value}: {low} to {high} is possible")]
    Constant {
        /// The constant.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The lowest allowed value.
        low: f64,
        /// The highest allowed value.
        high: f64,
    },
    /// A constant is so large that the clock could not hold the sum of many.
    #[error("{name}={value}: at most {most} {unit} is possible")]
    ConstantUnit {
        /// The constant.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The highest allowed value.
        most: f64,
        /// The unit of both.
        unit: &'static str,
    },
    /// A constant is negative, or not a number.
    #[error("{name}={value}: a number of at least 0 is wanted")]
    ConstantNegative {
        /// The constant.
        name: String,
        /// The value that was given.
        value: f64,
    },
    /// A constant exceeds the maximum of all constants.
    #[error("{name}={value}: at most {most} is possible")]
    ConstantMost {
        /// The constant.
        name: String,
        /// The value that was given.
        value: f64,
        /// The highest allowed value.
        most: f64,
    },
    /// No constant has this name.
    #[error("{0}: no such constant (see --constants)")]
    UnknownConstant(String),
    /// The window of RoCE with selective retransmission is not a power of two.
    #[error("irn_window={0}: a power of two up to 65536 is wanted")]
    Window(u32),
    /// RoCE allows five packet lengths, and this is none of them.
    #[error("an MTU of {0}: RoCE has 256, 512, 1024, 2048 and 4096")]
    Mtu(u32),
    /// The policies are invalid.
    #[error("policy: {0}")]
    Policy(#[from] PolicyError),
    /// RoCE NICs do not support these policies.
    #[error(
        "--policy {0}: NICs of RoCE have cc=dcqcn, without parameters, or cc=fixed:BYTES, which is \
         a window and no rates, and schedulers: leave the others out, or take a UB stack"
    )]
    RocePolicy(String),
    /// A coherent fabric has no policies.
    #[error("--policy {0}: a coherent fabric has no policies: leave it out")]
    CoherentPolicy(String),
    /// Packets are reordered on a stack that does not recover from it.
    #[error("reorder is for stacks that recover, and no part of the oracle: leave it out")]
    Reorder,
    /// A load or store is longer than a cache line.
    #[error("a load or store has at most 64 bytes, not {0}: take read or write")]
    LongLoad(u32),
    /// YCSB E is combined with a cache.
    #[error("YCSB E reads ranges past the CPU's caches: take --cache uc")]
    CachedRanges,
    /// Losses of one kind of packet are requested on a coherent fabric.
    #[error("a coherent fabric's link loses whatever comes: leave --loss-of out")]
    CoherentLosses,
    /// An order of operations is requested on a RoCE stack.
    #[error("order is UB's: a RoCE queue pair is always strict")]
    RoceOrder,
    /// An order of loads and stores is requested, which UB does not have.
    #[error(
        "--order {0}: loads and stores of ub-ldst are not ordered: take --order none, or --stack \
         ub-urma, whose operations can be"
    )]
    OrderedLoad(&'static str),
    /// The ablation that orders all operations is requested for loads and stores.
    #[error(
        "--without unordered: loads and stores of ub-ldst are not ordered: leave it out, or take \
         --stack ub-urma, whose operations can be"
    )]
    UnorderedLoad,
    /// Unreliable operations are requested that are neither WRITEs nor SENDs.
    #[error(
        "--order uno: only WRITEs and SENDs can be unreliable: take --verb write or send with \
         --workload bulk or incast, or another order"
    )]
    UnreliableVerb,
    /// An unreliable operation is longer than a packet.
    #[error(
        "--order uno: a payload of {payload} bytes, and an unreliable operation has one packet: \
         take at most {mtu} bytes (--mtu), or another order"
    )]
    UnreliableLength {
        /// Bytes per operation.
        payload: u32,
        /// Bytes of a packet's payload.
        mtu: u32,
    },
    /// Batches are requested although no application posts work requests.
    #[error("--batch is for what an application posts, and not the oracle's: leave it out")]
    Batch,
    /// A paging stack has more than two hosts.
    #[error("paging stacks have two hosts, not {0}")]
    PagingHosts(u32),
    /// A paging stack has a verb other than loads and stores.
    #[error(
        "a paging stack knows loads and stores only: take --verb load or store (ptr-chase: load)"
    )]
    PagingVerb,
    /// The rate of arrivals is so low that the clock could not hold the time of many, or so high
    /// that it could not tell them apart.
    #[error("--rate {0}: 0.0001 to 1000000 is possible, or leave --rate out for a closed loop")]
    Rate(f64),
    /// An open loop is requested for a workload whose next operation depends on an answer.
    #[error(
        "--rate {0}: this workload has no open loop, because its operations wait for the results \
         of others: leave --rate out, or take bulk, incast, zipf, scan, scan-dirty, ycsb-a to \
         ycsb-f or fanout"
    )]
    OpenLoop(f64),
    /// A workload of atomics, READs and WRITEs is requested on a paging stack.
    #[error(
        "cas-lock and barrier need atomics at the target, and a paging stack moves pages only: take \
         a UB or RoCE stack, or coherent"
    )]
    PagingAtomics,
    /// A fan-out is requested with a verb other than SEND, or in the oracle.
    #[error("fanout is for --verb send, and has no oracle (bulk has)")]
    FanoutVerb,
    /// A fan-out is requested on a stack without SENDs.
    #[error("fanout is for stacks with SENDs: take a UB or RoCE stack")]
    FanoutStack,
    /// A Jetty group is requested on a RoCE stack.
    #[error("Jetty groups are UB's: take --dispatch direct or cpu")]
    RoceGroup,
    /// A Jetty group has too many members.
    #[error("a Jetty group has at most 32 members, not {0}")]
    GroupMembers(u32),
    /// Too few hosts share a line.
    #[error("to share takes --hosts 3 at least: a home, a writer, a reader")]
    ShareHosts,
    /// The oracle or an ablation is requested for the coherent fabric.
    #[error("the coherent fabric has no oracle, and nothing to take away: leave both out")]
    CoherentOracle,
    /// A workload on the coherent fabric would move more than lines.
    #[error("a coherent fabric moves lines of one home: at most 64 bytes")]
    CoherentLines,
    /// A SEND is requested on the coherent fabric.
    #[error("a coherent fabric has no SEND: take --verb load or store")]
    CoherentSend,
    /// A cache is requested on a stack without one.
    #[error("only ub-ldst caches (a coherent fabric does so always): take --cache uc")]
    NoCache,
    /// Hosts with caches write, and nothing keeps the caches coherent.
    #[error(
        "ub-ldst caches without coherence: with more than two hosts only what reads, or share, \
         which pays for it"
    )]
    Incoherent,
    /// Connection set-up is requested on the coherent fabric.
    #[error("a coherent fabric has no connections to set up: take a UB or RoCE stack")]
    CoherentSetup,
    /// Connection set-up has too many pairs.
    #[error("{pairs} pairs: at most {most} can be set up")]
    SetupPairs {
        /// Pairs of an application and a host.
        pairs: u64,
        /// The highest allowed number of pairs.
        most: u64,
    },
    /// Connection set-up over RoCE has too many applications or hosts.
    #[error("{apps} applications and {hosts} hosts: a connection manager takes 4096 of each")]
    ManagerLimit {
        /// Number of applications.
        apps: u32,
        /// Number of hosts.
        hosts: u32,
    },
}

/// Why a run ended without a report.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The configuration cannot be run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Connections could not be set up.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A workload found a violation: an error of the protocols or of the model.
    #[error("{0} (report it, with the configuration)")]
    Violation(#[from] Violation),
    /// A NIC lacks the resources that the run needs.
    #[error("the {protocol} engine: {error}: take fewer hosts, jetties or connections")]
    Device {
        /// Protocol of the NIC.
        protocol: &'static str,
        /// What the NIC refused.
        #[source]
        error: SetupError,
    },
    /// A queue pair could not be made ready.
    #[error("a queue pair: {0}")]
    QueuePair(#[from] ChangeError),
    /// The UB engine refused an operation.
    #[error("{verb:?} refused: {error:?}")]
    UbPost {
        /// The operation.
        verb: Verb,
        /// The reason.
        error: PostError,
    },
    /// The RoCE engine refused an operation.
    #[error("{verb:?} refused: {error:?}")]
    RocePost {
        /// The operation.
        verb: Verb,
        /// The reason.
        error: roce::PostError,
    },
    /// An operation of the UB engine failed.
    #[error(
        "operation {id} ({verb:?}) failed: {status:?}: {}",
        remedy(matches!(status, Status::PeerDead | Status::TimedOut))
    )]
    UbFailed {
        /// Number of the operation.
        id: u64,
        /// Verb of the operation.
        verb: Verb,
        /// Status of the operation.
        status: Status,
    },
    /// An operation of the RoCE engine failed.
    #[error(
        "operation {id} ({verb:?}) failed: {status:?}: {}",
        remedy(*status == roce::Status::RetryExceeded)
    )]
    RoceFailed {
        /// Number of the operation.
        id: u64,
        /// Verb of the operation.
        verb: Verb,
        /// Status of the operation.
        status: roce::Status,
    },
    /// All operations have stopped before the run is over.
    #[error("nothing is left to happen, and the run is not over: report it")]
    Stalled,
}

/// What to do about an operation that failed.
fn remedy(is_unanswered: bool) -> &'static str {
    if is_unanswered {
        "no answer came before the NIC gave up, because packets were lost or took too long: take \
         a lower --loss, --link-ns or --jitter, or values of --set that are nearer to the defaults \
         (--constants)"
    } else {
        "report it, with the configuration"
    }
}

/// Violations that must not occur in any configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// An operation ended that had not begun, or had ended before.
    #[error("operation {0} completed twice, or was never begun")]
    Completion(u64),
    /// An actor received a response without a request.
    #[error("an operation of actor {0} ended, which had none")]
    Actor(usize),
    /// The bytes of a completed WRITE are not at the target.
    #[error("WRITE to {0:#x} is done, but not there")]
    NotWritten(u64),
    /// A byte of a completed WRITE was never placed.
    #[error("WRITE to {0:#x}: a byte was not placed")]
    WriteNotPlaced(u64),
    /// A byte of a completed READ was never placed.
    #[error("READ of {0:#x}: a byte was not placed")]
    ReadNotPlaced(u64),
    /// A READ returned other bytes than the target has.
    #[error("what was read at {0:#x} is wrong")]
    WrongRead(u64),
    /// A counter has too few or too many additions.
    #[error("{expected} {of} counted as {counted}")]
    Count {
        /// Name of the counter.
        of: &'static str,
        /// The number of additions made.
        expected: u64,
        /// The value of the counter.
        counted: u64,
    },
    /// A node of a list names the wrong next node.
    #[error("the node at {address:#x} names {found:#x}, not {expected:#x}")]
    WrongNode {
        /// Address of the node.
        address: u64,
        /// Address that it names.
        found: u64,
        /// Address that it should name.
        expected: u64,
    },
    /// A line does not hold what was stored or published last.
    #[error("line {0} is not what was stored last")]
    WrongLine(u64),
    /// A line holds a version that was never published.
    #[error("line {0} is no version of itself that was published")]
    UnknownVersion(u64),
    /// A version was read after a newer one had been published.
    #[error("{actor} read version {version} of line {line} after {newest}")]
    StaleLine {
        /// The actor that read.
        actor: usize,
        /// The version that it read.
        version: u64,
        /// The line.
        line: u64,
        /// The version that had been published.
        newest: u64,
    },
    /// A vertex has the wrong value.
    #[error("vertex {vertex} is at {found:#x}, not {expected:#x}")]
    WrongVertex {
        /// The vertex.
        vertex: u64,
        /// Its value.
        found: u64,
        /// Its expected value.
        expected: u64,
    },
    /// The record of a key belongs to another key.
    #[error("key {key} says {found:#x}")]
    WrongKey {
        /// The key.
        key: u64,
        /// The value that was found.
        found: u64,
    },
    /// An existing key was not found.
    #[error("key {0} was not found")]
    MissingKey(u64),
    /// The bytes of a record do not match its key.
    #[error("what was read is no record of key {0}")]
    WrongRecord(u64),
    /// A version of a record was read after a newer one.
    #[error("key {key}: version {version} after version {seen}")]
    StaleRecord {
        /// The key.
        key: u64,
        /// The version that was read.
        version: u64,
        /// The version that had been read before.
        seen: u64,
    },
    /// A member of a service received a message that was not sent, or was already handled.
    #[error("member {member} got message {message}, which was not sent or handled before")]
    UnexpectedMessage {
        /// The member.
        member: u32,
        /// The message's number.
        message: u64,
    },
    /// The bytes of a message differ from those sent.
    #[error("message {0} is not what was sent")]
    WrongMessage(u64),
    /// Some sent messages were not handled.
    #[error("{0} messages were never handled")]
    Unhandled(usize),
    /// Two actors hold a lock at once.
    #[error("{actor} has the lock, and so has {other}")]
    SharedLock {
        /// One of the actors.
        actor: usize,
        /// The other actor.
        other: usize,
    },
    /// An actor released a lock that another one held.
    #[error("{actor} let go of a lock that {owner} had")]
    WrongOwner {
        /// The actor.
        actor: usize,
        /// Word of the lock: the number of its owner, plus 1.
        owner: u64,
    },
    /// An actor that needs a response in its phase received none.
    #[error("no answer to actor {0}")]
    NoAnswer(usize),
    /// An actor passed a barrier too early.
    #[error("{actor} left round {round} before all had come")]
    EarlyExit {
        /// The actor.
        actor: usize,
        /// The round.
        round: u64,
    },
    /// Two caches hold a line that one of them owns.
    #[error("line {line} is {owner}'s alone, and {other} has it")]
    SharedLine {
        /// The line.
        line: u64,
        /// The host that owns the line.
        owner: usize,
        /// Another host that holds it.
        other: usize,
    },
}

/// Why connections could not be set up: an error of the protocols or of the model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A NIC lacks the resources.
    #[error("setting up: {0}: take fewer jetties or connections")]
    Device(#[from] SetupError),
    /// A queue pair could not be changed.
    #[error("setting up: a queue pair: {0}")]
    QueuePair(#[from] ChangeError),
    /// A connection manager refused a command.
    #[error("setting up: a connection manager refused: {0:?}")]
    Command(cm::CommandError),
    /// A connection manager dropped a message.
    #[error("setting up: {message} was dropped: {reason:?}")]
    Dropped {
        /// The message that was dropped.
        message: &'static str,
        /// The reason.
        reason: cm::DropReason,
    },
    /// The set-up of a channel ended without a channel.
    #[error("no channel was opened: {0:?}")]
    Ended(Outcome),
    /// A step came too early, or a message arrived that nothing waited for.
    #[error("setting up: {0}")]
    Unexpected(&'static str),
    /// The handle of a remote Jetty and segment names other ones.
    #[error("imported {found:?}, which is {expected:?}")]
    Import {
        /// Jetty, token and segment of the handle.
        found: (u32, u32, u32),
        /// Jetty, token and segment of the remote host.
        expected: (u32, u32, u32),
    },
    /// Some pairs cannot be used at the end.
    #[error("{usable} of {pairs} pairs are usable")]
    Incomplete {
        /// Number of usable pairs.
        usable: u64,
        /// Number of requested pairs.
        pairs: u64,
    },
}

impl From<cm::CommandError> for ConnectError {
    fn from(error: cm::CommandError) -> Self {
        ConnectError::Command(error)
    }
}
