//! Completion queues and completion channels.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: objects were made by the calls here and are destroyed once, after their last use;
// arrays have the lengths that are said.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fairway::engine::CompletionQueueId;
use fairway::engine::wire::Qpn;
use fairway_rdma::{Carrier, Gid};
use fairway_roce::Completion;
use libc::{c_int, c_uint, c_void};

use crate::abi::*;
use crate::completion::{self, BATCH, PacketKind};
use crate::device::Context;
use crate::device_state::{DeviceState, QueueEvents, Subject};
use crate::events::{EventQueue, NOT_YET, take_or_sleep};
use crate::guard::{
    EBUSY, EINVAL, Held, Result, UnackedEvents, lock, number, object, set_errno, status,
    uncancelled,
};
use crate::query::COMPLETIONS_MAX;
use crate::{after_poll, cq_ex, query};

/// A completion channel as programs hold it.
#[repr(C)]
pub(crate) struct Channel {
    base: ibv_comp_channel,
    queue: Arc<EventQueue<Arc<QueueEvents>>>,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    object(|| {
        let queue = Arc::new(EventQueue::new()?);
        let base = ibv_comp_channel { context, fd: queue.descriptor(), refcnt: Field::new(0) };
        Ok(Box::into_raw(Box::new(Channel { base, queue })).cast())
    })
}

/// The number of completion queues of a channel.
unsafe fn users<'a>(channel: *mut ibv_comp_channel) -> &'a Field<c_int> {
    unsafe { &(*channel).refcnt }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    status(|| {
        if unsafe { users(channel) }.get() != 0 {
            return Err(EBUSY);
        }
        drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let queue = Arc::clone(&unsafe { &*channel.cast::<Channel>() }.queue);
    let take = |queue: &EventQueue<Arc<QueueEvents>>| {
        let Some(event) = queue.next(|event| event.unacked.deliver()) else {
            return Ok(NOT_YET);
        };
        let found = event.subject.object as *mut ibv_cq;
        unsafe {
            *cq = found;
            *cq_context = (*found).cq_context.get();
        }
        Ok(0)
    };
    take_or_sleep(queue, |queue| number(|| take(queue)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    let queue = unsafe { CompletionQueue::of(cq) };
    queue.ex.base.comp_events_completed.add(events);
    // Another thread may destroy the queue as soon as its events are acknowledged, so nothing of it
    // is used from then on.
    let owned = Arc::clone(&queue.events);
    owned.unacked.acknowledge(u64::from(events));
}

/// A completion queue as programs hold it.
#[repr(C)]
pub(crate) struct CompletionQueue {
    pub(crate) ex: ibv_cq_ex,
    pub(crate) id: CompletionQueueId,
    pub(crate) carrier: Arc<dyn Carrier>,
    /// What was fetched and is being read.
    pub(crate) reading: Held<Reading>,
    device_state: Arc<DeviceState>,
    pub(crate) events: Arc<QueueEvents>,
    /// Queue pairs of datagrams that complete here; empty in most programs.
    datagrams: RwLock<HashSet<Qpn>>,
    /// Queue pairs that complete here.
    users: Mutex<u32>,
}

/// Room for completions of the carrier.
pub(crate) struct Reading {
    pub(crate) fetched: Box<[Completion; BATCH]>,
    /// The one that `ibv_wc_read_*` read.
    pub(crate) current: ibv_wc,
    /// When it was fetched, if the program asked for stamps.
    pub(crate) stamps: Option<(u64, u64)>,
    pub(crate) stamped: bool,
}

impl CompletionQueue {
    /// # Safety
    ///
    /// `cq` is a completion queue of ours, not destroyed yet.
    pub(crate) unsafe fn of<'a>(cq: *mut ibv_cq) -> &'a CompletionQueue {
        unsafe { &*cq.cast::<CompletionQueue>() }
    }

    /// What kind of packet a datagram came as, if it is one.
    pub(crate) fn datagram(&self, received: &Completion) -> Option<PacketKind> {
        let pairs = self.datagrams.read().unwrap_or_else(PoisonError::into_inner);
        pairs.contains(&received.queue_pair).then(|| {
            match self.carrier.gid_of(received.from.address).map(Gid::ip) {
                Some(IpAddr::V6(_)) => PacketKind::V6,
                Some(IpAddr::V4(_)) | None => PacketKind::V4,
            }
        })
    }

    /// A queue pair completes here from now on.
    pub(crate) fn attach(&self, pair: Option<Qpn>) {
        *lock(&self.users) += 1;
        if let Some(pair) = pair {
            self.datagrams.write().unwrap_or_else(PoisonError::into_inner).insert(pair);
        }
    }

    /// It no longer does.
    pub(crate) fn detach(&self, pair: Qpn) {
        self.datagrams.write().unwrap_or_else(PoisonError::into_inner).remove(&pair);
        // Last: another thread may destroy the queue from here on.
        *lock(&self.users) -= 1;
    }
}

/// What a new queue is to be like.
pub(crate) struct Wanted {
    pub(crate) depth: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) vector: u32,
    pub(crate) stamped: bool,
}

pub(crate) unsafe fn create(context: *mut ibv_context, wanted: &Wanted) -> Result<*mut ibv_cq> {
    let owner = unsafe { Context::of(context) };
    if !(1..=COMPLETIONS_MAX).contains(&wanted.depth)
        || wanted.vector >= owner.verbs.context.num_comp_vectors as u32
    {
        return Err(EINVAL);
    }
    let carrier = owner.device_state.carrier()?;
    let id = carrier.create_completion_queue(wanted.depth)?;
    let base = ibv_cq {
        context,
        channel: wanted.channel,
        cq_context: Field::new(wanted.cq_context),
        handle: completion::number(id),
        cqe: Field::new(wanted.depth as c_int),
        mutex: unsafe { zeroed() },
        cond: unsafe { zeroed() },
        comp_events_completed: Field::new(0),
        async_events_completed: Field::new(0),
    };
    let reading = Reading {
        fetched: Box::new([Completion::EMPTY; BATCH]),
        current: completion::to_c(&Completion::EMPTY, |_| None),
        stamps: None,
        stamped: wanted.stamped,
    };
    let channel = (!wanted.channel.is_null()).then(|| {
        unsafe { users(wanted.channel) }.add(1);
        Arc::clone(&unsafe { &*wanted.channel.cast::<Channel>() }.queue)
    });
    let mut queue = Box::<CompletionQueue>::new_uninit();
    let object = queue.as_mut_ptr() as usize;
    let subject = Subject { object, events: Arc::clone(&owner.events), unacked: Arc::default() };
    let events = Arc::new(QueueEvents { subject, channel, unacked: UnackedEvents::default() });
    owner.device_state.add_queue(id, Arc::clone(&events));
    let queue = Box::write(
        queue,
        CompletionQueue {
            ex: cq_ex::extended(base),
            id,
            carrier: Arc::clone(carrier),
            reading: Held::new(reading),
            device_state: Arc::clone(&owner.device_state),
            events,
            datagrams: RwLock::default(),
            users: Mutex::new(0),
        },
    );
    Ok(Box::into_raw(queue).cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    depth: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    object(|| {
        let depth = u32::try_from(depth).map_err(|_| EINVAL)?;
        let vector = u32::try_from(vector).map_err(|_| EINVAL)?;
        let wanted = Wanted { depth, cq_context, channel, vector, stamped: false };
        unsafe { create(context, &wanted) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, depth: c_int) -> c_int {
    status(|| {
        let queue = unsafe { CompletionQueue::of(cq) };
        let wanted = u32::try_from(depth).map_err(|_| EINVAL)?;
        if !(1..=COMPLETIONS_MAX).contains(&wanted) {
            return Err(EINVAL);
        }
        queue.carrier.resize_completion_queue(queue.id, wanted)?;
        queue.ex.base.cqe.set(depth);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    status(|| {
        let queue = unsafe { CompletionQueue::of(cq) };
        if *lock(&queue.users) != 0 {
            return Err(EBUSY);
        }
        queue.carrier.destroy_completion_queue(queue.id)?;
        queue.device_state.remove_queue(queue.id, &queue.events);
        if let Some(channel) = &queue.events.channel {
            channel.forget(|event| event.subject.object == cq as usize);
            queue.events.unacked.wait();
            unsafe { users((*cq).channel) }.add(-1);
        }
        queue.events.subject.settle();
        drop(unsafe { Box::from_raw(cq.cast::<CompletionQueue>()) });
        Ok(())
    })
}

/// Fetches completions; the carrier makes progress. Returns how many, or a negative number.
pub(crate) unsafe extern "C" fn poll(cq: *mut ibv_cq, room: c_int, out: *mut ibv_wc) -> c_int {
    let queue = unsafe { CompletionQueue::of(cq) };
    let Ok(room) = usize::try_from(room) else { return -1 };
    let mut done = 0;
    unsafe {
        queue.reading.with(|reading| {
            while done < room {
                let part = (room - done).min(BATCH);
                let fetched = &mut reading.fetched[..part];
                let found = uncancelled(|| queue.carrier.poll(queue.id, fetched));
                for completion in &reading.fetched[..found] {
                    let wc = completion::to_c(completion, |received| queue.datagram(received));
                    out.add(done).write(wc);
                    done += 1;
                }
                if found < part {
                    break;
                }
            }
        });
    }
    if done < room {
        uncancelled(after_poll::polled);
    }
    done as c_int
}

/// The next completion (or only a solicited one, or an error) makes an event.
pub(crate) unsafe extern "C" fn request_notification(cq: *mut ibv_cq, solicited: c_int) -> c_int {
    let queue = unsafe { CompletionQueue::of(cq) };
    status(|| Ok(queue.carrier.arm(queue.id, solicited != 0)?))
}

pub(crate) unsafe extern "C" fn create_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    const STAMPS: u64 =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    const FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    object(|| {
        let attr = unsafe { &*attr };
        if attr.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0 {
            return Err(EINVAL);
        }
        let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 { attr.flags } else { 0 };
        // Fields of a completion that we do not know, as VLANs and flow tags.
        let unknown = attr.wc_flags & !(IBV_WC_STANDARD_FLAGS | STAMPS) != 0;
        if unknown || flags & !FLAGS != 0 {
            return Err(crate::guard::EOPNOTSUPP);
        }
        let wanted = Wanted {
            depth: attr.cqe,
            cq_context: attr.cq_context,
            channel: attr.channel,
            vector: attr.comp_vector,
            stamped: attr.wc_flags & STAMPS != 0,
        };
        Ok(unsafe { create(context, &wanted)? }.cast())
    })
}

/// Moderation of events: a hint that we have no use for.
pub(crate) unsafe extern "C" fn modify(_cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    const MODERATE: u32 = 1;
    status(|| if unsafe { (*attr).attr_mask } & !MODERATE != 0 { Err(EINVAL) } else { Ok(()) })
}

/// When a completion was fetched, if the program asked for stamps.
pub(crate) fn stamps(reading: &Reading) -> Option<(u64, u64)> {
    reading.stamped.then(|| (query::monotonic_ns(), query::wall_ns()))
}

/// The import of domains and regions from other processes is not offered.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_import_pd() -> *mut ibv_pd {
    set_errno(crate::guard::EOPNOTSUPP);
    null_mut()
}
