//! Files that a command writes: each option has a file of its own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

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
    let name = path.file_name()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    Some(Place::New(folder.join(name)))
}

/// Checks that no two of the options that are given write to the same file.
///
/// # Errors
/// Names the two options, and the file.
pub(crate) fn check(outputs: &[(&str, Option<&Path>)]) -> Result<(), Failure> {
    let mut places: Vec<(&str, Place)> = Vec::new();
    for (name, path) in outputs.iter().filter_map(|(name, path)| Some((name, (*path)?))) {
        let Some(place) = place(path) else { continue };
        if let Some((other, _)) = places.iter().find(|(_, taken)| *taken == place) {
            return Err(Failure::usage(format!(
                "{other} and {name} both write to {}: give each a file of its own",
                path.display()
            )));
        }
        places.push((name, place));
    }
    Ok(())
}
