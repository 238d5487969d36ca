//! Files that a user names and that are read whole, up to a limit.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use crate::quantity::show_size;

/// Maximum size of a text that is read, in bytes.
pub(crate) const TEXT_BYTES_MAX: u64 = 256 << 20;
/// Maximum size of a file of a trace, in bytes.
pub(crate) const TRACE_BYTES_MAX: u64 = 4 << 30;

/// Reads a file or pipe to its end.
///
/// # Errors
/// It can't be read, or has more than `most` bytes: a device such as `/dev/zero` has no end.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it has more than {} bytes, the maximum", show_size(most));
        return Err(Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Reads a text of at most [`TEXT_BYTES_MAX`] bytes.
///
/// # Errors
/// As [`read`]; or it is no UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let no_text = |_| Error::new(ErrorKind::InvalidData, "it is no text in UTF-8");
    String::from_utf8(read(path, TEXT_BYTES_MAX)?).map_err(no_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_an_end_is_refused_with_the_limit() {
        let error = read(Path::new("/dev/zero"), 64 << 10).expect_err("it has no end");
        assert_eq!(error.to_string(), "it has more than 64K bytes, the maximum");
        let error = read_text(Path::new("/dev/zero")).expect_err("it has no end");
        assert_eq!(error.to_string(), "it has more than 256M bytes, the maximum");
    }

    #[test]
    fn file_of_the_maximum_size_is_read() {
        let path = std::env::temp_dir().join(format!("fairway-input-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).expect("written");
        let results = [100, 99].map(|most| read(&path, most).ok());
        std::fs::remove_file(&path).expect("it is ours");
        assert_eq!(results, [Some(vec![7; 100]), None]);
    }
}
