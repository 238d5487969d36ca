//! A test case: one or two processes, and the output that proves success.

use std::path::PathBuf;

use crate::verbs::launch;

/// A process of a case. Its arguments and its environment may contain `{port}` (a TCP port that no
/// program uses), `{host}` (an address of this machine), `{device}` (the device of that address),
/// `{scratch}` (a separate folder for the case) and `{provider}`.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Environment variables that are set for the process.
    pub environment: Vec<(&'static str, String)>,
    /// Working directory; the case's scratch folder if `None`.
    pub folder: Option<PathBuf>,
}

impl Half {
    /// A command line, split at spaces.
    pub fn new(line: &str) -> Half {
        let words = line.split_whitespace().map(str::to_owned).collect();
        Half { words, ..Half::default() }
    }

    /// Adds one argument, which may contain spaces.
    pub fn argument(mut self, word: impl Into<String>) -> Half {
        self.words.push(word.into());
        self
    }

    /// Adds arguments, split at spaces.
    pub fn arguments(mut self, line: &str) -> Half {
        self.words.extend(line.split_whitespace().map(str::to_owned));
        self
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: &'static str, value: impl Into<String>) -> Half {
        self.environment.push((name, value.into()));
        self
    }
}

/// Condition that a server is ready for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It listens at the case's port, by TCP or by the connection manager.
    Listens,
    /// It listens by the connection manager at a port that is fixed in the program.
    ListensAt(u16),
    /// It has printed this text. The text that follows, up to a space, replaces `{said}` in the
    /// client's arguments.
    Prints(&'static str),
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with status 0, after its client has finished.
    Itself,
    /// It serves for ever, and is stopped after its client.
    Ended,
}

/// The process that waits for the other one.
#[derive(Clone, Debug)]
pub struct Server {
    pub half: Half,
    pub ready: Ready,
    pub end: End,
}

/// Evidence that a case did its work. An exit status of 0 is never sufficient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// At least this many rows of numbers, in which a number after the first column is not 0.
    Rows(usize),
    /// At least one line that is a single number, and not 0.
    Number,
    /// All of these texts, in the client's output.
    Texts(Vec<String>),
    /// This text, followed by a number that is not 0.
    Above(&'static str),
    /// At least `least` lines that contain this text.
    Lines { part: &'static str, least: usize },
    /// Rows of an OSU micro-benchmark: at least `rows`, with at least `numbers` numbers each, and,
    /// if it was `checked`, the result "passed" of the data comparison after the numbers of each
    /// row.
    Osu { checked: bool, rows: usize, numbers: usize },
    /// A line `name = number unit`, with a number that is not 0.
    Quantity,
    /// Results of Python's `unittest -v`; with a folder, it has one file for each rank of a job.
    Unittest { ranks: Option<String> },
    /// Results of GoogleTest.
    GoogleTest,
    /// Results of `runfabtests.sh`.
    Fabtests,
}

/// A program with its arguments, run over each provider.
#[derive(Clone, Debug)]
pub struct Case {
    /// Set of programs to which the case belongs: a row of the summary.
    pub client: &'static str,
    /// Name of the case in that set.
    pub name: String,
    pub server: Option<Server>,
    pub main: Half,
    pub proof: Proof,
    /// Words, in lower case, by which the program reports a refusal: by a call that `docs/verbs.md`
    /// lists as not offered, by the machine, or by its own check of its options.
    pub refusal: Option<&'static str>,
    /// Time limit as a multiple of the usual one.
    pub timeout: u32,
    /// Whether the case uses a service that may lose messages, and waits for ever if one is lost.
    /// It gets a quarter of the time, and four attempts.
    pub lossy: bool,
    /// Whether the case is in the short selection of `make test`.
    pub short: bool,
}

impl Case {
    /// A single process.
    pub fn single(client: &'static str, name: &str, main: Half, proof: Proof) -> Case {
        let name = name.to_owned();
        Case {
            client,
            name,
            server: None,
            main,
            proof,
            refusal: None,
            timeout: 1,
            lossy: false,
            short: false,
        }
    }

    /// A case with a server and its client. The server ends by itself.
    pub fn pair(
        client: &'static str,
        name: &str,
        (server, ready): (Half, Ready),
        main: Half,
        proof: Proof,
    ) -> Case {
        let server = Some(Server { half: server, ready, end: End::Itself });
        Case { server, ..Case::single(client, name, main, proof) }
    }

    /// Changes the server to one that has to be stopped.
    pub fn served_for_ever(mut self) -> Case {
        if let Some(server) = &mut self.server {
            server.end = End::Ended;
        }
        self
    }

    /// Marks the case as one that waits for ever for a lost message.
    pub fn may_lose(self) -> Case {
        Case { lossy: true, ..self }
    }

    /// Sets the multiple of the usual time limit.
    pub fn patient(self, timeout: u32) -> Case {
        Case { timeout, ..self }
    }

    /// Adds the case to the short selection of `make test`.
    pub fn in_short_selection(self) -> Case {
        Case { short: true, ..self }
    }

    /// Name of a program of the case that is not installed.
    pub fn missing(&self) -> Option<&str> {
        let server = self.server.as_ref().map(|server| &server.half);
        let programs = server.into_iter().chain([&self.main]).filter_map(|half| half.words.first());
        programs.map(String::as_str).find(|program| !is_there(program))
    }
}

fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return program.contains('{') || std::path::Path::new(program).is_file();
    }
    launch::find(program).is_some()
}

/// A set of programs: a row of the summary.
pub struct Client {
    pub name: &'static str,
    /// How to install it.
    pub install: String,
    /// Why none of its cases can run; `None` if they can.
    pub absent: Option<String>,
    pub cases: Vec<Case>,
}
