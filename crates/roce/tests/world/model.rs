//! Model of the effects of operations if they are executed in the order of posting, and a check
//! that memory changed in that order.

use crate::node::{RECEIVE, SLOTS, content};
use crate::plan::{Kind, Planned};
use std::ops::Range;

/// The effects of a node's operations on the memory of its peer.
pub struct Model {
    /// The memory after all operations.
    pub memory: Vec<u8>,
    /// The effects, by operation.
    effects: Vec<Effect>,
}

/// The effect of one operation.
#[derive(Default)]
struct Effect {
    /// The segment of the peer that changes, and the offset of the change.
    segment: usize,
    at: usize,
    /// The changed bytes after the operation.
    bytes: Vec<u8>,
    /// The result at the initiator: the bytes that are read, or the old value of the word.
    result: Vec<u8>,
}

/// The word that an operation of this kind uses.
fn word(kind: Kind) -> Range<usize> {
    if kind == Kind::FetchAdd { 0..8 } else { 8..16 }
}

impl Model {
    /// Executes the plan of node `index` on the memory that its peer exposes.
    pub fn of(index: usize, plan: &[Planned], exposed: &[u8]) -> Model {
        let mut memory = exposed.to_vec();
        let mut receives = 0;
        let effects = plan.iter().enumerate().map(|(id, planned)| {
            let (at, slot) = (planned.at as usize, receives % SLOTS * RECEIVE as usize);
            receives += usize::from(planned.takes_receive());
            let mut effect = Effect { segment: 1, at, ..Effect::default() };
            match planned.kind {
                Kind::Read => {
                    effect.result = memory[at..at + planned.length as usize].to_vec();
                    return effect;
                }
                Kind::Send | Kind::SendImmediate => {
                    (effect.segment, effect.at) = (2, slot);
                    effect.bytes = content(index, id, planned.length);
                    return effect;
                }
                Kind::Write | Kind::WriteImmediate => {
                    effect.bytes = content(index, id, planned.length);
                }
                Kind::FetchAdd | Kind::CompareSwap => {
                    let word = word(planned.kind);
                    let old = u64::from_le_bytes(memory[word.clone()].try_into().unwrap());
                    let new = match planned.kind {
                        Kind::FetchAdd => old.wrapping_add(planned.operand),
                        _ if old == 0 => planned.operand,
                        _ => old,
                    };
                    effect.at = word.start;
                    effect.bytes = new.to_le_bytes().to_vec();
                    effect.result = old.to_le_bytes().to_vec();
                }
            }
            let end = effect.at + effect.bytes.len();
            memory[effect.at..end].copy_from_slice(&effect.bytes);
            effect
        });
        let effects = effects.collect();
        Model { memory, effects }
    }

    /// The bytes that operation `id` reads, or the old value of its word.
    pub fn result(&self, id: usize) -> &[u8] {
        &self.effects[id].result
    }
}

/// How far a node's operations have been executed in the memory of its peer.
#[derive(Default)]
pub struct Order {
    /// The operation that is being executed.
    current: usize,
    /// Which bytes of that operation have been placed.
    placed: Vec<bool>,
}

impl Order {
    /// Records a change of bytes. Returns an error if they are out of order: everything before them
    /// must have been placed, and, if they are the end of their operation, also the rest of it.
    pub fn note(
        &mut self,
        model: &Model,
        segment: usize,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), String> {
        while let Some(effect) = model.effects.get(self.current) {
            self.placed.resize(effect.bytes.len(), false);
            if self.placed.iter().all(|placed| *placed) {
                self.current += 1;
                self.placed.clear();
                continue;
            }
            let from = at.wrapping_sub(effect.at);
            let range = from..from.wrapping_add(bytes.len());
            if segment != effect.segment || effect.bytes.get(range.clone()) != Some(bytes) {
                break;
            }
            self.placed[range.clone()].fill(true);
            let whole = self.placed.iter().all(|placed| *placed);
            if range.end == effect.bytes.len() && !whole {
                return Err(format!("the end of operation {} came first", self.current));
            }
            return Ok(());
        }
        let current = self.current;
        Err(format!("{} bytes at {at} of segment {segment} changed during {current}", bytes.len()))
    }
}
