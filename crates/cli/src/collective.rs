//! `fairway collective`: time and bandwidth of collective operations, of data that is compared.
//!
//! [`group`] finds out which rank this process is, or starts the others; [`measure`] executes the
//! operations and compares their results; [`table`] prints them as nccl-tests does.

mod group;
mod measure;
mod table;

use crate::failure::Failure;
use crate::net::NetOptions;
use crate::process::{self, Helper};
use crate::quantity;
use clap::Args;
use fairway_communicator::{Algorithm, Communicator, ElementType, Options, Reduction};
use group::Place;
use measure::Operation;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  fairway collective all-reduce --ranks 4 --sizes 8..256M
  fairway collective all-to-all --ranks 3 --size 1M --emulate loss=1%
  fairway collective all-reduce --ranks 2 --algo ring --type bf16 --op average --json
  fairway collective broadcast --rank 0 --ranks 2 --rendezvous host1:29500   # on host1, and
  fairway collective broadcast --rank 1 --ranks 2 --rendezvous host1:29500   # on another
  fairway collective all-reduce --hostfile hosts --sizes 1K..64M             # by ssh
  mpirun -np 4 fairway collective all-reduce

Without --rank, the number of this process is taken from the environment of torchrun (RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT), mpirun, or srun. Otherwise --ranks processes are started on
this host. A line of a host file is a host, optionally with its number of ranks: host1 slots=2.

The columns are those of nccl-tests: algbw is the size divided by the time, and busbw corrects it
by what the operation must move, so that it can be compared with the rate of a link. Times are the
mean of the iterations, at the slowest rank. #wrong counts elements that differ from a computation
at each rank.";

/// Time between two looks at the ranks that this process has started.
const CHECK: Duration = Duration::from_millis(50);

/// `fairway collective`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CollectiveOptions {
    /// The operation: all-reduce, reduce-scatter, all-gather, broadcast, reduce, gather, scatter,
    /// all-to-all, send-recv or barrier
    #[arg(value_name = "OPERATION")]
    operation: Operation,

    /// Number of ranks; without --rank, processes on this host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,

    /// Number of this rank, from 0, if the others are started by other means
    #[arg(long, value_name = "N", requires = "ranks")]
    rank: Option<u32>,

    /// Host and TCP port at which rank 0 listens while the ranks find each other
    #[arg(long, value_name = "HOST:PORT")]
    rendezvous: Option<String>,

    /// Start the ranks on the hosts of this file, by --launch
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rank", "ranks"])]
    hostfile: Option<std::path::PathBuf>,

    /// Command that runs a command on a host: its next argument is the host
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "hostfile")]
    launch: String,

    /// Bytes of the buffer (of the largest one, where input and output differ) [default: 1M]
    #[arg(long, value_parser = quantity::size, conflicts_with = "sizes")]
    size: Option<u64>,

    /// Measure one row for each size from FIRST to LAST, each twice the one before, as 8..256M
    #[arg(long, value_name = "FIRST..LAST", value_parser = quantity::sizes)]
    sizes: Option<(u64, u64)>,

    /// Type of the elements: f64, f32, f16, bf16, i8, u8, i32, u32, i64 or u64
    #[arg(long = "type", value_name = "TYPE", default_value = "f32")]
    element: ElementType,

    /// How elements are combined: sum, product, min, max or average
    #[arg(long = "op", value_name = "OP", default_value = "sum")]
    reduction: Reduction,

    /// The rank that sends to all, or receives from all, where the operation has one
    #[arg(long, value_name = "N", default_value_t = 0)]
    root: u32,

    /// The algorithm: ring, tree, doubling, halving, direct, spread, pairwise or hierarchical
    /// [default: one for lent buffers, or the one with the lowest estimate, by costs that are
    /// measured at the start]
    #[arg(long = "algo", value_name = "NAME")]
    algorithm: Option<Algorithm>,

    /// Time to measure each column, in which operations are repeated; 5 times at least
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "300ms",
          conflicts_with = "iters")]
    duration: Duration,

    /// Instead: number of operations to measure for each column
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iters: Option<u32>,

    /// Time after which an operation fails that has not ended, and the start if ranks are missing
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "60s")]
    timeout: Duration,

    /// Print one JSON object for each row
    #[arg(long)]
    json: bool,

    /// Process number of the program that has started this rank
    #[arg(long, hide = true)]
    parent: Option<u32>,

    #[command(flatten)]
    net: NetOptions,
}

/// Runs the command.
pub(crate) fn run(options: &CollectiveOptions) -> Result<(), Failure> {
    if let Some(parent) = options.parent {
        process::end_with_parent(parent)?;
    }
    options.net.check()?;
    measure::check_memory(options)?;
    if let Some(algorithm) = options.algorithm
        && !Algorithm::of(options.operation.kind()).contains(&algorithm)
    {
        let able = Algorithm::of(options.operation.kind()).iter().map(ToString::to_string);
        return Err(Failure::usage(format!(
            "--algo {algorithm} cannot execute {}: choose one of {}",
            options.operation,
            able.collect::<Vec<_>>().join(", ")
        )));
    }
    let (place, mut helpers) = group::find(options)?;
    if options.root >= place.ranks {
        return Err(Failure::usage(format!(
            "--root {}: the ranks are 0 to {}",
            options.root,
            place.ranks - 1
        )));
    }
    let communicator = join(options, &place, &mut helpers)?;
    measure::all(options, &communicator, |row| {
        if place.rank != 0 {
            return Ok(());
        }
        let text = match options.json {
            true => format!("{}\n", row.json()),
            false => row.text(),
        };
        process::print(&text)
    })
}

/// Joins the group, unless one of the ranks that this process has started ends before that.
fn join(
    options: &CollectiveOptions,
    place: &Place,
    helpers: &mut [Helper],
) -> Result<Communicator, Failure> {
    let mut context = options.net.builder(0, None);
    if options.net.bind.is_none() {
        let own = place.rendezvous().own_address(options.timeout).map_err(failed)?;
        context = context.bind(own);
    }
    let group = Options {
        context,
        timeout: options.timeout,
        setup_timeout: options.timeout,
        algorithm: options.algorithm,
        ..Options::default()
    };
    let (mut rendezvous, rank, ranks) = (place.rendezvous(), place.rank, place.ranks);
    let (sender, joined) = mpsc::channel();
    // The thread waits for ranks that may have ended; then this process ends without it.
    std::thread::spawn(move || {
        let _ = sender.send(Communicator::new(rank, ranks, &mut rendezvous, group));
    });
    let communicator = loop {
        match joined.recv_timeout(CHECK) {
            Ok(joined) => break joined.map_err(failed)?,
            Err(RecvTimeoutError::Timeout) => group::check_started(helpers)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::failed("the thread that joins the group has ended"));
            }
        }
    };
    if let Some(shortage) = communicator.socket_shortage() {
        process::say(&format!("fairway: {shortage}"));
    }
    Ok(communicator)
}

/// A failure of the group.
pub(crate) fn failed(error: fairway_communicator::Error) -> Failure {
    Failure::failed(error.to_string())
}
