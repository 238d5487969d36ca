//! The `fairway` tool, as a library: the program itself is one call of [`main`].
//!
//! **What it is.** `perf` measures the transport with output like perftest's, `serve` and `copy`
//! move files by remote WRITE, `emulate` impairs a network, `sim` simulates networks of thousands
//! of NICs, `collective` measures operations of groups of processes, `nic` runs the NIC model,
//! `policy` checks policies that are files, `info` lists versions, datapaths and limits, and
//! `doctor` explains what slows Fairway down. [`command`] describes all of it, for the manual pages
//! and the shells' completions.
//!
//! **May import:** `fairway` (and through it the vocabulary of the protocol and the port), and the
//! simulators: `fairway-sim` for `sim`, `fairway-nicmodel` for `nic`; `fairway-communicator` for
//! `collective`; `fairway-sandbox` for `policy`.
//!
//! **Invariants.** Bytes that the tool reports as measured were moved, and compared at their target
//! unless the user disabled it. Everything the other side sends is parsed by total parsers. A name
//! that a client sends never reaches a file outside the directory served.
//!
//! **How to test:** `cargo test -p fairway-cli` (runs the real program over loopback).

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

mod args;
mod codec;
mod collective;
mod copy;
mod doctor;
mod emulate;
mod failure;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod ignored;
mod info;
mod input;
mod mailbox;
mod net;
mod nic;
mod outcome;
mod outputs;
mod paths;
mod perf;
mod plot;
mod policy;
mod printable;
mod process;
mod progress;
mod quantity;
mod sim;
mod top;
mod trace;
mod verbs;
mod zone;

use args::{Arguments, Command};
pub use codec::MessageError;
pub use failure::Failure;

/// Describes the whole command line, for manual pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the tool with this process's arguments. Exit status: 0 success, 1 failure (also of a
/// verification), 2 usage.
pub fn main() -> ExitCode {
    process::survive_file_limit();
    match parse().and_then(|arguments| run(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            process::say(&format!("fairway: {}", failure.shown()));
            ExitCode::from(failure.exit_status())
        }
    }
}

/// Parses the command line. Ends the process for help, and for errors whose message from the parser
/// is good enough.
fn parse() -> Result<Arguments, Failure> {
    let arguments: Vec<String> =
        std::env::args_os().map(|text| text.to_string_lossy().into_owned()).collect();
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            return Err(
                ignored::negative_number(&error, &arguments).unwrap_or_else(|| error.exit())
            );
        }
    };
    ignored::check(&matches)?;
    Ok(Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()))
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Perf(options) => perf::run(&options),
        Command::Serve(options) => copy::serve(&options),
        Command::Copy(options) => copy::copy(&options),
        Command::Info(options) => info::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Emulate(options) => emulate::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Run(options) => verbs::run(&options),
        Command::Devices(options) => verbs::devices(&options),
        Command::Collective(options) => collective::run(&options),
        Command::Nic(options) => nic::run(&options),
        Command::Policy(options) => policy::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut command_for_shells(), "fairway", &mut out);
            process::print(&String::from_utf8_lossy(&out))
        }
    }
}

fn command_for_shells() -> clap::Command {
    command().bin_name("fairway")
}
