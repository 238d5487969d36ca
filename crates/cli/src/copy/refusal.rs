//! Reasons why a server refuses a file. Each names the value and the limit, and what to do.

use std::io;

use thiserror::Error;

use crate::codec::MessageError;
use crate::failure::Failure;
use crate::quantity::show_size;

/// Reasons why a server refuses a file. Names are escaped for printing; sizes are in bytes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(super) enum Refusal {
    /// The name is none of a file within the directory served.
    #[error("the name '{name}' {wrong}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it, and what to do.
        wrong: &'static str,
    },
    /// A directory of the name does not exist.
    #[error(
        "'{part}' in the name '{name}' is no directory on the server ({error}): make it first; \
         links are not followed"
    )]
    NoDirectory {
        /// Part of the name.
        part: String,
        /// The name.
        name: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The name is that of a directory.
    #[error("'{0}' is a directory on the server: add the file's name to it")]
    Directory(String),
    /// A file has the name already.
    #[error("'{0}' exists on the server: choose another name, or replace it with --overwrite")]
    Exists(String),
    /// The operating system refused something that concerns the file.
    #[error("could not {doing} '{name}': {error}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file's name.
        name: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// No file can be so long.
    #[error("{0} bytes are more than a file can have")]
    Length(u64),
    /// The disk has no space for the file.
    #[error("no room for {} for '{name}' on the server: {error}", show_size(*.size))]
    Space {
        /// Size of the file.
        size: u64,
        /// The file's name.
        name: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The server may write no file of that length.
    #[error(
        "'{name}' has {} bytes, and no file that the server writes may have more than {}: have it \
         started with a higher limit (`ulimit -f`, or LimitFSIZE= of systemd)",
        show_size(*.size), show_size(*.limit)
    )]
    FileLimit {
        /// Size of the file.
        size: u64,
        /// The file's name.
        name: String,
        /// Longest length of a file that the server may write.
        limit: u64,
    },
    /// As many files are arriving as are allowed.
    #[error(
        "as many files are arriving as this server takes at once ({0}): try again later, or have \
         it started with a larger --max-files"
    )]
    Files(u32),
    /// The files that are arriving are as large as is allowed.
    #[error(
        "{} more are too many: files of {} are arriving, and this server takes {} at once: try \
         again later, or have it started with a larger --max-bytes",
        show_size(*.size), show_size(*.arriving), show_size(*.most)
    )]
    Bytes {
        /// Size of the file.
        size: u64,
        /// Bytes of all files that are arriving.
        arriving: u64,
        /// Most bytes that may arrive at once.
        most: u64,
    },
    /// One address or network sends as many files as it may.
    #[error(
        "{arriving} files are arriving from this {holder}, and {left} more may arrive from others \
         only: try again later, or have the server started with larger --max-files or \
         --address-share"
    )]
    FilesOfOne {
        /// `address` or `network`.
        holder: &'static str,
        /// Files that are arriving from it.
        arriving: u64,
        /// Files that may still arrive.
        left: u64,
    },
    /// One address or network sends as many bytes as it may.
    #[error(
        "{} more are too many for one {holder}: files of {} are arriving from it, {} are left, and \
         others get a part of them: try again later, or have the server started with larger \
         --max-bytes or --address-share",
        show_size(*.size), show_size(*.arriving), show_size(*.left)
    )]
    BytesOfOne {
        /// `address` or `network`.
        holder: &'static str,
        /// Size of the file.
        size: u64,
        /// Bytes of the files that are arriving from it.
        arriving: u64,
        /// Bytes that may still arrive.
        left: u64,
    },
    /// One address or network has stored as much as it may.
    #[error(
        "no room for {} from this {holder}: it has taken {} in {files} files within a day, {} are \
         left, and others get a part of them: try again later, or have the server started with a \
         larger --address-share",
        show_size(*.size), show_size(*.stored), show_size(*.left)
    )]
    DiskOfOne {
        /// `address` or `network`.
        holder: &'static str,
        /// Size of the file.
        size: u64,
        /// Bytes that it has stored or is sending.
        stored: u64,
        /// Files that it has stored or is sending.
        files: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// The disk has as many files as it may.
    #[error(
        "no room for one more file: {free} of {total} are free on the server, and {kept} have to \
         stay free: delete files there, or have it started with a smaller --keep-free"
    )]
    DiskFiles {
        /// Files that the disk has room for.
        free: u64,
        /// Files that the disk may have.
        total: u64,
        /// Files that have to stay free.
        kept: u64,
    },
    /// The disk is as full as it may be.
    #[error(
        "no room for {}: {} of {} are free on the server, and {} have to stay free: delete files \
         there, or have it started with a smaller --keep-free",
        show_size(*.size), show_size(*.free), show_size(*.total), show_size(*.kept)
    )]
    DiskBytes {
        /// Size of the file.
        size: u64,
        /// Free bytes.
        free: u64,
        /// Bytes of the disk.
        total: u64,
        /// Bytes that have to stay free.
        kept: u64,
    },
    /// The bytes are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The message does not belong to this state of the copy.
    #[error("{0}: run the same release on both sides")]
    State(&'static str),
    /// No thread could be started.
    #[error("the server has no thread for it ({0}): try again later")]
    Thread(io::Error),
    /// The file could not be mapped or registered.
    #[error(transparent)]
    Memory(#[from] fairway::Error),
    /// The client could not be answered.
    #[error(transparent)]
    Answer(#[from] Failure),
}
