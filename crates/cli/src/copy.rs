//! `fairway serve` and `fairway copy`: copies a file by remote WRITE into the server's mapped
//! pages.
//!
//! The server creates a temporary file of the final length next to the final name, maps it, and
//! sends the client the key to it. The client WRITEs. Then the server revokes the key, both sides
//! hash the contents of their file, and if the client confirms the hash the server makes the file
//! durable and renames it. A failure before that leaves no file behind.

use std::fs::File;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::Xxh3;

mod client;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod incoming;
mod limits;
mod lines;
mod message;
mod opening;
mod refusal;
mod server;
mod source;
mod stale;

pub(crate) use client::copy;
pub(crate) use limits::{KeepFree, Portion};
pub(crate) use server::serve;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// The 128-bit XXH3 of the first `length` bytes of a file, as any reader sees them.
fn hash(file: &File, length: u64) -> std::io::Result<[u8; 16]> {
    let mut buffer = vec![0; READ_BYTES];
    let mut hasher = Xxh3::new();
    let mut at = 0;
    while at < length {
        let want = (length - at).min(READ_BYTES as u64) as usize;
        let got = file.read_at(&mut buffer[..want], at)?;
        if got == 0 {
            return Err(std::io::Error::other("the file has become shorter"));
        }
        hasher.update(&buffer[..got]);
        at += got as u64;
    }
    Ok(hasher.digest128().to_be_bytes())
}
