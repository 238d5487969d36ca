//! The options of `xtask sanitizers`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Front, Sanitizer, root};

/// What `--help` prints.
pub const HELP: &str = "usage: xtask sanitizers [OPTIONS]

Runs the C programs of front/verbs/tests/c, front/rvma/tests/c and front/rvma/examples under
AddressSanitizer and ThreadSanitizer. Libraries and programs are both compiled with the sanitizer. A
case passes if the program succeeds and the sanitizer reports nothing. The programs `injected` contain
mistakes: they pass if the sanitizer reports them. The exit status is 0 if every case passes.

  --only address|thread  only this sanitizer [default: both]
  --front verbs|rvma     only this front [default: both]
  --program TEXT         only cases with TEXT in their names
  --timeout SECONDS      time limit of a case [default: 300]
  --toolchain NAME       a nightly toolchain with rust-src [default: nightly]
  --logs FOLDER          output of all programs [default: target/sanitizers/logs]
  --list                 print the cases; run nothing
  --help                 print this

Examples:
  cargo run --release -p xtask -- sanitizers
  cargo run --release -p xtask -- sanitizers --only thread --front verbs --program loop
  cargo run --release -p xtask -- sanitizers --list

Needs: rustup toolchain install nightly --component rust-src; a C compiler; libibverbs-dev and
librdmacm-dev for front verbs. The builds stay in target/sanitizers and take about 1 GB.";

/// Selected cases and settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub sanitizers: Vec<Sanitizer>,
    pub fronts: Vec<Front>,
    pub program: Option<String>,
    pub timeout: Duration,
    pub toolchain: String,
    pub logs: PathBuf,
    pub list: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sanitizers: Sanitizer::ALL.to_vec(),
            fronts: Front::ALL.to_vec(),
            program: None,
            timeout: Duration::from_secs(300),
            toolchain: "nightly".to_owned(),
            logs: root().join("target/sanitizers/logs"),
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
            rest.next().ok_or_else(|| wrong(format!("{name} needs a value: see sanitizers --help")))
        };
        match name.as_str() {
            "--only" => options.sanitizers = vec![chosen(name, value()?, Sanitizer::ALL)?],
            "--front" => options.fronts = vec![chosen(name, value()?, Front::ALL)?],
            "--program" => options.program = Some(value()?.clone()),
            "--timeout" => options.timeout = seconds(value()?)?,
            "--toolchain" => options.toolchain = value()?.clone(),
            "--logs" => options.logs = std::path::absolute(value()?)?,
            "--list" => options.list = true,
            _ => return Err(wrong(format!("there is no option {name}: see sanitizers --help"))),
        }
    }
    Ok(options)
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// A value that has a name.
trait Named: Copy {
    fn name(self) -> &'static str;
}

impl Named for Sanitizer {
    fn name(self) -> &'static str {
        Sanitizer::name(self)
    }
}

impl Named for Front {
    fn name(self) -> &'static str {
        Front::name(self)
    }
}

fn chosen<T: Named>(option: &str, text: &str, all: [T; 2]) -> io::Result<T> {
    let found = all.into_iter().find(|one| one.name() == text);
    let names = all.map(T::name).join(" or ");
    found.ok_or_else(|| wrong(format!("{option} {text}: choose {names}")))
}

fn seconds(text: &str) -> io::Result<Duration> {
    let number = text.parse().ok().filter(|number| (1..=86_400).contains(number));
    let number =
        number.ok_or_else(|| wrong(format!("--timeout {text}: choose 1 to 86400 seconds")));
    number.map(Duration::from_secs)
}
