//! What a case is: one or two processes, and what they have to print.

use std::path::PathBuf;

use crate::verbs::launch;

/// A process of a case. Its arguments and its environment may name `{port}` (a TCP port that no
/// program uses), `{host}` (an address of this machine), `{device}` (the device of that address),
/// `{scratch}` (a folder of the case's own) and `{provider}`.
#[derive(Clone, Debug, Default)]
pub struct Half {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables that are set for it.
    pub environment: Vec<(&'static str, String)>,
    /// Where it runs; the case's scratch folder without one.
    pub folder: Option<PathBuf>,
}

impl Half {
    /// A program with arguments, divided at spaces.
    pub fn new(line: &str) -> Half {
        let words = line.split_whitespace().map(str::to_owned).collect();
        Half { words, ..Half::default() }
    }

    /// With one more argument, which may have spaces in it.
    pub fn argument(mut self, word: impl Into<String>) -> Half {
        self.words.push(word.into());
        self
    }

    /// With more arguments, divided at spaces.
    pub fn arguments(mut self, line: &str) -> Half {
        self.words.extend(line.split_whitespace().map(str::to_owned));
        self
    }

    /// With a variable set.
    pub fn variable(mut self, name: &'static str, value: impl Into<String>) -> Half {
        self.environment.push((name, value.into()));
        self
    }
}

/// When a server can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It listens at the case's port, by TCP or by the connection manager.
    Listens,
    /// It listens by the connection manager at a port that the program has built in.
    ListensAt(u16),
    /// It has printed this. What follows, up to a space, is `{said}` in the client's arguments.
    Prints(&'static str),
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with status 0, once its client is done.
    Itself,
    /// It serves for ever, and is ended after its client.
    Ended,
}

/// The process that waits for the other one.
#[derive(Clone, Debug)]
pub struct Server {
    pub half: Half,
    pub ready: Ready,
    pub end: End,
}

/// What shows that a case did its work. An exit status of 0 is never enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// At least so many rows of numbers, in which something behind the first column is not 0.
    Rows(usize),
    /// At least one line that is a single number, and not 0.
    Number,
    /// All of these texts, from the client's side.
    Texts(Vec<String>),
    /// This text, with a number behind it that is not 0.
    Above(&'static str),
    /// At least so many lines with this text.
    Lines { part: &'static str, least: usize },
    /// Rows of an OSU micro-benchmark: at least so many, with at least so many numbers each, and
    /// behind the numbers of each row that its data was compared and was right, if it was
    /// `checked`.
    Osu { checked: bool, rows: usize, numbers: usize },
    /// A line `name = number unit`, with a number that is not 0.
    Quantity,
    /// Results of Python's `unittest -v`; with a folder, one file for each rank of a job in it.
    Unittest { ranks: Option<String> },
    /// Results of GoogleTest.
    GoogleTest,
    /// Results of `runfabtests.sh`.
    Fabtests,
}

/// A program with its arguments, run over each provider.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the case belongs to: a row of the summary.
    pub client: &'static str,
    /// What distinguishes it there.
    pub name: String,
    pub server: Option<Server>,
    pub main: Half,
    pub proof: Proof,
    /// Words, in lower case, by which the program reports what is refused to it: by a call that
    /// `docs/verbs.md` lists as not offered, by the machine, or by its own check of its options.
    pub refusal: Option<&'static str>,
    /// How many times the usual time it may take.
    pub timeout: u32,
    /// It uses a service that may lose messages, and waits for ever if one is lost. It gets a
    /// quarter of the time, and four attempts.
    pub lossy: bool,
    /// Runs among the few that `make test` runs.
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

    /// A server and its client. The server ends by itself.
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

    /// With a server that has to be ended.
    pub fn served_for_ever(mut self) -> Case {
        if let Some(server) = &mut self.server {
            server.end = End::Ended;
        }
        self
    }

    /// As one that waits for ever for a message that is lost.
    pub fn may_lose(self) -> Case {
        Case { lossy: true, ..self }
    }

    /// With so many times the usual time.
    pub fn patient(self, timeout: u32) -> Case {
        Case { timeout, ..self }
    }

    /// As one of the few that `make test` runs.
    pub fn in_short_selection(self) -> Case {
        Case { short: true, ..self }
    }

    /// A program it runs that is not installed.
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
    /// What has to be done to get it.
    pub install: String,
    /// Why none of its cases can run, if that is so.
    pub absent: Option<String>,
    pub cases: Vec<Case>,
}
