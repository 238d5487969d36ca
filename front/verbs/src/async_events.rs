//! Asynchronous events of a context: waiting for them and acknowledging them.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: events were returned by `ibv_get_async_event`, and their objects are not destroyed.

use std::sync::Arc;

use libc::c_int;

use crate::abi::*;
use crate::cq::CompletionQueue;
use crate::device::Context;
use crate::device_state::Subject;
use crate::events::{AsyncEvent, EventQueue, NOT_YET, take_or_sleep};
use crate::guard::number;
use crate::qp::QueuePair;
use crate::srq::SharedQueue;

/// Waits for the next asynchronous event.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let queue = Arc::clone(&unsafe { Context::of(context) }.events);
    let take = |queue: &EventQueue<AsyncEvent>| {
        let Some(next) = queue.next(|event| event.unacked.deliver()) else {
            return Ok(NOT_YET);
        };
        unsafe { event.write(next.to_c()) };
        Ok(0)
    };
    take_or_sleep(queue, |queue| number(|| take(queue)))
}

/// Acknowledges an event, so that its object may be destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    unsafe {
        let (kind, element) = ((*event).event_type, (*event).element);
        match kind {
            IBV_EVENT_CQ_ERR => {
                let queue = CompletionQueue::of(element.cq);
                queue.ex.base.async_events_completed.add(1);
                acknowledge(&queue.events.subject);
            }
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                let queue = SharedQueue::of(element.srq);
                queue.base.events_completed.add(1);
                acknowledge(&queue.events.subject);
            }
            IBV_EVENT_QP_FATAL
            | IBV_EVENT_QP_REQ_ERR
            | IBV_EVENT_QP_ACCESS_ERR
            | IBV_EVENT_COMM_EST
            | IBV_EVENT_SQ_DRAINED
            | IBV_EVENT_QP_LAST_WQE_REACHED => {
                let pair = QueuePair::of(element.qp);
                pair.ex.qp_base.events_completed.add(1);
                acknowledge(&pair.events.subject);
            }
            // Of ports: there is nothing to wait for.
            _ => {}
        }
    }
}

/// Another thread may destroy the object as soon as its events are acknowledged, so nothing of it
/// is used from then on.
fn acknowledge(subject: &Subject) {
    let unacked = Arc::clone(&subject.unacked);
    unacked.acknowledge(1);
}
