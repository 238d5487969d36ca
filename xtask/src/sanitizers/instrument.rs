//! Compiles libraries and programs with a sanitizer.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cases::Case;
use super::{Front, Sanitizer, root};
use crate::programs::check_signals;
use crate::verbs::link;

/// The profile of `Cargo.toml` with which the libraries are built.
const PROFILE: &str = "sanitized";

/// System libraries that the sanitizers' runtimes and the Rust standard library require.
const SYSTEM: &[&str] = &["-lgcc_s", "-lresolv", "-lrt", "-lpthread", "-ldl", "-lm", "-lc"];

/// Instrumented libraries, and the means to compile programs for them.
pub struct Workshop {
    sanitizer: Sanitizer,
    /// Output folder.
    folder: PathBuf,
    /// Folder of the Rust libraries.
    libraries: PathBuf,
    /// Path of the sanitizer's runtime, a static library.
    runtime: PathBuf,
}

impl Workshop {
    /// Builds the libraries.
    pub fn open(sanitizer: Sanitizer, fronts: &[Front], toolchain: &str) -> io::Result<Workshop> {
        let folder = root().join("target/sanitizers").join(sanitizer.name());
        std::fs::create_dir_all(&folder)?;
        let target = host(toolchain)?;
        let libraries = folder.join(&target).join(PROFILE);
        let runtime = runtime(sanitizer, toolchain)?;
        let workshop = Workshop { sanitizer, folder, libraries, runtime };
        for front in fronts {
            eprintln!("building {} with {} instrumented", front.name(), sanitizer.name());
            workshop.build(*front, toolchain, &target)?;
        }
        Ok(workshop)
    }

    /// Builds the static library of a front, and from it the library with which programs are
    /// linked.
    fn build(&self, front: Front, toolchain: &str, target: &str) -> io::Result<()> {
        let name = self.sanitizer.name();
        let mut cargo = Command::new("cargo");
        cargo.arg(format!("+{toolchain}")).args(["rustc", "--profile", PROFILE, "--lib"]);
        cargo.args(["--package", front.package()]);
        // For a shared library, rustc would require that all symbols are defined, without the
        // runtime.
        cargo.args(["--crate-type", "staticlib", "-Zbuild-std=std,panic_unwind"]);
        cargo.args(["--target", target, "--target-dir"]).arg(&self.folder);
        cargo.env("RUSTFLAGS", format!("-Zsanitizer={name} -Cforce-frame-pointers=yes"));
        // These variables belong to the cargo that runs this program.
        for variable in ["CARGO", "CARGO_ENCODED_RUSTFLAGS", "RUSTC", "RUSTUP_TOOLCHAIN"] {
            cargo.env_remove(variable);
        }
        // Cargo reports its progress.
        let status = cargo.current_dir(root()).stdin(Stdio::null()).status()?;
        check_signals()?;
        if !status.success() {
            return Err(io::Error::other(format!("{cargo:?} ended with {status}")));
        }
        if front == Front::Verbs {
            let map = Front::Verbs.folder().join("exports.map");
            let archive = self.libraries.join("libfairway_rdmacm.a");
            // The program contains the runtime's functions.
            link::link(&archive, &map, &self.shared_library(), &[])?;
        }
        Ok(())
    }

    fn shared_library(&self) -> PathBuf {
        self.libraries.join("libibverbs.so.1")
    }

    /// Compiles the program of a case, and links it with the library and the runtime.
    pub fn compile(&self, case: &Case) -> io::Result<PathBuf> {
        let name = format!("{}-{}", case.front.name(), case.program());
        let (program, object) = (self.folder.join(&name), self.folder.join(format!("{name}.o")));
        let folder = case.front.folder();
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-c"]);
        compiler.arg(format!("-fsanitize={}", self.sanitizer.name()));
        compiler.arg("-I").arg(folder.join("include"));
        compiler.arg(folder.join(case.source)).arg("-o").arg(&object);
        succeed(&mut compiler)?;
        let mut linker = Command::new("cc");
        linker.arg("-o").arg(&program).arg(&object);
        match case.front {
            Front::Verbs => {
                linker.arg(self.shared_library());
                linker.arg(format!("-Wl,-rpath,{}", self.libraries.display()));
            }
            Front::Rvma => {
                linker.arg(self.libraries.join("librvma.a"));
            }
        }
        // The library uses the runtime's functions in the program, which has to export them.
        linker.arg("-rdynamic").arg("-Wl,--whole-archive").arg(&self.runtime);
        succeed(linker.arg("-Wl,--no-whole-archive").args(SYSTEM))?;
        Ok(program)
    }
}

/// Runs a command, whose output is printed only if it fails.
fn succeed(command: &mut Command) -> io::Result<String> {
    let result = command.stdin(Stdio::null()).output().map_err(|error| {
        let name = command.get_program().display().to_string();
        io::Error::new(error.kind(), format!("could not run {name}: {error}"))
    })?;
    check_signals()?;
    if result.status.success() {
        return Ok(String::from_utf8_lossy(&result.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&result.stderr);
    Err(io::Error::other(format!("{command:?} ended with {}:\n{text}", result.status)))
}

fn rustc(toolchain: &str, argument: &str) -> io::Result<String> {
    succeed(Command::new("rustc").env_remove("RUSTUP_TOOLCHAIN").args([
        &format!("+{toolchain}"),
        "--print",
        argument,
    ]))
}

/// Target triple of this machine.
fn host(toolchain: &str) -> io::Result<String> {
    Ok(rustc(toolchain, "host-tuple")?.trim().to_owned())
}

/// Path of the sanitizer's runtime in the toolchain; its file name contains that of the channel.
fn runtime(sanitizer: Sanitizer, toolchain: &str) -> io::Result<PathBuf> {
    let folder = rustc(toolchain, "target-libdir")?;
    let end = match sanitizer {
        Sanitizer::Address => "_rt.asan.a",
        Sanitizer::Thread => "_rt.tsan.a",
    };
    for entry in std::fs::read_dir(Path::new(folder.trim()))? {
        let path = entry?.path();
        if path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.ends_with(end)) {
            return Ok(path);
        }
    }
    let text =
        format!("{} has no file librustc*{end}: the target has no sanitizers", folder.trim());
    Err(io::Error::other(text))
}
