//! Scenarios as text, with one setting a line: `name value`. The tool's flags are the same
//! settings.

use super::scenario::{Marking, Overflow, Pfc, Routing, Scenario, SharedBuffer, Stack};
use super::topology::Shape;
use super::traffic::{self, Sizes, SizesError, TraceError, Traced};
use fairway_sandbox::Policies;
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{Duration, Priority};

mod apply;
mod checks;
mod collectives;
mod hosts;
mod links;
mod names;
mod network;
mod program;
mod streams;
mod uses;
mod values;
mod workloads;

pub use names::{SETTINGS, WORKLOADS};
pub(crate) use workloads::FLOWS_MAX;

use crate::error::SettingsError;
use crate::quantity::{self, bytes, chance, count, rate, span};
use checks::check_bounds;
use collectives::CollectiveSettings;
use hosts::HostSettings;
use links::LinkSettings;
use names::{PLANES, TOPOLOGIES, usual_bytes, usual_nodes};
use program::ProgramSettings;
use streams::StreamSettings;
use values::{Chunk, Hints, Split, hint, marking, on_or_off, one_of, set, three};

/// The settings of a scenario. `Default` is the permutation of 1,024 hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    workload: String,
    topology: String,
    /// Topology of each plane of dual-plane.
    plane: String,
    /// `None` for the workload's default, or for the number in a matrix or trace.
    nodes: Option<u32>,
    hosts_per_leaf: Option<u32>,
    oversubscription: u32,
    rails: u32,
    sizes: [u32; 3],
    dragonfly: [u32; 3],
    hosts_per_switch: u32,
    load_percent: u32,
    flows: u32,
    shared: Option<SharedBuffer>,
    pfc: Option<Pfc>,
    loss: u32,
    split: Split,
    pieces: u32,
    collectives: CollectiveSettings,
    links: LinkSettings,
    hosts: HostSettings,
    link_megabits: u64,
    latency_ps: u64,
    /// `None` for the workload's default.
    bytes: Option<u32>,
    messages: u32,
    senders: Option<u32>,
    mtu: u32,
    chunk: Chunk,
    paths: u32,
    /// Path choice that replaces the policy's, if given.
    path: Option<PolicySpec>,
    policy: Option<Policies>,
    stack: Stack,
    /// Times at which a module replaces another, and the new module.
    policy_swaps: Vec<(u64, String)>,
    routing: Routing,
    queue_bytes: Option<u32>,
    overflow: Overflow,
    cut_through: bool,
    marking: Option<Marking>,
    hints: Hints,
    window_packets: Option<u32>,
    burst: u32,
    timeout_min: Option<Duration>,
    classes: u8,
    acknowledge_every: Option<u32>,
    acknowledge_chunks: bool,
    small_messages: Option<u32>,
    acknowledge_marks: bool,
    reorder_tolerance: Option<u32>,
    end_ps: u64,
    check: bool,
    /// Text of a connection matrix.
    matrix: Option<String>,
    /// Trace, for the workload of that name.
    trace: Option<Traced>,
    /// Distribution of the sizes of Poisson flows.
    distribution: Option<Sizes>,
    program: ProgramSettings,
    streams: StreamSettings,
    /// The settings that were given, in their original text.
    given: Vec<(&'static str, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            workload: String::from("permutation"),
            topology: String::from("fat-tree"),
            plane: String::from("fat-tree"),
            nodes: None,
            hosts_per_leaf: None,
            oversubscription: 1,
            rails: 8,
            sizes: [8, 8, 1],
            dragonfly: [4, 2, 9],
            hosts_per_switch: 1,
            load_percent: 50,
            flows: 10_000,
            shared: None,
            pfc: None,
            loss: 0,
            split: Split::ONE,
            pieces: 1,
            collectives: CollectiveSettings::default(),
            links: LinkSettings::default(),
            hosts: HostSettings::default(),
            link_megabits: 400_000,
            latency_ps: 1_000_000,
            bytes: None,
            messages: 4,
            senders: None,
            mtu: 4096,
            chunk: Chunk::Packet,
            paths: 256,
            policy: None,
            stack: Stack::Fairway,
            path: None,
            policy_swaps: Vec::new(),
            routing: Routing::Ecmp,
            queue_bytes: None,
            overflow: Overflow::Drop,
            cut_through: false,
            marking: None,
            hints: Hints::ByPolicy,
            window_packets: None,
            burst: 1,
            timeout_min: None,
            acknowledge_every: None,
            acknowledge_chunks: false,
            small_messages: None,
            acknowledge_marks: false,
            classes: Priority::COUNT,
            reorder_tolerance: None,
            end_ps: 1_000_000_000_000,
            check: false,
            matrix: None,
            trace: None,
            distribution: None,
            program: ProgramSettings::default(),
            streams: StreamSettings::default(),
            given: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads a scenario file. A `#` begins a comment.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn read(&mut self, text: &str) -> Result<(), SettingsError> {
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line.split_once([' ', '\t', '=']).unwrap_or((line, ""));
            let value = value.trim().trim_start_matches('=').trim();
            self.set(name.trim(), value).map_err(|error| {
                let error = Box::new(error);
                SettingsError::Line { line: at + 1, error }
            })?;
        }
        Ok(())
    }

    /// Sets one of [`SETTINGS`].
    ///
    /// # Errors
    /// Names the values that the setting takes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
        let known = SETTINGS.iter().find(|setting| setting.0 == name);
        let Some(known) = known else {
            return Err(SettingsError::Unknown { name: name.to_owned() });
        };
        if name == "policy" {
            // Only a module can report which values it takes.
            let policies = value.parse::<Policies>().map_err(SettingsError::Policy)?;
            self.policy = Some(policies);
            self.remember(known, value);
            return Ok(());
        }
        if name == "stream" {
            let &(_, _, meaning) = known;
            self.streams.add(value).map_err(|error| {
                let value = value.to_owned();
                SettingsError::Stream { value, error, meaning }
            })?;
            self.remember(known, value);
            return Ok(());
        }
        let outcome = self
            .set_network(name, value)
            .or_else(|| self.set_switches(name, value))
            .or_else(|| self.set_transport(name, value))
            .or_else(|| self.hosts.set(name, value))
            .or_else(|| self.collectives.set(name, value))
            .or_else(|| self.program.set(name, value))
            .or_else(|| self.streams.set(name, value));
        match outcome {
            Some(Some(())) => {
                self.remember(known, value);
                Ok(())
            }
            _ => {
                let &(name, takes, meaning) = known;
                Err(SettingsError::Value { name, value: value.to_owned(), takes, meaning })
            }
        }
    }

    /// Records a given setting for [`Self::configuration`].
    fn remember(&mut self, (name, _, meaning): &(&'static str, &str, &str), value: &str) {
        if !meaning.contains("may be repeated") {
            self.given.retain(|given| given.0 != *name);
        }
        self.given.push((*name, value.to_owned()));
    }

    /// Bytes of a message, or of a token.
    fn message_bytes(&self) -> u32 {
        self.bytes.unwrap_or(usual_bytes(&self.workload))
    }

    /// Returns the settings of `scenario`, which was built from these: the most important ones,
    /// given or default, and all others that were given, in the order of [`SETTINGS`]. The same
    /// settings make the same scenario.
    pub fn configuration(&self, scenario: &Scenario) -> Vec<(&'static str, String)> {
        let is_roce = scenario.stack != Stack::Fairway;
        let usual = |name: &str| match name {
            "workload" => Some(self.workload.clone()),
            "topology" => Some(self.built_topology(&scenario.network).to_owned()),
            "nodes" => Some(scenario.network.hosts.to_string()),
            "link" => Some(quantity::show_rate(self.link_megabits)),
            "latency" => Some(quantity::show_time(self.latency_ps)),
            "bytes" if self.has_messages() => Some(self.message_bytes().to_string()),
            "stack" => {
                let named = Stack::NAMES.iter().find(|(_, stack)| *stack == scenario.stack);
                named.map(|(name, _)| String::from(*name))
            }
            "mtu" => Some(scenario.mtu.to_string()),
            "chunk" if !is_roce => Some(scenario.chunk.map_or("policy".into(), |c| c.to_string())),
            "paths" if !is_roce => Some(scenario.paths.to_string()),
            "policy" if is_roce => Some(String::from("cc=dcqcn")),
            "policy" => Some(scenario.default_policy().to_string()),
            "routing" => {
                let named = Routing::NAMES.iter().find(|(_, routing)| *routing == self.routing);
                named.map(|(name, _)| String::from(*name))
            }
            // With PFC, stating the queue length would change the marking.
            "queue" if self.pfc.is_none() => Some(scenario.queue.bytes.to_string()),
            _ => None,
        };
        let mut all = Vec::new();
        for (name, ..) in SETTINGS {
            let before = all.len();
            let given = self.given.iter().filter(|(given, _)| given == name);
            // Matrices, traces and some topologies determine the number of hosts themselves.
            all.extend(given.filter(|_| *name != "workload" && *name != "nodes").cloned());
            if all.len() == before {
                all.extend(usual(name).map(|value| (*name, value)));
            }
        }
        all
    }

    /// True if the messages have the length of the setting.
    fn has_messages(&self) -> bool {
        let others = ["websearch", "hadoop", "sizes", "matrix", "trace", "streams"];
        !others.contains(&self.workload.as_str())
            && !["sweep3d", "halo3d", "halo3d26"].contains(&self.workload.as_str())
    }

    /// Name of the workload.
    pub fn workload(&self) -> &str {
        &self.workload
    }

    /// Sets a connection matrix as workload; its text also gives the number of nodes.
    pub fn set_matrix(&mut self, text: String) {
        self.workload = String::from("matrix");
        self.matrix = Some(text);
    }

    /// Sets a trace as workload. Without the setting `nodes`, there are as many nodes as ranks.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn set_trace(&mut self, text: &str) -> Result<(), TraceError> {
        self.set_traced(Traced::Operations(traffic::parse_trace(text)?));
        Ok(())
    }

    /// Sets a trace that was read ([`traffic::read_trace`]) as workload.
    pub fn set_traced(&mut self, trace: Traced) {
        self.trace = Some(trace);
        self.workload = String::from("trace");
    }

    /// Sets a distribution of sizes, for the workload `sizes`.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn set_sizes(&mut self, text: &str) -> Result<(), SizesError> {
        self.distribution = Some(Sizes::parse(text)?);
        Ok(())
    }

    /// Returns `None` if the setting is of another kind, and `Some(None)` if the value is invalid.
    fn set_network(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        let done = match name {
            "workload" => set(&mut self.workload, one_of(value, &WORKLOADS.map(|known| known.0))),
            "topology" => set(&mut self.topology, one_of(value, &TOPOLOGIES)),
            "plane" => set(&mut self.plane, one_of(value, &PLANES)),
            "nodes" => set(&mut self.nodes, count(value, 2, 1 << 18).map(Some)),
            "hosts-per-leaf" => set(&mut self.hosts_per_leaf, count(value, 1, 1024).map(Some)),
            "oversubscription" => set(&mut self.oversubscription, count(value, 1, 64)),
            "rails" => set(&mut self.rails, count(value, 1, 64)),
            "link" => set(&mut self.link_megabits, rate(value)),
            "latency" => set(&mut self.latency_ps, links::latency_of(value)),
            "bytes" => set(&mut self.bytes, bytes(value).filter(|bytes| *bytes > 0).map(Some)),
            "messages" => set(&mut self.messages, count(value, 1, 1 << 16)),
            "senders" => set(&mut self.senders, count(value, 1, 1 << 18).map(Some)),
            "sizes" => set(&mut self.sizes, three(value, 'x')),
            "dragonfly" => {
                let fits = |[switches, global, groups]: &[u32; 3]| {
                    *groups > 1 && (switches * global).is_multiple_of(groups - 1)
                };
                let numbers = three(value, ':').filter(|_| value.split(':').count() == 3);
                set(&mut self.dragonfly, numbers.filter(fits))
            }
            "hosts-per-switch" => set(&mut self.hosts_per_switch, count(value, 1, 512)),
            "pieces" => set(&mut self.pieces, count(value, 1, 4096)),
            "load" => set(&mut self.load_percent, count(value, 1, 1000)),
            "flows" => set(&mut self.flows, count(value, 1, 1 << 24)),
            _ => return self.links.set(name, value),
        };
        Some(done)
    }

    fn set_switches(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        let done = match name {
            "shared-buffer" => {
                let (size, permille) = value.split_once(':').unwrap_or((value, "1000"));
                let shared = bytes(size).zip(count(permille, 1, 1_000_000));
                set(
                    &mut self.shared,
                    shared.map(|(bytes, permille)| Some(SharedBuffer { bytes, permille })),
                )
            }
            "pfc" => {
                let pair = value.split_once(':').and_then(|(a, b)| bytes(a).zip(bytes(b)));
                // A queue is never shorter than nothing: with 0 a sender would not be resumed.
                let pair = pair.filter(|(pause, resume)| pause >= resume && *resume > 0);
                set(
                    &mut self.pfc,
                    pair.map(|(pause_bytes, resume_bytes)| Some(Pfc { pause_bytes, resume_bytes })),
                )
            }
            "classes" => {
                let classes = count(value, 2, u32::from(Priority::COUNT));
                set(&mut self.classes, classes.map(|classes| classes as u8))
            }
            "routing" => {
                let named = Routing::NAMES.iter().find(|(name, _)| *name == value);
                set(&mut self.routing, named.map(|(_, routing)| *routing))
            }
            "queue" => set(&mut self.queue_bytes, bytes(value).map(Some)),
            "overflow" => {
                let named = [("drop", Overflow::Drop), ("trim", Overflow::Trim)];
                let named = named.iter().find(|(name, _)| *name == value);
                set(&mut self.overflow, named.map(|(_, overflow)| *overflow))
            }
            "switching" => {
                let named = [("store", false), ("cut-through", true)];
                let named = named.iter().find(|(name, _)| *name == value);
                set(&mut self.cut_through, named.map(|(_, cuts)| *cuts))
            }
            "ecn" => set(&mut self.marking, marking(value).map(Some)),
            "hint" => set(&mut self.hints, hint(value)),
            _ => return None,
        };
        Some(done)
    }

    fn set_transport(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        let done = match name {
            "stack" => {
                let named = Stack::NAMES.iter().find(|(name, _)| *name == value);
                set(&mut self.stack, named.map(|(_, stack)| *stack))
            }
            "mtu" => set(&mut self.mtu, bytes(value).filter(|mtu| (64..=32_768).contains(mtu))),
            "chunk" => set(&mut self.chunk, Chunk::parse(value)),
            "loss" => set(&mut self.loss, chance(value)),
            "split" => set(&mut self.split, Split::parse(value)),
            "paths" => set(&mut self.paths, count(value, 1, 256)),
            "path" => {
                // One path choice alone, because other policies in the value would be ignored.
                let alone = !value.contains(',');
                let path = alone.then(|| format!("path={value}").parse().ok()).flatten();
                set(&mut self.path, path.map(Some))
            }
            "policy-swap" => {
                let parts = value.split_once(':');
                let swap = parts.and_then(|(at, item)| Some((span(at)?, item.to_owned())));
                swap.map(|swap| self.policy_swaps.push(swap))
            }
            "window" => set(&mut self.window_packets, count(value, 128, 32_768).map(Some)),
            "burst" => set(&mut self.burst, count(value, 1, 1024)),
            "timeout-min" => {
                set(&mut self.timeout_min, span(value).map(|ps| Some(Duration::from_ps(ps))))
            }
            "acknowledge-every" => {
                self.acknowledge_chunks = value == "chunk";
                let value = if self.acknowledge_chunks { "1024" } else { value };
                set(&mut self.acknowledge_every, count(value, 1, 1024).map(Some))
            }
            "small-messages" => set(&mut self.small_messages, bytes(value).map(Some)),
            "acknowledge-marks" => set(&mut self.acknowledge_marks, on_or_off(value)),
            "reorder-tolerance" => {
                set(&mut self.reorder_tolerance, count(value, 1, 1 << 20).map(Some))
            }
            "end" => set(&mut self.end_ps, span(value)),
            "check" => set(&mut self.check, on_or_off(value)),
            _ => return None,
        };
        Some(done)
    }

    /// Builds the scenario, with all random draws from `seed`.
    ///
    /// # Errors
    /// Names settings that cannot be combined.
    pub fn build(&self, seed: u64) -> Result<Scenario, SettingsError> {
        self.check_stack()?;
        self.check_uses()?;
        let matrix = match (&self.matrix, self.workload.as_str()) {
            (Some(text), "matrix") => Some(traffic::parse_matrix(text)?),
            (None, "matrix") => {
                return Err(SettingsError::NoFile { workload: "matrix", remedy: "--matrix FILE" });
            }
            _ => None,
        };
        let trace = self.trace.as_ref().filter(|_| self.workload == "trace");
        if trace.is_none() && self.workload == "trace" {
            let remedy = "fairway sim trace FILE";
            return Err(SettingsError::NoFile { workload: "trace", remedy });
        }
        let needs = matrix.as_ref().map(|(nodes, _)| *nodes).or(trace.map(Traced::ranks));
        let nodes = match &matrix {
            Some((has, _)) => {
                let (has, other) = (*has, self.nodes.filter(|nodes| nodes != has));
                other.map_or(Ok(has), |nodes| Err(SettingsError::MatrixNodes { nodes, has }))?
            }
            None => self.nodes.or(needs).unwrap_or(usual_nodes(&self.workload)),
        };
        let network = self.network(nodes)?;
        if let Some(needs) = needs.filter(|needs| network.hosts < *needs) {
            return Err(SettingsError::TooFewHosts { hosts: network.hosts, needs });
        }
        let program = self.program.build(&self.workload, network.hosts)?;
        let streams = self.streams(seed)?;
        let (traced, spans) = match trace {
            Some(trace) => trace.flows(self.collectives.slot_bytes)?,
            None => Default::default(),
        };
        let group = self.group(network.hosts, seed)?;
        let flows = match matrix {
            _ if trace.is_some() => traced,
            _ if program.is_some() || group.is_some() || !streams.is_empty() => Vec::new(),
            Some((_, flows)) => flows,
            None => self.flows(&network, seed)?,
        };
        let is_tree = !matches!(network.shape, Shape::Direct(_));
        let direct_only = [Routing::Dimension, Routing::Valiant, Routing::Ugal];
        if is_tree && direct_only.contains(&self.routing) {
            return Err(SettingsError::Detour);
        }
        let changes = self.links.changes(&network)?;
        let mut scenario = Scenario::new(network, flows);
        (scenario.seed, scenario.program, scenario.streams) = (seed, program, streams);
        scenario.group = group;
        (scenario.changes, scenario.spans) = (changes, spans);
        scenario.delays = self.links.delays(&scenario.network)?;
        scenario.drains = self.hosts.drains(&scenario.network)?;
        scenario.receive_queue = self.hosts.queue();
        self.apply_switches(&mut scenario);
        self.apply_transport(&mut scenario)?;
        (scenario.burst, scenario.end_ps, scenario.check) = (self.burst, self.end_ps, self.check);
        (scenario.control, scenario.measure_ps) = (self.streams.control(), self.streams.measure_ps);
        check_bounds(&scenario)?;
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests;
