//! Errors of scenarios and runs. Each message names the value, what is allowed, and what to do.

use crate::settings::SETTINGS;
use crate::topology::TopologyError;
use crate::traffic::{MatrixError, MoeError, TraceError};
use fairway_roce::ChangeError;
use fairway_sandbox::PoliciesError;
use fairway_ub::SetupError;
use thiserror::Error;

/// Returns the names of all settings.
fn names() -> String {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.0).collect();
    names.join(", ")
}

/// Why a setting cannot have a value, or why settings cannot be combined.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// No setting has this name.
    #[error("'{name}' is no setting; known are {}", names())]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// The setting does not take this value.
    #[error("{name} cannot be '{value}': give {takes}: {meaning}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The form of its values.
        takes: &'static str,
        /// What the setting is for.
        meaning: &'static str,
    },
    /// A part of a stream is wrong.
    #[error("stream cannot be '{value}': {error}. It is {meaning}")]
    Stream {
        /// The value that was given.
        value: String,
        /// What is wrong with it.
        #[source]
        error: StreamError,
        /// What the setting is for.
        meaning: &'static str,
    },
    /// A stream would begin when the run has ended.
    #[error(
        "stream {stream} starts at {} us, and the run ends at {} us, so that it would send nothing: \
         give it an earlier start, or the run a later end",
        *start_ps as f64 / 1e6, *end_ps as f64 / 1e6
    )]
    StreamTooLate {
        /// Number of the stream, from 0.
        stream: usize,
        /// Time at which it would begin, in picoseconds.
        start_ps: u64,
        /// Time at which the run ends, in picoseconds.
        end_ps: u64,
    },
    /// A stream has a share, and no scheduler divides the rate.
    #[error(
        "stream {stream}: weight, tenant and tenant-weight have no effect without a scheduler: \
         give a policy with sched=..., or leave them out"
    )]
    ShareWithoutScheduler {
        /// Number of the stream, from 0.
        stream: usize,
    },
    /// The workload or the topology does not have the setting.
    #[error(
        "{name} is for {of}, and has no effect with {kind} {current}: leave it out, or choose \
         another {kind}"
    )]
    Unused {
        /// The setting.
        name: &'static str,
        /// The workloads or topologies that have it.
        of: String,
        /// `workload` or `topology`.
        kind: &'static str,
        /// The workload or topology of the run.
        current: String,
    },
    /// A trace runs as flows.
    #[error("collectives ranks has no effect on traces, which run as flows: leave it out")]
    TraceOfRanks,
    /// The number of nodes differs from that of the matrix.
    #[error("nodes {nodes}: the matrix has {has}; leave nodes out, or correct the matrix")]
    MatrixNodes {
        /// The number that was given.
        nodes: u32,
        /// Nodes of the matrix.
        has: u32,
    },
    /// The workload would have more flows than fit into memory.
    #[error(
        "{workload} would make {flows} flows, and a run has {} at most: give fewer nodes or \
         messages, or shorter flows",
        crate::settings::FLOWS_MAX
    )]
    TooManyFlows {
        /// The workload.
        workload: String,
        /// Number of its flows.
        flows: u64,
    },
    /// A line of a file of settings is wrong.
    #[error("line {line}: {error}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        error: Box<SettingsError>,
    },
    /// The policies are invalid.
    #[error("policy: {0}")]
    Policy(#[source] PoliciesError),
    /// A policy cannot replace another during the run.
    #[error("policy-swap: {0}")]
    PolicySwap(#[source] PoliciesError),
    /// What would replace a policy is built in.
    #[error(
        "policy-swap: '{0}' names no module, and only modules replace each other: name a file, as \
         cc=./new.wasm, and start with a module of its kind"
    )]
    SwapOfNoModule(String),
    /// Measuring would begin when the run has ended.
    #[error(
        "measure {} us is not before the end, {} us, so that nothing would be measured: give an \
         earlier measure or a later end",
        *measure_ps as f64 / 1e6, *end_ps as f64 / 1e6
    )]
    MeasuresNothing {
        /// Time from which streams are measured, in picoseconds.
        measure_ps: u64,
        /// Time at which the run ends, in picoseconds.
        end_ps: u64,
    },
    /// A receive queue has no room for a single packet.
    #[error(
        "receive-queue {bytes}: a packet of mtu {mtu} takes up to {packet} bytes, and the queue \
         holds at least one: give a longer queue or a smaller mtu"
    )]
    QueueBelowPacket {
        /// Bytes of the queue.
        bytes: u32,
        /// Bytes of a packet, with all headers, at most.
        packet: u32,
        /// Payload bytes of a packet.
        mtu: u32,
    },
    /// The setting concerns Fairway's transport, and the stack is RoCE.
    #[error(
        "{name} {value} has no effect on RoCE, whose queue pairs have one path each (split N \
         gives two hosts N of them): leave it out, or take stack fairway"
    )]
    NoEffect {
        /// The setting.
        name: &'static str,
        /// The value that was given.
        value: String,
    },
    /// The workload needs a file, and none was given.
    #[error("workload {workload} needs a file: {remedy}")]
    NoFile {
        /// The workload.
        workload: &'static str,
        /// How to give the file.
        remedy: &'static str,
    },
    /// A matrix or trace has more nodes than the network has hosts.
    #[error("{hosts} hosts are too few for {needs} nodes: take a larger topology")]
    TooFewHosts {
        /// Hosts of the network.
        hosts: u32,
        /// Nodes of the matrix or trace.
        needs: u32,
    },
    /// The workload `streams` has no stream.
    #[error("workload streams needs some: --stream '0-1 size=64K'")]
    NoStreams,
    /// The routing is one of direct networks, and the topology is a tree.
    #[error(
        "routing dimension, valiant and ugal need a torus, hyperx or dragonfly: choose another topology, or \
         routing ecmp, spray or adaptive"
    )]
    Detour,
    /// The number of nodes differs from the number of hosts that the topology's sizes give.
    #[error(
        "nodes {nodes}: this {topology} has {hosts} hosts; leave nodes out, or change sizes, \
         dragonfly or hosts-per-switch"
    )]
    Nodes {
        /// The number that was given.
        nodes: u32,
        /// The topology.
        topology: String,
        /// Hosts of the topology.
        hosts: u32,
    },
    /// There are fewer nodes than senders requested.
    #[error("{senders} senders, and a receiver, are more than {nodes} nodes: take fewer senders")]
    Senders {
        /// Senders that were requested.
        senders: u32,
        /// Nodes that exist.
        nodes: u32,
    },
    /// The workload's ranks are too few or too many.
    #[error(
        "{ranks} ranks: a group has 2 to {}, and at most 64 GiB of slots for each rank; give other \
         nodes, ranks-per-node, slots or slot, or collectives flows",
        crate::group::RANKS_MAX
    )]
    GroupSize {
        /// Number of ranks.
        ranks: u32,
    },
    /// Ranks of collective operations need Fairway's transport.
    #[error(
        "collectives ranks needs stack fairway, because live ranks use no other: take that, or \
         collectives flows"
    )]
    RanksOnRoce,
    /// A setting that only ranks have was given, and the workload runs as flows.
    #[error(
        "{name} {value} has no effect on flows, which have neither slots nor rounds: leave it out, \
         or take collectives ranks and stack fairway"
    )]
    RanksOnly {
        /// The setting.
        name: &'static str,
        /// The value that was given.
        value: String,
    },
    /// No link joins the two nodes.
    #[error(
        "no link joins {a} and {b}: hosts are 0 to {last}, switches follow tier by tier, and the \
         switch of host 0 is {first_switch}"
    )]
    NoLink {
        /// One node.
        a: u32,
        /// The other node.
        b: u32,
        /// The last host.
        last: u32,
        /// The switch of host 0.
        first_switch: u32,
    },
    /// The named node does not exist.
    #[error("there is no {node}: {known}")]
    NoNode {
        /// The node, as it was named.
        node: String,
        /// The nodes that exist.
        known: String,
    },
    /// A receive queue was set, and no host has one.
    #[error("receive-queue has no effect without drain: hosts take data at once")]
    QueueWithoutDrain,
    /// The numbered plane does not exist.
    #[error("there is no plane {plane}: the last is {last}")]
    NoPlane {
        /// The number that was given.
        plane: u32,
        /// The highest plane number.
        last: u32,
    },
    /// A delay would give a link less than its own latency.
    #[error("delay: {from}-{to} takes {own_ps} ps, and can't take less: give a longer time")]
    DelayTooShort {
        /// The lower of the two nodes.
        from: u32,
        /// The higher of the two nodes.
        to: u32,
        /// The latency of the link, in picoseconds.
        own_ps: u64,
    },
    /// The ranks or layers of `sweep3d` do not fit its cells.
    #[error("sweep3d has two dimensions of ranks, and layers that divide its {cells} cells")]
    SweepShape {
        /// Cells in the third dimension.
        cells: u32,
    },
    /// The grid has more ranks than the nodes can hold.
    #[error(
        "{ranks} ranks are more than {room}: take a smaller grid, more nodes, or more \
         ranks-per-node"
    )]
    TooManyRanks {
        /// Ranks of the grid.
        ranks: u64,
        /// Ranks that all nodes together can hold.
        room: u32,
    },
    /// A face would exceed the maximum length of a message.
    #[error(
        "the faces of {}x{}x{} cells are too long for one message, which has less than 1 GiB: \
         take fewer cells",
        cells[0], cells[1], cells[2]
    )]
    FacesTooLong {
        /// Cells of a rank in each dimension.
        cells: [u32; 3],
    },
    /// The network cannot be built.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The connection matrix is invalid.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// The trace is invalid.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The mixture-of-experts workload is too large.
    #[error(transparent)]
    Moe(#[from] MoeError),
}

/// Why a stream is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The first word does not name two hosts.
    #[error("'{0}' is not two hosts, as 0-1")]
    Ends(String),
    /// A word is no name with a value.
    #[error("'{0}' is not NAME=VALUE")]
    Word(String),
    /// A stream has no such part.
    #[error("'{name}' is no part of a stream; they are {known}")]
    Part {
        /// The name that was given.
        name: String,
        /// The names of all parts.
        known: String,
    },
    /// A part is given twice.
    #[error("{0} is given twice: leave one of them out")]
    Twice(&'static str),
    /// A part does not take this value.
    #[error("{name} cannot be '{value}': {takes}")]
    Value {
        /// The part.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The values that it takes.
        takes: &'static str,
    },
    /// The stream would end before it begins.
    #[error(
        "start is not before end, so that nothing would be sent: give an earlier start or a later \
         end"
    )]
    StartAfterEnd,
    /// A single stream has a time between streams.
    #[error(
        "every is the time between the starts of several streams, and has no effect on one: give \
         count as well, or rate for the time between messages"
    )]
    EveryOfOne,
    /// A mode is given, and no order that it could enforce.
    #[error("mode has no effect without an order: give order=relaxed or order=strict as well")]
    ModeWithoutOrder,
}

/// Why a scenario cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The simulator cannot build the network.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The scenario has no flows, no program, no group and no streams.
    #[error("nothing is to be sent: give the scenario flows, a program or streams")]
    Nothing,
    /// The scenario has flows and a program or a group, which exclude each other.
    #[error("flows and a program or a group do not go together: leave one of them out")]
    FlowsAndProgram,
    /// The group cannot be simulated.
    #[error(
        "a group of {ranks} ranks with {} slots of {} bytes each for each other: take 2 to {} \
         ranks on hosts of the network, no program beside them, 4 to 32 slots, a multiple of 8 \
         bytes, at most 64 GiB of slots for each rank, and rates and lengths above 0; or flows \
         (collectives flows)",
        means.slots, means.slot_bytes, crate::group::RANKS_MAX
    )]
    Group {
        /// Number of ranks.
        ranks: u32,
        /// Their slots.
        means: fairway_collectives::Means,
    },
    /// The scenario combines streams with flows, a program or the check of placements.
    #[error("streams go with no other workload, and have no check: leave the others out")]
    StreamsAlone,
    /// The program has more ranks than the hosts can hold.
    #[error("{ranks} ranks need {needs} hosts of {has}: take a larger network")]
    TooFewHosts {
        /// Ranks of the program.
        ranks: u32,
        /// Hosts that they need.
        needs: u32,
        /// Hosts of the network.
        has: u32,
    },
    /// A channel cannot have this number of paths.
    #[error("{0} paths: a channel has 1 to 256")]
    Paths(u32),
    /// Packets cannot have this payload length.
    #[error("packets of {0} bytes: 64 to 32768")]
    Mtu(u32),
    /// A flow names a host that does not exist, joins a host to itself, or is empty.
    #[error(
        "flow {flow}: {bytes} bytes from {from} to {to}: a flow has at least one byte, and joins \
         two of hosts 0 to {last}"
    )]
    Flow {
        /// Index of the flow.
        flow: usize,
        /// Length of the flow, in bytes.
        bytes: u32,
        /// Source host.
        from: u32,
        /// Destination host.
        to: u32,
        /// Number of the last host.
        last: u32,
    },
    /// A flow waits for one that does not exist.
    #[error("flow {flow} waits for flow {after}, and the last is {last}")]
    FlowWaits {
        /// Index of the flow.
        flow: usize,
        /// The flow that it waits for.
        after: u32,
        /// Index of the last flow.
        last: usize,
    },
    /// A stream names a host that does not exist, joins a host to itself, or sends nothing.
    #[error(
        "stream {stream}: {depth} messages of {bytes} bytes from {from} to {to}, of hosts 0 to \
         {last}"
    )]
    Stream {
        /// Index of the stream.
        stream: usize,
        /// Messages that it keeps in flight.
        depth: u32,
        /// Length of a message, in bytes.
        bytes: u32,
        /// Source host.
        from: u32,
        /// Destination host.
        to: u32,
        /// Number of the last host.
        last: u32,
    },
    /// A stream that READs has a share or a hint, but the responses of a READ do not name their
    /// stream.
    #[error(
        "stream {0} reads: the answers of a READ do not name their stream, so leave weight, tenant, \
         tenant-weight and hint out, or let it write"
    )]
    StreamReads(usize),
    /// Programs and streams need Fairway's transport.
    #[error("a stack of RoCE carries flows: ranks and streams need stack fairway")]
    RoceFlowsOnly,
    /// RoCE allows five packet lengths, and this is none of them.
    #[error("mtu {0}: packets of RoCE have 256, 512, 1024, 2048 or 4096 bytes")]
    RoceMtu(u32),
    /// A flow exceeds the maximum length of a RoCE message.
    #[error("bytes {bytes}: a message of RoCE with this mtu has {most} at most")]
    RoceBytes {
        /// Length of the longest flow, in bytes.
        bytes: u32,
        /// Maximum length of a message, in bytes.
        most: u64,
    },
    /// RoCE NICs do not support these policies.
    #[error(
        "policy {policies}: NICs of RoCE have cc=dcqcn, without parameters, or cc=fixed:BYTES, \
         which is a window and no rates; here they have no other policies"
    )]
    RocePolicy {
        /// The policies of the scenario, by name.
        policies: String,
    },
    /// An emulated network carries the caller's frames, which it cannot trim.
    #[error("overflow trim: hosts would not know a frame that was cut: take overflow drop")]
    TrimmedFrames,
    /// A NIC lacks the resources that the run needs.
    #[error("the NIC of host {host} cannot be made: {error}: give the host less to do")]
    Nic {
        /// The host.
        host: u32,
        /// What the NIC refused.
        #[source]
        error: SetupError,
    },
    /// A NIC lacks the resources for the ranks of its host.
    #[error("host {host} has no room for its ranks: {error}: lower ranks-per-node")]
    Ranks {
        /// The host.
        host: u32,
        /// What the NIC refused.
        #[source]
        error: SetupError,
    },
    /// A NIC lacks the resources for the streams of its host.
    #[error("host {host} has no room for its streams: {error}: give it fewer, or less depth")]
    Streams {
        /// The host.
        host: u32,
        /// What the NIC refused.
        #[source]
        error: SetupError,
    },
    /// A channel cannot be opened.
    #[error("hosts {host} and {peer} cannot be connected: {error}")]
    Channel {
        /// The host whose NIC refused.
        host: u32,
        /// Its peer.
        peer: u32,
        /// Why it refused.
        #[source]
        error: SetupError,
    },
    /// A queue pair cannot be connected.
    #[error("hosts {host} and {peer} cannot be connected: their queue pair to {state}: {error}")]
    QueuePair {
        /// The host whose NIC refused.
        host: u32,
        /// Its peer.
        peer: u32,
        /// The state that the queue pair was to enter.
        state: &'static str,
        /// Why the NIC refused.
        #[source]
        error: ChangeError,
    },
}
