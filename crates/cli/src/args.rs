//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use fairway::Spec;
use fairway_sim::WORKLOADS;

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
        fairway serve --dir in &                             # lets others copy files into `in`\n  \
        fairway copy big.img localhost/big.img               # verified end to end\n\n\
        Exit status: 0 fine, 1 failure (of a verification as well), 2 usage."
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
    /// Receive files into a directory, by remote WRITE into their memory-mapped pages
    #[command(after_help = "Example:\n  fairway serve --dir in --bind 0.0.0.0\n\n\
            Whoever reaches the port may put files there: serve trusted networks only.")]
    Serve(ServeOptions),
    /// Copy a file to a server, and verify it
    #[command(after_help = "Example:\n  fairway copy --paths 16 big.img HOST/backups/big.img\n\n\
            Both sides hash the file; it appears under its name only if the hashes agree.\n\
            The file must not be shortened while it is being copied.")]
    Copy(CopyOptions),
    /// Show the version, the datapaths found, the limits, and the size of all state
    #[command(after_help = "Example:\n  fairway info --state --jetties 1024 --hosts 1024")]
    Info(InfoOptions),
    /// Explain which datapath is used, what slows it down or is missing, and what to do about it
    #[command(after_help = crate::doctor::EXAMPLES)]
    Doctor(crate::doctor::DoctorOptions),
    /// Relay UDP over paths as bad as asked for, or emulate a whole network in real time
    #[command(after_help = EMULATE_EXAMPLES)]
    Emulate(EmulateOptions),
    /// Simulate networks of thousands of NICs, each running the protocol that runs live
    #[command(after_help = sim_help())]
    Sim(Box<SimOptions>),
    /// Run the NIC model: what state, order, placement and attachment cost, step by step
    #[command(after_help = NIC_EXAMPLES)]
    Nic(Box<NicOptions>),
    /// Show, live, what running programs send, by flow and tenant
    #[command(after_help = crate::top::EXAMPLES)]
    Top(TopOptions),
    /// Check a policy that is a WebAssembly file, or put it in the place of one that runs
    #[command(after_help = crate::policy::EXAMPLES)]
    Policy(PolicyOptions),
    /// Run an RDMA program over Ethernet: its libibverbs and librdmacm are Fairway's
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

A network of its own, from a file (two are in the folder examples/topologies of the source):
  fairway emulate --topology examples/topologies/leaf-spine.txt
  fairway emulate --topology examples/topologies/leaf-spine.txt --set routing=spray -- \
    ip netns exec fw-0 ping -c 3 10.83.0.4

Hosts are the namespaces fw-0, fw-1 and so on, with addresses 10.83.0.1, 10.83.0.2 and so on, and
fd83::1, fd83::2 and so on; any program runs there. docs/simulator.md has the model.";

/// Help text with the workloads and examples.
fn sim_help() -> String {
    let line = |(name, meaning): &(&str, &str)| format!("  {name:<18}  {meaning}\n");
    let workloads: String = WORKLOADS.iter().map(line).collect();
    format!("Workloads:\n{workloads}\n{SIM_EXAMPLES}")
}

const SIM_EXAMPLES: &str = "Examples:
  fairway sim permutation --nodes 1024 --link 400G --bytes 64M --mtu 4K --chunk 32K --paths 256
  fairway sim incast --nodes 128 --senders 100 --bytes 1M --overflow trim --json
  fairway sim my.scenario --seeds 20 --csv flows.csv        # lines as: routing adaptive
  fairway sim --matrix perm1024.cm --policy cc=dcqcn:line=400Gbps,path=p2c
  fairway sim --topology dragonfly --dragonfly 8:4:33 --hosts-per-switch 4 --routing ugal --cores 2
  fairway sim websearch --nodes 128 --load 60 --series queues.csv --fail 128-160@50us..200us
  fairway sim permutation --topology leaf-spine --nodes 128 --fail spine-0@20us
  fairway sim permutation --topology dual-plane --nodes 128 --fail plane-1@20us..60us
  fairway sim trace examples/traces/training-step.trace --topology leaf-spine --hosts-per-leaf 8
  fairway sim incast --nodes 64 --senders 8 --trace incast.perfetto.json   # for ui.perfetto.dev

Payload is named and never copied, so a run needs no memory for it. docs/simulator.md has the model.";

const NIC_EXAMPLES: &str = "Examples:
  fairway nic --stack ub-ldst --verb load --explain    # where a round trip goes
  fairway nic --stack roce-dma --verb write --concurrency 64
  fairway nic --stack roce-bf --verb write --rate 5 --ops 20000
  fairway nic --stack roce-dma --jetties 32 --connections 32 --popularity 0.99
  fairway nic --oracle --stack roce-dma --set roce_psn_ns=0
  fairway nic --sweep payload.sweep --json             # its lines: stack=ub-urma,roce-dma payload=8,64

The protocol is run by the engines that run live; the model only charges time for each step. All
constants have a name, a source and an option: --constants shows them, --set changes them.";

const PERF_USAGE: &str = "fairway perf [OPTIONS] <OPERATION>
       fairway perf [OPTIONS] --server";

const PERF_EXAMPLES: &str = "Examples:
  fairway perf write --size 64K --paths 16             # both sides, on this machine
  fairway perf --server                                # on one machine, and on the other:
  fairway perf read --sizes 2..8M --connect HOST
  fairway perf send --latency --size 64 --json
  fairway perf write --emulate loss=1%,reorder=64 --policy cc=swift,path=spray
  fairway perf write --size 64 --order ROT --tag SO    # every one strictly after the one before
  fairway perf atomic-fadd --fence                     # or atomic-cas, load, store
  fairway perf put --latency --ping-pong               # mailbox to mailbox
  fairway perf write --engines 2 --size 1M             # two channels, two threads on each side
  fairway perf write --flows 256,4K,64K,1M --sched drr # who gets how much of what is sent
  fairway perf write --trace run.jsonl                 # what congestion control saw and did";

const PERF_NOTES: &str = "Examples:
  fairway perf write --size 64K --paths 16             # both sides, on this machine
  fairway perf --server                                # on one machine, and on the other:
  fairway perf read --sizes 2..8M --connect HOST
  fairway perf send --latency --size 64 --json
  fairway perf write --emulate loss=1%,reorder=64 --policy cc=swift,path=spray
  fairway perf write --size 64 --order ROT --tag SO    # every one strictly after the one before
  fairway perf atomic-fadd --fence                     # or atomic-cas, load, store
  fairway perf put --latency --ping-pong               # mailbox to mailbox
  fairway perf write --engines 2 --size 1M             # two channels, two threads on each side
  fairway perf write --flows 256,4K,64K,1M --sched drr # who gets how much of what is sent
  fairway perf write --trace run.jsonl                 # what congestion control saw and did

What is verified, and when:
  Every slot of memory holds a pattern of its own. One word in every packet names slot and
  generation, so that a packet that was misdelivered or is old is distinguished from the right one.
  write      The target compares whole slots while the run goes on (as many as cost it 2 % of the
             time), and every slot, byte for byte, at the end.
  write-imm  As write. At each notification the target also checks that it comes exactly once and
             in its slot's order, that the word in every packet of the slot is as new as the
             notification says, and one block (of at most 4096 bytes) byte for byte.
  send       The target checks that each message comes exactly once, the word in every packet of it,
             and one block byte for byte; the last messages wholly. (Messages of less than 8 bytes
             can't name themselves: their bytes and their number are checked.)
  put        As send: every buffer of the target's mailbox takes one.
  read       The initiator spoils the words before, checks them after, and one block byte for byte;
             the last reads wholly.
  load       As read.
  store      As write.
  atomic-cas, atomic-fadd
             Every word goes through a known chain of values. The initiator compares each old value
             with the chain; the target compares words at rest now and then, and all at the end.
  With --order UNO what was lost is told (\"lost\"), and rates count what arrived. What arrived is
  checked byte for byte, but not that it arrives, once, and in order.
  \"verified\" counts the bytes compared. A mismatch ends the program with status 1.

Flows (--flows):
  Each has a Jetty of its own, all the same peer, and --depth messages in flight (4 by default). Memory is
  compared byte for byte at the end. What the line carries is --line, or the most that a
  single flow of 1M messages gets in several short runs before and one after. The schedulers static
  and water-filling are given that rate, unless they have a line= of their own; if it turns out too
  low, the flows are measured again with the higher one.
  \"jain\" is Jain's index of the rates, each divided by its flow's weight (weights of tenants are not
  considered); \"utilisation\" is the sum of the rates by what the line carries. A WRITE is shared out by this side, a READ by the server: give a
  server of your own the same --policy.

Latency:
  Both sides poll. The time is that from posting to completion: of a WRITE, SEND, PUT or store until
  it has been placed and acknowledged, of a READ, load or atomic until the data is here, and with
  --order UNO until it has been sent. With --ping-pong (send and put only) it is half the time until
  the answer of the peer's application is here, as perftest has it; of a PUT, from mailbox to
  mailbox, both sides watching completion records.";

#[derive(Clone, Debug, Args)]
pub(crate) struct PerfOptions {
    /// The operation (a server serves all of them)
    #[arg(required_unless_present = "server", value_name = "OPERATION")]
    pub(crate) operation: Option<Operation>,

    /// Be the target: wait for clients and serve them, one after the other, whatever operation they
    /// measure
    #[arg(long, conflicts_with = "connect")]
    pub(crate) server: bool,

    /// Measure against the server there; without this and --server, both sides run here
    #[arg(long, value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) connect: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectOptions,

    /// Bytes per operation [default: 64K; latency, load, store and --order UNO: 64; atomics: 8]
    #[arg(long, value_parser = quantity::size, conflicts_with = "sizes")]
    pub(crate) size: Option<u64>,

    /// One row for each power of two, as 2..8M
    #[arg(long, value_name = "FIRST..LAST", value_parser = quantity::sizes)]
    pub(crate) sizes: Option<(u64, u64)>,

    /// How long to measure, per row
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "2s",
          conflicts_with = "iters")]
    pub(crate) duration: Duration,

    /// How many operations to measure, per row, instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iters: Option<u64>,

    /// Operations in flight [default: 128, or fewer so that they are at most 64M together; of each
    /// flow, with --flows: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) depth: Option<u32>,

    /// Memory to run through on each side [default: depth times size]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub(crate) buffer: Option<u64>,

    /// Measure one operation at a time, and show times
    #[arg(long)]
    pub(crate) latency: bool,

    /// With --latency: half the time to the peer's application and back (send and put only)
    #[arg(long, requires = "latency")]
    pub(crate) ping_pong: bool,

    /// Compare nothing
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// Print one JSON object per row
    #[arg(long)]
    pub(crate) json: bool,

    /// Cores for this side, or, when both sides run here, for both [default: the first two, when
    /// both sides run here and there are two], or `none`
    #[arg(long, value_name = "CORE[,CORE]", value_parser = net::pins)]
    pub(crate) pin: Option<net::Pins>,

    #[command(flatten)]
    pub(crate) flows: FlowOptions,

    #[command(flatten)]
    pub(crate) trace: TraceOptions,

    #[command(flatten)]
    pub(crate) order: OrderOptions,

    #[command(flatten)]
    pub(crate) net: NetOptions,

    /// Damage one byte, so that the verification can be seen to fail
    #[arg(long, hide = true)]
    pub(crate) corrupt_for_test: bool,

    /// End when the process of this number, the parent, does
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) parent: Option<u32>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// Where files go; no name leads out of it
    #[arg(long, value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    /// A client that is silent for so long is dead, and its file is dropped
    #[arg(long, value_name = "TIME", value_parser = peer_dead, default_value = "3s")]
    pub(crate) peer_dead: Duration,

    /// Files that arrive at once, 1 to 65536; more are refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536),
          default_value_t = 64)]
    pub(crate) max_files: u32,

    /// Bytes of all files that arrive at once; more are refused [default: what the disk has]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub(crate) max_bytes: Option<u64>,

    /// What stays free on the disk: a share of its bytes and of its files, or a number of bytes
    #[arg(long, value_name = "SHARE%|SIZE", value_parser = KeepFree::parse, default_value = "5%")]
    pub(crate) keep_free: KeepFree,

    /// What one address may have of the files and bytes that arrive, and of what is left of the
    /// disk beside what it has stored within a day; the rest is for others
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

    /// The server, and the name the file gets in its directory
    #[arg(value_name = "HOST[:PORT]/NAME")]
    pub(crate) target: String,

    /// Replace a file that is there
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
    /// The size in bytes of every state record and pool
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

    /// With --state: number of paths to each
    #[arg(long, value_name = "P", default_value = "16",
          value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) paths: u64,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct EmulateOptions {
    /// Where to listen; without ports: on the target's port numbers
    #[arg(long, value_name = "ADDRESS[:PORTS]", value_parser = net::ports)]
    #[arg(required_unless_present = "topology", conflicts_with = "topology")]
    pub(crate) listen: Option<net::PortRange>,

    /// Where to relay to, port by port: PORTS is a number, or a range as 4800-4803
    #[arg(long, value_name = "ADDRESS:PORTS", value_parser = net::ports)]
    #[arg(required_unless_present = "topology", conflicts_with = "topology")]
    pub(crate) to: Option<net::PortRange>,

    /// Instead: a network as a scenario file of `fairway sim` has it, whose hosts are network
    /// namespaces (root)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) topology: Option<PathBuf>,

    /// A setting besides the file's, as routing=adaptive or link=1G
    #[arg(long, value_name = "NAME=VALUE", requires = "topology")]
    pub(crate) set: Vec<String>,

    /// Namespaces are called PREFIX-0, PREFIX-1 and so on
    #[arg(long, value_name = "PREFIX", default_value = "fw", value_parser = net::prefix)]
    pub(crate) prefix: String,

    /// Run this meanwhile, and end with it; FAIRWAY_NAMESPACES has the hosts' names
    #[arg(last = true, value_name = "COMMAND", requires = "topology")]
    pub(crate) command: Vec<String>,

    /// What each path does, as delay=50us,loss=1% or 1:loss=5%;2:blackhole@2s..3s
    #[arg(long, default_value = "", value_parser = net::spec, conflicts_with = "topology")]
    pub(crate) spec: Spec,

    /// Seed of its decisions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// End after this time instead of at Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    pub(crate) duration: Option<Duration>,

    /// Most pairs of client and port at a time
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) flows: usize,

    /// Print the counters as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
