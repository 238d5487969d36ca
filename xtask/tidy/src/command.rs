//! The command of `xtask tidy` and `make tidy`.

use crate::{Allowed, Findings, Rule, explain, report};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str =
    "usage: xtask tidy [--report | --list RULE [--room ROOM] | --arrows ROOM | --lower | --json]

Checks the rules for sources and documents, and fails if one is broken more often than
xtask/tidy/allowed.txt allows.

  --report           print a Markdown table of all crates
  --list RULE        print each place that breaks a rule: circle, file, function, comment, markdown,
                     document, person, unsafe or error
  --room ROOM        with --list: only places of this crate, as ub, front/verbs, xtask or docs
  --arrows ROOM      print the uses that form the circles of a crate's modules
  --lower            lower the numbers in allowed.txt to what is found
  --json             print each finding as a JSON object on a line

examples:
  cargo run --quiet --package fairway-tidy
  cargo run --quiet --package fairway-tidy -- --list circle
  cargo run --quiet --package fairway-tidy -- --list function --room fairway";

/// Runs the command with these arguments. Returns its exit status.
pub fn main(arguments: &[String]) -> ExitCode {
    match run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<bool, Box<dyn std::error::Error>> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let list = root.join("xtask/tidy/allowed.txt");
    let findings = || Findings::of(&root);
    match arguments[..] {
        ["--help" | "-h"] => println!("{HELP}"),
        ["--report"] => print!("{}", report(&findings()?)),
        ["--arrows", room] => print!("{}", explain(&root, room)?),
        ["--list", rule] => print_all(&findings()?, rule, None)?,
        ["--list", rule, "--room", room] => print_all(&findings()?, rule, Some(room))?,
        ["--json"] => {
            for found in findings()?.list {
                println!(
                    "{{\"rule\":{:?},\"room\":{:?},\"file\":{:?},\"line\":{},\"amount\":{}}}",
                    found.rule.name(),
                    found.room,
                    found.file,
                    found.line,
                    found.amount
                );
            }
        }
        ["--lower"] => {
            let findings = findings()?;
            let lowered = match list.exists() {
                true => allowed(&list)?.lowered(&findings),
                false => Allowed::now(&findings),
            };
            std::fs::write(&list, lowered.to_string())?;
        }
        [] => return Ok(check(&findings()?, &allowed(&list)?)),
        _ => return Err(format!("{arguments:?} is not understood\n{HELP}").into()),
    }
    Ok(true)
}

fn allowed(list: &Path) -> Result<Allowed, Box<dyn std::error::Error>> {
    Ok(Allowed::parse(&std::fs::read_to_string(list)?)?)
}

fn print_all(
    findings: &Findings,
    rule: &str,
    room: Option<&str>,
) -> Result<(), Box<dyn std::error::Error>> {
    let rule =
        Rule::named(rule).ok_or_else(|| format!("no rule is called {rule:?}: see --help"))?;
    let of_rule = findings.list.iter().filter(|found| found.rule == rule);
    let of_room = of_rule.filter(|found| room.is_none_or(|room| found.room == room));
    of_room.for_each(|found| println!("{found}"));
    Ok(())
}

/// Prints findings that exceed the list, and entries of the list that are higher than needed.
fn check(findings: &Findings, allowed: &Allowed) -> bool {
    let exceeded = allowed.exceeded(findings);
    for (rule, room, found, allowed) in &exceeded {
        let rule = rule.name();
        eprintln!(
            "tidy: rule {rule}, crate {room}: {found}, and {allowed} are allowed; \
             `cargo run --package fairway-tidy -- --list {rule} --room {room}` lists them"
        );
    }
    let unused = allowed.unused(findings);
    if !unused.is_empty() {
        eprintln!("tidy: {} numbers of allowed.txt can be lowered: tidy --lower", unused.len());
    }
    exceeded.is_empty()
}
