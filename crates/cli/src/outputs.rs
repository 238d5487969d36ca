//! Files that a command writes: each option has a file of its own, no input is overwritten, and a
//! command that fails leaves what was in the files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::process;

/// Largest number of symbolic links that are followed one after the other, as in Linux.
const LINKS_MAX: usize = 40;

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A file, by the numbers of its device and inode.
    File(u64, u64),
    /// A file that is not there yet.
    New(PathBuf),
}

/// Returns what a path leads to; `None` if it is a device or a pipe, to which several may write.
fn place(path: &Path) -> Option<Place> {
    if let Ok(known) = fs::metadata(path) {
        return known.is_file().then(|| Place::File(known.dev(), known.ino()));
    }
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        // A link to a file that is not there yet.
        let Ok(target) = fs::read_link(&path) else { break };
        path = folder(&path).join(target);
    }
    let name = path.file_name()?;
    let folder = folder(&path);
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    Some(Place::New(folder.join(name)))
}

/// The folder that contains the file.
fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Checks that no two of the options that are given write to the same file, that none of them
/// writes to a file that is read, and that each file can be written.
///
/// # Errors
/// Names the options, and the file.
pub(crate) fn check(
    outputs: &[(&str, Option<&Path>)],
    inputs: &[(&str, &Path)],
) -> Result<(), Failure> {
    let outputs = || outputs.iter().filter_map(|(name, path)| Some((*name, (*path)?)));
    let inputs: Vec<_> =
        inputs.iter().filter_map(|(name, path)| Some((*name, place(path)?))).collect();
    let mut places: Vec<(&str, Place)> = Vec::new();
    for (name, path) in outputs() {
        let Some(place) = place(path) else { continue };
        let path = path.display();
        if let Some((other, _)) = places.iter().find(|(_, taken)| *taken == place) {
            return Err(Failure::usage(format!(
                "{other} and {name} both write to {path}: give each a file of its own"
            )));
        }
        if let Some((input, _)) = inputs.iter().find(|(_, read)| *read == place) {
            return Err(Failure::usage(format!(
                "{name} would overwrite {path}, which is read as {input}: give {name} a file of \
                 its own"
            )));
        }
        places.push((name, place));
    }
    outputs().try_for_each(|(name, path)| check_writable(name, path))
}

/// Checks that a file can be written, and leaves what is in it as it is. Devices and pipes are not
/// opened, because the other end of a pipe would take that for the whole output.
fn check_writable(option: &str, path: &Path) -> Result<(), Failure> {
    let known = fs::metadata(path);
    if known.as_ref().is_ok_and(|known| !known.is_file() && !known.is_dir()) {
        return Ok(());
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
        Failure::usage(format!(
            "{option} {} cannot be written: {error}: name a file in a folder that exists and that \
             you may write to",
            path.display()
        ))
    })?;
    if let (Err(_), Ok(target)) = (known, fs::canonicalize(path)) {
        // What could be created can be created again. A link to it stays.
        let _ = fs::remove_file(target);
    }
    Ok(())
}

/// Lines for a file, which are collected beside it and written to it at the end, so that a command
/// that fails or is interrupted leaves the file as it was.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    lines: BufWriter<File>,
}

impl Draft {
    /// Starts without lines.
    ///
    /// # Errors
    /// If no file can be created in the folder of `path`, nor in that of temporary files.
    pub(crate) fn new(path: &Path) -> Result<Draft, Failure> {
        let lines = nameless(folder(path)).or_else(|_| nameless(&std::env::temp_dir()));
        let lines = lines.map_err(|error| {
            Failure::io(format!("create a temporary file for {}", path.display()), &error)
        })?;
        Ok(Draft { path: path.to_owned(), lines: BufWriter::new(lines) })
    }

    /// Adds lines.
    pub(crate) fn write(&mut self, lines: &str) -> Result<(), Failure> {
        self.lines.write_all(lines.as_bytes()).map_err(|error| self.failure(&error))
    }

    /// Replaces what is in the file by the lines.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.copy().map_err(|error| self.failure(&error))
    }

    fn copy(&mut self) -> io::Result<()> {
        self.lines.flush()?;
        let lines = self.lines.get_mut();
        lines.rewind()?;
        io::copy(lines, &mut File::create(&self.path)?).map(drop)
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::io(format!("write {}", self.path.display()), error)
    }
}

/// Creates a file without a name, which is gone when this process ends.
fn nameless(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!(".fairway-{:016x}", process::random()?));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
