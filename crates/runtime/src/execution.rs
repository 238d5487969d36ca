//! Executes a device's requests on memory, and reports the results to it.

use fairway_device::{Device, Execution, Placement, Ranges};
use fairway_wire::Instant;

use crate::Memories;
use crate::memory::Gone;
use crate::payload::Payload;

/// Copies the payload of a packet to its place, and executes the requests that become due.
pub fn place<D: Device>(
    device: &mut D,
    memories: &mut Memories,
    now: Instant,
    placement: Placement<D::Target, D::Token>,
    payload: Payload<'_>,
) {
    memories.counters.placed += 1;
    memories.counters.bytes += u64::from(placement.target.length());
    let placed = memories.scatter(&placement.target, payload);
    report(device, memories, now, placement.token, placed.map(|()| 0));
    execute_due(device, memories, now);
}

/// Reports to a device that a request was executed (`old` is the previous value of a changed word),
/// or that its memory is gone.
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

/// Executes the deferred requests that are due now. Each of them may make more due.
pub fn execute_due<D: Device>(device: &mut D, memories: &mut Memories, now: Instant) {
    while let Some(execution) = device.poll_execution() {
        let (token, old) = match execution.into() {
            Execution::Copy { from, to, token } => (token, memories.copy(&from, &to).map(|()| 0)),
            Execution::Atomic(atomic) => (atomic.token, memories.change(&atomic)),
        };
        report(device, memories, now, token, old);
    }
}
