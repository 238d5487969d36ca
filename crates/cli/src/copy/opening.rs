//! Creation of a file that is to be received, outside the server's loop because it waits for the
//! disk.

use fairway::{Context, Memory, Peer, Rights, Segment};

use super::incoming::{Directory, Incoming};
use super::limits::{KeepFree, Place};
use super::refusal::Refusal;

/// Pages of longer files are created when they are written, so that no client can take all memory
/// at once.
const POPULATE_BYTES_MAX: u64 = 1 << 30;
/// Number of bytes whose pages are created at a time, because the process can't get other memory
/// during such a call.
const POPULATE_STEP: usize = 16 << 20;

/// A client's admitted request for a file.
pub(super) struct Request {
    /// Distinguishes the request from earlier ones of the same client, which are obsolete.
    pub(super) ticket: u64,
    pub(super) peer: Peer,
    /// The client's Jetty for the server's messages.
    pub(super) reply_to: u32,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) overwrite: bool,
    pub(super) name: Vec<u8>,
    pub(super) place: Place,
}

/// A file with all of its space allocated, and its pages; `None` if it is empty.
pub(super) struct Opened {
    pub(super) incoming: Incoming,
    pub(super) segment: Option<Segment>,
}

impl Request {
    /// Creates the file. Blocks for as long as the disk takes.
    pub(super) fn open(
        &self,
        context: &Context,
        directory: &Directory,
        keep_free: KeepFree,
    ) -> Result<Opened, Refusal> {
        let (size, mode, overwrite) = (self.size, self.mode, self.overwrite);
        let incoming =
            directory.create(&self.name, size, mode, overwrite, (keep_free, &self.place))?;
        let mut segment = None;
        if incoming.size > 0 {
            let memory = Memory::map_file(&incoming.file, true).map_err(fairway::Error::from)?;
            let registered = context.register(memory, Rights::WRITE)?;
            if incoming.size <= POPULATE_BYTES_MAX {
                populate(&registered);
            }
            segment = Some(registered);
        }
        Ok(Opened { incoming, segment })
    }
}

/// Creates all pages at once, which takes a fraction of the time of creating each when the first
/// packet for it arrives. If that is impossible (before Linux 5.14), the copy is only slower.
fn populate(segment: &Segment) {
    // SAFETY: nothing is read or written by the pointer itself.
    let start = unsafe { segment.as_ptr() };
    let length = segment.len() as usize;
    for at in (0..length).step_by(POPULATE_STEP) {
        // SAFETY: the range lies in the segment's mapping, which lives as long as the segment, and
        // begins at a page of it; making pages present changes no byte of them.
        unsafe {
            let piece = start.add(at).cast();
            libc::madvise(piece, POPULATE_STEP.min(length - at), libc::MADV_POPULATE_WRITE);
        }
    }
}
