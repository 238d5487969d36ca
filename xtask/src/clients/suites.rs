//! Test suites without a package, given by their paths: rdma-core's Python tests, fabtests and
//! UCX's own tests.

use std::io;
use std::path::{Path, PathBuf};

use super::case::{Case, Client, Half, Proof};
use super::options::Paths;
use crate::pyverbs;

/// All sets of this module.
pub fn clients(paths: &Paths) -> io::Result<Vec<Client>> {
    Ok(vec![
        python_verbs(paths.pyverbs.as_deref())?,
        fabtests(paths.fabtests.as_deref()),
        google_test(paths.ucx_gtest.as_deref()),
    ])
}

pub fn client(name: &'static str, option: &str, what: &str, cases: Vec<Case>) -> Client {
    let absent = cases.is_empty().then(|| format!("{option} is not given"));
    Client { name, install: format!("{option}: {what}"), absent, cases }
}

/// rdma-core's Python tests: a case for each module.
fn python_verbs(folder: Option<&Path>) -> io::Result<Client> {
    let mut cases = Vec::new();
    if let Some(folder) = folder {
        for module in pyverbs::modules(folder, None)? {
            // The bindings belong to the system, so the system's Python has to run them.
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

/// libfabric's tests: a case for each of libfabric's providers and each set of tests.
///
/// The script kills programs by name, everything called `fi_*`. So it runs in a process namespace,
/// in which only its own processes are visible. Hosts are given by options, because on hosts that
/// are given after the provider it starts programs by `ssh`.
fn fabtests(folder: Option<&Path>) -> Client {
    let mut cases = Vec::new();
    if let Some(folder) = folder {
        let bin = folder.join("bin");
        for provider in ["verbs", "verbs;ofi_rxm", "verbs;ofi_rxd"] {
            for set in ["unit", "functional", "short"] {
                let mut half = Half::new("unshare --pid --fork --kill-child --mount-proc");
                if !rustix::process::geteuid().is_root() {
                    half = half.argument("--map-root-user");
                }
                let mut half = half
                    .argument(bin.join("runfabtests.sh").to_string_lossy())
                    .arguments(&format!("-vv -t {set} -T 60 -s {{host}} -c {{host}} -p"))
                    .argument(bin.to_string_lossy());
                if let Some(file) = exclusions(folder, provider) {
                    half = half.argument("-f").argument(file.to_string_lossy());
                }
                let name = format!("{set}, {provider}");
                let half = half.argument(provider);
                cases.push(Case::single("fabtests", &name, half, Proof::Fabtests).patient(15));
            }
        }
    }
    client("fabtests", "--fabtests FOLDER", "where fabtests of libfabric is installed", cases)
}

/// libfabric's own list of tests that are not for one of its providers.
fn exclusions(folder: &Path, provider: &str) -> Option<PathBuf> {
    let last = provider.rsplit(';').next().unwrap_or(provider);
    let file = folder.join(format!("share/fabtests/test_configs/{last}/{last}.exclude"));
    file.is_file().then_some(file)
}

/// Number of parts into which UCX's tests of a transport are divided, because a crash ends a whole
/// part.
const PARTS: u32 = 20;

/// Skipped tests: those of UCX's own checks of arguments write beyond its buffers where UCX was
/// built without these checks, as releases are; and measurements take minutes each (`ucx_perftest`
/// covers them).
const LEFT_OUT: &str = "*uct_p2p_err_test.invalid_*:*_perf.*:*.envelope*";

/// UCX's own tests: cases for each of its transports, by the names that its upper layer and its
/// lower layer use.
fn google_test(program: Option<&Path>) -> Client {
    let mut cases = Vec::new();
    if let Some(program) = program {
        for (transport, tests) in [("rc", "rc/*:rc_verbs/*"), ("ud", "ud/*:ud_verbs/*")] {
            let filter = format!("{tests}-{LEFT_OUT}");
            for part in 0..PARTS {
                let half = Half::default()
                    .argument(program.to_string_lossy())
                    .argument(format!("--gtest_filter={filter}"))
                    .variable("GTEST_TOTAL_SHARDS", PARTS.to_string())
                    .variable("GTEST_SHARD_INDEX", part.to_string())
                    .variable("UCX_NET_DEVICES", "{device}:1")
                    // Keeps UCX from waiting for a debugger after an error.
                    .variable("UCX_HANDLE_ERRORS", "bt")
                    .variable("UCX_LOG_LEVEL", "warn");
                let name = format!("{transport}, part {} of {PARTS}", part + 1);
                let case = Case::single("ucx-gtest", &name, half, Proof::GoogleTest);
                cases.push(case.patient(10));
            }
        }
    }
    client("ucx-gtest", "--ucx-gtest FILE", "the program test/gtest/gtest of a build of UCX", cases)
}
