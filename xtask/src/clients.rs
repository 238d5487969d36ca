//! The scoreboard: RDMA programs that were written for adapters, unmodified, over both providers.
//!
//! [`case`] defines a case, [`mod@run`] runs it, [`judge`] determines its result, [`table`] prints
//! the results. The other modules are tables of cases, a file for each kind of program.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

mod case;
mod judge;
mod learning;
pub mod mpi;
mod options;
pub mod osu;
mod perftest;
mod run;
mod suites;
mod table;
mod tools;
mod ucx;

use case::{Case, Client};
use options::Options;
use run::{Attempt, Place};
use table::{Absent, Row};

pub use options::HELP;

use crate::programs::{Scratch, catch_signals, check_signals, fairway, json as json_of};

/// Runs the scoreboard.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let options = options::parse(arguments)?;
    catch_signals();
    let scratch = Scratch::new("clients")?;
    let clients = selected(&options, all(&options.paths, &scratch)?)?;
    let (clients, absent) = divide(clients);
    if options.list {
        list(&clients, &absent);
        return Ok(());
    }
    crate::verbs::run_quietly()?;
    let place = place(&options, fairway()?, &scratch)?;
    let rows = board(&options.providers, &clients, &place)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&table::to_json(&rows, &absent))?);
    } else {
        println!("passed / refused / failed\n\n{}", table::markdown(&rows, &absent));
    }
    // Results from before an interruption have been printed.
    check_signals()?;
    let failed = rows.iter().filter(|row| !row.verdict.is_good()).count();
    if failed == 0 {
        return Ok(());
    }
    let logs = place.logs.display();
    Err(io::Error::other(format!("{failed} of {} cases failed; logs are in {logs}", rows.len())))
}

/// All sets of programs.
fn all(paths: &options::Paths, scratch: &Scratch) -> io::Result<Vec<Client>> {
    let mut clients = vec![
        perftest::client(),
        ucx::client(),
        tools::libfabric(),
        tools::pingpong(),
        tools::manager(),
        tools::qperf(),
        tools::fio(),
        mpi::open_mpi(&scratch.0),
        mpi::mpi4py(paths)?,
    ];
    clients.extend(learning::clients(paths, &scratch.0)?);
    clients.extend(suites::clients(paths)?);
    clients.push(osu::osu(paths.osu.as_deref())?);
    Ok(clients)
}

/// The requested sets.
fn selected(options: &Options, mut clients: Vec<Client>) -> io::Result<Vec<Client>> {
    let names: Vec<&str> = clients.iter().map(|client| client.name).collect();
    let wrong = options.clients.iter().find(|wanted| !names.contains(&wanted.as_str()));
    if let Some(wrong) = wrong {
        let names = names.join(", ");
        return Err(io::Error::other(format!("--client {wrong}: choose one of {names}")));
    }
    if !options.clients.is_empty() {
        clients.retain(|client| options.clients.iter().any(|wanted| wanted == client.name));
    }
    for client in &mut clients {
        client.cases.retain(|case| {
            let named = options.only.as_ref().is_none_or(|only| case.name.contains(only));
            named && (case.short || !options.short)
        });
    }
    if options.only.is_some() || options.short {
        clients.retain(|client| !client.cases.is_empty());
    }
    if clients.is_empty() {
        return Err(io::Error::other("no case has this name: `clients --list` prints all of them"));
    }
    Ok(clients)
}

/// Separates sets of programs that are not installed.
fn divide(clients: Vec<Client>) -> (Vec<Client>, Vec<Absent>) {
    let (mut there, mut absent) = (Vec::new(), Vec::new());
    for client in clients {
        let missing = client.cases.iter().find_map(Case::missing);
        let missing = missing.map(|program| format!("{program} is not installed"));
        match client.absent.clone().or(missing) {
            None => there.push(client),
            Some(reason) => {
                absent.push(Absent { client: client.name, reason, install: client.install });
            }
        }
    }
    (there, absent)
}

fn list(clients: &[Client], absent: &[Absent]) {
    for client in clients {
        println!("{}: {} cases", client.name, client.cases.len());
        for case in &client.cases {
            println!("  {}{}", case.name, if case.short { "  [short]" } else { "" });
        }
    }
    for gone in absent {
        println!("{}: absent: {}; {}", gone.client, gone.reason, gone.install);
    }
}

/// The machine's address and device: the one of the default route if there is one, because
/// libfabric ignores loopback.
fn place(options: &Options, tool: PathBuf, scratch: &Scratch) -> io::Result<Place> {
    let devices = json_of(Command::new(&tool).args(["devices", "--json"]))?;
    let first = &devices[0];
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let (host, device) = text(&first["gids"][0])
        .zip(text(&first["name"]))
        .ok_or_else(|| io::Error::other("no interface that is up has an address"))?;
    let logs = match &options.logs {
        Some(folder) => folder.clone(),
        None => tool.ancestors().nth(2).unwrap_or(&scratch.0).join("clients"),
    };
    std::fs::create_dir_all(&logs)?;
    let timeout = Duration::from_secs(options.timeout_seconds);
    Ok(Place { tool, host, device, timeout, scratch: scratch.0.clone(), logs })
}

/// Runs every case over every provider, until it is interrupted. Progress goes to standard error, a
/// line for each case.
fn board(providers: &[&'static str], clients: &[Client], place: &Place) -> io::Result<Vec<Row>> {
    let total = providers.len() * clients.iter().map(|client| client.cases.len()).sum::<usize>();
    let mut rows = Vec::new();
    for client in clients {
        for provider in providers {
            for case in &client.cases {
                let row = match score(place, provider, case) {
                    Err(_) if check_signals().is_err() => return Ok(rows),
                    result => result?,
                };
                let mark = match row.runs {
                    1 => String::new(),
                    runs => format!(" (run {runs})"),
                };
                eprintln!(
                    "[{}/{total}] {} over {provider}: {}: {}{mark} {:.1} s  {}",
                    rows.len() + 1,
                    case.client,
                    case.name,
                    row.verdict.word(),
                    row.seconds,
                    row.verdict.reason,
                );
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// Runs a case, and again if it failed. Its log is kept if the first attempt failed.
fn score(place: &Place, provider: &'static str, case: &Case) -> io::Result<Row> {
    let mut attempts = vec![run::attempt(place, provider, case)?];
    let attempts_max = if case.lossy { 4 } else { 2 };
    while attempts.len() < attempts_max && attempts.iter().all(|one| !one.verdict.is_good()) {
        attempts.push(run::attempt(place, provider, case)?);
    }
    // The best attempt, and the last of equally good ones.
    let best = attempts.iter().rev().min_by_key(|attempt| attempt.verdict.score.failed);
    let verdict = best.map(|attempt| attempt.verdict.clone());
    let row = Row {
        client: case.client,
        provider,
        name: case.name.clone(),
        verdict: verdict.unwrap_or_else(|| judge::Verdict::failed("it did not run".to_owned())),
        runs: attempts.len(),
        seconds: attempts.iter().map(|attempt| attempt.seconds).sum(),
    };
    if row.runs > 1 {
        keep(place, &row, &attempts)?;
    }
    Ok(row)
}

/// Writes a log with the output of all attempts.
fn keep(place: &Place, row: &Row, attempts: &[Attempt]) -> io::Result<()> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let mut name: String = format!("{}-{}", row.client, row.name).chars().map(plain).collect();
    name.truncate(150);
    let path = place.logs.join(format!("{name}-{}.log", row.provider));
    let mut file = std::fs::File::create(path)?;
    for (number, attempt) in attempts.iter().enumerate() {
        writeln!(file, "######## run {}: {}", number + 1, attempt.verdict.reason)?;
        file.write_all(attempt.log.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
