//! Shared receive queues.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fairway_rdma::Provider;
use fairway_roce::{ReceiveQueueId, SGE_MAX};
use libc::c_int;

use crate::abi::*;
use crate::device_state::{DeviceState, SharedEvents, Subject};
use crate::guard::{EBUSY, EINVAL, EOPNOTSUPP, Held, Result, lock, object, status};
use crate::memory::Member;
use crate::pointer::{Handle, Last, List, Out, Ptr};
use crate::query::DEPTH_MAX;
use crate::receives::Receives;

/// Object behind an `ibv_srq` that a program holds.
#[repr(C)]
pub struct SharedQueue {
    pub(crate) base: ibv_srq,
    pub(crate) id: ReceiveQueueId,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) device_state: Arc<DeviceState>,
    pub(crate) receives: Held<Receives>,
    pub(crate) events: Arc<SharedEvents>,
    attr: ibv_srq_attr,
    /// Number of queue pairs that take their receives from this queue.
    pub(crate) users: Mutex<u32>,
    _member: Member,
}

// SAFETY: `create` makes every `ibv_srq`, as the first field of a boxed `SharedQueue`.
unsafe impl Handle for ibv_srq {
    type Object = SharedQueue;
}

fn create(pd: Ptr<'_, ibv_pd>, init: &mut ibv_srq_init_attr) -> Result<*mut ibv_srq> {
    let context = pd.object().context();
    let owner = context.object();
    let attr = &mut init.attr;
    if !(1..=DEPTH_MAX).contains(&attr.max_wr) || attr.max_sge > SGE_MAX as u32 {
        return Err(EINVAL);
    }
    attr.max_sge = attr.max_sge.max(1);
    // `ibv_modify_srq` arms the limit.
    attr.srq_limit = 0;
    let provider = owner.device_state.provider()?;
    let id = provider.create_receive_queue(pd.object().number, attr.max_wr)?;
    let base = ibv_srq {
        context: context.raw(),
        srq_context: Field::new(init.srq_context),
        pd: pd.raw(),
        handle: owner.device_state.number(),
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
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
            provider: Arc::clone(provider),
            device_state: Arc::clone(&owner.device_state),
            // SAFETY: the lock moves into the box here, and is not moved again.
            receives: unsafe { Held::new(Receives::new(attr.max_sge)) },
            events,
            attr: *attr,
            users: Mutex::new(0),
            _member: pd.object().member(),
        },
    );
    Ok(ibv_srq::give(queue))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_srq(pd: Ptr<'_, ibv_pd>, init: &mut ibv_srq_init_attr) -> *mut ibv_srq {
    object(|| create(pd, init))
}

pub(crate) extern "C" fn create_ex(
    context: Ptr<'_, ibv_context>,
    init: &mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    const KNOWN: u32 = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    object(|| {
        let typed = init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0;
        // XRC and tag matching are not offered.
        if init.comp_mask & !KNOWN != 0 || typed && init.srq_type != IBV_SRQT_BASIC {
            return Err(EOPNOTSUPP);
        }
        if init.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return Err(EINVAL);
        }
        // SAFETY: the domain that attributes name is not freed before the call returns.
        let pd = unsafe { Ptr::found(init.pd) }.ok_or(EINVAL)?;
        pd.object().check_context(context.raw())?;
        let mut basic = ibv_srq_init_attr { srq_context: init.srq_context, attr: init.attr };
        let srq = create(pd, &mut basic)?;
        init.attr = basic.attr;
        Ok(srq)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_modify_srq(srq: Ptr<'_, ibv_srq>, attr: &ibv_srq_attr, mask: c_int) -> c_int {
    status(|| {
        let queue = srq.object();
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(EINVAL);
        }
        // The device does not advertise `IBV_DEVICE_SRQ_RESIZE`.
        if mask & IBV_SRQ_MAX_WR != 0 {
            return Err(EOPNOTSUPP);
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            if attr.srq_limit > queue.attr.max_wr {
                return Err(EINVAL);
            }
            // The limit is stored first, because it may be reached at once.
            queue.events.limit.store(attr.srq_limit, Ordering::Release);
            queue.provider.limit_receive_queue(queue.id, attr.srq_limit)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_srq(srq: Ptr<'_, ibv_srq>, attr: Out<'_, ibv_srq_attr>) -> c_int {
    let queue = srq.object();
    let now = ibv_srq_attr { srq_limit: queue.events.limit.load(Ordering::Acquire), ..queue.attr };
    attr.write(now);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_srq(srq: Last<'_, ibv_srq>) -> c_int {
    status(|| {
        let queue = srq.object();
        if *lock(&queue.users) != 0 {
            return Err(EBUSY);
        }
        queue.provider.destroy_receive_queue(queue.id)?;
        queue.device_state.remove_shared(queue.id, &queue.events);
        queue.events.subject.drain();
        drop(srq.take());
        Ok(())
    })
}

pub(crate) extern "C" fn number(srq: Ptr<'_, ibv_srq>, number: Out<'_, u32>) -> c_int {
    number.write(srq.object().base.handle);
    0
}

pub(crate) extern "C" fn post_receives(
    srq: Ptr<'_, ibv_srq>,
    list: List<'_, ibv_recv_wr>,
    bad: Option<Out<'_, *mut ibv_recv_wr>>,
) -> c_int {
    let queue = srq.object();
    queue.receives.with(|receives| {
        receives.post(&queue.device_state, &*queue.provider, list, bad, |requests| {
            queue.provider.post_shared_receive(queue.id, requests)
        })
    })
}
