//! Development tasks: the commands that `make` calls when a task is more than one line.

use std::process::ExitCode;

mod bench;
mod clients;
mod demo;
mod interop;
mod man;
mod peers;
mod programs;
mod pyverbs;
mod sanitizers;
mod storm;
mod verbs;
mod wheel;

const USAGE: &str = "usage: xtask TASK
  demo                       copy a 256 MiB file by remote WRITE, and print a short table
  bench [--repeats N] [--duration MS] [--place loopback|veth|paths]
        [--part transport|order|isolation|mixed|mailbox|impaired|engines|pacer|fidelity|coalescing|
         verbs|sim|nic|networks|peers|collectives] [--json]
        [--full] [--rate MBPS,..] [--rtt MS,..] [--loss PERCENT,..] [--queue BDP,..] [--cc NAME,..]
        [--mode alone|beside|both] [--tcp system|reno|cubic|bbr] [--mtu BYTES] [--speedup N]
                             (for part networks, which runs only if it is named: cells, congestion
                             controls and emulated networks; docs/measuring.md explains them)
        [--until-spread PERCENT] [--iperf3 PATH] [--ucx PATH] [--fabtests DIR] [--osu DIR]
                             (for part peers, which runs only if it is named: Fairway beside TCP, raw
                             UDP, perftest, iperf3, UCX, libfabric and Open MPI, with CPU times.
                             Programs are searched in PATH, those of --osu only in DIR. Rounds go on,
                             up to 3 N, until the middle half of each row is within PERCENT.
                             `bench --part peers --place loopback --repeats 2` takes some minutes)
        [--torch PYTHON] [--networks host,leaf-spine,loss-0.1,loss-1,slow-path]
        [--operations NAME,..] [--ranks N,..] [--bytes N,..]
                             (for part collectives, which runs only if it is named: collective
                             operations beside gloo, by a Python that has torch and the package
                             fairway; on this host, and over emulated networks, which need root)
        [--row TEXT] [--column TEXT] [--peer SCRIPT]
                             (for part verbs: rows and columns with TEXT in their names, or the column
                             `queue pairs`; soft-RoCE between two guests that SCRIPT boots)
                             measure against raw peers; Markdown to stdout, JSON to target/bench.json
  clients [OPTIONS]          run RDMA programs over both providers; a table of results (clients --help)
  interop --peer SCRIPT [--case NAME] [--loss PERCENT] [--json]
                             run programs here against the same programs in a guest with soft-RoCE;
                             and (cases `rdma..`) the datapath rdma over soft-RoCE, between two
                             guests, in one, and between a guest and this host
  man                        write the manual pages to man/
  pyverbs --tests FOLDER [--provider NAME] [--module NAME] [--peer SCRIPT]
                             run rdma-core's Python tests over both providers and in a soft-RoCE guest
  sanitizers [OPTIONS]       run the C fronts under AddressSanitizer and ThreadSanitizer
                             (sanitizers --help)
  verbs                      build libibverbs.so.1 and librdmacm.so.1, in target/release/fairway-verbs
  wheel [--test] [--python PATH]
                             build the wheel of the Python package, or test it (wheel --help)
  tidy [OPTIONS]             check the sources: module circles, lengths, words (tidy --help)
  storm [--seeds A..B] [--threads N] [--bug NAME]
                             run the storm over a range of seeds, with a bug injected or without
      [--where CONDITION,..] only seeds whose plan meets conditions (close>=30, puts, nodes<=2);
                             a wrong one prints the names of all quantities; --list prints seeds
      [--plan-of SEED]       with the plan of one seed: nodes, policies, kinds of faults
  storm --seed N [--plan-of SEED] [--bug NAME] [--trace] [--trace-file FILE]
                             replay one seed
  injected-bugs              inject each known bug, and fail unless the storm finds it";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match args.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("", &[][..]),
    };
    if task == "tidy" {
        return fairway_tidy::main(rest);
    }
    if task == "--help" || rest.iter().any(|argument| argument == "--help") {
        let help = match task {
            "clients" => clients::HELP,
            "sanitizers" => sanitizers::HELP,
            "wheel" => wheel::HELP,
            _ => USAGE,
        };
        println!("{help}");
        return ExitCode::SUCCESS;
    }
    let result = match task {
        peers::SUBCOMMAND => {
            peers::peer_main(rest);
            Ok(())
        }
        "clients" => clients::run(rest),
        "demo" => demo::run(),
        "bench" => bench::run(rest),
        "interop" => interop::run(rest),
        "man" => man::write(),
        "pyverbs" => pyverbs::run(rest),
        "sanitizers" => sanitizers::run(rest),
        "verbs" => verbs::run(),
        "wheel" => wheel::run(rest),
        "storm" => storm::run(rest),
        "injected-bugs" => storm::injected_bugs(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {task}: {error}");
            ExitCode::FAILURE
        }
    }
}
