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
mod turns;

pub(crate) use client::copy;
pub(crate) use limits::{KeepFree, Portion};
pub(crate) use server::serve;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// The 128-bit XXH3 of the first bytes of a file, as any reader sees them, of which a part has been
/// read.
struct Hashing {
    hasher: Xxh3,
    buffer: Vec<u8>,
    at: u64,
    length: u64,
}

impl Hashing {
    fn new(length: u64) -> Hashing {
        Hashing { hasher: Xxh3::new(), buffer: Vec::new(), at: 0, length }
    }

    /// Reads a block. Returns the hash if it was the last one.
    fn block(&mut self, file: &File) -> std::io::Result<Option<[u8; 16]>> {
        let want = (self.length - self.at).min(READ_BYTES as u64) as usize;
        if want > 0 {
            // Not before, because files that wait for their first block need no buffer.
            self.buffer.resize(READ_BYTES, 0);
            let got = file.read_at(&mut self.buffer[..want], self.at)?;
            if got == 0 {
                return Err(std::io::Error::other("the file has become shorter"));
            }
            self.hasher.update(&self.buffer[..got]);
            self.at += got as u64;
        }
        Ok((self.at == self.length).then(|| self.hasher.digest128().to_be_bytes()))
    }
}
