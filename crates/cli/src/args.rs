//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use fairway::Spec;
use fairway_sim::WORKLOADS;

use crate::collective::CollectiveOptions;
use crate::copy::{KeepFree, Portion};
use crate::net::{self, ConnectOptions, NetOptions};
use crate::nic::NicOptions;
use crate::perf::{FlowOptions, Operation, OrderOptions};
use crate::policy::PolicyOptions;
use crate::quantity;
use crate::sim::SimOptions;
use crate::top::TopOptions;
use crate::trace::TraceOptions;
pub(crate) use crate::verbs::{DevicesOptions, RunOptions};

/// Moves memory between machines over ordinary UDP: no RDMA NIC, no root, no daemon
#[derive(Debug, Parser)]
#[command(
    name = "fairway",
    version,
    propagate_version = true,
    after_help = "Examples:\n  \
        fairway perf write                                   # both sides, on this machine\n  \
        fairway serve --dir in &                             # receive files into the folder `in`\n  \
        fairway copy big.img localhost/big.img               # copy a file, and verify it\n\n\
        Exit status: 0 success; 1 failure, or a failed verification; 2 wrong usage; that of the \
        program\nfor `fairway run`. A signal ends a command that waits for its server, which a \
        shell shows as 128\nplus the number of the signal (130 for Ctrl-C)."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure bandwidth or latency of WRITE, READ, SEND, PUT, atomics, loads and stores
    #[command(after_help = PERF_EXAMPLES, after_long_help = PERF_NOTES,
              override_usage = PERF_USAGE)]
    Perf(Box<PerfOptions>),
    /// Measure collective operations of several ranks: all-reduce, all-gather, broadcast, ...
    #[command(after_help = crate::collective::EXAMPLES)]
    Collective(Box<CollectiveOptions>),
    /// Receive files into a directory, by remote WRITE into their memory-mapped pages
    #[command(after_help = "Example:\n  fairway serve --dir in --bind 0.0.0.0\n\n\
            Every host that reaches the port may store files there: serve trusted networks only.\n\
            A file gets the permissions that it has at the client, less those that the umask of \
            this\nprocess removes: start it under `umask 077` to keep files from other users.")]
    Serve(ServeOptions),
    /// Copy a file to a server, and verify it
    #[command(after_help = "Example:\n  fairway copy --paths 16 big.img HOST/backups/big.img\n\n\
            Both sides hash the file. The server stores it under its name only if the hashes \
            agree.\n\
            Of a file that grows meanwhile, the bytes are copied that it had at the start. If it \
            becomes\nshorter, or these bytes change, the copy fails and nothing is stored.\n\
            The copy has the file's permissions, less those that the server's umask removes.")]
    Copy(CopyOptions),
    /// Show the version, the datapaths found, the limits, and the size of all state
    #[command(after_help = "Example:\n  fairway info --state --jetties 1024 --hosts 1024")]
    Info(InfoOptions),
    /// Report which datapath is used, what slows it down, what is missing, and how to change that
    #[command(after_help = crate::doctor::EXAMPLES)]
    Doctor(crate::doctor::DoctorOptions),
    /// Relay UDP over paths with delay and loss, or emulate a whole network in real time
    #[command(after_help = EMULATE_EXAMPLES)]
    Emulate(EmulateOptions),
    /// Simulate networks of thousands of NICs, each running the protocol that runs live
    #[command(after_help = sim_help())]
    Sim(Box<SimOptions>),
    /// Run the NIC model, which shows the cost of state, order, placement and attachment by step
    #[command(after_help = NIC_EXAMPLES)]
    Nic(Box<NicOptions>),
    /// Show the traffic of running programs live, by flow and tenant
    #[command(after_help = crate::top::EXAMPLES)]
    Top(TopOptions),
    /// Check a policy in a WebAssembly file, or replace a running one by it
    #[command(after_help = crate::policy::EXAMPLES)]
    Policy(PolicyOptions),
    /// Run an RDMA program over Ethernet, with Fairway's libibverbs and librdmacm
    #[command(after_help = crate::verbs::RUN_EXAMPLES)]
    Run(RunOptions),
    /// Show the devices that RDMA programs find under `fairway run`
    #[command(after_help = "Example:\n  fairway devices --device '^docker'")]
    Devices(DevicesOptions),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  fairway completions bash > ~/.local/share/bash-completion/completions/fairway"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

const EMULATE_EXAMPLES: &str = "Examples, in front of `fairway serve --dir in --bind 127.0.0.1`:
  fairway emulate --listen 127.0.0.2 --to 127.0.0.1:4800-4803 --spec delay=50us,loss=1%
  fairway copy --bind 127.0.0.1 big.img 127.0.0.2/big.img

A Fairway server sends its port numbers to its clients, so the relay listens on the same
numbers, at another address.

A whole network, described by a file (examples/topologies in the source has two):
  fairway emulate --topology examples/topologies/leaf-spine.txt
  fairway emulate --topology examples/topologies/leaf-spine.txt --set routing=spray -- \
    ip netns exec fw-0 ping -c 3 10.83.0.4

The hosts are the network namespaces fw-0, fw-1 and so on. Their addresses are 10.83.0.1,
10.83.0.2 and so on, and fd83::1, fd83::2 and so on. Any program can run there.
docs/simulator.md describes the model.";

/// Help text with the workloads and examples.
fn sim_help() -> String {
    let line = |(name, meaning): &(&str, &str)| format!("  {name:<18}  {meaning}\n");
    let workloads: String = WORKLOADS.iter().map(line).collect();
    format!("Workloads:\n{workloads}\n{SIM_EXAMPLES}")
}

const SIM_EXAMPLES: &str = "Examples:
  fairway sim permutation --nodes 1024 --link 400G --bytes 64M --mtu 4K --paths 256
  fairway sim incast --nodes 128 --senders 100 --bytes 1M --overflow trim --json
  fairway sim my.scenario --seeds 20 --csv flows.csv        # a file with lines such as: routing adaptive
  fairway sim --matrix perm1024.cm --policy cc=dcqcn:line=400Gbps,path=p2c
  fairway sim --topology dragonfly --dragonfly 8:4:33 --hosts-per-switch 4 --routing ugal --cores 2
  fairway sim websearch --nodes 128 --load 60 --series queues.csv --fail 128-160@50us..200us
  fairway sim permutation --topology leaf-spine --nodes 128 --fail spine-0@20us
  fairway sim permutation --topology dual-plane --nodes 128 --fail plane-1@20us..60us
  fairway sim trace examples/traces/training-step.trace --topology leaf-spine --hosts-per-leaf 8
  fairway sim trace examples/traces/nccl.log           # as NCCL wrote it
  fairway sim incast --nodes 64 --senders 8 --trace incast.perfetto.json   # for ui.perfetto.dev
  fairway sim incast --nodes 64 --senders 16 --plot incast.svg                # a picture of the result
  fairway sim ring-allreduce --nodes 16 --sweep bytes=64K,1M,16M --seeds 3 --plot sizes.html

Payload is not stored, so a run needs no memory for it. docs/simulator.md describes the model.";

const NIC_EXAMPLES: &str = "Examples:
  fairway nic --stack ub-ldst --verb load --explain    # where a round trip goes
  fairway nic --stack roce-dma --verb write --concurrency 64
  fairway nic --stack roce-bf --verb write --rate 5 --ops 20000
  fairway nic --stack roce-dma --jetties 32 --connections 32 --popularity 0.99
  fairway nic --oracle --stack roce-dma --set roce_psn_ns=0
  fairway nic --sweep payload.sweep --json             # lines such as: stack=ub-urma,roce-dma payload=8

The model executes the protocol code that runs live, and charges time for each step. Every constant
has a name and a source: --constants shows them, and --set changes one.";

const PERF_USAGE: &str = "fairway perf [OPTIONS] <OPERATION>
       fairway perf [OPTIONS] --server";

const PERF_EXAMPLES: &str = "Examples:
  fairway perf write --size 64K --paths 16             # both sides, on this machine
  fairway perf --server                                # on one machine, and on the other:
  fairway perf read --sizes 2..8M --connect HOST
  fairway perf send --latency --size 64 --json
  fairway perf write --emulate loss=1%,reorder=64 --policy cc=swift,path=spray
  fairway perf write --size 64 --order ROT --tag SO    # each after the one before it
  fairway perf atomic-fadd --fence                     # or atomic-cas, load, store
  fairway perf put --latency --ping-pong               # mailbox to mailbox
  fairway perf write --engines 2 --size 1M             # two channels, two threads on each side
  fairway perf write --flows 256,4K,64K,1M --sched drr # the rate of each flow
  fairway perf write --trace run.jsonl                 # events and decisions of congestion control";

const PERF_NOTES: &str = "Examples:
  fairway perf write --size 64K --paths 16             # both sides, on this machine
  fairway perf --server                                # on one machine, and on the other:
  fairway perf read --sizes 2..8M --connect HOST
  fairway perf send --latency --size 64 --json
  fairway perf write --emulate loss=1%,reorder=64 --policy cc=swift,path=spray
  fairway perf write --size 64 --order ROT --tag SO    # each after the one before it
  fairway perf atomic-fadd --fence                     # or atomic-cas, load, store
  fairway perf put --latency --ping-pong               # mailbox to mailbox
  fairway perf write --engines 2 --size 1M             # two channels, two threads on each side
  fairway perf write --flows 256,4K,64K,1M --sched drr # the rate of each flow
  fairway perf write --trace run.jsonl                 # events and decisions of congestion control

What is verified, and when:
  Every slot of memory holds a pattern of its own. One word in every packet contains the slot and
  the generation, so that misdelivered and outdated packets are detected.
  write      The target compares whole slots during the run, for 2 % of its time, and every byte of
             every slot at the end.
  write-imm  As write. At each notification the target also checks that it arrives exactly once and
             in the order of its slot, that the word in every packet of the slot is as new as the
             notification, and every byte of one block of at most 4096 bytes.
  send       The target checks that each message arrives exactly once, the word in each of its
             packets, and every byte of one block; of the last messages, every byte. (Messages of
             less than 8 bytes have no such word: their bytes and their number are checked.)
  put        As send. Each buffer of the target's mailbox receives one message.
  read       The initiator overwrites the words before each read. Afterwards it checks them and
             every byte of one block; of the last reads, every byte.
  load       As read.
  store      As write.
  atomic-cas, atomic-fadd
             Every word passes through a known chain of values. The initiator compares each old value
             with the chain. The target compares idle words from time to time, and all at the end.
  With --order UNO, messages may be lost: \"lost\" counts them, and rates count the messages that
  arrived. Their bytes are checked, but not their number and order.
  \"verified\" counts the bytes compared. A mismatch ends the program with status 1.

Flows (--flows):
  Each flow has a Jetty of its own and --depth messages in flight (4 by default). All flows have the
  same peer. Every byte of memory is compared at the end. The capacity of the line is --line, or the
  highest rate of a single flow of 1M messages in several short runs before the measurement and one
  after it. The schedulers static and water-filling receive that rate, unless they have a line= of
  their own. If it turns out too low, the flows are measured again with the higher rate.
  \"jain\" is Jain's index of the rates, each divided by the weight of its flow (weights of tenants are
  ignored). \"utilisation\" is the sum of the rates divided by the capacity. This side schedules
  WRITEs, and the server schedules READs: start your own server with the same --policy.

Latency:
  Both sides poll. The time is that from posting to completion. A WRITE, SEND, PUT or store completes
  when it has been placed and acknowledged; a READ, load or atomic when its data has arrived; with
  --order UNO, a message when it has been sent. With --ping-pong (send and put only) the time is half
  of that until the answer of the peer's application has arrived, as in perftest. A PUT then goes
  from mailbox to mailbox, and both sides watch completion records.";

#[derive(Clone, Debug, Args)]
pub(crate) struct PerfOptions {
    /// The operation to measure (not with --server, which serves all of them)
    #[arg(required_unless_present = "server", conflicts_with = "server", value_name = "OPERATION")]
    pub(crate) operation: Option<Operation>,

    /// Be the target: serve clients one after the other, whatever operation they measure
    #[arg(long, conflicts_with = "connect")]
    pub(crate) server: bool,

    /// Measure against the server at HOST; without this and --server, both sides run here
    #[arg(long, value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) connect: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectOptions,

    /// Bytes per operation [default: 64K; latency, load, store and --order UNO: 64; atomics: 8]
    #[arg(long, value_parser = quantity::size, conflicts_with = "sizes")]
    pub(crate) size: Option<u64>,

    /// Measure one row for each size from FIRST to LAST, each twice the one before, as 2..8M
    #[arg(long, value_name = "FIRST..LAST", value_parser = quantity::sizes)]
    pub(crate) sizes: Option<(u64, u64)>,

    /// Duration of the measurement of each row
    #[arg(long, value_name = "TIME", value_parser = quantity::span, default_value = "2s",
          conflicts_with = "iters")]
    pub(crate) duration: Duration,

    /// Instead: number of operations to measure for each row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iters: Option<u64>,

    /// Operations in flight [default: 128, or fewer if they would exceed 64M in all; with --flows:
    /// 4 for each flow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) depth: Option<u32>,

    /// Bytes of memory used in turn on each side [default: depth times size]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub(crate) buffer: Option<u64>,

    /// Measure one operation at a time, and report latencies
    #[arg(long)]
    pub(crate) latency: bool,

    /// With --latency: report half of the round trip to the peer's application (send and put only)
    #[arg(long, requires = "latency")]
    pub(crate) ping_pong: bool,

    /// Do not verify the data
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// Print one JSON object per row
    #[arg(long)]
    pub(crate) json: bool,

    /// Core of this side, or the cores of both sides if both run here, or `none` [default: if both
    /// run here, and there are two cores and no more running threads than cores, the first two;
    /// otherwise none]
    #[arg(long, value_name = "CORE[,CORE]", value_parser = net::pins)]
    pub(crate) pin: Option<net::Pins>,

    /// Contexts of this side, 1 to 16, each with a thread, sockets and state of its own, and a
    /// connection to a context of the server; their rates are added up. Both sides need the same
    /// number. The ports of a server's contexts are 16 apart
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=16),
          conflicts_with_all = ["latency", "flows", "engines", "trace", "prometheus"])]
    pub(crate) contexts: u32,

    #[command(flatten)]
    pub(crate) flows: FlowOptions,

    #[command(flatten)]
    pub(crate) trace: TraceOptions,

    #[command(flatten)]
    pub(crate) order: OrderOptions,

    #[command(flatten)]
    pub(crate) net: NetOptions,

    /// Damage one byte, so that the verification must fail
    #[arg(long, hide = true)]
    pub(crate) corrupt_for_test: bool,

    /// End when the parent process, of this number, ends
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) parent: Option<u32>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// Folder that receives the files; no name leads out of it
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    /// Silence after which a client counts as dead, and its file is dropped; at least 100ms
    #[arg(long, value_name = "TIME", value_parser = peer_dead, default_value = "3s")]
    pub(crate) peer_dead: Duration,

    /// Most files that may arrive at once, 1 to 65536; further ones are refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536),
          default_value_t = 64)]
    pub(crate) max_files: u32,

    /// Most bytes of all files that arrive at once; further files are refused [default: no limit
    /// but the disk]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub(crate) max_bytes: Option<u64>,

    /// Part of the disk that stays free: a share of its bytes and of its files, or a number of
    /// bytes
    #[arg(long, value_name = "SHARE%|SIZE", value_parser = KeepFree::parse, default_value = "5%")]
    pub(crate) keep_free: KeepFree,

    /// Share that one address may take of the files and bytes that may arrive at once, and of the
    /// disk space that is free or that it has used within a day; the rest is for others
    #[arg(long, value_name = "SHARE%", value_parser = Portion::parse, default_value = "75%")]
    pub(crate) address_share: Portion,

    #[command(flatten)]
    pub(crate) net: NetOptions,
}

/// Shorter silences are ordinary: a process that is not scheduled for a moment is not dead.
const PEER_DEAD_MIN: Duration = Duration::from_millis(100);

fn peer_dead(text: &str) -> Result<Duration, quantity::ValueError> {
    let time = quantity::duration(text)?;
    if time < PEER_DEAD_MIN {
        return Err(quantity::ValueError::Silence(text.to_owned()));
    }
    Ok(time)
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CopyOptions {
    /// The file to copy
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) source: PathBuf,

    /// The server, and the file's name in the server's folder
    #[arg(value_name = "HOST[:PORT]/NAME")]
    pub(crate) target: String,

    /// Replace an existing file of that name
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Print the result as a JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectOptions,

    #[command(flatten)]
    pub(crate) net: NetOptions,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct InfoOptions {
    /// Show the size in bytes of every state record and pool
    #[arg(long)]
    pub(crate) state: bool,

    /// With --state: number of Jetties
    #[arg(long, value_name = "N", default_value = "1024",
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) jetties: u64,

    /// With --state: number of remote hosts
    #[arg(long, value_name = "M", default_value = "1024",
          value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(crate) hosts: u64,

    /// With --state: number of paths to each remote host
    #[arg(long, value_name = "P", default_value = "16",
          value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) paths: u64,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct EmulateOptions {
    /// Address to listen at; without PORTS, on the port numbers of --to
    #[arg(long, value_name = "ADDRESS[:PORTS]", value_parser = net::ports)]
    #[arg(required_unless_present = "topology", conflicts_with = "topology")]
    pub(crate) listen: Option<net::PortRange>,

    /// Address to relay to, port by port; PORTS is a number, or a range as 4800-4803
    #[arg(long, value_name = "ADDRESS:PORTS", value_parser = net::ports)]
    #[arg(required_unless_present = "topology", conflicts_with = "topology")]
    pub(crate) to: Option<net::PortRange>,

    /// Instead: emulate the network of a scenario file of `fairway sim`; its hosts are network
    /// namespaces, so this needs root
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) topology: Option<PathBuf>,

    /// Change a setting of the file, as routing=adaptive or link=1G; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "topology")]
    #[arg(conflicts_with_all = ["listen", "to"])]
    pub(crate) set: Vec<String>,

    /// Call the namespaces PREFIX-0, PREFIX-1 and so on
    #[arg(long, value_name = "PREFIX", default_value = "fw", value_parser = net::prefix)]
    #[arg(conflicts_with_all = ["listen", "to"])]
    pub(crate) prefix: String,

    /// Command to run in the emulated network, which ends with it; the variable FAIRWAY_NAMESPACES
    /// contains the names of the hosts
    #[arg(last = true, value_name = "COMMAND", requires = "topology")]
    #[arg(conflicts_with_all = ["listen", "to"])]
    pub(crate) command: Vec<String>,

    /// Impairments of the paths, as delay=50us,loss=1% or 1:loss=5%;2:blackhole@2s..3s
    #[arg(long, default_value = "", value_parser = net::spec, conflicts_with = "topology")]
    pub(crate) spec: Spec,

    /// Seed of the random decisions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// End after this time instead of at Ctrl-C. With --topology, further signals are ignored until
    /// the namespaces are removed; without it, one that comes more than a second after the first
    /// ends the process at once
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub(crate) duration: Option<Duration>,

    /// Most pairs of a client and a port at a time
    #[arg(long, value_name = "N", default_value_t = 1024, conflicts_with = "topology")]
    pub(crate) flows: usize,

    /// Print the counters as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
