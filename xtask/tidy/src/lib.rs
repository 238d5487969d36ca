//! Measures of this repository's code style, with limits that only fall.
//!
//! **What it is.** [`Findings::of`] reads all Rust and Markdown files under a folder and lists what
//! breaks a rule ([`Rule`]). [`Allowed`] is the list of permitted findings, by rule and room, in
//! `xtask/tidy/allowed.txt`: one finding more fails, and one less may be recorded (`tidy --lower`).
//! [`report`] prints figures of each room.
//!
//! **May import:** none of Fairway's crates, so that it builds in seconds.
//!
//! **How to test:** `cargo test -p fairway-tidy`.
#![forbid(unsafe_code)]

mod allowed;
mod command;
mod comments;
mod measures;
mod modules;
mod prose;
mod sources;

pub use allowed::Allowed;
pub use command::main;
pub use measures::Room;
pub use sources::{Source, sources};

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A style rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Modules of one parent that use each other in a circle: at most 5.
    Circle,
    /// A file of more than 600 lines.
    File,
    /// A function of more than 70 lines.
    Function,
    /// A comment, except a table, that extends beyond column 100.
    Comment,
    /// A line of Markdown beyond column 100, outside of tables and blocks of code.
    Markdown,
    /// A document that is cited, or a source file that Markdown cites, and that is not in the
    /// repository.
    Document,
    /// Software that a comment or Markdown refers to as a person, by a pronoun such as `he`.
    Person,
    /// An `unsafe` block or `impl` without a comment that gives the reason.
    Unsafe,
    /// A function that reports an error as a `String`.
    Error,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 9] = [
        Rule::Circle,
        Rule::File,
        Rule::Function,
        Rule::Comment,
        Rule::Markdown,
        Rule::Document,
        Rule::Person,
        Rule::Unsafe,
        Rule::Error,
    ];

    /// Name of the rule in `allowed.txt` and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Circle => "circle",
            Rule::File => "file",
            Rule::Function => "function",
            Rule::Comment => "comment",
            Rule::Markdown => "markdown",
            Rule::Document => "document",
            Rule::Person => "person",
            Rule::Unsafe => "unsafe",
            Rule::Error => "error",
        }
    }

    /// The rule with this name.
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The broken rule.
    pub rule: Rule,
    /// The crate, or `docs`.
    pub room: String,
    /// Path of the file from the root of the repository; of the folder for a circle.
    pub file: String,
    /// Line number, from 1; 0 for a circle.
    pub line: usize,
    /// Size of the finding: modules of a circle, lines, columns; otherwise 1.
    pub amount: usize,
    /// Text at the place.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { rule, file, line, text, .. } = self;
        write!(f, "{file}:{line}: {}: {text}", rule.name())
    }
}

/// All findings of a folder, and the figures of its rooms.
#[derive(Debug, Default)]
pub struct Findings {
    /// Findings in the order of files and lines.
    pub list: Vec<Finding>,
    /// Figures by crate, or `docs`.
    pub rooms: BTreeMap<String, Room>,
}

impl Findings {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// A file that cannot be read, or Rust that does not parse.
    pub fn of(root: &Path) -> Result<Findings, Failure> {
        let sources = sources(root)?;
        let mut findings = Findings::default();
        modules::check(&sources, &mut findings)?;
        for source in &sources {
            if source.is_rust() {
                measures::check(source, &mut findings)?;
            }
            prose::check(root, source, &mut findings);
        }
        prose::check_cited_sources(&sources, &mut findings);
        Ok(findings)
    }

    /// The number that is compared with the limit of a rule in a room: findings, or for circles the
    /// size of the largest.
    pub fn amount(&self, rule: Rule, room: &str) -> usize {
        let of_rule = self.list.iter().filter(|found| found.rule == rule && found.room == room);
        match rule {
            Rule::Circle => of_rule.map(|found| found.amount).max().unwrap_or(0),
            _ => of_rule.count(),
        }
    }

    fn room(&mut self, name: &str) -> &mut Room {
        self.rooms.entry(name.to_owned()).or_default()
    }
}

/// Why the repository could not be measured.
#[derive(Debug)]
pub enum Failure {
    /// A file or folder cannot be read.
    Read(std::path::PathBuf, std::io::Error),
    /// A file could not be parsed as Rust.
    Parse(String, syn::Error),
    /// A line of `allowed.txt` that is not `rule room number`.
    Allowed(usize, String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Read(path, error) => write!(f, "{}: {error}", path.display()),
            Failure::Parse(file, error) => {
                write!(f, "{file}:{}: {error}", error.span().start().line)
            }
            Failure::Allowed(line, text) => {
                write!(f, "allowed.txt:{line}: {text:?} is not `rule room number`")
            }
        }
    }
}

impl std::error::Error for Failure {}

/// The dependencies within the circles of a crate, as text.
///
/// # Errors
/// As [`Findings::of`].
pub fn explain(root: &Path, room: &str) -> Result<String, Failure> {
    modules::explain(&sources(root)?, room)
}

/// A table of all rooms.
pub fn report(findings: &Findings) -> String {
    let mut table = String::from(
        "| room | files | lines | largest circle | largest struct (fields) | files over 600 lines | \
         functions over 70 | public items documented | errors as strings | unsafe without reason | \
         persons | comments over 100 columns | Markdown over 100 |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut total = [0; 8];
    for (name, room) in &findings.rooms {
        let of = |rule| findings.amount(rule, name);
        let largest = match &room.largest_struct {
            Some((fields, which)) => format!("`{which}` ({fields})"),
            None => "-".to_owned(),
        };
        let counts = [
            of(Rule::File),
            of(Rule::Function),
            of(Rule::Error),
            of(Rule::Unsafe),
            of(Rule::Person),
            of(Rule::Comment),
            of(Rule::Markdown),
            room.lines,
        ];
        total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        let [files, functions, errors, reasons, persons, comments, markdown, lines] = counts;
        let (circle, documented, public) = (of(Rule::Circle), room.documented, room.public);
        table += &format!(
            "| `{name}` | {} | {lines} | {circle} | {largest} | {files} | {functions} | \
             {documented} of {public} | {errors} | {reasons} | {persons} | {comments} | {markdown} |\n",
            room.files
        );
    }
    let rooms = findings.rooms.values();
    let (documented, public) = rooms.fold((0, 0), |(documented, public), room| {
        (documented + room.documented, public + room.public)
    });
    let [files, functions, errors, reasons, persons, comments, markdown, lines] = total;
    table += &format!(
        "| all | {} | {lines} | {} | | {files} | {functions} | {documented} of {public} | {errors} | \
         {reasons} | {persons} | {comments} | {markdown} |\n",
        findings.rooms.values().map(|room| room.files).sum::<usize>(),
        findings.rooms.keys().map(|room| findings.amount(Rule::Circle, room)).max().unwrap_or(0),
    );
    table
}
