//! What operations do, if they are executed in the order they were posted; and whether memory
//! changed so.

use crate::node::{RECEIVE, SLOTS, content};
use crate::plan::{Kind, Planned};
use std::ops::Range;

/// What the operations of a node do to the memory of its peer.
pub struct Model {
    /// The memory in the end.
    pub memory: Vec<u8>,
    /// By operation.
    effects: Vec<Effect>,
}

/// What one operation does.
#[derive(Default)]
struct Effect {
    /// The segment of the peer that changes, and where.
    segment: usize,
    at: usize,
    /// The bytes it has afterwards.
    bytes: Vec<u8>,
    /// What the initiator gets: the bytes that are read, or the old value of the word.
    result: Vec<u8>,
}

/// Where an operation of this kind finds its word.
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

/// How far the operations of a node have come in the memory of its peer.
#[derive(Default)]
pub struct Order {
    /// The operation that is being executed.
    current: usize,
    /// Which of its bytes are in place.
    placed: Vec<bool>,
}

impl Order {
    /// Bytes have changed. An error if it is not their turn: everything before them has to be in
    /// place, and of their own operation everything if they are its end.
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
