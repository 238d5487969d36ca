//! Transports of machine-learning systems, as Python packages: TensorPipe, Mooncake, NIXL.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::case::{Case, Client, Half, Proof, Ready};
use super::options::Paths;

const TENSORPIPE: &str = include_str!("python/tensorpipe.py");
const NIXL: &str = include_str!("python/nixl.py");
/// Programs of two processes that compare all bytes.
const NIXL_READ: &str = include_str!("../../../examples/python/nixl_read.py");
const MOONCAKE_READ: &str = include_str!("../../../examples/python/mooncake_read.py");
const COMPARED: &str = "READ compared 67108864 bytes";

/// The Python interpreter that has the packages.
pub fn python(paths: &Paths) -> PathBuf {
    let named = paths.python.clone();
    named.or_else(|| crate::verbs::launch::find("python3")).unwrap_or("/usr/bin/python3".into())
}

/// Why a package can't be used: none of `modules` is installed. `None` if one is.
pub fn lacks(python: &Path, modules: &[&str]) -> Option<String> {
    // The module is searched, not imported, because importing takes seconds with torch.
    let tests: Vec<String> =
        modules.iter().map(|name| format!("find_spec('{name}') is not None")).collect();
    let script = format!(
        "from importlib.util import find_spec\nimport sys\nsys.exit(not ({}))",
        tests.join(" or ")
    );
    let found = Command::new(python).args(["-c", &script]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return None;
    }
    Some(format!("{} has no {}", python.display(), modules.join(" or ")))
}

fn pip(package: &str) -> String {
    format!("pip install {package}, and name that Python by --python")
}

/// Writes a Python script to the scratch folder of this run, and returns its path.
fn script(folder: &Path, name: &str, text: &str) -> io::Result<String> {
    let path = folder.join(name);
    std::fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

/// All sets of this module.
pub fn clients(paths: &Paths, scratch: &Path) -> io::Result<Vec<Client>> {
    let python = python(paths);
    Ok(vec![tensorpipe(&python, scratch)?, mooncake(&python, scratch)?, nixl(&python, scratch)?])
}

fn tensorpipe(python: &Path, scratch: &Path) -> io::Result<Client> {
    let script = script(scratch, "tensorpipe_case.py", TENSORPIPE)?;
    let program = python.to_string_lossy().into_owned();
    let half = |rank: &str| {
        Half::default().argument(&program).argument(&script).argument(rank).argument("{port}")
    };
    let proof = Proof::Texts(vec!["compared 204 answers".to_owned()]);
    let server = (half("0"), Ready::Listens);
    let name = "remote calls, ibv only";
    let cases = vec![Case::pair("tensorpipe", name, server, half("1"), proof).patient(2)];
    let absent = lacks(python, &["torch"]);
    Ok(Client { name: "tensorpipe", install: pip("torch"), absent, cases })
}

/// Mooncake's benchmark, which compares no data, and a program of its Python package that does.
fn mooncake(python: &Path, scratch: &Path) -> io::Result<Client> {
    let script = script(scratch, "mooncake_read.py", MOONCAKE_READ)?;
    // The package installs it next to the Python interpreter.
    let bench = python.with_file_name("transfer_engine_bench");
    let mut cases = Vec::new();
    for operation in ["write", "read"] {
        let common = "--metadata_server=P2PHANDSHAKE --protocol=rdma --device_name={device} \
                      --buffer_size=67108864 --local_server_name={host}:{port}";
        let half = || Half::default().argument(bench.to_string_lossy()).arguments(common);
        let main = half().arguments("--mode=initiator --segment_id={said} --duration=3");
        let main = main.arguments(&format!("--threads=1 --batch_size=8 --operation={operation}"));
        let server = (half().argument("--mode=target"), Ready::Prints("listening on "));
        let name = format!("transfer_engine_bench {operation}");
        let case = Case::pair("mooncake", &name, server, main, Proof::Above("batch count "));
        cases.push(case.served_for_ever());
    }
    let half = Half::default().argument(python.to_string_lossy()).argument(script);
    let half = half.arguments("--host {host} --device {device}");
    let proof = Proof::Lines { part: COMPARED, least: 5 };
    cases.push(Case::single("mooncake", "READ of 1024 x 64 KiB, two processes", half, proof));
    let there = bench.is_file();
    let absent = (!there).then(|| format!("there is no {}", bench.display()));
    let install = pip("mooncake-transfer-engine-non-cuda");
    Ok(Client { name: "mooncake", install, absent, cases })
}

fn nixl(python: &Path, scratch: &Path) -> io::Result<Client> {
    let script = script(scratch, "nixl_case.py", NIXL)?;
    let mut cases = Vec::from(["rc_v,ud_v", "rc_v"].map(|transports| {
        let half = Half::default().argument(python.to_string_lossy()).argument(&script);
        let half = half.variable("UCX_TLS", transports);
        let proof =
            Proof::Texts(["WRITE", "READ"].map(|way| format!("{way} compared 2097152")).into());
        Case::single("nixl", &format!("WRITE and READ of 2 x 1 MiB over {transports}"), half, proof)
    }));
    let read = self::script(scratch, "nixl_read.py", NIXL_READ)?;
    let half = Half::default().argument(python.to_string_lossy()).argument(read);
    let half = half.variable("UCX_NET_DEVICES", "{device}:1");
    let proof = Proof::Lines { part: COMPARED, least: 5 };
    cases.push(Case::single("nixl", "READ of 1024 x 64 KiB, two processes", half, proof));
    let absent = lacks(python, &["nixl", "nixl_cu12", "nixl_cu13"]);
    Ok(Client { name: "nixl", install: pip("nixl torch numpy"), absent, cases })
}
