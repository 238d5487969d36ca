//! Traces of the control loop: events that controllers received and their decisions, as a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use fairway::{Context, TraceRecord};
use fairway_wire::Instant;

use crate::failure::Failure;
use crate::process;

mod lines;
mod perfetto;

/// Number of records that a live NIC can store between two reads, and the time between these.
const LIVE_RECORDS: u32 = 1 << 16;
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Whether there is to be a trace.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceOptions {
    /// Record the events and decisions of congestion controls and schedulers in a file: as JSON
    /// lines or, if its name ends in .perfetto.json, as events for ui.perfetto.dev (docs/trace.md
    /// explains the fields)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,

    /// Form of the trace [default: according to the name of the file]
    #[arg(long, value_name = "FORM", value_enum, requires = "trace")]
    pub(crate) trace_format: Option<TraceForm>,
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceForm {
    /// A JSON object on each line
    Lines,
    /// Trace events, which Perfetto and chrome://tracing open
    Perfetto,
}

impl TraceOptions {
    /// Creates the file, if a trace was requested. `policy` is recorded in it.
    pub(crate) fn create(&self, policy: &str) -> Result<Option<TraceFile>, Failure> {
        let Some(path) = &self.trace else { return Ok(None) };
        let by_name = match path.to_string_lossy().ends_with(".perfetto.json") {
            true => TraceForm::Perfetto,
            false => TraceForm::Lines,
        };
        let doing = || format!("write {}", path.display());
        let file = File::create(path).map_err(|error| Failure::io(doing(), &error))?;
        let out = BufWriter::with_capacity(1 << 18, file);
        let form = self.trace_format.unwrap_or(by_name);
        let writer = Writer::new(out, form, policy);
        Ok(Some(TraceFile { path: path.clone(), writer, dropped: 0 }))
    }
}

/// A trace that is being written.
pub(crate) struct TraceFile {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    /// Records that were lost because this thread did not read them in time.
    pub(crate) dropped: u64,
}

impl TraceFile {
    /// Adds a record of a NIC. [`Self::finish`] reports errors.
    pub(crate) fn add(&mut self, node: u32, record: &TraceRecord) {
        self.writer.add(node, record);
    }

    /// Writes the end of the trace.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let doing = || format!("write {}", self.path.display());
        if self.writer.is_empty() {
            process::say(&format!(
                "fairway: {} has no records: nothing was sent from here under a control controller (no peer \
                 came, or only the other side sent)",
                self.path.display()
            ));
        }
        let ended = self.writer.finish(self.dropped);
        ended.map_err(|error| Failure::io(doing(), &error))
    }
}

/// Writes records in one of the formats.
struct Writer<W: Write> {
    out: W,
    form: TraceForm,
    perfetto: perfetto::Tracks,
    /// Time of the first record, which is zero in the file.
    base: Option<Instant>,
    records: u64,
    /// The first error, after which nothing is written.
    error: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    fn new(mut out: W, form: TraceForm, policy: &str) -> Self {
        let begun = match form {
            TraceForm::Lines => lines::begin(&mut out, policy),
            TraceForm::Perfetto => perfetto::begin(&mut out, policy),
        };
        let perfetto = perfetto::Tracks::default();
        Writer { out, form, perfetto, base: None, records: 0, error: begun.err() }
    }

    fn add(&mut self, node: u32, record: &TraceRecord) {
        if self.error.is_some() {
            return;
        }
        let base = *self.base.get_or_insert(record.at);
        let at = Time(record.at.since(base).as_ps());
        let written = match self.form {
            TraceForm::Lines => lines::write(&mut self.out, at, node, record),
            TraceForm::Perfetto => self.perfetto.write(&mut self.out, at, node, record),
        };
        self.records += 1;
        self.error = written.err();
    }

    /// True if nothing has been written and no error occurred.
    fn is_empty(&self) -> bool {
        self.records == 0 && self.error.is_none()
    }

    fn finish(mut self, dropped: u64) -> io::Result<()> {
        if let Some(error) = self.error {
            return Err(error);
        }
        match self.form {
            TraceForm::Lines => lines::end(&mut self.out, self.records, dropped)?,
            TraceForm::Perfetto => perfetto::end(&mut self.out, self.records, dropped)?,
        }
        self.out.flush()
    }
}

/// Picoseconds since the trace began, printed in microseconds.
#[derive(Clone, Copy, Debug)]
struct Time(u64);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// What happens when a signal requests the end of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtSignal {
    /// The command notices it, and finishes the trace.
    Continue,
    /// The trace is finished, and then the process ends.
    End,
}

/// Thread that writes the trace records of a live NIC to a file.
pub(crate) struct Tracer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Tracer {
    /// Starts the thread, if a trace was requested.
    pub(crate) fn start(
        context: &Context,
        options: &TraceOptions,
        policy: &str,
        at_signal: AtSignal,
    ) -> Result<Option<Tracer>, Failure> {
        let Some(file) = options.create(policy)? else { return Ok(None) };
        if at_signal == AtSignal::End {
            process::catch_signals();
        }
        context.set_trace(LIVE_RECORDS);
        let stop = Arc::new(AtomicBool::new(false));
        let (context, stopping) = (context.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("fairway-trace".into())
            .spawn(move || follow(&context, file, &stopping, at_signal))
            .map_err(|error| Failure::io("start a thread for the trace", &error))?;
        Ok(Some(Tracer { stop, thread: Some(thread) }))
    }

    /// Stops the thread, and returns its error, if any.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.thread().unpark();
        match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // A panic prints its own message, which an error of the trace would hide.
            let _ = self.end();
        }
    }
}

fn follow(
    context: &Context,
    mut file: TraceFile,
    stop: &AtomicBool,
    at_signal: AtSignal,
) -> Result<(), Failure> {
    let mut records = Vec::with_capacity(LIVE_RECORDS as usize);
    loop {
        let is_interrupted = at_signal == AtSignal::End && process::stopping();
        let is_last = is_interrupted || stop.load(Ordering::Acquire);
        file.dropped = context.take_trace(&mut records);
        records.drain(..).for_each(|record| file.add(0, &record));
        if is_last {
            context.set_trace(0);
            let finished = file.finish();
            if !is_interrupted {
                return finished;
            }
            if let Err(error) = finished {
                process::say(&format!("fairway: {error}"));
            }
            process::exit_by_signal();
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests;
