//! Shared receive queues.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: objects were made by the calls here and are destroyed once, after their last use.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fairway_rdma::Carrier;
use fairway_roce::{ReceiveQueueId, SGE_MAX};
use libc::c_int;

use crate::abi::*;
use crate::device::Context;
use crate::device_state::{DeviceState, SharedEvents, Subject};
use crate::guard::{EBUSY, EINVAL, EOPNOTSUPP, Held, Result, lock, object, status};
use crate::memory::Domain;
use crate::query::DEPTH_MAX;
use crate::receives::Receives;

/// A shared receive queue as programs hold it.
#[repr(C)]
pub(crate) struct SharedQueue {
    pub(crate) base: ibv_srq,
    pub(crate) id: ReceiveQueueId,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) device_state: Arc<DeviceState>,
    pub(crate) receives: Held<Receives>,
    pub(crate) events: Arc<SharedEvents>,
    attr: ibv_srq_attr,
    /// Queue pairs that take their receives from it.
    pub(crate) users: Mutex<u32>,
}

impl SharedQueue {
    /// # Safety
    ///
    /// `srq` is a shared receive queue of ours, not destroyed yet.
    pub(crate) unsafe fn of<'a>(srq: *mut ibv_srq) -> &'a SharedQueue {
        unsafe { &*srq.cast::<SharedQueue>() }
    }
}

unsafe fn create(pd: *mut ibv_pd, init: &mut ibv_srq_init_attr) -> Result<*mut ibv_srq> {
    let context = unsafe { (*pd).context };
    let owner = unsafe { Context::of(context) };
    let attr = &mut init.attr;
    if !(1..=DEPTH_MAX).contains(&attr.max_wr) || attr.max_sge > SGE_MAX as u32 {
        return Err(EINVAL);
    }
    attr.max_sge = attr.max_sge.max(1);
    // It is armed by `ibv_modify_srq`.
    attr.srq_limit = 0;
    let carrier = owner.device_state.carrier()?;
    let id = carrier.create_receive_queue(unsafe { Domain::of(pd) }.number, attr.max_wr)?;
    let base = ibv_srq {
        context,
        srq_context: Field::new(init.srq_context),
        pd,
        handle: owner.device_state.number(),
        mutex: unsafe { zeroed() },
        cond: unsafe { zeroed() },
        events_completed: Field::new(0),
    };
    let mut queue = Box::<SharedQueue>::new_uninit();
    let object = queue.as_mut_ptr() as usize;
    let subject = Subject { object, events: Arc::clone(&owner.events), unacked: Arc::default() };
    let events = Arc::new(SharedEvents { subject, limit: AtomicU32::new(0) });
    owner.device_state.add_shared(id, Arc::clone(&events));
    let queue = Box::write(
        queue,
        SharedQueue {
            base,
            id,
            carrier: Arc::clone(carrier),
            device_state: Arc::clone(&owner.device_state),
            receives: Held::new(Receives::new(attr.max_sge)),
            events,
            attr: *attr,
            users: Mutex::new(0),
        },
    );
    Ok(Box::into_raw(queue).cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    object(|| unsafe { create(pd, &mut *init) })
}

pub(crate) unsafe extern "C" fn create_ex(
    _context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    const KNOWN: u32 = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    object(|| {
        let init = unsafe { &mut *init };
        let typed = init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0;
        // XRC and tag matching we do not have.
        if init.comp_mask & !KNOWN != 0 || typed && init.srq_type != IBV_SRQT_BASIC {
            return Err(EOPNOTSUPP);
        }
        if init.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || init.pd.is_null() {
            return Err(EINVAL);
        }
        let mut basic = ibv_srq_init_attr { srq_context: init.srq_context, attr: init.attr };
        let srq = unsafe { create(init.pd, &mut basic)? };
        init.attr = basic.attr;
        Ok(srq)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    status(|| {
        let queue = unsafe { SharedQueue::of(srq) };
        let attr = unsafe { &*attr };
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(EINVAL);
        }
        // The device does not claim `IBV_DEVICE_SRQ_RESIZE`.
        if mask & IBV_SRQ_MAX_WR != 0 {
            return Err(EOPNOTSUPP);
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            if attr.srq_limit > queue.attr.max_wr {
                return Err(EINVAL);
            }
            // First: it may be reached at once.
            queue.events.limit.store(attr.srq_limit, Ordering::Release);
            queue.carrier.limit_receive_queue(queue.id, attr.srq_limit)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    let queue = unsafe { SharedQueue::of(srq) };
    let now = ibv_srq_attr { srq_limit: queue.events.limit.load(Ordering::Acquire), ..queue.attr };
    unsafe { attr.write(now) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    status(|| {
        let queue = unsafe { SharedQueue::of(srq) };
        if *lock(&queue.users) != 0 {
            return Err(EBUSY);
        }
        queue.carrier.destroy_receive_queue(queue.id)?;
        queue.device_state.remove_shared(queue.id, &queue.events);
        queue.events.subject.settle();
        drop(unsafe { Box::from_raw(srq.cast::<SharedQueue>()) });
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn number(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    unsafe { *number = (*srq).handle };
    0
}

pub(crate) unsafe extern "C" fn post_receives(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let queue = unsafe { SharedQueue::of(srq) };
    unsafe {
        queue.receives.with(|receives| {
            receives.post(&queue.device_state, &*queue.carrier, wr, bad, |requests| {
                queue.carrier.post_shared_receive(queue.id, requests)
            })
        })
    }
}
