//! `fairway emulate`: a relay with impaired paths, or a whole network.

mod flows;
mod frame;
mod network;
mod program;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairway_port::{Relay, RelayConfig, RelayCounters};
use serde_json::json;

use crate::args::EmulateOptions;
use crate::failure::Failure;
use crate::net::PortRange;
use crate::process;

/// Silence after which a client's place is given to another client if no place is free.
const IDLE_AFTER: Duration = Duration::from_secs(60);
const BUFFER_BYTES: usize = 4 << 20;

/// Runs the command.
pub(crate) fn run(options: &EmulateOptions) -> Result<(), Failure> {
    if let Some(file) = &options.topology {
        return network::run(options, file);
    }
    let (Some(listen), Some(to)) = (&options.listen, &options.to) else {
        return Err(Failure::usage("either --topology, or --listen and --to are wanted"));
    };
    let routes = routes(listen, to)?;
    process::catch_signals();
    let mut relay = Relay::bind(RelayConfig {
        routes: routes.clone(),
        spec: options.spec.clone(),
        seed: options.seed,
        flows_max: options.flows.max(1),
        idle_after: IDLE_AFTER,
        buffer_bytes: BUFFER_BYTES,
    })
    .map_err(|error| Failure::io(format!("listen on {}", listen.address), &error))?;
    let listening: Vec<SocketAddr> = relay.local_addrs().to_vec();
    for (listen, (_, to)) in listening.iter().zip(&routes) {
        let text = format!("fairway emulate: listening on {listen}, relaying to {to}\n");
        announce(&text, options.json)?;
    }
    let run = |relay: &mut Relay, stop: &AtomicBool| {
        relay.run(stop).map_err(|error| Failure::io("relay", &error))
    };
    match options.duration {
        None => run(&mut relay, process::stop_flag())?,
        Some(duration) => {
            // The stop flag is the same as that of Ctrl-C, so that both work.
            let doorbell = relay.doorbell();
            std::thread::spawn(move || {
                std::thread::sleep(duration);
                process::stop_flag().store(true, Ordering::Release);
                doorbell.ring();
            });
            run(&mut relay, process::stop_flag())?;
        }
    }
    report(&relay.counters(), options.json)
}

/// Prints text that precedes the report: on standard error if the report is JSON, which programs
/// read from standard output.
fn announce(text: &str, as_json: bool) -> Result<(), Failure> {
    if !as_json {
        return process::print(text);
    }
    process::say(text.trim_end_matches('\n'));
    Ok(())
}

/// Pairs of a listening address and the address to which it relays.
fn routes(listen: &PortRange, to: &PortRange) -> Result<Vec<(SocketAddr, SocketAddr)>, Failure> {
    let Some((first, last)) = to.ports else {
        return Err(Failure::usage(format!(
            "--to {} has no port: write the server's, as {}:4800-4803",
            to.address, to.address
        )));
    };
    if first == 0 {
        return Err(Failure::usage(format!(
            "--to {}:{first}: nothing can be sent to port 0: write the server's, 1 to 65535, as \
             {}:4800",
            to.address, to.address
        )));
    }
    let (listen_first, listen_last) = listen.ports.unwrap_or((first, last));
    if listen_last - listen_first != last - first && listen_first != 0 {
        return Err(Failure::usage(format!(
            "--listen has {} ports and --to has {}: give as many, or only the address to --listen",
            u32::from(listen_last - listen_first) + 1,
            u32::from(last - first) + 1
        )));
    }
    let (listen, to) = (listen.address, to.address);
    if listen.is_ipv4() != to.is_ipv4() {
        return Err(Failure::usage(format!(
            "--listen {listen} and --to {to} are of different families: use one family"
        )));
    }
    if listen_first == first && is_same_place(listen, to) {
        return Err(Failure::usage(format!(
            "--listen {listen}, port {first}, and --to {to}, port {first}, are the same, so that \
             the relay would send every packet to itself for ever: give --listen another port, as \
             {listen}:0 for any"
        )));
    }
    let pair = |index: u16| {
        // Port 0 means any port for each address.
        let own = if listen_first == 0 { 0 } else { listen_first + index };
        (SocketAddr::new(listen, own), SocketAddr::new(to, first + index))
    };
    Ok((0..=last - first).map(pair).collect())
}

/// True if packets to `to` arrive at a socket that listens at `listen`, if the ports are the same.
fn is_same_place(listen: IpAddr, to: IpAddr) -> bool {
    let is_here = || UdpSocket::bind(SocketAddr::new(to, 0)).is_ok();
    listen == to
        || (listen.is_unspecified() && is_here())
        // Linux sends packets without a destination to this host.
        || (to.is_unspecified() && listen.is_loopback())
}

fn report(counters: &RelayCounters, as_json: bool) -> Result<(), Failure> {
    let paths = &counters.paths.model;
    let numbers = [
        ("forward", counters.forward),
        ("backward", counters.backward),
        ("offered", paths.offered),
        ("lost", paths.lost),
        ("blackholed", paths.blackholed),
        ("overflowed", paths.overflowed),
        ("duplicated", paths.duplicated),
        ("marked", paths.marked),
        ("displaced", paths.displaced),
        ("strays", counters.strays),
        ("turned_away", counters.turned_away),
        ("refused", counters.refused + counters.paths.refused),
    ];
    if as_json {
        let object: serde_json::Map<_, _> =
            numbers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        return process::print(&format!("{}\n", serde_json::Value::from(object)));
    }
    let lines: Vec<String> =
        numbers.iter().map(|(name, value)| format!("  {name:<12} {value:>12}\n")).collect();
    process::print(&format!("packets:\n{}", lines.concat()))
}
