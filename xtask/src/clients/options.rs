//! The options of `xtask clients`.

use std::io;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "usage: xtask clients [OPTIONS]

Runs unmodified RDMA programs under `fairway run`, and prints a table of the cases: passed, refused
(the program reports that something is not supported) or failed, and why. A case passes only if it has
printed its result. A case that fails is run once more; over UC and UD, where a lost message makes
programs wait for ever, up to three times more. Nothing is installed: for a program that is not
installed, the table contains the command that installs it.

  --provider roce|fairway|both  provider under the verbs [default: both]
  --client NAME                 only this program set, as --list names them; may be repeated
  --only TEXT                   only cases with TEXT in their names
  --short                       only the few cases that `make test` runs
  --timeout SECONDS             time limit of a usual case [default: 120]; long cases have more
  --python FILE                 the Python with mpi4py, torch, nixl and mooncake [default: python3]
  --mpi4py FOLDER               the folder `test` of mpi4py's source archive
  --pyverbs FOLDER              the folder `tests` of a checkout of rdma-core
  --fabtests FOLDER             the folder of an installed fabtests (with bin/runfabtests.sh)
  --ucx-gtest FILE              UCX's test program `gtest`
  --osu FOLDER                  the folder of the compiled OSU micro-benchmarks
  --logs FOLDER                 folder for the logs of failed cases [default: target/clients]
  --json                        print all results as JSON instead of the table
  --list                        print the cases and the programs that are not installed; run nothing
  --help                        print this

Examples:
  cargo run --release -p xtask -- clients --short
  cargo run --release -p xtask -- clients --client perftest --only '-c UD'
  cargo run --release -p xtask -- clients --provider fairway --client ucx --json > ucx.json
  cargo run --release -p xtask -- clients --list
  python3 -m venv venv && venv/bin/pip install torch nixl mpi4py
  cargo run --release -p xtask -- clients --python venv/bin/python --client tensorpipe

Build first: cargo build --release -p fairway-cli";

/// Selection of cases, and paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub providers: Vec<&'static str>,
    pub clients: Vec<String>,
    pub only: Option<String>,
    pub short: bool,
    pub timeout_seconds: u64,
    pub paths: Paths,
    pub logs: Option<PathBuf>,
    pub json: bool,
    pub list: bool,
}

/// Paths of programs that have no package, or may be in several places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    pub python: Option<PathBuf>,
    pub mpi4py: Option<PathBuf>,
    pub pyverbs: Option<PathBuf>,
    pub fabtests: Option<PathBuf>,
    pub ucx_gtest: Option<PathBuf>,
    pub osu: Option<PathBuf>,
}

/// Names of the providers.
const PROVIDERS: [&str; 2] = ["roce", "fairway"];

impl Default for Options {
    fn default() -> Options {
        Options {
            providers: PROVIDERS.to_vec(),
            clients: Vec::new(),
            only: None,
            short: false,
            timeout_seconds: 120,
            paths: Paths::default(),
            logs: None,
            json: false,
            list: false,
        }
    }
}

/// Reads the arguments.
///
/// # Errors
/// An option is unknown, has no value, or a wrong one.
pub fn parse(arguments: &[String]) -> io::Result<Options> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut value = || {
            rest.next().ok_or_else(|| wrong(format!("{name} needs a value: see clients --help")))
        };
        match name.as_str() {
            "--provider" => options.providers = providers(value()?)?,
            "--client" => options.clients.push(value()?.clone()),
            "--only" => options.only = Some(value()?.clone()),
            "--timeout" => options.timeout_seconds = seconds(value()?)?,
            "--python" => options.paths.python = Some(there(name, value()?)?),
            "--mpi4py" => options.paths.mpi4py = Some(there(name, value()?)?),
            "--pyverbs" => options.paths.pyverbs = Some(there(name, value()?)?),
            "--fabtests" => options.paths.fabtests = Some(there(name, value()?)?),
            "--ucx-gtest" => options.paths.ucx_gtest = Some(there(name, value()?)?),
            "--osu" => options.paths.osu = Some(there(name, value()?)?),
            "--logs" => options.logs = Some(PathBuf::from(value()?)),
            "--short" => options.short = true,
            "--json" => options.json = true,
            "--list" => options.list = true,
            _ => return Err(wrong(format!("there is no option {name}: see clients --help"))),
        }
    }
    Ok(options)
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn providers(text: &str) -> io::Result<Vec<&'static str>> {
    if text == "both" {
        return Ok(PROVIDERS.to_vec());
    }
    let found = PROVIDERS.into_iter().find(|provider| *provider == text);
    found
        .map(|provider| vec![provider])
        .ok_or_else(|| wrong(format!("--provider {text}: choose roce, fairway or both")))
}

fn seconds(text: &str) -> io::Result<u64> {
    let number = text.parse().ok().filter(|number| (1..=86_400).contains(number));
    number.ok_or_else(|| wrong(format!("--timeout {text}: choose 1 to 86400 seconds")))
}

/// The absolute path of an existing file, because programs run in other folders. Links are not
/// resolved, because a Python of a virtual environment is one.
fn there(name: &str, text: &str) -> io::Result<PathBuf> {
    let path = std::path::absolute(text)?;
    if path.exists() {
        Ok(path)
    } else {
        Err(wrong(format!("{name} {text}: there is no such path")))
    }
}
