//! Test suites without a package, by their paths: rdma-core's Python tests, fabtests and UCX's own
//! tests.

use std::io;
use std::path::Path;

use super::case::{Case, Client, Half, Proof};
use super::options::Paths;
use crate::pyverbs;

/// All of them.
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
