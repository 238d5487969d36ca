//! Compares Fairway with raw peers, on the same interface, within the same minutes.
//!
//! The machine may be small and busy, so the results are ratios within one run: every measurement
//! is repeated, its repetitions alternate with those of its peers, and the table gives medians with
//! their spread and the ratio of medians.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::programs::{catch_signals, check_signals};

mod collectives;
mod engine;
mod machine;
mod measure;
mod networks;
mod nic;
mod peers;
mod place;
mod sim;
mod table;
mod transactions;
mod verbs;

use measure::Measurement;
pub use networks::TCP_CONTROLLERS;
use place::Place;
use table::{Budget, Line};

/// Comparisons, with the ratio that each must reach (docs/performance.md).
const LINES: &[Line] = &[
    Line {
        what: "bulk WRITE, 1 MiB, Gb/s",
        ours: Measurement::Write,
        peer: Some(("raw UDP GSO/GRO blast, 4096-byte packets", Measurement::UdpBlast)),
        budget: Budget::AtLeast(0.8),
    },
    Line {
        what: "bulk WRITE, 1 MiB, Gb/s",
        ours: Measurement::Write,
        peer: Some(("one kernel TCP stream", Measurement::TcpStream)),
        budget: Budget::AtLeast(1.25),
    },
    Line {
        what: "bulk WRITE, 1 % loss on every path, Gb/s",
        ours: Measurement::WriteLoss,
        peer: Some(("the same without", Measurement::Write)),
        budget: Budget::AtLeast(0.8),
    },
    Line {
        what: "bulk WRITE, 64-packet reordering on every path, Gb/s",
        ours: Measurement::WriteReorder,
        peer: Some(("the same without", Measurement::Write)),
        budget: Budget::AtLeast(0.8),
    },
    Line {
        what: "WRITE of 64 B, typical, us",
        ours: Measurement::WriteLatency,
        peer: Some(("raw UDP ping-pong of 64 B", Measurement::UdpPing)),
        budget: Budget::AtMost(1.15),
    },
    Line {
        what: "READ of 64 B, typical, us",
        ours: Measurement::ReadLatency,
        peer: Some(("raw UDP ping-pong of 64 B", Measurement::UdpPing)),
        budget: Budget::AtMost(1.15),
    },
    Line {
        what: "WRITE of 64 B, many in flight, M/s",
        ours: Measurement::SmallWrites,
        peer: None,
        budget: Budget::AtLeast(3.0),
    },
];

/// Parts other than those of the transaction layer.
const OTHER_PARTS: &[&str] = &["transport", "verbs", "sim", "nic", NETWORKS, PEERS, COLLECTIVES];
/// Parts that run only if they are named explicitly, because they take minutes; `networks` requires
/// root.
const NETWORKS: &str = "networks";
const PEERS: &str = "peers";
const COLLECTIVES: &str = "collectives";

/// Options of the command line.
struct Options {
    repeats: usize,
    duration: Duration,
    place: Option<String>,
    /// The only part to run.
    part: Option<String>,
    /// Path of `htsim_eqds`, to run beside the simulator.
    htsim: Option<std::path::PathBuf>,
    /// Options of the part `verbs`.
    verbs: verbs::Choice,
    /// Options of the part `networks`.
    networks: networks::Choice,
    /// Options of the part `peers`.
    peers: peers::Choice,
    /// Options of the part `collectives`.
    collectives: collectives::Choice,
    /// Whether JSON is written to standard output, instead of the table.
    json: bool,
}

/// Measures, and prints the table.
pub fn run(args: &[String]) -> io::Result<()> {
    let options = Options::parse(args)?;
    catch_signals();
    let machine = machine::describe();
    let print = |text: &str| {
        if !options.json {
            println!("{text}");
        }
    };
    print(&machine::markdown(&machine));
    let (places, engine) = match options.wants("transport") {
        true => transport(&options)?,
        false => (Value::Null, Value::Null),
    };
    let mut parts = Vec::new();
    for part in transactions::PARTS.iter().filter(|part| options.wants(part)) {
        let section = transactions::run(part, options.repeats, options.duration)?;
        print(&format!("\n{}", section.markdown));
        parts.push(json!({ "part": section.name, "rows": section.json }));
    }
    if options.wants("verbs") {
        // Builds the verbs library first, so that the current sources are measured.
        crate::verbs::run()?;
        let section = verbs::run(options.repeats, options.duration, &options.verbs)?;
        print(&format!("\n{}", section.markdown));
        parts.push(json!({ "part": section.name, "rows": section.json }));
    }
    if options.wants("sim") {
        let section = sim::run(options.repeats, options.htsim.as_deref())?;
        print(&format!("\n{}", section.markdown));
        parts.push(json!({ "part": section.name, "rows": section.json }));
    }
    if options.wants("nic") {
        let section = nic::run(options.repeats)?;
        print(&format!("\n{}", section.markdown));
        parts.push(json!({ "part": section.name, "rows": section.json }));
    }
    let long = match options.part.as_deref() {
        Some(NETWORKS) => Some(networks::run(&options.networks)?),
        Some(PEERS) => Some(peers::run(&options.peers, options.duration)?),
        Some(COLLECTIVES) => Some(collectives::run(options.repeats, &options.collectives)?),
        _ => None,
    };
    if let Some(section) = long {
        print(&format!("\n{}", section.markdown));
        parts.push(json!({ "part": section.name, "rows": section.json }));
    }
    let value = json!({
        "machine": machine,
        "repeats": options.repeats,
        "seconds": options.duration.as_secs_f64(),
        "places": places,
        "engine_ns_per_packet": engine,
        "transactions": parts,
    });
    let file = std::env::current_exe()?
        .parent()
        .and_then(|profile| profile.parent())
        .map(|target| target.join("bench.json"))
        .ok_or_else(|| io::Error::other("this program is not in a target directory"))?;
    std::fs::write(&file, serde_json::to_vec_pretty(&value)?)?;
    if options.json {
        println!("{value}");
    }
    eprintln!("wrote {}", file.display());
    // Some parts return the results from before an interrupt.
    check_signals()
}

/// Measures data transfer beside raw peers, and the protocol's cost per packet.
fn transport(options: &Options) -> io::Result<(Value, Value)> {
    let mut results = Vec::new();
    for name in ["loopback", "veth"] {
        if options.place.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let place = match Place::make(name) {
            Ok(place) => place,
            Err(error) => {
                println!("\n{name}: left out: {error}");
                continue;
            }
        };
        let samples = measure_all(&place, options)?;
        println!("\n{}", table::markdown(place.name, LINES, &samples));
        results.push(json!({ "place": place.name, "rows": table::json(LINES, &samples) }));
    }
    let engine = engine::packet_cost();
    match &engine {
        Ok(rows) => println!("\n{}", engine::markdown(rows)),
        Err(error) => println!("\nengine, ns per packet: left out: {error}"),
    }
    Ok((results.into(), engine.map_or(Value::Null, |rows| engine::json(&rows))))
}

/// Takes all samples of all measurements of one place, in alternation.
fn measure_all(place: &Place, options: &Options) -> io::Result<table::Samples> {
    let mut samples = table::Samples::new();
    for repeat in 0..options.repeats {
        for measurement in Measurement::ALL {
            check_signals()?;
            eprint!("\r{}: {} of {}: {measurement:<14?}", place.name, repeat + 1, options.repeats);
            let sample = measurement.run(place, options.duration)?;
            samples.entry(*measurement).or_default().push(sample);
        }
    }
    eprint!("\r{:60}\r", "");
    Ok(samples)
}

impl Options {
    fn wants(&self, part: &str) -> bool {
        self.part.as_deref().is_none_or(|wanted| wanted == part)
    }

    fn parse(args: &[String]) -> io::Result<Self> {
        let mut options = Options {
            repeats: 5,
            duration: Duration::from_secs(1),
            place: None,
            part: None,
            htsim: None,
            verbs: verbs::Choice::default(),
            networks: networks::Choice::default(),
            peers: peers::Choice::default(),
            collectives: collectives::Choice::default(),
            json: false,
        };
        let (mut repeats, mut duration) = (None, None);
        let mut args = args.iter();
        while let Some(name) = args.next() {
            match name.as_str() {
                "--full" => {
                    options.networks.cells.full = true;
                    continue;
                }
                "--json" => {
                    options.json = true;
                    continue;
                }
                _ => {}
            }
            let value = args.next().ok_or_else(|| wrong(name, "give it a value"))?;
            let number = || value.parse::<u64>().ok().filter(|number| *number > 0);
            match name.as_str() {
                "--repeats" => {
                    let number = number().ok_or_else(|| wrong(value, "give a number"))?;
                    repeats = Some(number as usize);
                }
                "--duration" => {
                    let millis = number().ok_or_else(|| wrong(value, "give milliseconds"))?;
                    duration = Some(Duration::from_millis(millis));
                }
                "--htsim" => options.htsim = Some(value.into()),
                "--place" if matches!(&**value, place::LOOPBACK | place::VETH | place::PATHS) => {
                    options.place = Some(value.clone());
                }
                "--place" => return Err(wrong(value, "choose loopback, veth or paths")),
                "--part"
                    if OTHER_PARTS.contains(&&**value)
                        || transactions::PARTS.contains(&&**value) =>
                {
                    options.part = Some(value.clone());
                }
                "--part" => {
                    let parts = [OTHER_PARTS, transactions::PARTS].concat().join(", ");
                    return Err(wrong(value, &format!("choose {parts}")));
                }
                "--row" => options.verbs.row = Some(value.clone()),
                "--column" => options.verbs.column = Some(value.clone()),
                "--peer" => options.verbs.peer = Some(value.into()),
                _ if options.networks.set(name, value)? || options.peers.set(name, value)? => {}
                _ if options.collectives.set(name, value)? => {}
                _ => {
                    let known = "--repeats, --duration, --place, --part, --htsim, --row, --column, \
                                 --peer, --json, --full";
                    let parts = [networks::OPTIONS, peers::OPTIONS, collectives::OPTIONS];
                    return Err(wrong(name, &format!("use {known}, {}", parts.join(", "))));
                }
            }
        }
        options.complete(repeats, duration)
    }

    /// Sets the numbers that the user has given, and checks that the place is one of the part.
    fn complete(mut self, repeats: Option<usize>, duration: Option<Duration>) -> io::Result<Self> {
        if self.place.as_deref() == Some(place::PATHS) && self.part.as_deref() != Some(PEERS) {
            return Err(wrong(place::PATHS, "only --part peers has this place"));
        }
        self.networks.take(repeats, duration);
        self.peers.take(repeats, self.place.as_ref());
        self.repeats = repeats.unwrap_or(self.repeats);
        self.duration = duration.unwrap_or(self.duration);
        Ok(self)
    }
}

fn wrong(what: &str, remedy: &str) -> io::Error {
    io::Error::other(format!("'{what}' is not understood: {remedy}"))
}
