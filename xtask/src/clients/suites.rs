//! Test suites without a package, by their paths: rdma-core's Python tests, fabtests, UCX's own tests
//! and the OSU micro-benchmarks.

use std::io;
use std::path::{Path, PathBuf};

use super::case::{Case, Client, Half, Proof};
use super::mpi::job;
use super::options::Paths;
use crate::pyverbs;

/// All of them.
pub fn clients(paths: &Paths) -> io::Result<Vec<Client>> {
    Ok(vec![
        python_verbs(paths.pyverbs.as_deref())?,
        fabtests(paths.fabtests.as_deref()),
        google_test(paths.ucx_gtest.as_deref()),
        osu(paths.osu.as_deref())?,
    ])
}

fn client(name: &'static str, option: &str, what: &str, cases: Vec<Case>) -> Client {
    let absent = cases.is_empty().then(|| format!("{option} is not given"));
    Client { name, install: format!("{option}: {what}"), absent, cases }
}

/// rdma-core's Python tests: a case for each module.
fn python_verbs(folder: Option<&Path>) -> io::Result<Client> {
    let mut cases = Vec::new();
    if let Some(folder) = folder {
        for module in pyverbs::modules(folder, None)? {
            // The bindings are the system's, so its own Python has to run them.
            let mut half = Half::new("/usr/bin/python3 -B run_tests.py -v");
            half = half.argument(format!("tests.{module}"));
            half.folder = Some(folder.to_owned());
            let proof = Proof::Unittest { ranks: None };
            cases.push(Case::single("pyverbs", &module, half, proof).patient(3));
        }
    }
    let what = "the folder `tests` of a checkout of rdma-core, and apt install python3-pyverbs";
    Ok(client("pyverbs", "--pyverbs FOLDER", what, cases))
}

/// libfabric's tests: a case for each provider of libfabric's.
fn fabtests(folder: Option<&Path>) -> Client {
    let mut cases = Vec::new();
    if let Some(folder) = folder {
        let bin = folder.join("bin");
        for provider in ["verbs", "verbs;ofi_rxm", "verbs;ofi_rxd"] {
            let half = Half::default()
                .argument(bin.join("runfabtests.sh").to_string_lossy())
                .arguments("-vvv -t quick -T 60 -p")
                .argument(bin.to_string_lossy())
                .argument(provider)
                .arguments("{host} {host}");
            let name = format!("quick, {provider}");
            cases.push(Case::single("fabtests", &name, half, Proof::Fabtests).patient(15));
        }
    }
    client("fabtests", "--fabtests FOLDER", "where fabtests of libfabric is installed", cases)
}

/// UCX's own tests: a case for each of its transports.
fn google_test(program: Option<&Path>) -> Client {
    let mut cases = Vec::new();
    if let Some(program) = program {
        for transport in ["rc_v", "ud_v"] {
            let half = Half::default()
                .argument(program.to_string_lossy())
                .argument(format!("--gtest_filter=*{transport}*"))
                .variable("UCX_NET_DEVICES", "{device}:1");
            let case = Case::single("ucx-gtest", transport, half, Proof::GoogleTest);
            cases.push(case.patient(30));
        }
    }
    client("ucx-gtest", "--ucx-gtest FILE", "the program test/gtest/gtest of a build of UCX", cases)
}

/// The OSU micro-benchmarks of Open MPI: a case for each program, with two ranks.
fn osu(folder: Option<&Path>) -> io::Result<Client> {
    let mut cases = Vec::new();
    if let Some(folder) = folder {
        let mut programs = Vec::new();
        find(folder, 4, &mut programs)?;
        programs.sort();
        for program in programs {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let half = job(2, "rc_verbs,ud_verbs,self").argument(program.to_string_lossy());
            let half = half.arguments("-m 65536 -i 20 -x 2");
            cases.push(Case::single("osu", &name, half, Proof::Pairs(3)));
        }
    }
    Ok(client("osu", "--osu FOLDER", "the OSU micro-benchmarks, built with mpicc", cases))
}

/// Programs named `osu_*` in this folder and those below.
fn find(folder: &Path, depth: u32, programs: &mut Vec<PathBuf>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if kind.is_dir() && depth > 0 {
            find(&entry.path(), depth - 1, programs)?;
        }
        let program = kind.is_file() && entry.metadata()?.permissions().mode() & 0o111 != 0;
        let name = name.to_string_lossy();
        if program && name.starts_with("osu_") && !name.contains('.') {
            programs.push(entry.path());
        }
    }
    Ok(())
}
