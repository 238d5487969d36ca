//! READs and WRITEs of many pieces of a segment, which one call starts.
//!
//! The pieces of all calls are posted in the order of the calls, and a limited number of them is
//! under way at a time: the thread of the queue posts more as pieces complete. A call thus may have
//! any number of pieces, operations that are started one by one find room beside them, and the
//! pieces of the first call arrive before those of the last, although a peer answers all READs that
//! it has by turns.

use fairway::{Batch, Error, Jetty, Peer, Post, RemoteMemory, Segment, SegmentKey};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::invalid;
use crate::memory::{Held, Key, Local};
use crate::queue::{Outcome, State};

/// Most pieces that are under way at a time: twice as many as a channel has slots for READs.
const WINDOW_MAX: usize = 512;
/// Fewest pieces, however long they are.
const WINDOW_MIN: usize = 4;
/// Bytes that are under way at a time: as many as a channel's window of packets has room for.
const WINDOW_BYTES: u64 = 8 << 20;
/// Pieces are posted when this part of the window is free, so that a batch is worth its call.
const ROOM_PART: usize = 8;
/// Longest part of a piece that is copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// Bytes of a piece as Python gives it: three integers of 64 bits.
const ROW: usize = 24;

/// Which way the pieces move.
#[derive(Clone, Copy)]
enum Way {
    Read,
    Write,
}

/// A piece: offsets in the local memory and in the peer's segment, and a length, in bytes.
#[derive(Clone, Copy)]
struct Piece {
    local: u64,
    remote: u64,
    length: u64,
}

/// The pieces of one call that have not been posted.
pub(crate) struct Job {
    peer: Peer,
    held: Arc<Held>,
    key: SegmentKey,
    way: Way,
    pieces: Vec<Piece>,
    posted: usize,
    /// Pieces that may be under way while this job posts.
    window: usize,
}

impl Job {
    /// Parses the arguments of a call, and checks that every piece is within both memories.
    pub(crate) fn new(
        py: Python<'_>,
        peer: &Peer,
        (name, local): (&str, &Local),
        key: &Key,
        rows: &[u8],
    ) -> PyResult<Job> {
        let way = match name {
            "read" => Way::Read,
            "write" => Way::Write,
            _ => return Err(invalid(py, &format!("pieces can't be moved by {name:?}"))),
        };
        if rows.is_empty() || !rows.len().is_multiple_of(ROW) {
            return Err(invalid(py, "there are no pieces: give at least one"));
        }
        let (held, range) = local.held();
        let (length, key) = (range.end - range.start, key.key());
        let mut pieces = Vec::with_capacity(rows.len() / ROW);
        for (at, row) in rows.chunks_exact(ROW).enumerate() {
            let piece = Piece::parse(row);
            if !piece.is_within(length, key.length) {
                return Err(invalid(py, &piece.refusal(at, length, key.length)));
            }
            pieces.push(Piece { local: range.start + piece.local, ..piece });
        }
        let longest = pieces.iter().map(|piece| piece.length).max().unwrap_or(1);
        let window = usize::try_from(WINDOW_BYTES / longest).unwrap_or(WINDOW_MAX);
        let window = window.clamp(WINDOW_MIN, WINDOW_MAX);
        Ok(Job { peer: peer.clone(), held, key, way, pieces, posted: 0, window })
    }

    pub(crate) fn pieces_left(&self) -> usize {
        self.pieces.len() - self.posted
    }

    pub(crate) fn reads(&self) -> bool {
        matches!(self.way, Way::Read)
    }

    /// Copies the pieces from memory of the peer that is mapped here, as far as that is possible.
    /// Returns how many, and their bytes. The others have to be posted.
    pub(crate) fn copy(&mut self, memory: &RemoteMemory) -> (usize, u64) {
        let (before, mut bytes) = (self.posted, 0);
        for piece in &self.pieces[before..] {
            if !self.copies(piece, memory) {
                break;
            }
            self.posted += 1;
            bytes += piece.length;
        }
        (self.posted - before, bytes)
    }

    /// Copies a piece, a part at a time, so that a call that closes the segment does not wait.
    fn copies(&self, piece: &Piece, memory: &RemoteMemory) -> bool {
        (0..piece.length).step_by(COPY_BYTES).all(|at| {
            let start = piece.local + at;
            let range = start..start + (piece.length - at).min(COPY_BYTES as u64);
            let copy = |segment: &Segment| memory.copy_to(piece.remote + at, segment.slice(range));
            matches!(self.held.with(copy), Some(Ok(true)))
        })
    }

    /// Posts up to `room` pieces with this number. Returns how many.
    fn post(&mut self, jetty: &Jetty, id: u64, room: usize) -> Result<usize, Outcome> {
        let next = &self.pieces[self.posted..][..room.min(self.pieces_left())];
        let posted = self.held.with(|segment| {
            jetty.batch(|batch: &mut Batch<'_>| {
                for piece in next {
                    let local = segment.slice(piece.local..piece.local + piece.length);
                    let remote = self.key.at(piece.remote);
                    match self.way {
                        Way::Read => batch.read(&self.peer, local, remote, id)?,
                        Way::Write => batch.write(&self.peer, local, remote, id)?,
                    }
                }
                Ok(())
            })
        });
        let posted = match posted {
            None => return Err(Outcome::SegmentClosed),
            Some(Ok(posted)) => posted,
            // Completions of other operations make room.
            Some(Err(Error::QueueFull | Error::TooManyOperations)) => 0,
            Some(Err(Error::ShutDown)) if !self.peer.is_alive() => {
                let gone = Error::PeerGone { peer: self.peer.address() };
                return Err(Outcome::Refused(Arc::new(gone)));
            }
            Some(Err(error)) => return Err(Outcome::Refused(Arc::new(error))),
        };
        self.posted += posted;
        Ok(posted)
    }
}

impl Piece {
    fn parse(row: &[u8]) -> Piece {
        let word = |at: usize| {
            let bytes = row[8 * at..][..8].try_into().expect("a row has three words");
            u64::from_ne_bytes(bytes)
        };
        Piece { local: word(0), remote: word(1), length: word(2) }
    }

    fn is_within(&self, local_bytes: u64, remote_bytes: u64) -> bool {
        let within =
            |start: u64, bytes: u64| start.checked_add(self.length).is_some_and(|end| end <= bytes);
        self.length > 0 && within(self.local, local_bytes) && within(self.remote, remote_bytes)
    }

    fn refusal(&self, at: usize, local_bytes: u64, remote_bytes: u64) -> String {
        let Piece { local, remote, length } = self;
        format!(
            "piece {at} can't be moved: {length} bytes at {local} of {local_bytes} local bytes and \
             at {remote} of {remote_bytes} remote bytes; a piece has at least one byte and keeps \
             within both memories"
        )
    }
}

/// The jobs that have pieces left to post, in the order of their calls.
#[derive(Default)]
pub(crate) struct Backlog {
    jobs: VecDeque<(u64, Arc<State>, Job)>,
    /// Pieces that are under way.
    flying: usize,
}

impl Backlog {
    pub(crate) fn push(&mut self, id: u64, state: Arc<State>, job: Job) {
        self.jobs.push_back((id, state, job));
    }

    /// Notes that pieces have completed.
    pub(crate) fn land(&mut self, pieces: usize) {
        self.flying -= pieces;
    }

    /// Posts pieces as far as there is room. Returns the numbers of operations that have ended
    /// because their pieces were refused.
    pub(crate) fn post(&mut self, jetty: &Jetty) -> Vec<u64> {
        let mut ended = Vec::new();
        while let Some((id, state, job)) = self.jobs.front_mut() {
            let room = job.window.saturating_sub(self.flying);
            if room < (job.window / ROOM_PART).clamp(1, job.pieces_left()) {
                break;
            }
            match job.post(jetty, *id, room) {
                Ok(posted) => {
                    self.flying += posted;
                    if posted == 0 || (job.pieces_left() > 0 && posted < room) {
                        break;
                    }
                    if job.pieces_left() > 0 {
                        continue;
                    }
                }
                Err(outcome) => {
                    if state.refuse(*id, job.pieces_left(), outcome) {
                        ended.push(*id);
                    }
                }
            }
            self.jobs.pop_front();
        }
        ended
    }

    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }
}
