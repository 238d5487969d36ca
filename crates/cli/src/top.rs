//! `fairway top`: shows live, by flow and tenant, what running programs send.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use fairway::stats::{self, Process};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::process;
use crate::quantity::{self, ValueError};

mod rates;
mod screen;
mod table;

use rates::{Interval, Sample};
use screen::{Key, Screen};
use table::View;

pub(crate) const EXAMPLES: &str = "Examples:
  fairway perf write --flows 4K,64K,1M --sched drr --duration 1m --stats &
  fairway top                                          # keys: q ends, s sorts, t shows tenants
  FAIRWAY_STATS=1 fairway run -- ib_write_bw -F        # any program over Fairway
  fairway top --json --count 3 PID

Only programs of the same user in the same network namespace are found. docs/top.md explains the
fields.";

#[derive(Clone, Debug, Args)]
pub(crate) struct TopOptions {
    /// Process to show [default: all that publish statistics]
    #[arg(value_name = "PID")]
    pid: Option<u32>,

    /// Length of an interval, at least 10ms
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    interval: Duration,

    /// Number of intervals after which to end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Show tenants instead of flows at first
    #[arg(long)]
    tenants: bool,

    /// Print one JSON object per interval
    #[arg(long)]
    json: bool,
}

/// The shortest interval, so that the watched programs are not slowed down.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Parses the length of an interval.
fn interval(text: &str) -> Result<Duration, ValueError> {
    let span = quantity::duration(text)?;
    if span < INTERVAL_MIN { Err(ValueError::Interval(text.to_owned())) } else { Ok(span) }
}

pub(crate) fn run(options: &TopOptions) -> Result<(), Failure> {
    process::catch_signals();
    let interval = options.interval;
    let is_screen = !options.json && std::io::stdout().is_terminal();
    let answered = sample(options.pid)?.filter(|samples| !samples.is_empty());
    let mut before = answered.ok_or_else(|| no_statistics(options.pid))?;
    let screen = if is_screen { Some(Screen::open()?) } else { None };
    let mut view = View { tenants: options.tenants, ..View::default() };
    let mut left = options.count;
    let mut shown = Vec::new();
    while left != Some(0) && !process::stopping() {
        let now = match &screen {
            None => {
                if process::stopped_within(interval) {
                    return Ok(());
                }
                sample(options.pid)?
            }
            Some(screen) => {
                if !watch(screen, interval, &mut view, &shown)? {
                    return Ok(());
                }
                sample(options.pid)?
            }
        };
        let Some(now) = now else {
            drop(screen);
            return if options.json { Ok(()) } else { process::print("it has ended\n") };
        };
        if now.is_empty() {
            // On a busy host, answers may take longer than they are waited for.
            continue;
        }
        shown = rates::between(&before, &now);
        show(options.json, screen.as_ref(), &view, &shown)?;
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Waits for the interval, and handles keys; false if the user quits.
fn watch(
    screen: &Screen,
    interval: Duration,
    view: &mut View,
    shown: &[Interval],
) -> Result<bool, Failure> {
    let end = Instant::now() + interval;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let key = screen.key(left);
        match key {
            _ if process::stopping() => return Ok(false),
            Some(Key::Quit) => return Ok(false),
            Some(Key::Sort) => view.sort = view.sort.next(),
            Some(Key::Tenants) => view.tenants = !view.tenants,
            Some(Key::Resized) => {}
            Some(Key::Other) => continue,
            None if left.is_zero() => return Ok(true),
            None => continue,
        }
        show(false, Some(screen), view, shown)?;
    }
}

fn show(
    as_json: bool,
    screen: Option<&Screen>,
    view: &View,
    intervals: &[Interval],
) -> Result<(), Failure> {
    if as_json {
        let processes: Vec<Value> = intervals.iter().map(Interval::json).collect();
        return process::print(&format!("{}\n", json!({ "processes": processes })));
    }
    let text = view.text(intervals);
    match screen {
        Some(screen) => screen.draw(&text),
        None => process::print(&text),
    }
}

/// Current samples of all contexts of the process, or of all processes, that answer. `None` if
/// there is no such process.
fn sample(pid: Option<u32>) -> Result<Option<Vec<Sample>>, Failure> {
    let all = stats::list().map_err(|error| Failure::io("look for programs", &error))?;
    let mut wanted =
        all.iter().filter(|process| pid.is_none_or(|pid| pid == process.pid)).peekable();
    if wanted.peek().is_none() {
        return Ok(None);
    }
    Ok(Some(wanted.filter_map(read_sample).collect()))
}

/// Reads the sample of a context. `None` if the process has just ended, or its answer is invalid.
fn read_sample(process: &Process) -> Option<Sample> {
    let text = stats::query(process).ok()?;
    Sample::read(process, serde_json::from_str(&text).ok()?)
}

fn no_statistics(pid: Option<u32>) -> Failure {
    let what = match pid {
        None => "no program reports statistics: start one".into(),
        Some(pid) => format!(
            "process {pid} does not exist, or reports no statistics: give the number of another, or \
             start it"
        ),
    };
    Failure::failed(format!("{what} with --stats, or with FAIRWAY_STATS=1 in its environment"))
}
