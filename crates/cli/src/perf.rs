//! `fairway perf`: bandwidth and latency, of data that is compared.
//!
//! [`target`] waits and owns the memory; [`initiator`] drives, with [`bandwidth`] or [`latency`];
//! they agree on each row by [`message`]s and recognise each other's bytes by the pattern of
//! [`slots`].

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use fairway_softnic::{Context, DropReason, Order, ServiceMode, Tag};

use crate::args::{Operation, OrderMode, OrderTag, PerfOptions};
use crate::failure::Failure;
use crate::net::Pins;
use crate::process::{self, Helper};

mod bandwidth;
mod initiator;
mod latency;
mod message;
mod report;
mod slots;
mod target;

use message::Packets;

/// Runs the command.
pub(crate) fn run(options: &PerfOptions) -> Result<(), Failure> {
    check(options)?;
    if let Some(parent) = options.parent {
        process::end_with_parent(parent)?;
    }
    match (options.operation, &options.connect) {
        (Some(operation), Some(server)) => {
            pin(options)?;
            drive(options, operation, server, false)
        }
        (Some(operation), None) => both_sides(options, operation),
        (None, _) => {
            pin(options)?;
            target::serve(options)
        }
    }
}

/// Refuses what does not go together.
fn check(options: &PerfOptions) -> Result<(), Failure> {
    let Some(operation) = options.operation else { return Ok(()) };
    let name = operation.name();
    if options.ping_pong && !operation.is_message() {
        return Err(Failure::usage(format!(
            "--ping-pong needs the peer's application to answer, and {name} does not tell it: use \
             it with send or put, or leave it out"
        )));
    }
    let asks = options.order != OrderMode::Rol || options.tag != OrderTag::No || options.fence;
    if operation.bypasses() && asks {
        return Err(Failure::usage(format!(
            "a {name} bypasses the transport and keeps no order: leave out --order, --tag and \
             --fence, or measure read or write"
        )));
    }
    if options.order != OrderMode::Uno {
        return Ok(());
    }
    let plain = options.tag == OrderTag::No && !options.fence;
    let carried = matches!(operation, Operation::Write | Operation::Send | Operation::WriteImm);
    if !plain || !carried {
        return Err(Failure::usage(format!(
            "--order uno carries write, write-imm and send, without --tag and --fence: choose roi, \
             rot or rol for this {name}"
        )));
    }
    if !options.no_verify || options.ping_pong {
        return Err(Failure::usage(
            "with --order uno packets may be lost: add --no-verify, and leave out --ping-pong",
        ));
    }
    Ok(())
}

/// What every operation asks of the order.
fn order(options: &PerfOptions) -> Order {
    let mode = match options.order {
        OrderMode::Roi => ServiceMode::Roi,
        OrderMode::Rot => ServiceMode::Rot,
        OrderMode::Rol => ServiceMode::Rol,
        OrderMode::Uno => ServiceMode::Uno,
    };
    let tag = match options.tag {
        OrderTag::No => Tag::No,
        OrderTag::Ro => Tag::Ro,
        OrderTag::So => Tag::So,
    };
    let order = Order::with_tag(mode, tag);
    if options.fence { order.fenced() } else { order }
}

/// Pins this process, if it was asked for.
fn pin(options: &PerfOptions) -> Result<(), Failure> {
    match options.pin {
        Some(Pins::Cores(own, _)) => process::pin(own),
        Some(Pins::Free) | None => Ok(()),
    }
}

fn drive(
    options: &PerfOptions,
    operation: Operation,
    server: &str,
    both_sides_here: bool,
) -> Result<(), Failure> {
    let policy = options.net.policy.unwrap_or_default().to_string();
    let mut first = true;
    initiator::measure(options, operation, server, |row| {
        if options.json {
            return process::print(&format!("{}\n", row.json()));
        }
        if std::mem::take(&mut first) {
            process::print(&row.heading(&policy, both_sides_here))?;
        }
        process::print(&row.line())
    })
}

/// Runs the target as another process of this program, on this machine.
fn both_sides(options: &PerfOptions, operation: Operation) -> Result<(), Failure> {
    let (own, other) = cores(options.pin.as_ref());
    let program = std::env::current_exe()
        .map_err(|error| Failure::io("find the path of this program", &error))?;
    let mut command = Command::new(program);
    command.args(["perf", "--server", "--bind", "127.0.0.1:0", "--parent"]);
    command.arg(std::process::id().to_string());
    command.arg("--pin").arg(other.map_or("none".into(), |core| core.to_string()));
    command.args(server_arguments(options));
    let mut child = Helper::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let mut line = String::new();
    if let Some(output) = child.0.stdout.take() {
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(|error| Failure::io("hear from the target's process", &error))?;
    }
    let Some((_, address)) = line.trim().rsplit_once(' ') else {
        return Err(Failure::failed("the target's process did not start: see its message above"));
    };
    own.map_or(Ok(()), process::pin)?;
    drive(options, operation, address, true)
}

/// The cores of this side and of the other.
fn cores(pins: Option<&Pins>) -> (Option<usize>, Option<usize>) {
    match pins {
        Some(Pins::Free) => (None, None),
        Some(Pins::Cores(own, other)) => (Some(*own), *other),
        None => match process::cores()[..] {
            [own, other, ..] => (Some(own), Some(other)),
            _ => (None, None),
        },
    }
}

/// What the target's process has to know of this one's command line.
fn server_arguments(options: &PerfOptions) -> Vec<String> {
    let net = &options.net;
    let mut arguments = vec![
        format!("--paths={}", net.paths),
        format!("--sockets={}", net.sockets),
        // The paths of the two directions make decisions of their own.
        format!("--seed={}", net.seed.wrapping_add(1)),
    ];
    arguments.extend(net.policy.map(|policy| format!("--policy={policy}")));
    arguments.extend(net.mtu.map(|mtu| format!("--mtu={mtu}")));
    arguments.extend(net.emulate.as_ref().map(|spec| format!("--emulate={spec}")));
    arguments
}

/// What a context has counted.
fn packets(context: &Context) -> Packets {
    let counters = context.counters().engine;
    Packets {
        sent: counters.data_sent,
        resent: counters.data_resent,
        duplicate: counters.dropped(DropReason::Duplicate),
        acks: counters.acks_sent,
        learned: counters.learned_sent,
        saved_bytes: counters.learned_bytes_saved,
    }
}
