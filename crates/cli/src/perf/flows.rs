//! Several flows at once, one Jetty each: the share and the latency of each.

use std::time::{Duration, Instant};

use clap::Args;
use fairway::{Completion, CompletionKind, Policies, ProcessorStats};
use fairway_policy::{PolicySpec, SchedulerSpec, Share};
use serde_json::{Value, json};

use super::bandwidth::{Flow, WARM_UP_MAX, WARM_UP_PART};
use super::contexts::Server;
use super::initiator::{Link, Session, judge, nothing_completed, plan};
use super::operation::Operation;
use super::report::Summary;
use crate::args::PerfOptions;
use crate::failure::Failure;
use crate::quantity::{self, ValueError, show_size};

/// Default number of operations in flight per flow (SCR §6.2).
const DEPTH: u32 = 4;
/// Parameters of the measurement of the line's capacity: number of runs, duration, bytes per
/// message, and messages in flight.
const CAPACITY_RUNS: u32 = 4;
const CAPACITY_TIME: Duration = Duration::from_millis(100);
const CAPACITY_BYTES: u64 = 1 << 20;
const CAPACITY_DEPTH: u32 = 16;
/// Largest number of measurements, which are repeated if the line carries more than estimated.
const ATTEMPTS: u32 = 3;
/// Largest number of flows in a measurement.
const FLOWS_MAX: usize = 1024;
/// Largest number of latencies kept for each flow.
const TIMES_MAX: usize = 1 << 20;

/// What there is to say about flows.
#[derive(Clone, Debug, Args)]
pub(crate) struct FlowOptions {
    /// Run a flow for each of these message sizes at the same time, and report the rate of each
    /// (write and read only); 64K*3 means three flows of 64K
    #[arg(
        long,
        value_name = "SIZE,..",
        value_parser = sizes,
        conflicts_with_all = ["size", "sizes", "latency", "iters"]
    )]
    pub(crate) flows: Option<Flows>,

    /// With --flows: weights of the flows in their order; the last one applies to the rest
    #[arg(long, value_name = "N,..", value_delimiter = ',', requires = "flows",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) weights: Vec<u16>,

    /// With --flows: numbers of the tenants to which the flows belong; with :WEIGHT the rate is
    /// shared among tenants first, and then among the flows of each
    #[arg(long, value_name = "N[:WEIGHT],..", value_delimiter = ',', requires = "flows",
          value_parser = tenant)]
    pub(crate) tenants: Vec<(u16, u16)>,

    /// With --flows: capacity of the line, as 10Gbps, for the utilisation and for the schedulers
    /// static and water-filling without a line= of their own [default: measured first, by one flow
    /// of 1M messages]
    #[arg(long, value_name = "RATE", value_parser = quantity::rate, requires = "flows")]
    pub(crate) line: Option<u64>,

    /// Run congestion control on N threads of their own, to which channels are steered, and the
    /// scheduler on the first of them; 0: in line with the data path (also on a server)
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) control_threads: u32,

    /// Scheduler: greedy, static, water-filling or drr, as the policy sched=NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) sched: Option<String>,

    /// Congestion control, as the policy cc=NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,

    /// Path choice, as the policy path=NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) path: Option<String>,

    /// Loss detection, as the policy loss=NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) loss_detector: Option<String>,
}

/// Message sizes, one for each flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flows(pub(crate) Vec<u64>);

/// Parses a list such as `256,4K,64K*3`.
fn sizes(text: &str) -> Result<Flows, ValueError> {
    let mut sizes = Vec::new();
    for item in text.split(',') {
        let (size, count) = item.split_once('*').unwrap_or((item, "1"));
        let count: usize = count.parse().map_err(|_| ValueError::SizeCount(item.to_owned()))?;
        let all = sizes.len().saturating_add(count);
        if count == 0 || all > FLOWS_MAX {
            let (item, flows, most) = (item.to_owned(), all, FLOWS_MAX);
            return Err(ValueError::Flows { item, flows, most });
        }
        sizes.extend(std::iter::repeat_n(quantity::size(size)?, count));
    }
    Ok(Flows(sizes))
}

/// Parses a tenant such as `3` or `3:10`.
fn tenant(text: &str) -> Result<(u16, u16), ValueError> {
    let (number, weight) = text.split_once(':').unwrap_or((text, "0"));
    match (number.parse(), weight.parse()) {
        (Ok(number), Ok(weight)) => Ok((number, weight)),
        _ => Err(ValueError::Tenant(text.to_owned())),
    }
}

impl FlowOptions {
    /// The policies in `policy`, together with those that options name.
    ///
    /// # Errors
    /// If `policy` and an option name a policy of the same kind, or if one is wrong.
    pub(crate) fn policy(&self, policy: Option<Policies>) -> Result<Option<Policies>, Failure> {
        let chosen = [
            ("cc", &self.cc),
            ("path", &self.path),
            ("loss", &self.loss_detector),
            ("sched", &self.sched),
        ];
        let mut result = policy;
        for (kind, name) in chosen {
            if let Some(name) = name {
                let before = result.unwrap_or_default();
                result = Some(with(&before, kind, name)?);
            }
        }
        Ok(result)
    }

    fn share(&self, flow: usize) -> Share {
        let last = |list: &[u16]| list.get(flow).or(list.last()).copied();
        let weight = last(&self.weights).unwrap_or(1);
        let tenant = self.tenants.get(flow).or(self.tenants.last()).copied();
        let (tenant, tenant_weight) = tenant.unwrap_or_default();
        Share { tenant, weight, tenant_weight }
    }
}

/// Replaces the policy of one kind.
fn with(policies: &Policies, kind: &str, name: &str) -> Result<Policies, Failure> {
    let all = policies.to_string();
    let label = format!("{kind}=");
    let mut items: Vec<&str> = all.split(',').filter(|item| !item.starts_with(&label)).collect();
    let item = format!("{label}{name}");
    items.push(&item);
    items.join(",").parse().map_err(|error| Failure::usage(format!("{item}: {error}")))
}

/// This side of one flow.
struct Lane<'a> {
    session: Session<'a>,
    flow: Flow,
    share: Share,
    /// Measured latencies in nanoseconds.
    times: Vec<u32>,
    /// Operations completed before the measurement began.
    before: u64,
}

/// Results of one flow.
struct Got {
    size: u64,
    share: Share,
    iterations: u64,
    gbps: f64,
    latency: Summary,
}

/// Results of all flows.
pub(super) struct Report {
    operation: Operation,
    policy: String,
    seconds: f64,
    depth: u32,
    flows: Vec<Got>,
    /// Whether the scheduler was given the measured rate of the line.
    line_given: bool,
    capacity_gbps: f64,
    verified: u64,
    scheduler: Option<ProcessorStats>,
}

/// Measures flows with these message sizes, with the server at `server`.
pub(super) fn measure(
    options: &PerfOptions,
    operation: Operation,
    sizes: &[u64],
    server: &Server,
) -> Result<Report, Failure> {
    if !matches!(operation, Operation::Write | Operation::Read) {
        return Err(Failure::usage(format!(
            "--flows can't be measured with {}: use write or read",
            operation.name()
        )));
    }
    let link = Link::open(options, server, 0)?;
    let result = measure_over(options, operation, sizes, &link);
    let closed = link.close();
    result.and_then(|report| closed.map(|()| report))
}

fn measure_over(
    options: &PerfOptions,
    operation: Operation,
    sizes: &[u64],
    link: &Link,
) -> Result<Report, Failure> {
    let mut line_bits = match options.flows.line {
        Some(line) => line,
        None => calibrate(options, operation, link, CAPACITY_RUNS)?,
    };
    for _ in 1..ATTEMPTS {
        let report = measure_at(options, operation, sizes, link, line_bits)?;
        // A rate given by the user is not corrected.
        if options.flows.line.is_some() {
            return Ok(report);
        }
        let later = calibrate(options, operation, link, 1)?;
        match corrected(line_bits, later, report.line_given) {
            Some(more) => line_bits = more,
            None => return Ok(report.on_line(later)),
        }
    }
    let report = measure_at(options, operation, sizes, link, line_bits)?;
    Ok(report.on_line(line_bits))
}

/// Capacity of the line in bits per second: the highest rate of one flow in several short runs,
/// because during a single run other programs may occupy the cores.
fn calibrate(
    options: &PerfOptions,
    operation: Operation,
    link: &Link,
    runs: u32,
) -> Result<u64, Failure> {
    let policy = options.net.policy.clone().unwrap_or_default();
    link.context.set_policy(policy.with_scheduler(SchedulerSpec::Greedy))?;
    let mut most = 0.0_f64;
    for _ in 0..runs {
        let mut lanes = vec![lane(options, operation, link, (0, CAPACITY_BYTES, CAPACITY_DEPTH))?];
        let seconds = drive(&mut lanes, CAPACITY_TIME / 3, CAPACITY_TIME)?;
        let (flows, _) = finish(lanes, seconds)?;
        most = most.max(flows.iter().map(|got| got.gbps).sum());
    }
    Ok((most * 1e9) as u64)
}

/// The line rate for another measurement, if a scheduler was given `line` and this limited the
/// flows, because the line carries much more.
fn corrected(line: u64, later: u64, line_given: bool) -> Option<u64> {
    (line_given && later > line + line / 4).then_some(later)
}

/// Measures flows on a line of the given rate.
fn measure_at(
    options: &PerfOptions,
    operation: Operation,
    sizes: &[u64],
    link: &Link,
    line_bits: u64,
) -> Result<Report, Failure> {
    let policy = options.net.policy.clone().unwrap_or_default();
    let before = *policy.built_in();
    let scheduler = with_line(before, line_bits);
    let line_given = scheduler != before.scheduler;
    // A scheduler that is a module stays.
    let policy = if line_given { policy.with_scheduler(scheduler) } else { policy };
    link.context.set_policy(policy.clone())?;
    let depth = options.depth.unwrap_or(DEPTH);
    let mut lanes = Vec::with_capacity(sizes.len());
    for (number, &size) in sizes.iter().enumerate() {
        let mut lane = lane(options, operation, link, (number, size, depth))?;
        lane.share = options.flows.share(number);
        lane.session.jetty.set_share(lane.share)?;
        lanes.push(lane);
    }
    let warm_up = (options.duration / WARM_UP_PART).min(WARM_UP_MAX);
    let seconds = drive(&mut lanes, warm_up, options.duration)?;
    let scheduler = link.context.scheduler_stats();
    let (flows, verified) = finish(lanes, seconds)?;
    if flows.iter().all(|got| got.iterations == 0) {
        return Err(nothing_completed(options.duration));
    }
    Ok(Report {
        operation,
        policy: policy.to_string(),
        seconds,
        depth,
        flows,
        line_given,
        capacity_gbps: line_bits as f64 / 1e9,
        verified,
        scheduler,
    })
}

/// The scheduler with the line's rate, unless its parameters set one.
fn with_line(mut policy: PolicySpec, line_bits: u64) -> SchedulerSpec {
    let line = match &mut policy.scheduler {
        SchedulerSpec::Static(parameters) => Some(&mut parameters.line_bits),
        SchedulerSpec::WaterFilling(parameters) => Some(&mut parameters.line_bits),
        _ => None,
    };
    if let Some(line) = line.filter(|line| **line == 0) {
        *line = line_bits;
    }
    policy.scheduler
}

/// Prepares a flow, from its number, the size of its messages, and the number in flight.
fn lane<'a>(
    options: &PerfOptions,
    operation: Operation,
    link: &'a Link,
    (number, size, depth): (usize, u64, u32),
) -> Result<Lane<'a>, Failure> {
    operation.check_size(size).map_err(|sizes| {
        Failure::usage(format!("a flow of {size} bytes can't be measured: choose {sizes}"))
    })?;
    let options = PerfOptions { depth: Some(depth), buffer: None, ..options.clone() };
    let mut run = plan(&options, operation, link, size)?;
    run.session = number as u32;
    run.seed ^= (number as u64) << 17;
    let session = Session::open(link, run, options.corrupt_for_test)?;
    let flow = Flow::new(&session, None).timed();
    Ok(Lane { session, flow, share: Share::default(), times: Vec::new(), before: 0 })
}

/// Runs all flows. Returns the measured time in seconds.
fn drive(lanes: &mut [Lane<'_>], warm_up: Duration, time: Duration) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut measured: Option<Instant> = None;
    let mut completions: Vec<Completion> = Vec::new();
    let mut seconds = None;
    loop {
        let now = Instant::now();
        if measured.is_none() && now - start >= warm_up {
            measured = Some(now);
            lanes.iter_mut().for_each(|lane| lane.before = lane.flow.done);
        }
        if let Some(from) = measured
            && seconds.is_none()
            && now - from >= time
        {
            seconds = Some((now - from).as_secs_f64());
            // Later completions are not counted.
            lanes.iter_mut().for_each(|lane| lane.before = lane.flow.done - lane.before);
        }
        let mut busy = false;
        let mut any = false;
        for lane in lanes.iter_mut() {
            if seconds.is_none() {
                lane.flow.post(&mut lane.session, u64::MAX)?;
            }
            busy |= lane.flow.in_flight > 0;
            if lane.session.jetty.poll(&mut completions) == 0 {
                continue;
            }
            any = true;
            let now = Instant::now();
            for completion in completions.drain(..) {
                let counts = measured.is_some() && seconds.is_none();
                lane.completed(&completion, now, counts)?;
            }
        }
        if seconds.is_some() && !busy {
            break;
        }
        // All flows have one connection, so the first one watches for all.
        if let Some(first) = lanes.first_mut() {
            match any {
                true => first.session.progress.note(now),
                false => first.session.check_progress(now)?,
            }
        }
    }
    Ok(seconds.unwrap_or_default())
}

impl Lane<'_> {
    fn completed(
        &mut self,
        completion: &Completion,
        now: Instant,
        counts: bool,
    ) -> Result<(), Failure> {
        self.session.succeeded(completion)?;
        if completion.kind == CompletionKind::Receive {
            return Ok(());
        }
        let since = self.flow.posted_at[completion.id.value() as usize];
        if counts && self.times.len() < TIMES_MAX {
            let time = now.saturating_duration_since(since).as_nanos();
            self.times.push(u32::try_from(time).unwrap_or(u32::MAX));
        }
        self.flow.completed(&mut self.session, completion, now)
    }
}

/// Compares all data. Returns the results of the flows, and the number of bytes compared.
fn finish(lanes: Vec<Lane<'_>>, seconds: f64) -> Result<(Vec<Got>, u64), Failure> {
    let mut flows = Vec::with_capacity(lanes.len());
    let mut verified = 0;
    for mut lane in lanes {
        lane.flow.settle(&mut lane.session)?;
        let (_, messages) = lane.session.finish()?;
        judge(&lane.session, messages, 0)?;
        verified += lane.session.tally.verified;
        let size = lane.session.run.size;
        let bytes = lane.before * size;
        flows.push(Got {
            size,
            share: lane.share,
            iterations: lane.before,
            gbps: 8.0 * bytes as f64 / seconds / 1e9,
            latency: Summary::of(&mut lane.times),
        });
    }
    Ok((flows, verified))
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one flow has everything.
fn jain(shares: impl Iterator<Item = f64> + Clone) -> f64 {
    let (sum, squares, count) =
        shares.fold((0.0, 0.0, 0.0), |(sum, squares, n), x| (sum + x, squares + x * x, n + 1.0));
    if squares > 0.0 { sum * sum / (count * squares) } else { 0.0 }
}

impl Report {
    fn total(&self) -> f64 {
        self.flows.iter().map(|flow| flow.gbps).sum()
    }

    /// Jain's index of the flows' rates, each divided by its weight.
    fn jain(&self) -> f64 {
        jain(self.flows.iter().map(|flow| flow.gbps / f64::from(flow.share.weight)))
    }

    /// The same report for a line that carries at least `bits` per second, and at least the total
    /// of the flows.
    fn on_line(self, bits: u64) -> Report {
        let capacity_gbps = self.capacity_gbps.max(bits as f64 / 1e9).max(self.total());
        Report { capacity_gbps, ..self }
    }

    fn utilisation(&self) -> f64 {
        if self.capacity_gbps > 0.0 { self.total() / self.capacity_gbps } else { 0.0 }
    }

    pub(super) fn json(&self) -> Value {
        let us = |ns: u32| f64::from(ns) / 1e3;
        let flows: Vec<Value> = self
            .flows
            .iter()
            .map(|flow| {
                json!({
                    "size": flow.size,
                    "tenant": flow.share.tenant,
                    "weight": flow.share.weight,
                    "iterations": flow.iterations,
                    "gbps": flow.gbps,
                    "p50_us": us(flow.latency.p50),
                    "p99_us": us(flow.latency.p99),
                })
            })
            .collect();
        let scheduler = self.scheduler.map(|stats| {
            json!({
                "events": stats.collected,
                "handled": stats.handled,
                "early": stats.early,
                "bytes_per_event": stats.bytes_per_event(),
            })
        });
        json!({
            "op": self.operation.name(),
            "mode": "flows",
            "policy": self.policy,
            "seconds": self.seconds,
            "depth": self.depth,
            "flows": flows,
            "jain": self.jain(),
            "total_gbps": self.total(),
            "capacity_gbps": self.capacity_gbps,
            "utilisation": self.utilisation(),
            "scheduler": scheduler,
            "verified": self.verified,
        })
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = format!(
            "{} of {} flows, {} messages each in flight, {}\n{:>5} {:>8} {:>7} {:>7} {:>9} {:>10} {:>10}\n",
            self.operation.name(),
            self.flows.len(),
            self.depth,
            self.policy,
            "flow",
            "size",
            "tenant",
            "weight",
            "Gb/s",
            "p50 us",
            "p99 us"
        );
        for (number, flow) in self.flows.iter().enumerate() {
            let Got { size, share, gbps, latency, .. } = flow;
            let us = |ns: u32| f64::from(ns) / 1e3;
            let _ = writeln!(
                text,
                "{number:>5} {:>8} {:>7} {:>7} {gbps:>9.3} {:>10.1} {:>10.1}",
                show_size(*size),
                share.tenant,
                share.weight,
                us(latency.p50),
                us(latency.p99)
            );
        }
        let _ = writeln!(
            text,
            "together {:.2} of {:.2} Gb/s ({:.0} %), Jain's index {:.3}",
            self.total(),
            self.capacity_gbps,
            100.0 * self.utilisation(),
            self.jain()
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_tenants_are_read() {
        assert_eq!(sizes("256,4K,1M*2"), Ok(Flows(vec![256, 4096, 1 << 20, 1 << 20])));
        assert!(sizes("").is_err() && sizes("4K*x").is_err() && sizes("4K*1025").is_err());
        assert!(sizes("4K*0").is_err() && sizes("4K*1024,4K").is_err());
        assert!(sizes("64K*18446744073709551615").is_err());
        assert!(
            sizes("4K,64K*18446744073709551615")
                .is_err_and(|error| error.to_string().contains("1024"))
        );
        assert_eq!((tenant("3"), tenant("3:9")), (Ok((3, 0)), Ok((3, 9))));
        assert!(tenant("").is_err() && tenant("3:").is_err() && tenant("a").is_err());
    }

    #[test]
    fn flows_are_measured_again_only_if_a_scheduler_held_them_back() {
        assert_eq!(corrected(250, 5000, true), Some(5000));
        assert_eq!(corrected(250, 5000, false), None);
        assert_eq!((corrected(1000, 1250, true), corrected(1000, 900, true)), (None, None));
    }

    #[test]
    fn a_line_carries_at_least_what_its_flows_got() {
        let got = |gbps| Got {
            size: 1,
            share: Share::default(),
            iterations: 1,
            gbps,
            latency: Summary::of(&mut []),
        };
        let report = |capacity_gbps| Report {
            operation: Operation::Write,
            policy: String::new(),
            seconds: 1.0,
            depth: 1,
            flows: vec![got(2.0), got(3.0)],
            line_given: false,
            capacity_gbps,
            verified: 0,
            scheduler: None,
        };
        assert_eq!(report(0.25).on_line(100_000_000).utilisation(), 1.0);
        assert_eq!(report(0.25).on_line(10_000_000_000).utilisation(), 0.5);
        assert_eq!(report(20.0).on_line(10_000_000_000).utilisation(), 0.25);
    }

    #[test]
    fn jains_index_matches_its_definition() {
        assert_eq!(jain([2.0, 2.0, 2.0].into_iter()), 1.0);
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
        assert_eq!(jain([1.0, 3.0].into_iter()), 0.8);
        assert_eq!(jain([0.0].into_iter()), 0.0);
    }
}
