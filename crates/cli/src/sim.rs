//! `fairway sim`: whole networks of NICs that run the real protocol, in simulated time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, ValueHint};
use fairway::PolicyReport;
use fairway_sim::{Group, Report, SETTINGS, Scenario, Settings, Simulation, Stack, pcap};
use indicatif::ProgressBar;

use self::history::History;
use self::inputs::Inputs;
use self::results::Printer;
use self::samples::Samples;
use self::sweep::{Combination, Sweep};
use crate::failure::Failure;
use crate::outputs;
use crate::plot::PlotFile;
use crate::process;
use crate::progress;
use crate::quantity::ValueError;
use crate::trace::{TraceFile, TraceOptions};

mod configuration;
mod group;
mod history;
pub(crate) mod inputs;
mod operations;
mod picture;
mod results;
mod samples;
mod streams;
pub(crate) mod sweep;

/// Words that the description of a setting contains if it may be repeated.
const REPEATABLE: &str = "may be repeated";
/// Windows of simulated time between two progress updates.
const WINDOWS: u32 = 8;
/// Largest number of packets in a capture.
const CAPTURED: usize = 1_000_000;
/// Number of trace records that a NIC can store between two windows.
const TRACED: u32 = 512;

#[derive(Clone, Debug, Args)]
pub(crate) struct SimOptions {
    /// A workload, or a file of settings: lines `name value`, with the names of the options
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::FilePath, default_value = "permutation")]
    pub(crate) scenario: String,

    /// With workload `trace`: the file of operations and the times between them; or logs of NCCL,
    /// a GOAL schedule, or Chakra's execution traces, with a file for each rank
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// With workload `trace`: the files' format [default: the one that the first file has]
    #[arg(long, value_name = "NAME", value_parser = ["fairway", "nccl", "goal", "chakra"])]
    pub(crate) format: Option<String>,

    #[command(flatten)]
    pub(crate) settings: SettingFlags,

    /// Take flows and number of nodes from a connection matrix in htsim's format
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) matrix: Option<PathBuf>,

    /// With workload `sizes`: the file of sizes, with bytes and cumulative percentage on each line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) distribution: Option<PathBuf>,

    /// Seed of all random decisions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Number of seeds to run, from --seed on
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) seeds: u64,

    /// Cores for each run; the results do not depend on the number
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cores: u32,

    /// Number of seeds that run at the same time [default: as many as the cores permit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) jobs: Option<u64>,

    /// Values of a setting, each of which is run with every seed; may be repeated for combinations
    #[arg(long, value_name = "NAME=VALUE,VALUE", value_parser = sweep::sweep)]
    pub(crate) sweep: Vec<Sweep>,

    /// Draw the results as a picture: FILE.svg, or FILE.html with a table of the rows
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath,
          value_parser = crate::plot::file)]
    pub(crate) plot: Option<PlotFile>,

    /// Print one JSON object per seed, and no progress
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a line for every flow, or for every call of a rank, of every seed to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) csv: Option<PathBuf>,

    /// Write the bytes in place, on their way and in queues to this file, a line for each interval
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) series: Option<PathBuf>,

    /// Write the rate, the permitted rate and the paths of each stream to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) stream_series: Option<PathBuf>,

    /// Simulated time between two lines of --series or --stream-series [default: 10us]
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::span)]
    pub(crate) series_every: Option<Duration>,

    /// Capture the headers of the first packets from node A to its neighbour B in this file
    #[arg(long, value_name = "A-B:FILE", value_parser = tap)]
    pub(crate) pcap: Option<Tap>,

    #[command(flatten)]
    pub(crate) trace: TraceOptions,
}

impl SimOptions {
    /// Time between two lines of a series, in picoseconds.
    fn series_every(&self) -> u64 {
        let every = self.series_every.unwrap_or(Duration::from_micros(10));
        u64::try_from(every.as_nanos() * 1000).unwrap_or(u64::MAX)
    }

    /// Refuses options without effect, and files of one run in a command of several.
    fn check(&self) -> Result<(), Failure> {
        let files = [("--trace", self.trace.trace.is_some()), ("--pcap", self.pcap.is_some())];
        if let (Some((name, _)), true) = (files.iter().find(|(_, given)| *given), self.seeds > 1) {
            return Err(Failure::usage(format!("{name} is of one run: leave out --seeds")));
        }
        if self.series_every.is_some() && self.series.is_none() && self.stream_series.is_none() {
            return Err(Failure::usage(
                "--series-every is for --series and --stream-series: give one of them, or leave it \
                 out",
            ));
        }
        if self.seed.checked_add(self.seeds.saturating_sub(1)).is_none() {
            return Err(Failure::usage(format!(
                "--seed {}: the last of --seeds {} would exceed {}: give a smaller --seed",
                self.seed,
                self.seeds,
                u64::MAX
            )));
        }
        Ok(())
    }
}

/// The link to capture, and the capture file.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    from: u32,
    to: u32,
    file: PathBuf,
}

fn tap(text: &str) -> Result<Tap, ValueError> {
    let wrong = || ValueError::Tap(text.to_owned());
    let (ends, file) = text.split_once(':').ok_or_else(wrong)?;
    let (from, to) = ends.split_once('-').ok_or_else(wrong)?;
    let node = |text: &str| text.parse().map_err(|_| wrong());
    Ok(Tap { from: node(from)?, to: node(to)?, file: PathBuf::from(file) })
}

/// The settings of a scenario as flags, generated from the simulator's list.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingFlags(Vec<(&'static str, String)>);

impl Args for SettingFlags {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        for (name, takes, meaning) in SETTINGS.iter().filter(|setting| setting.0 != "workload") {
            let flag = Arg::new(*name).long(*name).value_name(*takes).help(*meaning);
            let many = meaning.contains(REPEATABLE);
            let action = if many { ArgAction::Append } else { ArgAction::Set };
            command = command.arg(flag.action(action).help_heading("Settings"));
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = SettingFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (name, ..) in SETTINGS.iter().filter(|setting| setting.0 != "workload") {
            for value in matches.get_many::<String>(name).into_iter().flatten() {
                self.0.push((name, value.clone()));
            }
        }
        Ok(())
    }
}

/// Results of a finished run.
struct Outcome {
    report: Report,
    wall: Duration,
    /// Lines of the time series, and of the streams' time series.
    series: (String, String),
    /// Rate of a host's link.
    line_megabits: u64,
    /// Reports on policies that are WebAssembly modules.
    policies: Vec<PolicyReport>,
    /// Description of undelivered data; empty if everything was delivered.
    shortfall: String,
    /// Settings of the run.
    configuration: Vec<(&'static str, String)>,
    /// Number of ranks of a program or of a group; 0 without any.
    ranks: u32,
    /// The ranks of a collective operation.
    group: Option<Group>,
    /// Values of the settings that are swept.
    combination: Combination,
    /// State over time, if a picture is to be drawn.
    history: Option<History>,
}

/// Runs the command.
pub(crate) fn run(options: &SimOptions) -> Result<(), Failure> {
    options.check()?;
    process::grow_heap_in_large_steps();
    let inputs = Inputs::read(options)?;
    let outputs = [
        ("--csv", options.csv.as_deref()),
        ("--series", options.series.as_deref()),
        ("--stream-series", options.stream_series.as_deref()),
        ("--pcap", options.pcap.as_ref().map(|tap| tap.file.as_path())),
        ("--trace", options.trace.trace.as_deref()),
        ("--plot", options.plot.as_ref().map(PlotFile::path)),
    ];
    outputs::check(&outputs, &inputs.files())?;
    let combinations = sweep::combinations(options, inputs.settings)?;
    let runs = options.seeds * combinations.len() as u64;
    let cores = process::cores().len().max(1) as u64;
    let jobs = options.jobs.unwrap_or((cores / u64::from(options.cores)).max(1));
    let jobs = jobs.min(runs);
    let next = AtomicU64::new(0);
    let printer = Mutex::new(Printer::new(options)?);
    let is_counted = !options.json && runs > 1;
    let ended = if is_counted { progress::of_runs(runs) } else { ProgressBar::hidden() };
    let work = || -> Result<(), Failure> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= runs {
                return Ok(());
            }
            let (combination, settings) = &combinations[(index / options.seeds) as usize];
            let seed = options.seed + index % options.seeds;
            let shown = !options.json && runs == 1;
            let outcome = run_one(options, settings, seed, shown);
            let mut outcome = outcome.map_err(|error| sweep::failure(combination, error))?;
            outcome.combination.clone_from(combination);
            let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
            ended.suspend(|| printer.take(index, outcome))?;
            ended.inc(1);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let outcomes = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        outcomes.fold(Ok(()), Result::and)
    })?;
    ended.finish_and_clear();
    printer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
}

/// The scenario of a run.
fn scenario(options: &SimOptions, settings: &Settings, seed: u64) -> Result<Scenario, Failure> {
    let mut scenario = settings.build(seed)?;
    if let Some(tap) = &options.pcap {
        scenario.tap = Some((port(&scenario, tap)?, CAPTURED));
    }
    if options.trace.trace.is_some() && scenario.stack != Stack::Fairway {
        return Err(Failure::usage(
            "--trace is of Fairway's congestion control: leave it out, or --stack",
        ));
    }
    Ok(scenario)
}

fn run_one(
    options: &SimOptions,
    settings: &Settings,
    seed: u64,
    shown: bool,
) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let scenario = scenario(options, settings, seed)?;
    let configuration = settings.configuration(&scenario);
    let (ranks, group) = (scenario.ranks(), scenario.group.clone());
    let mut simulation = Simulation::new(scenario, options.cores)?;
    let mut trace = options.trace.create(&policies(simulation.scenario()))?;
    if trace.is_some() {
        simulation.set_trace(TRACED);
    }
    let bar = if shown {
        progress::of_part(simulation.progress().bytes, "0 us simulated")
    } else {
        ProgressBar::hidden()
    };
    let mut samples = Samples::new(options, seed);
    let mut windows = 0;
    loop {
        samples.take(&simulation)?;
        if !simulation.step() {
            break;
        }
        windows += 1;
        if windows % WINDOWS == 0 {
            let progress = simulation.progress();
            bar.set_position(progress.placed_bytes);
            bar.set_message(format!("{} us simulated", progress.now_ps / 1_000_000));
        }
        if let Some(trace) = &mut trace {
            let dropped = simulation.take_trace(|host, record| trace.add(host, record));
            trace.dropped = dropped;
        }
    }
    samples.end(&simulation)?;
    bar.finish_and_clear();
    trace.map_or(Ok(()), TraceFile::finish)?;
    if let Some(tap) = &options.pcap {
        write_capture(&simulation, tap)?;
    }
    let policies = simulation.scenario().policy.as_ref().map(|policies| policies.reports());
    let (report, wall) = (simulation.report(), begun.elapsed());
    let policies = policies.unwrap_or_default();
    let network = &simulation.scenario().network;
    let line_megabits = network.links[0].megabits * u64::from(network.wires());
    let shortfall = results::missing(&simulation, report.failed);
    let streams = samples.streams.map(|streams| streams.lines);
    let series = (samples.series.unwrap_or_default(), streams.unwrap_or_default());
    let history = samples.history;
    Ok(Outcome {
        report,
        wall,
        series,
        line_megabits,
        policies,
        shortfall,
        configuration,
        ranks,
        group,
        combination: Combination::new(),
        history,
    })
}

/// The policies of the channels that have none of their own, as text.
fn policies(scenario: &Scenario) -> String {
    match &scenario.policy {
        Some(policies) => policies.to_string(),
        None => scenario.default_policy().to_string(),
    }
}

/// Writes the captured packets.
fn write_capture(simulation: &Simulation, tap: &Tap) -> Result<(), Failure> {
    let doing = || format!("write {}", tap.file.display());
    let file = pcap(simulation.captured());
    if simulation.captured().next().is_none() {
        let (from, to) = (tap.from, tap.to);
        process::say(&format!(
            "fairway: no packet went from node {from} to node {to}, so {} has none: choose \
             neighbours that talk, or another workload or seed",
            tap.file.display()
        ));
    }
    std::fs::write(&tap.file, file).map_err(|error| Failure::io(doing(), &error))
}

/// The port number of a link between neighbours.
fn port(scenario: &Scenario, tap: &Tap) -> Result<u32, Failure> {
    let mut links = scenario.network.links.iter();
    let link = links.position(|link| (link.from, link.to) == (tap.from, tap.to));
    link.map(|port| port as u32).ok_or_else(|| {
        let (from, to, hosts) = (tap.from, tap.to, scenario.network.hosts);
        let first = scenario.network.links[0].to;
        Failure::usage(format!(
            "--pcap {from}-{to}: no link leads there; hosts are 0 to {}, switches follow tier by \
             tier, and the switch of host 0 is {first}",
            hosts - 1
        ))
    })
}
