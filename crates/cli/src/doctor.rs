//! `fairway doctor`: properties of this machine that help or hinder Fairway, with a remedy for each
//! problem.
//!
//! `gather` reads the machine into the plain values of `readings`; `judge` derives findings from
//! them.

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::time::Duration;

use crate::failure::Failure;
use crate::{process, quantity};

mod finding;
mod gather;
mod judge;
mod readings;
#[cfg(test)]
mod tests;

use finding::{Finding, Verdict};

pub(crate) const EXAMPLES: &str = "Examples:
  fairway doctor                                       # this machine
  fairway doctor HOST                                  # and the path to a server
  fairway doctor --json

HOST has to run `fairway perf --server` or `fairway serve`. The verdicts are `ok`; `slower`: it works
but costs time; `missing`: something optional does not exist; `broken`: Fairway cannot work, or
cannot reach HOST. If something is broken, the last line names it, and the exit status is 1.";

#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorOptions {
    /// A server to connect to, to report set-up time, path MTU, working paths and round trip
    #[arg(value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    host: Option<String>,

    /// Longest wait for the server's answer to the connection request
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "5s",
          requires = "host")]
    connect_timeout: Duration,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(options: &DoctorOptions) -> Result<(), Failure> {
    let host = options.host.as_deref();
    let peer = host.map(|host| gather::peer::probe(host, options.connect_timeout)).transpose()?;
    let readings = gather::gather(peer);
    let findings = judge::judge(&readings);
    let version = env!("CARGO_PKG_VERSION");
    process::print(&if options.json {
        let findings: Vec<Value> = findings.iter().map(Finding::json).collect();
        let value = json!({ "version": version, "kernel": readings.kernel, "findings": findings });
        format!("{value}\n")
    } else {
        format!("fairway {version} on Linux {}\n{}", readings.kernel, finding::text(&findings))
    })?;
    match findings.iter().any(|finding| finding.verdict == Verdict::Broken) {
        true => Err(Failure::failed(finding::summary(&findings))),
        false => Ok(()),
    }
}
