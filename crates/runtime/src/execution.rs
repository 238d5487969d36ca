//! What a device asks to be done to memory is done, and reported to it.

use fairway_device::{Device, Execution, Placement, Ranges};
use fairway_wire::Instant;

use crate::Memories;
use crate::memory::Gone;

/// Copies the payload of a packet to its place, and does what that makes due.
pub fn place<D: Device>(
    device: &mut D,
    memories: &mut Memories,
    now: Instant,
    placement: Placement<D::Target, D::Token>,
    payload: &[u8],
) {
    memories.counters.placed += 1;
    memories.counters.bytes += u64::from(placement.target.length());
    let placed = memories.scatter(&placement.target, payload);
    report(device, memories, now, placement.token, placed.map(|()| 0));
    execute_due(device, memories, now);
}

/// Reports to a device that something is in place (`old` is what a word was that was changed), or
/// that its memory is gone.
pub fn report<D: Device>(
    device: &mut D,
    memories: &mut Memories,
    now: Instant,
    token: D::Token,
    old: Result<u64, Gone>,
) {
    match old {
        Ok(old) => device.handle_placed(now, token, old),
        Err(Gone) => {
            memories.counters.gone += 1;
            device.handle_unplaced(now, token);
        }
    }
}

/// Does what waited for its turn and is due now. Each step may make more due.
pub fn execute_due<D: Device>(device: &mut D, memories: &mut Memories, now: Instant) {
    while let Some(execution) = device.poll_execution() {
        let (token, old) = match execution.into() {
            Execution::Copy { from, to, token } => (token, memories.copy(&from, &to).map(|()| 0)),
            Execution::Atomic(atomic) => (atomic.token, memories.change(&atomic)),
        };
        report(device, memories, now, token, old);
    }
}
