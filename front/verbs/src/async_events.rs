//! Asynchronous events of a context: waiting for them and acknowledging them.

use std::sync::Arc;

use libc::c_int;

use crate::abi::*;
use crate::device_state::Subject;
use crate::events::{AsyncEvent, EventQueue, NOT_YET, take_or_sleep};
use crate::guard::number;
use crate::pointer::{Out, Ptr};

/// Waits for the next asynchronous event.
#[unsafe(no_mangle)]
extern "C-unwind" fn ibv_get_async_event(
    context: Ptr<'_, ibv_context>,
    event: Out<'_, ibv_async_event>,
) -> c_int {
    let queue = Arc::clone(&context.object().events);
    let take = |queue: &EventQueue<AsyncEvent>| {
        let Some(next) = queue.next(|event| event.unacked.deliver()) else {
            return Ok(NOT_YET);
        };
        event.write(next.to_c());
        Ok(0)
    };
    take_or_sleep(queue, |queue| number(|| take(queue)))
}

/// Acknowledges an event, so that its object may be destroyed.
#[unsafe(no_mangle)]
extern "C" fn ibv_ack_async_event(event: &ibv_async_event) {
    let element = event.element;
    // SAFETY: the program gives back what `ibv_get_async_event` wrote: the kind of event decides
    // which object it is about, and that is not destroyed before its events are acknowledged.
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => {
                let queue = Ptr::kept(element.cq).object();
                queue.ex.base.async_events_completed.add(1);
                acknowledge(&queue.events.subject);
            }
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                let queue = Ptr::kept(element.srq).object();
                queue.base.events_completed.add(1);
                acknowledge(&queue.events.subject);
            }
            IBV_EVENT_QP_FATAL
            | IBV_EVENT_QP_REQ_ERR
            | IBV_EVENT_QP_ACCESS_ERR
            | IBV_EVENT_COMM_EST
            | IBV_EVENT_SQ_DRAINED
            | IBV_EVENT_QP_LAST_WQE_REACHED => {
                let pair = Ptr::kept(element.qp).object();
                pair.ex.qp_base.events_completed.add(1);
                acknowledge(&pair.events.subject);
            }
            // Port events need no acknowledgement.
            _ => {}
        }
    }
}

/// Counts one acknowledgement. Another thread may destroy the object as soon as its events are
/// acknowledged, so nothing of the object is used afterwards.
fn acknowledge(subject: &Subject) {
    let unacked = Arc::clone(&subject.unacked);
    unacked.acknowledge(1);
}
