// Builds the library and links it with its symbol versions. Part of xtask and of the tests, which
// include this file.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// System libraries that the Rust standard library requires.
const SYSTEM: &[&str] = &["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"];

fn failed(what: &str, detail: &str) -> io::Error {
    io::Error::other(format!("{what} failed:\n{detail}"))
}

fn run(command: &mut Command) -> io::Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let result = command
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("could not run {name}: {error}")))?;
    if result.status.success() {
        return Ok(result.stdout);
    }
    Err(failed(&name, &String::from_utf8_lossy(&result.stderr)))
}

/// Directory into which cargo builds.
pub fn target_directory(cargo: &str, root: &Path) -> io::Result<PathBuf> {
    const KEY: &str = "\"target_directory\":\"";
    let metadata = run(Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root))?;
    let text = String::from_utf8_lossy(&metadata);
    let at = text.find(KEY).ok_or_else(|| failed("cargo metadata", "no target_directory"))?;
    let rest = &text[at + KEY.len()..];
    let end = rest.find('"').unwrap_or(rest.len());
    Ok(PathBuf::from(&rest[..end]))
}

/// Builds `libibverbs.so.1`, which contains librdmacm, and `librdmacm.so.1` as a link to it, in the
/// folder `fairway-verbs` of the release profile. Returns the folder.
pub fn library() -> io::Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The crate that includes this file is xtask, front/verbs or front/rdmacm.
    let root = here.ancestors().find(|path| path.join("front/verbs/exports.map").is_file());
    let root = root.ok_or_else(|| failed("looking for front/verbs/exports.map", "not found"))?;
    run(Command::new(&cargo)
        .args(["build", "--quiet", "--release", "--package", "fairway-rdmacm"])
        .current_dir(root))?;
    let built = target_directory(&cargo, root)?.join("release");
    let folder = built.join("fairway-verbs");
    std::fs::create_dir_all(&folder)?;
    let archive = built.join("libfairway_rdmacm.a");
    let (library, map) = (folder.join("libibverbs.so.1"), root.join("front/verbs/exports.map"));
    let modified = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    let newest = modified(&archive)?.max(modified(&map)?);
    if !modified(&library).is_ok_and(|linked| linked > newest) {
        link(&archive, &map, &library, &["-Wl,-z,defs"])?;
    }
    let manager = folder.join("librdmacm.so.1");
    if std::fs::symlink_metadata(&manager).is_err() {
        std::os::unix::fs::symlink("libibverbs.so.1", &manager)?;
    }
    Ok(folder)
}

/// Links the static library to a shared one with the symbol versions of `map`; `options` are more
/// options for the C compiler, which links.
pub fn link(archive: &Path, map: &Path, library: &Path, options: &[&str]) -> io::Result<()> {
    // The new file replaces the old one by name, so that running programs keep the old one.
    let fresh = library.with_extension(format!("{}.new", std::process::id()));
    run(Command::new("cc")
        .args(["-shared", "-Wl,-soname,libibverbs.so.1", "-Wl,-z,now"])
        .args(options)
        .args(["-Wl,-Bsymbolic-functions", "-Wl,--gc-sections"])
        .arg(format!("-Wl,--version-script={}", map.display()))
        .arg("-o")
        .arg(&fresh)
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(SYSTEM))?;
    std::fs::rename(&fresh, library)
}
