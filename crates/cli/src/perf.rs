//! `fairway perf`: bandwidth and latency, of data that is compared.
//!
//! [`target`] waits for clients and owns the memory; [`initiator`] posts the operations, with
//! [`bandwidth`] or [`latency`]; they agree on each row by [`message`]s and recognise each other's
//! bytes by the pattern of [`slots`].

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use fairway::{Context, DropReason};

use crate::args::PerfOptions;
use crate::failure::Failure;
use crate::net::Pins;
use crate::process::{self, Helper};

mod bandwidth;
mod contexts;
mod flows;
mod inbox;
mod initiator;
mod latency;
pub(crate) mod message;
mod operation;
mod order;
mod report;
mod slots;
mod target;

use contexts::{Place, Server, Together};
pub(crate) use flows::FlowOptions;
use message::Packets;
pub(crate) use operation::Operation;
pub(crate) use order::OrderOptions;
use report::Row;

/// Runs the command.
pub(crate) fn run(options: &PerfOptions) -> Result<(), Failure> {
    let mut options = options.clone();
    options.net.policy = options.flows.policy(options.net.policy)?;
    let options = &options;
    if options.ping_pong && !options.operation.is_some_and(Operation::is_message) {
        return Err(Failure::usage(
            "--ping-pong needs the peer's application to answer: use it with send or put, or leave \
             it out",
        ));
    }
    if let Some(operation) = options.operation {
        options.order.of(operation, options.ping_pong)?;
    }
    if let Some(parent) = options.parent {
        process::end_with_parent(parent)?;
    }
    options.net.check()?;
    match (options.operation, &options.connect) {
        (Some(operation), Some(server)) if !options.server => {
            pin(options)?;
            let servers = Server::all_at(server, options.contexts);
            drive(options, operation, &servers, false)
        }
        (Some(operation), None) if !options.server => both_sides(options, operation),
        _ => {
            pin(options)?;
            process::catch_signals();
            contexts::each(options.contexts, |index| {
                let result = target::serve(options, index);
                // If one context fails, all end.
                process::stop_flag().store(true, Ordering::Release);
                result
            })
        }
    }
}

/// Pins this process, if the options request it.
fn pin(options: &PerfOptions) -> Result<(), Failure> {
    match options.pin {
        Some(Pins::Cores(own, _)) => process::pin(own),
        Some(Pins::Free) | None => Ok(()),
    }
}

fn drive(
    options: &PerfOptions,
    operation: Operation,
    servers: &[Server],
    both_sides_here: bool,
) -> Result<(), Failure> {
    if let Some(flows) = &options.flows.flows {
        let report = flows::measure(options, operation, &flows.0, &servers[0])?;
        let text = if options.json { format!("{}\n", report.json()) } else { report.text() };
        return process::print(&text);
    }
    let policy = options.net.policy_text();
    let is_first = AtomicBool::new(true);
    let together = Together::new(options.contexts);
    let print = |row: &Row| {
        if options.json {
            return process::print(&format!("{}\n", row.json()));
        }
        if is_first.swap(false, Ordering::Relaxed) {
            process::print(&row.heading(&policy, both_sides_here))?;
        }
        process::print(&row.line())
    };
    contexts::each(options.contexts, |index| {
        let mut options = options.clone();
        // Contexts draw different random numbers, and write different bytes.
        options.net.seed = options.net.seed.wrapping_add(2 * u64::from(index));
        let own_port = contexts::port_offset(index);
        let place = Place { server: &servers[index as usize], own_port, together: &together };
        let result = initiator::measure(&options, operation, &place, |row| {
            together.add(row).as_ref().map_or(Ok(()), print)
        });
        together.ended(result)
    })
}

/// Runs the target as another process of this program, on this machine.
fn both_sides(options: &PerfOptions, operation: Operation) -> Result<(), Failure> {
    let (own, other) = cores(options.pin.as_ref(), options.net.engines.max(options.contexts));
    let program = std::env::current_exe()
        .map_err(|error| Failure::io("find the path of this program", &error))?;
    let mut command = Command::new(program);
    // The target's address has the family of this side's.
    let six = options.net.bind.is_some_and(|bind| bind.address.is_ipv6());
    let bind = if six { "[::1]:0" } else { "127.0.0.1:0" };
    command.args(["perf", "--server", "--bind", bind, "--parent"]);
    command.arg(std::process::id().to_string());
    command.arg("--pin").arg(other.map_or("none".into(), |core| core.to_string()));
    command.args(server_arguments(options));
    let mut child = Helper::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let mut servers = Vec::new();
    if let Some(output) = child.0.stdout.take() {
        for line in BufReader::new(output).lines().take(options.contexts as usize) {
            let line =
                line.map_err(|error| Failure::io("receive from the target's process", &error))?;
            servers.extend(line.rsplit_once(' ').map(|(_, address)| Server::at(address)));
        }
    }
    if servers.len() < options.contexts as usize {
        return Err(Failure::failed("the target's process did not start: see its message above"));
    }
    own.map_or(Ok(()), process::pin)?;
    drive(options, operation, &servers, true)
}

/// Cores of this process and of the other one.
fn cores(pins: Option<&Pins>, threads: u32) -> (Option<usize>, Option<usize>) {
    match pins {
        Some(Pins::Free) => (None, None),
        Some(Pins::Cores(own, other)) => (Some(*own), *other),
        // Several threads need several cores. On a crowded host a pinned process waits for its
        // core while another one becomes free.
        None if threads > 1 || process::is_host_crowded() => (None, None),
        None => match process::cores()[..] {
            [own, other, ..] => (Some(own), Some(other)),
            _ => (None, None),
        },
    }
}

/// Options that the target's process needs from this one's command line.
fn server_arguments(options: &PerfOptions) -> Vec<String> {
    let net = &options.net;
    let mut arguments = vec![
        format!("--paths={}", net.paths),
        // The two directions draw different random numbers.
        format!("--seed={}", net.seed.wrapping_add(1)),
    ];
    // A command line has one of these.
    arguments.push(match options.contexts {
        1 => format!("--engines={}", net.engines),
        contexts => format!("--contexts={contexts}"),
    });
    arguments.extend(net.sockets.map(|sockets| format!("--sockets={sockets}")));
    if net.stats {
        arguments.push("--stats".into());
    }
    if options.flows.control_threads > 0 {
        arguments.push(format!("--control-threads={}", options.flows.control_threads));
    }
    let pressure = net.host_pressure.as_ref();
    arguments.extend(pressure.map(|pressure| format!("--host-pressure={pressure}")));
    arguments.extend(net.policy.as_ref().map(|policy| format!("--policy={policy}")));
    arguments.extend(net.mtu.map(|mtu| format!("--mtu={mtu}")));
    arguments.extend(net.datapath.map(|datapath| format!("--datapath={datapath}")));
    arguments.extend(net.emulate.as_ref().map(|spec| format!("--emulate={spec}")));
    arguments
}

/// Packet counters of a context.
fn packets(context: &Context) -> Packets {
    let counters = context.counters().engine;
    Packets {
        // Loads and stores are counted each time they are sent, because a repetition may turn out
        // to be needless before it arrives.
        sent: counters.data_sent + counters.datagrams_sent + counters.bypass_sent,
        resent: counters.data_resent + counters.bypass_repeated,
        duplicate: counters.dropped(DropReason::Duplicate),
        acks: counters.acks_sent,
        continuation_packets: counters.continuation_packets_sent,
        saved_bytes: counters.continuation_bytes_saved,
        datagrams: counters.datagrams_received,
        gated: counters.gated,
        gates_passed: counters.gates_passed,
        held: counters.deferred,
        sent_back: counters.sent_back,
    }
}
