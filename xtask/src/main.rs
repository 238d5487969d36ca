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

const USAGE: &str = "usage: xtask TASK
  demo                       copy a 256 MiB file by remote WRITE, and print a short table
  bench [--repeats N] [--duration MS] [--place loopback|veth]
        [--part transport|order|isolation|mixed|mailbox|impaired|engines|pacer|fidelity|coalescing|
         verbs|sim|nic|networks] [--json]
        [--full] [--rate MBPS,..] [--rtt MS,..] [--loss PERCENT,..] [--queue BDP,..] [--law NAME,..]
        [--mode alone|beside|both] [--tcp system|reno|cubic|bbr] [--mtu BYTES] [--speedup N]
                             (of part networks, which runs only if it is named: cells, control laws,
                             and how networks are made; docs/measuring.md says more)
        [--row TEXT] [--column TEXT] [--peer SCRIPT]
                             (of part verbs: rows and columns with TEXT in their names, or the column
                             `queue pairs`; soft-RoCE between two guests that SCRIPT boots)
                             measure against raw peers; Markdown to stdout, JSON to target/bench.json
  clients [OPTIONS]          RDMA programs over both providers: a table of what passes (clients --help)
  interop --peer SCRIPT [--case NAME] [--loss PERCENT] [--json]
                             programs here against the same in a guest whose kernel speaks RoCE
  man                        write the manual pages to man/
  pyverbs --tests FOLDER [--provider NAME] [--module NAME] [--peer SCRIPT]
                             rdma-core's Python tests over both providers, and in a soft-RoCE guest
  sanitizers [OPTIONS]       the C fronts under AddressSanitizer and ThreadSanitizer
                             (sanitizers --help)
  verbs                      build libibverbs.so.1 and librdmacm.so.1, in target/release/fairway-verbs
  tidy [OPTIONS]             how the code reads: circles, lengths, words (tidy --help)
  storm [--seeds A..B] [--threads N] [--bug NAME]
                             run the storm over a range of seeds, with a bug injected or without
  storm --seed N [--trace]   replay one seed
  injected-bugs              inject each known bug and demand that the storm finds it";

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
