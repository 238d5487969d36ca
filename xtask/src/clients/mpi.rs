//! Open MPI over UCX: a program of this repository that compares every word, and mpi4py's own
//! tests.

use std::io;
use std::path::Path;
use std::process::Command;

use super::case::{Case, Client, Half, Proof};
use super::learning::{lacks, python};
use super::options::Paths;
use crate::verbs::launch;

/// Variables that let Open MPI run for root, because in containers every user is root.
pub fn allow_root() -> [(&'static str, String); 2] {
    ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1".to_owned()))
}

/// The command that starts `ranks` ranks, which can communicate only by verbs.
pub fn job(ranks: u32, transports: &str) -> Half {
    let mut half =
        Half::new(&format!("mpirun --oversubscribe -n {ranks} --mca mpi_yield_when_idle 1"))
            // Only UCX as transport, and no remote shells.
            .arguments("--mca pml ucx --mca osc ucx --mca btl self --mca plm isolated")
            .variable("UCX_TLS", transports)
            .variable("UCX_NET_DEVICES", "{device}:1");
    half.environment.extend(allow_root());
    half
}

/// Compiles `ranks.c`, which compares every word that the ranks exchange.
fn compile(folder: &Path) -> Result<String, &'static str> {
    if launch::find("mpicc").is_none() {
        return Err("mpicc is not installed");
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../front/verbs/tests/c/ranks.c");
    let program = folder.join("ranks");
    let output = Command::new("mpicc").args(["-O1", source, "-o"]).arg(&program).output();
    match output {
        Ok(output) if output.status.success() => Ok(program.to_string_lossy().into_owned()),
        _ => Err("mpicc does not compile ranks.c"),
    }
}

/// The program of this repository.
pub fn open_mpi(scratch: &Path) -> Client {
    let compiled = compile(scratch);
    let mut cases = Vec::new();
    if let Ok(program) = &compiled {
        for (ranks, transports) in
            [(2, "rc_verbs,ud_verbs,self"), (4, "rc_verbs,ud_verbs,self"), (4, "ud_verbs,self")]
        {
            let proof = Proof::Texts(vec![format!("all fine: {ranks} ranks")]);
            let name = format!("{ranks} ranks over {transports}");
            let half = job(ranks, transports).argument(program);
            cases.push(Case::single("openmpi", &name, half, proof));
        }
    }
    let install = "apt install openmpi-bin libopenmpi-dev".to_owned();
    Client { name: "openmpi", install, absent: compiled.err().map(str::to_owned), cases }
}

/// mpi4py's tests of messages, collective operations, memory windows and communicators: a case for
/// each of its modules. The same tests run in both ranks.
pub fn mpi4py(paths: &Paths) -> io::Result<Client> {
    let python = python(paths);
    let mut cases = Vec::new();
    let mut absent = lacks(&python, &["mpi4py"]);
    if launch::find("mpirun").is_none() {
        absent = Some("mpirun is not installed".to_owned());
    }
    match &paths.mpi4py {
        None => absent = absent.or(Some("--mpi4py FOLDER is not given".to_owned())),
        Some(folder) => {
            for module in modules(folder)? {
                let half = job(2, "rc_verbs,ud_verbs,self")
                    .arguments("--output-filename {scratch}/ranks")
                    .argument(python.to_string_lossy())
                    .argument("-B")
                    .argument(folder.join("runtests.py").to_string_lossy())
                    .arguments(&format!("-v -i ^{module}\\b"));
                let proof = Proof::Unittest { ranks: Some("{scratch}/ranks".to_owned()) };
                cases.push(Case::single("mpi4py", &module, half, proof).patient(5));
            }
        }
    }
    let install = "apt install openmpi-bin; pip install mpi4py numpy; \
                   pip download --no-deps --no-binary :all: mpi4py, unpack it; --mpi4py ITS/test";
    Ok(Client { name: "mpi4py", install: install.to_owned(), absent, cases })
}

fn modules(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(module) = name.strip_suffix(".py") else { continue };
        let kinds = ["test_p2p", "test_cco", "test_rma", "test_comm"];
        if kinds.iter().any(|kind| module.starts_with(kind)) {
            names.push(module.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
