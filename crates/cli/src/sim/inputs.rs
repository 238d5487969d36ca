//! The files that `fairway sim` reads, and the settings that they and the flags give.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fairway_sim::traffic::{Format, Input, read_trace};
use fairway_sim::{SETTINGS, Settings, WORKLOADS};

use super::{REPEATABLE, SimOptions};
use crate::failure::Failure;
use crate::input::{self, TRACE_BYTES_MAX};

/// The settings of a command, and the files that it reads.
pub(super) struct Inputs {
    pub(super) settings: Settings,
    /// Each file with the option or argument that names it.
    files: Vec<(&'static str, PathBuf)>,
}

impl Inputs {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be read, or if what is in it is wrong.
    pub(super) fn read(options: &SimOptions) -> Result<Inputs, Failure> {
        let mut settings = Settings::default();
        let mut files = modules(options.settings.0.iter().map(|(_, value)| value.as_str()));
        files.extend(modules(options.sweep.iter().flat_map(|sweep| sweep.values())));
        if WORKLOADS.iter().any(|(name, _)| *name == options.scenario) {
            settings.set("workload", &options.scenario)?;
        } else {
            let text = read(Path::new(&options.scenario))?;
            let here = |error: Failure| Failure::file(&options.scenario, error);
            settings.read(&text).map_err(|error| here(error.into()))?;
            check_once(&text).map_err(here)?;
            files.push(("SCENARIO", PathBuf::from(&options.scenario)));
            files.extend(modules(std::iter::once(text.as_str())));
        }
        for (name, value) in &options.settings.0 {
            settings.set(name, value).map_err(Failure::Flag)?;
        }
        if let Some(path) = &options.matrix {
            settings.set_matrix(read(path)?);
            files.push(("--matrix", path.clone()));
        }
        traced(options, &mut settings)?;
        files.extend(options.files.iter().map(|path| ("FILE", path.clone())));
        if let Some(path) = &options.distribution {
            let outcome = settings.set_sizes(&read(path)?);
            outcome.map_err(|error| Failure::file(path.display(), error))?;
            files.push(("--distribution", path.clone()));
        }
        Ok(Inputs { settings, files })
    }

    /// Each file with the option or argument that names it.
    pub(super) fn files(&self) -> Vec<(&str, &Path)> {
        self.files.iter().map(|(name, path)| (*name, path.as_path())).collect()
    }
}

/// Refuses a scenario in which a setting that does not add to others occurs twice.
///
/// # Errors
/// Names the lines, and the setting.
pub(crate) fn check_once(text: &str) -> Result<(), Failure> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        let name = line.split([' ', '\t', '=']).next().unwrap_or("");
        let setting = SETTINGS.iter().find(|setting| setting.0 == name);
        if setting.is_none_or(|setting| setting.2.contains(REPEATABLE)) {
            continue;
        }
        if let Some(first) = seen.insert(name, number) {
            return Err(Failure::usage(format!(
                "line {number}: {name} has a value in line {first} already: leave one of them out"
            )));
        }
    }
    Ok(())
}

/// The files of policies that texts name: parts such as `./mine.wasm` of `cc=./mine.wasm:gain=2`.
fn modules<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<(&'static str, PathBuf)> {
    let parts = texts.flat_map(|text| text.split([' ', '\t', '\n', ',', '=', ':', ';']));
    let files = parts.filter(|part| part.contains('/') || part.ends_with(".wasm"));
    files.map(|part| ("a policy", PathBuf::from(part))).collect()
}

/// Reads the files of a trace.
fn traced(options: &SimOptions, settings: &mut Settings) -> Result<(), Failure> {
    let (files, name) = (&options.files, settings.workload());
    if name != "trace" {
        return match (files.first(), &options.format) {
            (Some(path), _) => {
                let path = path.display();
                Err(Failure::usage(format!("{path}: only trace takes a file, not {name}")))
            }
            (None, Some(format)) => Err(Failure::usage(format!(
                "--format {format}: only trace has formats, not {name}: leave it out"
            ))),
            (None, None) => Ok(()),
        };
    }
    if files.is_empty() {
        return Ok(());
    }
    let places = files.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    let places: Vec<PathBuf> = places.collect();
    if let Some(at) = (1..places.len()).find(|at| places[..*at].contains(&places[*at])) {
        let path = files[at].display();
        return Err(Failure::usage(format!("{path} was given twice: give each file once")));
    }
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let contents = files.iter().map(|path| {
        input::read(path, TRACE_BYTES_MAX)
            .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))
    });
    let contents: Vec<Vec<u8>> = contents.collect::<Result<_, _>>()?;
    let inputs = names.iter().zip(&contents).map(|(name, bytes)| Input { name, bytes });
    let inputs: Vec<Input<'_>> = inputs.collect();
    let chosen = options.format.as_deref();
    let format = Format::NAMES.iter().find(|(name, _)| Some(*name) == chosen);
    let trace = read_trace(&inputs, format.map(|(_, format)| *format))?;
    settings.set_traced(trace);
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    input::read_text(path).map_err(|error| {
        let known = WORKLOADS.map(|(name, _)| name).join(", ");
        let path = path.display();
        Failure::usage(format!("{path} cannot be read: {error}. Workloads are {known}"))
    })
}
