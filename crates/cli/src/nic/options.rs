//! The options of `fairway nic`, and the configuration that they describe.

use super::given::GivenOptions;
use crate::failure::Failure;
use crate::quantity::ValueError;
use clap::Args;
use fairway_nicmodel::{
    Ablations, CachePolicy, Config, Constants, Dispatching, Lossy, Notice, Ordering, Stack, Verb,
    WorkloadKind,
};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// `fairway nic`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NicOptions {
    #[command(flatten)]
    pub(crate) run: GivenOptions,

    /// Show each phase of the round trip: its time, and the time that it waited
    #[arg(long, conflicts_with = "json")]
    pub(crate) explain: bool,

    /// Print one JSON object (with --sweep: one per run)
    #[arg(long)]
    pub(crate) json: bool,

    /// Show all constants with their sources, and end
    #[arg(long, conflicts_with_all = ["json", "explain", "state"])]
    pub(crate) constants: bool,

    /// Show the size of the state of --jetties applications and --connections hosts, and end
    #[arg(long)]
    pub(crate) state: bool,

    /// Run the lines of a text file: options without their dashes, with lists of values. Options
    /// beside this one are for every line that does not give them itself
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
          conflicts_with_all = ["explain", "constants", "state"])]
    pub(crate) sweep: Option<PathBuf>,
}

/// Parameters of one run.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelOptions {
    /// The modelled stack: ub-ldst, ub-urma, roce-bf, roce-dma, roce-irn, infiniswap, fastswap or
    /// coherent
    #[arg(long, default_value = "ub-urma", value_parser = stack)]
    stack: Stack,

    /// The workload: bulk, incast, ptr-chase, graph-bfs, hash-probe, cas-lock, barrier, ycsb-a to
    /// ycsb-f, zipf, scan, scan-dirty, share, fanout or setup
    #[arg(long, default_value = "bulk", value_parser = workload)]
    workload: WorkloadKind,

    /// Operation of bulk and incast: read, write, send, load, store, fadd or cas; of ptr-chase:
    /// read or load. On ub-ldst load and store are instructions, and the others use queues as on
    /// ub-urma [default: read; on infiniswap and fastswap, load]
    #[arg(long, value_parser = verb)]
    verb: Option<Verb>,

    /// Bytes per operation, as 64 or 4K
    #[arg(long, default_value = "64", value_name = "BYTES", value_parser = payload)]
    payload: u32,

    /// Time of one way over the wire, in nanoseconds
    #[arg(long, default_value_t = 100.0, value_name = "NS")]
    link_ns: f64,

    /// Operations in flight per initiating host
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrency: u32,

    /// Work requests that share a doorbell, if a core posts several in a row
    #[arg(long, default_value_t = 1, value_name = "N")]
    batch: u32,

    /// Number of hosts: of two, the first initiates; of more, each initiates to all others
    #[arg(long, default_value_t = 2, value_name = "N")]
    hosts: u32,

    /// Number of endpoints per host, each with a core of its own
    #[arg(long, default_value_t = 1, value_name = "N")]
    jetties: u32,

    /// Number of remote nodes to which each host is connected
    #[arg(long, default_value_t = 1, value_name = "N")]
    connections: u32,

    /// Number of endpoints at the target among which SENDs are spread
    #[arg(long, default_value_t = 1, value_name = "N")]
    remote_jetties: u32,

    /// Choose pairs of endpoints by a Zipf distribution of this exponent, not in turn
    #[arg(long, value_name = "EXPONENT")]
    popularity: Option<f64>,

    /// Order of the operations: none, roi, rot, rol, fence or uno (UB only)
    #[arg(long, default_value = "none", value_parser = order)]
    order: Ordering,

    /// Percentage of operations to which --order applies
    #[arg(long, default_value_t = 100, value_name = "PERCENT")]
    order_percent: u32,

    /// Probability that a packet is lost, 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    loss: f64,

    /// Packets to which --loss applies: requests, responses, acks, or several of them
    #[arg(long, value_delimiter = ',', value_name = "ROLE")]
    loss_of: Vec<String>,

    /// Mean of an exponential delay that is added to wire and DMA times, as a multiple of each
    #[arg(long, default_value_t = 0.0, value_name = "FACTOR")]
    jitter: f64,

    /// Delay each packet by a random time of up to N full packets, in both directions
    #[arg(long, default_value_t = 0, value_name = "N")]
    reorder: u32,

    /// How the CPU caches remote memory: wb (write-back), wt (write-through) or uc (uncached);
    /// ub-ldst only
    #[arg(long, default_value = "uc", value_parser = cache)]
    cache: CachePolicy,

    /// Percentage of hops of ptr-chase that stay among 32 lines
    #[arg(long, default_value_t = 0, value_name = "PERCENT")]
    locality: u32,

    /// Number of records or lines of the working set
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    keys: u64,

    /// Number of reads of every reader after each change (share)
    #[arg(long, default_value_t = 1, value_name = "N")]
    reads: u32,

    /// Read from caches without fences, and count stale values (share)
    #[arg(long)]
    unfenced: bool,

    /// How a member of a service is chosen: direct, cpu, hint, turn or depth (fanout)
    #[arg(long, default_value = "direct", value_parser = dispatching)]
    dispatch: Dispatching,

    /// Let the endpoints of the target share their receives (fanout)
    #[arg(long)]
    srq: bool,

    /// Exponent of the Zipf distribution of YCSB and zipf
    #[arg(long, default_value_t = 0.99, value_name = "EXPONENT")]
    skew: f64,

    /// How the application receives completions: poll, call (system call) or interrupt
    #[arg(long, default_value = "poll", value_parser = notice)]
    completion: Notice,

    /// Operations that arrive per microsecond, at random times: an open loop (bulk, incast, zipf,
    /// scan, scan-dirty, ycsb-a to ycsb-f, fanout)
    #[arg(long, value_name = "MOPS")]
    rate: Option<f64>,

    /// Number of operations in all
    #[arg(long, default_value_t = 1000, value_name = "N")]
    ops: u64,

    /// Most bytes of payload in a packet
    #[arg(long, default_value_t = 4096, value_name = "BYTES")]
    mtu: u32,

    /// Policies of UB channels and scheduler of the NICs, as in `fairway perf`; RoCE has cc=dcqcn,
    /// cc=fixed and schedulers only
    #[arg(long, default_value = "cc=fixed:16M")]
    policy: String,

    /// Remove a feature: split (of Jetty and channel), bus (the NIC on the bus), unordered
    #[arg(long, value_delimiter = ',', value_name = "FEATURE")]
    without: Vec<String>,

    /// Set a constant, as --constants shows them
    #[arg(long = "set", value_delimiter = ',', value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// Run the published model, in which resources are never occupied and messages are forwarded
    /// whole
    #[arg(long)]
    oracle: bool,

    /// Seed of all random decisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl ModelOptions {
    /// The given verb, or the stack's default: a paging stack is accessed by loads and stores only,
    /// in the oracle, too. On the other stacks the oracle accepts any verb.
    fn verb(&self) -> Result<Verb, Failure> {
        let Some(verb) = self.verb else {
            return Ok(if self.stack.swaps() { Verb::Load } else { Verb::Read });
        };
        let (stack, name) = (self.stack.name(), verb.name());
        let by_instruction = matches!(verb, Verb::Load | Verb::Store);
        let is_bulk = matches!(self.workload, WorkloadKind::Bulk | WorkloadKind::Incast);
        if self.stack.swaps() && !by_instruction {
            return Err(Failure::usage(format!(
                "--verb {name}: stack {stack} pages, so its programs only load and store: take \
                 --verb load or store, or leave --verb out"
            )));
        }
        if !self.oracle && is_bulk && by_instruction && !self.stack.has_instructions() {
            return Err(Failure::usage(format!(
                "--verb {name}: stack {stack} has no instructions for remote memory: take --verb \
                 read or write, or --stack ub-ldst"
            )));
        }
        Ok(verb)
    }

    fn workload(&self) -> WorkloadKind {
        match self.workload {
            WorkloadKind::Share { .. } => {
                WorkloadKind::Share { reads: self.reads, fenced: !self.unfenced }
            }
            WorkloadKind::Fanout { .. } => {
                WorkloadKind::Fanout { dispatch: self.dispatch, shared: self.srq }
            }
            kind => kind,
        }
    }

    fn lossy(&self) -> Result<Lossy, Failure> {
        if self.loss_of.is_empty() {
            return Ok(Lossy::default());
        }
        let mut lossy = Lossy { requests: false, responses: false, acknowledgements: false };
        for role in &self.loss_of {
            match role.as_str() {
                "requests" => lossy.requests = true,
                "responses" => lossy.responses = true,
                "acks" => lossy.acknowledgements = true,
                other => {
                    return Err(Failure::usage(format!(
                        "--loss-of {other}: requests, responses or acks"
                    )));
                }
            }
        }
        Ok(lossy)
    }

    /// The configuration.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let mut constants = Constants::default();
        for setting in &self.set {
            let (name, value) = setting
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("{setting}: NAME=VALUE is wanted")))?;
            let value =
                value.parse().map_err(|_| Failure::usage(format!("{setting}: no number")))?;
            constants.set(name, value)?;
        }
        let mut without = Ablations::default();
        for feature in &self.without {
            match feature.as_str() {
                "split" => without.split = true,
                "bus" => without.bus = true,
                "unordered" => without.unordered = true,
                other => {
                    return Err(Failure::usage(format!(
                        "--without {other}: split, bus or unordered"
                    )));
                }
            }
        }
        if self.srq && !matches!(self.workload, WorkloadKind::Fanout { .. }) {
            return Err(Failure::usage(
                "--srq: only fanout has receives to share: take --workload fanout, or leave --srq \
                 out",
            ));
        }
        Ok(Config {
            stack: self.stack,
            workload: self.workload(),
            verb: self.verb()?,
            payload: self.payload,
            link_ns: self.link_ns,
            concurrency: self.concurrency,
            batch: self.batch,
            hosts: self.hosts,
            jetties: self.jetties,
            connections: self.connections,
            remote_jetties: self.remote_jetties,
            popularity: self.popularity,
            order: self.order,
            order_percent: self.order_percent,
            loss: self.loss,
            lossy: self.lossy()?,
            jitter: self.jitter,
            reorder: self.reorder,
            cache: self.cache,
            locality: self.locality,
            keys: self.keys,
            skew: self.skew,
            notice: self.completion,
            rate_mops: self.rate,
            ops: self.ops,
            mtu: self.mtu,
            policy: self.policy.clone(),
            without,
            oracle: self.oracle,
            seed: self.seed,
            constants,
        })
    }
}

/// The options of a run, for a JSON object.
pub(super) fn requested(config: &Config) -> Map<String, Value> {
    let (reads, fenced) = match config.workload {
        WorkloadKind::Share { reads, fenced } => (Some(reads), Some(fenced)),
        _ => (None, None),
    };
    let (dispatch, srq) = match config.workload {
        WorkloadKind::Fanout { dispatch, shared } => {
            let name = DISPATCHES.iter().find(|(_, other)| *other == dispatch);
            (name.map(|(name, _)| *name), Some(shared))
        }
        _ => (None, None),
    };
    let (lossy, without) = (config.lossy, config.without);
    let loss_of = chosen(&[
        ("requests", lossy.requests),
        ("responses", lossy.responses),
        ("acks", lossy.acknowledgements),
    ]);
    let gone =
        chosen(&[("split", without.split), ("bus", without.bus), ("unordered", without.unordered)]);
    let changed: Map<String, Value> = fairway_nicmodel::constants::ALL
        .iter()
        .filter_map(|constant| {
            let value = config.constants.get(constant.name)?;
            (value != constant.default).then(|| (constant.name.to_owned(), json!(value)))
        })
        .collect();
    let value = json!({
        "requested_ops": config.ops,
        "stack": config.stack.name(),
        "workload": workload_name(config.workload),
        "verb": config.verb.name(),
        "payload": config.payload,
        "link_ns": config.link_ns,
        "concurrency": config.concurrency,
        "batch": config.batch,
        "hosts": config.hosts,
        "jetties": config.jetties,
        "connections": config.connections,
        "remote_jetties": config.remote_jetties,
        "popularity": config.popularity,
        "order": format!("{:?}", config.order).to_lowercase(),
        "order_percent": config.order_percent,
        "loss": config.loss,
        "loss_of": loss_of,
        "jitter": config.jitter,
        "reorder": config.reorder,
        "cache": cache_name(config.cache),
        "locality": config.locality,
        "keys": config.keys,
        "dispatch": dispatch,
        "srq": srq,
        "reads": reads,
        "fenced": fenced,
        "skew": config.skew,
        "completion": format!("{:?}", config.notice).to_lowercase(),
        "rate": config.rate_mops,
        "mtu": config.mtu,
        "policy": config.policy,
        "without": gone,
        "set": changed,
        "oracle": config.oracle,
        "seed": config.seed,
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The names whose flag is true.
fn chosen(all: &[(&'static str, bool)]) -> Vec<&'static str> {
    all.iter().filter(|(_, chosen)| *chosen).map(|(name, _)| *name).collect()
}

fn named<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<T, ValueError> {
    let found = all.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        ValueError::OneOf { names: names.join(", ") }
    })
}

fn stack(text: &str) -> Result<Stack, ValueError> {
    named(text, &Stack::ALL.map(|stack| (stack.name(), stack)))
}

/// Parses the bytes of an operation.
fn payload(text: &str) -> Result<u32, ValueError> {
    let bytes = crate::quantity::size(text)?;
    u32::try_from(bytes).map_err(|_| ValueError::Bytes(text.to_owned()))
}

fn verb(text: &str) -> Result<Verb, ValueError> {
    named(text, &Verb::ALL.map(|verb| (verb.name(), verb)))
}

const WORKLOADS: [(&str, WorkloadKind); 19] = [
    ("bulk", WorkloadKind::Bulk),
    ("incast", WorkloadKind::Incast),
    ("graph-bfs", WorkloadKind::Search),
    ("hash-probe", WorkloadKind::Probe),
    ("ptr-chase", WorkloadKind::PointerChase),
    ("cas-lock", WorkloadKind::CasLock),
    ("barrier", WorkloadKind::Barrier),
    ("ycsb-a", WorkloadKind::Ycsb('A')),
    ("ycsb-b", WorkloadKind::Ycsb('B')),
    ("ycsb-c", WorkloadKind::Ycsb('C')),
    ("ycsb-d", WorkloadKind::Ycsb('D')),
    ("ycsb-e", WorkloadKind::Ycsb('E')),
    ("ycsb-f", WorkloadKind::Ycsb('F')),
    ("zipf", WorkloadKind::Zipf),
    ("scan", WorkloadKind::Scan { dirty: false }),
    ("scan-dirty", WorkloadKind::Scan { dirty: true }),
    ("fanout", WorkloadKind::Fanout { dispatch: Dispatching::Direct, shared: false }),
    ("setup", WorkloadKind::Setup),
    ("share", WorkloadKind::Share { reads: 1, fenced: true }),
];

fn workload(text: &str) -> Result<WorkloadKind, ValueError> {
    named(text, &WORKLOADS)
}

fn workload_name(kind: WorkloadKind) -> &'static str {
    let same = |other: WorkloadKind| {
        std::mem::discriminant(&other) == std::mem::discriminant(&kind)
            && (other == kind || !matches!(kind, WorkloadKind::Ycsb(_) | WorkloadKind::Scan { .. }))
    };
    WORKLOADS.iter().find(|(_, other)| same(*other)).map_or("", |(name, _)| name)
}

const CACHES: [(&str, CachePolicy); 3] = [
    ("wb", CachePolicy::WriteBack),
    ("wt", CachePolicy::WriteThrough),
    ("uc", CachePolicy::Uncached),
];

fn cache(text: &str) -> Result<CachePolicy, ValueError> {
    named(text, &CACHES)
}

fn cache_name(policy: CachePolicy) -> &'static str {
    CACHES.iter().find(|(_, other)| *other == policy).map_or("", |(name, _)| name)
}

fn notice(text: &str) -> Result<Notice, ValueError> {
    named(text, &[("poll", Notice::Poll), ("call", Notice::Call), ("interrupt", Notice::Interrupt)])
}

fn dispatching(text: &str) -> Result<Dispatching, ValueError> {
    named(text, &DISPATCHES)
}

const DISPATCHES: [(&str, Dispatching); 5] = [
    ("direct", Dispatching::Direct),
    ("cpu", Dispatching::Cpu),
    ("hint", Dispatching::Hint),
    ("turn", Dispatching::Turn),
    ("depth", Dispatching::Depth),
];

fn order(text: &str) -> Result<Ordering, ValueError> {
    named(text, &Ordering::ALL.map(|order| (order.name(), order)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    #[test]
    fn json_object_has_every_option() {
        let command = ModelOptions::augment_args(Command::new("nic"));
        let names: Vec<String> = command
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .map(|name| match name {
                // `ops` is the number that completed.
                "ops" => String::from("requested_ops"),
                "unfenced" => String::from("fenced"),
                name => name.replace('-', "_"),
            })
            .collect();
        let matches = command.get_matches_from(["nic", "--policy=cc=dcqcn", "--mtu=1024"]);
        let model = ModelOptions::from_arg_matches(&matches).expect("options");
        let object = requested(&model.config().expect("a configuration"));
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            assert!(object.contains_key(&name), "{name}");
        }
        assert_eq!((&object["policy"], &object["mtu"]), (&json!("cc=dcqcn"), &json!(1024)));
    }
}
