//! The cases: the C programs of the fronts' tests, with arguments and environment variables.

use std::path::Path;
use std::time::Duration;

use super::{Front, Sanitizer};

/// One run of a program.
#[derive(Clone, Debug)]
pub struct Case {
    pub front: Front,
    /// Path of the C file, relative to the folder of the front.
    pub source: &'static str,
    /// Arguments; `PORT` stands for a TCP port that no program uses.
    pub arguments: Vec<&'static str>,
    pub variables: Vec<(&'static str, &'static str)>,
    pub manner: Manner,
    pub expected: Expected,
    /// The only sanitizer for which the case is run; `None` for both.
    pub only: Option<Sanitizer>,
    /// Whether AddressSanitizer reports memory that is lost at the end of a process.
    pub finds_leaks: bool,
}

/// The processes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// One process that ends by itself.
    Alone,
    /// A server, and a client that gets the server's address as its last argument.
    Pair,
    /// One process that prints `ready` and never ends by itself. It gets SIGTERM after this time.
    Endless(Duration),
}

/// Expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Status 0, this text in the output, and no sanitizer report.
    Success(&'static str),
    /// End by SIGTERM, and no sanitizer report.
    Terminated,
    /// A sanitizer report with this text in its summary.
    Report(&'static str),
}

/// Time for which a program that never ends is observed.
const WATCHED: Duration = Duration::from_secs(5);

impl Case {
    fn of(front: Front, source: &'static str) -> Case {
        Case {
            front,
            source,
            arguments: Vec::new(),
            variables: Vec::new(),
            manner: Manner::Alone,
            expected: Expected::Success(""),
            only: None,
            finds_leaks: true,
        }
    }

    /// A case of the verbs library with a provider.
    fn verbs(source: &'static str, provider: &'static str) -> Case {
        let variables = vec![("FAIRWAY_PROVIDER", provider), ("FAIRWAY_DEVICES", "=lo")];
        let expected = Expected::Success("all fine");
        Case { variables, expected, ..Case::of(Front::Verbs, source) }
    }

    fn with(mut self, arguments: &[&'static str]) -> Case {
        self.arguments.extend(arguments);
        self
    }

    fn lossy(mut self) -> Case {
        self.variables.push(("FAIRWAY_EMULATE", "loss=1%"));
        self
    }

    fn endless(self) -> Case {
        Case { manner: Manner::Endless(WATCHED), expected: Expected::Terminated, ..self }
    }

    fn injected(self, only: Sanitizer, report: &'static str) -> Case {
        Case { only: Some(only), expected: Expected::Report(report), ..self }
    }

    /// File name of the case's program.
    pub fn program(&self) -> &'static str {
        Path::new(self.source).file_stem().and_then(|stem| stem.to_str()).unwrap_or(self.source)
    }

    /// Unique name of the case.
    pub fn name(&self) -> String {
        let mut words = vec![self.front.name(), self.program()];
        words.extend(&self.arguments);
        let variables = self.variables.iter().filter(|(name, _)| *name != "FAIRWAY_DEVICES");
        words.extend(variables.map(|(_, value)| value));
        words.join(" ")
    }

    pub fn is_for(&self, sanitizer: Sanitizer) -> bool {
        self.only.is_none_or(|only| only == sanitizer)
    }
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = ["roce", "fairway"].into_iter().flat_map(over).collect();
    let injected = |mistake, sanitizer, report| {
        Case::verbs("tests/c/injected.c", "roce").with(&[mistake]).injected(sanitizer, report)
    };
    cases.push(injected("freed", Sanitizer::Address, "heap-use-after-free"));
    cases.push(injected("race", Sanitizer::Thread, "data race"));
    cases.extend(rvma());
    cases
}

/// Cases of the verbs library with a provider.
fn over(provider: &'static str) -> Vec<Case> {
    let verbs = |source| Case::verbs(source, provider);
    let exchange = |arguments: &[&'static str]| {
        let expected = Expected::Success("every byte compared");
        let case = verbs("tests/c/exchange.c").with(arguments).with(&["-p", "PORT"]);
        Case { manner: Manner::Pair, expected, ..case }
    };
    vec![
        verbs("tests/c/loop.c"),
        verbs("tests/c/errors.c"),
        verbs("tests/c/threads.c"),
        verbs("tests/c/polled.c"),
        // A thread that is cancelled while it sleeps for an event leaks the queue on which it
        // sleeps, as `take_or_sleep` documents. Also, in a child of `fork`, memory counts as lost
        // if only threads of the parent had it on their stacks.
        Case { finds_leaks: false, ..verbs("tests/c/cancelled.c") },
        verbs("tests/c/missing.c"),
        verbs("tests/c/attributes.c"),
        verbs("tests/c/outstanding.c"),
        verbs("tests/c/refused.c"),
        verbs("tests/c/protection.c"),
        verbs("tests/c/order.c").with(&["-n", "5"]),
        verbs("tests/c/order.c").with(&["-n", "2"]).lossy(),
        exchange(&["-n", "50", "-m", "1024"]),
        exchange(&["-n", "50", "-m", "4096", "-e"]),
        exchange(&["-n", "20", "-m", "1024"]).lossy(),
        verbs("tests/c/leaving.c").with(&["plain", "-"]).endless(),
        verbs("tests/c/leaving.c").with(&["both", "PORT"]).endless(),
    ]
}

/// Cases of librvma.
fn rvma() -> Vec<Case> {
    let rvma = |source| Case::of(Front::Rvma, source);
    let injected = |mistake| {
        let case = rvma("tests/c/injected.c").with(&[mistake]);
        case.injected(Sanitizer::Address, "heap-use-after-free")
    };
    vec![
        rvma("tests/c/basics.c"),
        rvma("tests/c/windows.c"),
        rvma("tests/c/threads.c"),
        rvma("tests/c/cancelled.c"),
        rvma("tests/c/peers.c"),
        rvma("examples/halo.c"),
        rvma("examples/server.c"),
        injected("buffer"),
        injected("source"),
    ]
}
