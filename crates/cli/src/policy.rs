//! `fairway policy`: checks and measures a file with a policy, and replaces a running one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use fairway_sandbox::probe::{self, Cost};
use fairway_sandbox::{EVENT_FUEL, Hook, LoadError, Module, Policies, Report, Role};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::process;

pub(crate) const EXAMPLES: &str = "Examples:
  fairway policy check examples/policies/c/aimd.wasm
  fairway policy check mine.wasm:ai=2:min=64K --json
  fairway policy put better.wasm running.wasm   # programs that run with it change over at once

docs/policies.md explains how to write such a file. fairway perf, sim and run use it with
--policy cc=./mine.wasm.";

#[derive(Clone, Debug, Args)]
pub(crate) struct PolicyOptions {
    #[command(subcommand)]
    task: Task,
}

#[derive(Clone, Debug, Subcommand)]
enum Task {
    /// Report what a file exports, whether it starts, and the cost of its events beside built-in
    /// policies
    Check {
        /// The file, optionally with its parameters, as mine.wasm:gain=2
        #[arg(value_name = "FILE[:PARAMETERS]", value_hint = ValueHint::FilePath)]
        file: String,

        /// Number of events that are timed in each round
        #[arg(long, value_name = "N", default_value_t = 20_000,
              value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
        events: u32,

        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a file, and replace another one by it; programs that use that one change over
    Put {
        /// The new file
        #[arg(value_hint = ValueHint::FilePath)]
        new: PathBuf,

        /// The file that is replaced
        #[arg(value_hint = ValueHint::FilePath)]
        running: PathBuf,
    },
}

pub(crate) fn run(options: &PolicyOptions) -> Result<(), Failure> {
    match &options.task {
        Task::Check { file, events, json } => check(file, *events as usize, *json),
        Task::Put { new, running } => put(new, running),
    }
}

/// The report as an object of the JSON output.
pub(crate) fn report(report: &Report) -> Value {
    json!({
        "policy": report.item,
        "engine": report.engine.name(),
        "started": report.started,
        "replaced": report.replaced,
        "faults": report.faults,
        "first_fault": report.first_fault.as_ref().map(|(_, fault)| fault.to_string()),
    })
}

fn check(file: &str, events: usize, as_json: bool) -> Result<(), Failure> {
    let file = &item_of(file)?;
    let path = file.split_once(':').map_or(file.as_str(), |(path, _)| path);
    let module = module_of(Path::new(path))?;
    let (bytes, engine) = (module.file_bytes(), module.engine());
    let mut lines = vec![format!("{path}: {bytes} bytes, {engine}")];
    let hooks = Hook::ALL.iter().filter(|hook| module.has(**hook));
    let hooks: Vec<&str> = hooks.map(|hook| hook.name()).collect();
    lines.push(format!("exports {}", hooks.join(", ")));
    let mut kinds = Vec::new();
    for role in module.roles() {
        let (item, built_in) = match role {
            Role::Congestion => (format!("cc=wasm:{file}"), "cc=swift"),
            Role::Path => (format!("path=wasm:{file}"), "path=p2c"),
            Role::Loss => (format!("loss=wasm:{file}"), "loss=rack"),
            Role::Scheduler => (format!("sched=wasm:{file}"), "sched=water-filling:line=10Gbps"),
        };
        let failed = |error: &dyn std::fmt::Display| Failure::failed(error.to_string());
        let policies: Policies = item.parse().map_err(|error| failed(&error))?;
        let built_in_policies: Policies = built_in.parse().map_err(|error| failed(&error))?;
        let costs = probe::costs(&policies, &built_in_policies, events);
        for cost in &costs {
            lines.push(format!("{}: {}", role.label(), line(cost, built_in)));
        }
        let outcome = policies.reports().swap_remove(0);
        if let Some((_, fault)) = &outcome.first_fault {
            return Err(Failure::failed(format!("{item}: {fault}")));
        }
        kinds.push(json!({
            "kind": role.label(),
            "compared_with": built_in,
            "costs": costs.iter().map(value).collect::<Vec<_>>(),
        }));
    }
    if as_json {
        let engine = engine.name();
        let all = json!({
            "file": path,
            "bytes": bytes,
            "engine": engine,
            "exports": hooks,
            "kinds": kinds,
        });
        return process::print(&format!("{all}\n"));
    }
    process::print(&format!("{}\n", lines.join("\n  ")))
}

/// Reads the module of a file.
fn module_of(path: &Path) -> Result<Module, Failure> {
    Module::read(path).map_err(|error| match error {
        // These errors name the file.
        LoadError::Io(text) => Failure::failed(text),
        error => Failure::failed(format!("{}: {error}", path.display())),
    })
}

/// The file in the form of specifications, in which a bare name would be searched in the folders of
/// FAIRWAY_POLICIES.
fn item_of(file: &str) -> Result<String, Failure> {
    if file.contains(',') {
        return Err(Failure::usage(format!(
            "'{file}' has a comma, which ends an item of a specification: rename the file, or write \
             its parameters with colons"
        )));
    }
    let name = file.split_once(':').map_or(file, |(name, _)| name);
    let is_bare = !name.contains('/') && !name.ends_with(".wasm");
    Ok(if is_bare { format!("./{file}") } else { file.to_owned() })
}

fn line(cost: &Cost, built_in: &str) -> String {
    format!(
        "{} {:.0} ns ({built_in} {:.0} ns), fuel {:.0} on average and {} at most of {EVENT_FUEL}",
        cost.what, cost.module_ns, cost.built_in_ns, cost.fuel_mean, cost.fuel_max
    )
}

fn value(cost: &Cost) -> Value {
    json!({
        "event": cost.what,
        "module_ns": cost.module_ns,
        "built_in_ns": cost.built_in_ns,
        "fuel_mean": cost.fuel_mean,
        "fuel_max": cost.fuel_max,
        "fuel_limit": EVENT_FUEL,
    })
}

fn put(new: &Path, running: &Path) -> Result<(), Failure> {
    let module = module_of(new)?;
    replace(new, running)
        .map_err(|error| Failure::io(format!("write {}", running.display()), &error))?;
    let (bytes, running) = (module.file_bytes(), running.display());
    process::print(&format!("{running}: {bytes} bytes, in place\n"))
}

/// Replaces `running` by a copy of `new` in one step. The copy is made next to it under a name that
/// no other process can have created a file or a link of in advance.
fn replace(new: &Path, running: &Path) -> io::Result<()> {
    let mut beside = running.as_os_str().to_owned();
    beside.push(format!(".{:016x}.new", process::random()?));
    let mut from = File::open(new)?;
    // An existing file or link of that name is an error.
    let mut copy = File::options().write(true).create_new(true).open(&beside)?;
    let moved = io::copy(&mut from, &mut copy)
        .and_then(|_| copy.set_permissions(from.metadata()?.permissions()))
        .and_then(|()| copy.sync_all())
        .and_then(|()| std::fs::rename(&beside, running));
    if moved.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_takes_the_place_of_a_link_and_leaves_its_target_alone() {
        let folder = std::env::temp_dir().join(format!("fairway-put-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (new, running, target) =
            (folder.join("new"), folder.join("running"), folder.join("target"));
        std::fs::write(&new, "new").expect("write");
        std::fs::write(&target, "target").expect("write");
        // The name that an earlier release used, and that any user could create in advance.
        let guessed = folder.join(format!("running.{}.new", std::process::id()));
        for link in [&running, &guessed] {
            std::os::unix::fs::symlink(&target, link).expect("a link");
        }
        replace(&new, &running).expect("it is in place");
        assert_eq!(std::fs::read(&running).expect("it is there"), b"new");
        assert!(running.symlink_metadata().expect("it is there").is_file());
        assert_eq!(std::fs::read(&target).expect("it is there"), b"target");
        assert!(replace(&folder.join("none"), &running).is_err());
        let names = std::fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(names, 4, "nothing is left beside the four");
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn files_are_named_as_specifications_name_them() {
        let name = |file| item_of(file).ok();
        assert_eq!(name("mine:gain=2").as_deref(), Some("./mine:gain=2"));
        assert_eq!(name("mine.wasm:gain=2").as_deref(), Some("mine.wasm:gain=2"));
        assert_eq!(name("a/mine").as_deref(), Some("a/mine"));
        assert!(name("a,b.wasm").is_none() && name("a.wasm:x=1,y=2").is_none());
    }
}
