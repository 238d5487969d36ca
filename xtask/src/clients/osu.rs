//! The OSU micro-benchmarks, with Open MPI: a case for each program, with two ranks or three.
//!
//! The options of a program depend on the release and on the program: releases up to 5 limit the
//! size of messages in collective programs only, and newer ones compare the data in most programs,
//! but not in all. So each program's options are read from its output with `-h`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::case::{Case, Client, Half, Proof};
use super::mpi::{allow_root, job};
use super::suites::client;
use crate::programs;
use crate::verbs::launch;

/// Time limit for a program to print its options.
const HELP_TIME: Duration = Duration::from_secs(20);

/// Number of iterations for each size, where a program lets it be chosen.
const ITERATIONS: u32 = 20;

/// The case of each program in a folder.
///
/// # Errors
/// The folder cannot be read, or a program cannot be started.
pub fn osu(folder: Option<&Path>) -> io::Result<Client> {
    let mut cases = Vec::new();
    if let Some(folder) = folder {
        let mut programs = Vec::new();
        find(folder, 5, &mut programs)?;
        programs.sort();
        for program in programs {
            cases.push(case(&program, &help(&program)?));
        }
    }
    Ok(client("osu", "--osu FOLDER", "the OSU micro-benchmarks, built with mpicc", cases))
}

/// Programs named `osu_*` in this folder and those below.
pub fn find(folder: &Path, depth: u32, programs: &mut Vec<PathBuf>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let name = name.to_string_lossy();
        // Hidden folders hold intermediate files of libtool.
        if kind.is_dir() && depth > 0 && !name.starts_with('.') {
            find(&entry.path(), depth - 1, programs)?;
        }
        let program = kind.is_file() && entry.metadata()?.permissions().mode() & 0o111 != 0;
        if program && name.starts_with("osu_") && !name.contains('.') {
            programs.push(entry.path());
        }
    }
    Ok(())
}

/// Output of a program with `-h`. A program without options ignores it and runs, with a single
/// rank.
pub fn help(program: &Path) -> io::Result<String> {
    let text = output_of(Command::new(program).arg("-h"))?;
    // Some releases check the number of ranks before the options.
    if !text.contains("two processes") || launch::find("mpirun").is_none() {
        return Ok(text);
    }
    let mut job = Command::new("mpirun");
    job.args(["--oversubscribe", "-n", "2", "--mca", "pml", "ob1", "--mca", "plm", "isolated"]);
    output_of(job.arg(program).arg("-h"))
}

/// Output of a command, on both streams.
fn output_of(command: &mut Command) -> io::Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.envs(allow_root()).spawn()?;
    if programs::wait_until(&mut child, Instant::now() + HELP_TIME)?.is_none() {
        // SIGTERM instead of SIGKILL, which `mpirun` would not pass on.
        kill_process(Pid::from_child(&child), Signal::TERM)?;
    }
    let output = child.wait_with_output()?;
    let texts = [output.stdout, output.stderr];
    Ok(texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat())
}

/// Whether a help text lists an option: `-m SIZE`, `-m, --message-size SIZE` or `-w=SIZE`.
pub fn knows(help: &str, option: &str) -> bool {
    help.lines().filter_map(|line| line.trim_start().strip_prefix(option)).any(|rest| {
        // If a space follows the option directly, the line may be an example of its use.
        rest.starts_with([' ', ',', '=']) && !rest.contains("//")
    })
}

/// Arguments for a program with this name and this help text.
fn arguments(name: &str, help: &str) -> String {
    let mut words = Vec::new();
    if knows(help, "-m") {
        words.push("-m 65536".to_owned());
    }
    if knows(help, "-i") {
        words.push(format!("-i {ITERATIONS}"));
    }
    if knows(help, "-x") {
        words.push("-x 2".to_owned());
    }
    if knows(help, "-c") {
        words.push("-c".to_owned());
        // The programs' own expected values overflow in sums of bytes, and UCX has no atomics of
        // one byte.
        if computes(name) && knows(help, "-T") {
            words.push("-T mpi_int".to_owned());
        }
        // The program compares data only if both sides have the same number of threads.
        if name == "osu_latency_mt" && knows(help, "-t") {
            words.push("-t 2:2".to_owned());
        }
    }
    words.join(" ")
}

/// Whether a program measures operations on one word.
fn is_atomic(name: &str) -> bool {
    matches!(name, "osu_cas_latency" | "osu_fop_latency")
}

/// Whether MPI computes with the data in a program.
fn computes(name: &str) -> bool {
    is_atomic(name) || name.contains("reduce") || name.contains("_acc_")
}

/// Number of ranks of a job. On a ring of fewer than three ranks, both neighbours would be the
/// same.
fn ranks(name: &str) -> u32 {
    if name.contains("neighbor") { 3 } else { 2 }
}

/// The evidence that a program did its work.
fn proof(name: &str, help: &str) -> Proof {
    match name {
        // Some releases print nothing, so UCX has to report the connection, from both ranks.
        "osu_hello" => Proof::Lines { part: "tag(rc_verbs/", least: 2 },
        "osu_init" => Proof::Above("nprocs: 2, min: "),
        "osu_barrier" => Proof::Osu { checked: false, rows: 1, numbers: 1 },
        "osu_ibarrier" => Proof::Osu { checked: false, rows: 1, numbers: 2 },
        _ => {
            // Other programs measure a row for each size.
            let rows = if is_atomic(name) { 1 } else { 3 };
            Proof::Osu { checked: knows(help, "-c"), rows, numbers: 2 }
        }
    }
}

fn case(program: &Path, help: &str) -> Case {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let half: Half =
        job(ranks(&name), "rc_verbs,ud_verbs,self").argument(program.to_string_lossy());
    let arguments = arguments(&name, help);
    let half = half.arguments(&arguments);
    let half = if name == "osu_hello" { half.variable("UCX_LOG_LEVEL", "info") } else { half };
    let proof = proof(&name, help);
    let title = format!("{name} {arguments}");
    let mut case = Case::single("osu", title.trim_end(), half, proof);
    // Congestion programs refuse a job on one machine.
    case.refusal = name.starts_with("osu_bw_fan_").then_some("on more than 1 node");
    case
}

#[cfg(test)]
mod tests;
