//! Checks memory order on shared memory: the last writer wins, and a READ returns what was written
//! before it, and nothing that was posted after it.
//!
//! Every Jetty has its own range of the peer's *board*, which its WRITEs overwrite and its READs
//! read repeatedly. In memory order, the content that a READ must return is determined when it is
//! posted: it is that of all WRITEs posted before.

use crate::finding::Finding;
use crate::operation::{Kind, Operation, Place};
use crate::oracles::Model;
use crate::world::World;
use fairway_ub::Status;
use std::collections::BTreeMap;

/// Identifies a range of a board: the board's key, and the Jetty that owns the range.
type Range = (usize, u32);

/// Expected content of a Jetty's range of a board.
#[derive(Debug)]
struct Content {
    /// Offset of the range on the board.
    start: usize,
    bytes: Vec<u8>,
    /// True if an operation has failed, so that the content can no longer be predicted.
    is_unknown: bool,
}

/// State of the board checks.
#[derive(Debug, Default)]
pub(crate) struct BoardOracle {
    contents: BTreeMap<Range, Content>,
    /// For READs that have not completed: the bytes that they must return.
    expected: BTreeMap<usize, Vec<u8>>,
}

/// Returns the start and length of a Jetty's range on a board of `board` bytes for `jetties`
/// Jetties.
pub(crate) fn range_of(board: u64, jetties: u32, jetty: u32) -> (u64, u64) {
    let length = board / u64::from(jetties);
    (u64::from(jetty) * length, length)
}

impl Model {
    /// Returns the range and the place of an operation on a board, or `None` if it is not on a
    /// board.
    fn board_of(&self, world: &World, operation: &Operation) -> Option<(Range, Place)> {
        let (key, at) = operation.remote?;
        let is_board = world.memory.pieces[key].board.is_some();
        is_board.then_some(((key, operation.jetty.value()), (key, at)))
    }

    /// Records that an operation was posted under `id`.
    pub(crate) fn posted_to_board(&mut self, world: &World, id: usize, operation: &Operation) {
        let Some((range, (key, at))) = self.board_of(world, operation) else { return };
        let jetties = world.memory.pieces[key].board.unwrap_or(1);
        let length = world.memory.pieces[key].bytes.len() as u64;
        let (start, length) = range_of(length, jetties, operation.jetty.value());
        let (start, end) = (start as usize, (start + length) as usize);
        let content = self.boards.contents.entry(range).or_insert_with(|| Content {
            start,
            bytes: world.memory.pieces[key].mirror[start..end].to_vec(),
            is_unknown: false,
        });
        let (from, to) = (at - start, at - start + operation.length as usize);
        if operation.kind == Kind::Read {
            self.boards.expected.insert(id, content.bytes[from..to].to_vec());
        } else {
            let (key, at) = operation.local;
            let source = world.memory.mirror(key, at, operation.length as usize);
            content.bytes[from..to].copy_from_slice(source);
        }
    }

    /// Checks an operation on a board that has ended. Returns false if it is on no board.
    pub(crate) fn ended_on_board(
        &mut self,
        world: &mut World,
        id: usize,
        status: Status,
    ) -> Result<bool, Finding> {
        let operation = self.operations[id];
        let Some((range, (key, _))) = self.board_of(world, &operation) else { return Ok(false) };
        let Some(content) = self.boards.contents.get_mut(&range) else { return Ok(false) };
        let length = operation.length as usize;
        let expected = self.boards.expected.remove(&id);
        if status != Status::Success && !content.is_unknown {
            content.is_unknown = true;
            world.memory.unsettle(key, content.start, content.bytes.len());
        }
        let is_unknown = content.is_unknown;
        match expected {
            Some(_) if status != Status::Success => {
                world.memory.unsettle(operation.local.0, operation.local.1, length);
            }
            // The memory of an unsignaled READ may be freed before this check, which runs at the
            // end.
            Some(_) if is_unknown || world.memory.pieces[operation.local.0].released => {
                world.memory.accept(operation.local.0, operation.local.1, length);
            }
            Some(expected) => {
                let (key, at) = operation.local;
                let bytes = &world.memory.pieces[key].bytes[at..at + length];
                if let Some(wrong) = bytes.iter().zip(&expected).position(|(a, b)| a != b) {
                    return Err(format!(
                        "memory order: a READ returned {:#04x} at byte {wrong}, and {:#04x} was \
                         there at its turn: {operation:?}",
                        bytes[wrong], expected[wrong]
                    )
                    .into());
                }
                world.memory.write(key, at, &expected);
            }
            // The result of WRITEs is compared at the end, when the last one must have won.
            None => {}
        }
        Ok(true)
    }

    /// Sets the expected content of boards, when all operations are over, to the last bytes
    /// written.
    pub(crate) fn expect_boards(&self, world: &mut World) {
        for (&(key, _), content) in &self.boards.contents {
            let range = content.start..content.start + content.bytes.len();
            if !content.is_unknown {
                world.memory.pieces[key].mirror[range].copy_from_slice(&content.bytes);
            }
        }
    }

    /// Marks the range of an operation's Jetty as unpredictable, because the node has crashed or
    /// memory was missing.
    pub(crate) fn forget_on_board(&mut self, world: &mut World, id: usize) {
        let operation = self.operations[id];
        let Some((range, (key, _))) = self.board_of(world, &operation) else { return };
        self.boards.expected.remove(&id);
        if let Some(content) = self.boards.contents.get_mut(&range) {
            content.is_unknown = true;
            world.memory.unsettle(key, content.start, content.bytes.len());
        }
    }
}
