//! `fairway nic`: runs the NIC model and prints its measurements.

mod given;
mod options;
mod sweep;
mod table;

pub(crate) use options::NicOptions;

use crate::failure::Failure;
use crate::process;
use crate::progress;
use fairway_nicmodel::{
    Config, Report, ServerUse, Stack, Verb, WorkloadKind, constants, run_with, state,
};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Runs the command.
pub(crate) fn run(options: &NicOptions) -> Result<(), Failure> {
    if options.constants {
        return process::print(&constants_text(options)?);
    }
    if options.state {
        return process::print(&state_text(options)?);
    }
    if let Some(path) = &options.sweep {
        return sweep::run(options, path);
    }
    let config = options.run.model.config()?;
    config.check()?;
    options.run.check(&config)?;
    let by_queue = !config.oracle && matches!(config.verb, Verb::Read | Verb::Write);
    if config.stack == Stack::UbLdst && by_queue && config.workload == WorkloadKind::Bulk {
        let (verb, other) = match config.verb {
            Verb::Read => ("read", "load"),
            _ => ("write", "store"),
        };
        process::say(&format!(
            "fairway: on ub-ldst a {verb} goes through the queues, as on ub-urma: --verb {other} is \
             the instruction"
        ));
    }
    let bar = if options.json {
        ProgressBar::hidden()
    } else {
        progress::of_part(config.ops, "operations")
    };
    let report = run_with(&config, |completed| bar.set_position(completed))?;
    bar.finish_and_clear();
    let text = match (options.json, options.explain) {
        (true, _) => format!("{}\n", value(&config, &report)),
        (false, true) => table::explain(&config, &report),
        (false, false) => table::summary(&config, &report),
    };
    process::print(&text)
}

fn state_text(options: &NicOptions) -> Result<String, Failure> {
    let config = options.run.model.config()?;
    let sizes = state::state(&config)?;
    if options.json {
        let object: Map<String, Value> =
            sizes.iter().map(|size| (size.name.to_owned(), json!(size.bytes))).collect();
        return Ok(format!("{}\n", Value::Object(object)));
    }
    let mut text = String::new();
    for size in sizes {
        let _ = writeln!(text, "{:<24} {:>16} bytes", size.name, size.bytes);
    }
    Ok(text)
}

fn constants_text(options: &NicOptions) -> Result<String, Failure> {
    let config = options.run.model.config()?;
    let mut text = String::new();
    for constant in constants::ALL {
        let value = config.constants.get(constant.name).unwrap_or(constant.default);
        let changed = if value == constant.default { " " } else { "*" };
        let _ = writeln!(
            text,
            "{changed}{:<20} {value:>10} {:<16} {}",
            constant.name, constant.unit, constant.source
        );
    }
    Ok(text)
}

/// A run as one JSON object: its options and its results.
fn server_value(server: &ServerUse) -> Value {
    json!({
        "server": server.name,
        "utilisation": server.utilisation,
        "jobs": server.jobs,
        "waiting_ns": server.waited_ns,
    })
}

fn value(config: &Config, report: &Report) -> Value {
    let mut object = options::requested(config);
    let measured = json!({
        "ops": report.ops,
        "bytes": report.bytes,
        "mean_ns": report.mean_ns,
        "p50_ns": report.p50_ns,
        "p99_ns": report.p99_ns,
        "p999_ns": report.p999_ns,
        "max_ns": report.max_ns,
        "deterministic": report.is_deterministic,
        "mops": report.mops,
        "gbps": report.bytes as f64 * 8.0 / report.elapsed_ns.max(1e-3),
        "elapsed_ns": report.elapsed_ns,
        "in_flight": report.concurrency,
        "packets": report.packets,
        "wire_bytes": report.wire_bytes,
        "lost": report.lost,
        "dropped": report.dropped,
        "marked": report.marked,
        "doorbells": report.doorbells,
        "resent": report.counted.resent,
        "timeouts": report.counted.timeouts,
        "duplicates": report.counted.duplicates,
        "gated": report.counted.gated,
        "context_hits": report.context[0],
        "context_misses": report.context[1],
        "compared_bytes": report.compared,
        "placed_bytes": report.placed,
    });
    if let Value::Object(measured) = measured {
        object.extend(measured);
    }
    let busiest = report.servers.first();
    object.insert("busiest".into(), json!(busiest.map(|server| &server.name)));
    object.insert("busiest_utilisation".into(), json!(busiest.map(|server| server.utilisation)));
    let servers: Vec<Value> = report.servers.iter().map(server_value).collect();
    object.insert("servers".into(), Value::Array(servers));
    let figures: Map<String, Value> =
        report.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    object.insert("figures".into(), Value::Object(figures));
    let phases: Vec<Value> = report
        .phases
        .iter()
        .map(|(phase, sum)| {
            let per_op = |ps: u64| ps as f64 / 1000.0 / report.ops.max(1) as f64;
            json!({
                "phase": phase.name(),
                "latency_ns": per_op(sum.latency_ps),
                "waiting_ns": per_op(sum.waiting_ps),
                "steps": sum.steps,
            })
        })
        .collect();
    object.insert("phases".into(), Value::Array(phases));
    Value::Object(object)
}
