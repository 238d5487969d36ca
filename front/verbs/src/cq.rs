//! Completion queues and completion channels.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fairway_device::CompletionQueueId;
use fairway_rdma::{Gid, Provider};
use fairway_roce::Completion;
use fairway_wire::Qpn;
use libc::{c_int, c_uint, c_void};

use crate::abi::*;
use crate::completion::{self, BATCH, PacketKind};
use crate::device_state::{DeviceState, QueueEvents, Subject};
use crate::events::{EventQueue, NOT_YET, take_or_sleep};
use crate::guard::{
    EBUSY, EINVAL, Held, Result, UnackedEvents, lock, number, object, set_errno, status,
    uncancelled,
};
use crate::outstanding::{LastUser, Outstanding, Users};
use crate::pointer::{Array, Handle, Last, Lockable, Out, Ptr};
use crate::query::COMPLETIONS_MAX;
use crate::{after_poll, cq_ex, query};

/// Object behind an `ibv_comp_channel` that a program holds.
#[repr(C)]
pub struct Channel {
    base: ibv_comp_channel,
    queue: Arc<EventQueue<Arc<QueueEvents>>>,
}

// SAFETY: `ibv_create_comp_channel` makes every `ibv_comp_channel`, as the first field of a boxed
// `Channel`.
unsafe impl Handle for ibv_comp_channel {
    type Object = Channel;
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_comp_channel(context: Ptr<'_, ibv_context>) -> *mut ibv_comp_channel {
    object(|| {
        let queue = Arc::new(EventQueue::new()?);
        let (context, fd) = (context.raw(), queue.descriptor());
        // Number of completion queues that use the channel.
        let refcnt = Field::new(0);
        let base = ibv_comp_channel { context, fd, refcnt };
        Ok(ibv_comp_channel::give(Box::new(Channel { base, queue })))
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_comp_channel(channel: Last<'_, ibv_comp_channel>) -> c_int {
    status(|| {
        if channel.object().base.refcnt.get() != 0 {
            return Err(EBUSY);
        }
        drop(channel.take());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C-unwind" fn ibv_get_cq_event(
    channel: Ptr<'_, ibv_comp_channel>,
    cq: Out<'_, *mut ibv_cq>,
    cq_context: Out<'_, *mut c_void>,
) -> c_int {
    let queue = Arc::clone(&channel.object().queue);
    let take = |queue: &EventQueue<Arc<QueueEvents>>| {
        let Some(event) = queue.next(|event| event.unacked.deliver()) else {
            return Ok(NOT_YET);
        };
        // SAFETY: `ibv_destroy_cq` waits until the program has acknowledged this event.
        let found = unsafe { Ptr::<ibv_cq>::kept(event.subject.object as *mut _) };
        cq.write(found.raw());
        cq_context.write(found.object().ex.base.cq_context.get());
        Ok(0)
    };
    take_or_sleep(queue, |queue| number(|| take(queue)))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_cq_events(cq: Ptr<'_, ibv_cq>, events: c_uint) {
    let queue = cq.object();
    queue.ex.base.comp_events_completed.add(events);
    // Another thread may destroy the queue as soon as its events are acknowledged, so nothing of
    // the queue is used afterwards.
    let owned = Arc::clone(&queue.events);
    owned.unacked.acknowledge(u64::from(events));
}

/// Object behind an `ibv_cq` that a program holds.
#[repr(C)]
pub struct CompletionQueue {
    pub(crate) ex: ibv_cq_ex,
    pub(crate) id: CompletionQueueId,
    pub(crate) provider: Arc<dyn Provider>,
    /// Completions fetched from the provider that the program is reading.
    pub(crate) reading: Held<Reading>,
    device_state: Arc<DeviceState>,
    pub(crate) events: Arc<QueueEvents>,
    /// Datagram queue pairs that complete here; empty in most programs.
    datagrams: RwLock<HashSet<Qpn>>,
    /// Queue pairs that complete here.
    pairs: Users,
    /// Number of queue pairs that complete here.
    users: Mutex<u32>,
}

/// Buffers for completions of the provider.
pub struct Reading {
    pub(crate) fetched: Box<[Completion; BATCH]>,
    /// Completion that `ibv_wc_read_*` reads.
    pub(crate) current: ibv_wc,
    /// Time stamps of the fetch, if the program requested them.
    pub(crate) stamps: Option<(u64, u64)>,
    pub(crate) stamped: bool,
    last: LastUser,
}

// SAFETY: `create` makes every `ibv_cq`, as the first field of a boxed `CompletionQueue`.
unsafe impl Handle for ibv_cq {
    type Object = CompletionQueue;
}

// SAFETY: likewise: the first field of an `ibv_cq_ex` is an `ibv_cq`.
unsafe impl Handle for ibv_cq_ex {
    type Object = CompletionQueue;
}

impl Lockable for ibv_cq_ex {
    type Value = Reading;

    fn lock(queue: &CompletionQueue) -> &Held<Reading> {
        &queue.reading
    }
}

impl CompletionQueue {
    /// Kind of packet in which a receive arrived; `None` if its queue pair does not carry
    /// datagrams.
    pub(crate) fn datagram(&self, received: &Completion) -> Option<PacketKind> {
        let pairs = self.datagrams.read().unwrap_or_else(PoisonError::into_inner);
        pairs.contains(&received.queue_pair).then(|| {
            match self.provider.gid_of(received.from.address).map(Gid::ip) {
                Some(IpAddr::V6(_)) => PacketKind::V6,
                Some(IpAddr::V4(_)) | None => PacketKind::V4,
            }
        })
    }

    /// Fetches completions into `fetched` of `reading`, at most `room`. Returns their number; the
    /// provider makes progress.
    pub(crate) fn fetch(&self, reading: &mut Reading, room: usize) -> usize {
        uncancelled(|| self.provider.poll(self.id, &mut reading.fetched[..room]))
    }

    /// Converts a completion that was fetched, and frees the places of its requests. `None` if its
    /// queue pair was destroyed meanwhile.
    pub(crate) fn take(&self, reading: &mut Reading, at: usize) -> Option<ibv_wc> {
        let Reading { fetched, last, .. } = reading;
        let completion = &fetched[at];
        let wr_id = self.pairs.polled(last, completion)?;
        Some(ibv_wc { wr_id, ..completion::to_c(completion, |received| self.datagram(received)) })
    }

    /// Counts a queue pair that completes here.
    pub(crate) fn attach(&self, (pair, requests): (Qpn, &Arc<Outstanding>), datagrams: bool) {
        *lock(&self.users) += 1;
        self.pairs.add(pair, requests);
        if datagrams {
            self.datagrams.write().unwrap_or_else(PoisonError::into_inner).insert(pair);
        }
    }

    /// Removes a queue pair that `attach` counted.
    pub(crate) fn detach(&self, (pair, requests): (Qpn, &Arc<Outstanding>)) {
        self.pairs.remove(pair, requests);
        self.datagrams.write().unwrap_or_else(PoisonError::into_inner).remove(&pair);
        // This comes last, because another thread may destroy the queue afterwards.
        *lock(&self.users) -= 1;
    }
}

/// Minimum capacity of a queue, because adapters round up. A program that waits for one operation
/// at a time may request one entry, and post the next operation before it takes that entry: the
/// peer's reply can arrive before the acknowledgement of what it replies to, so the reply's event
/// wakes a program that waits for the operation's own.
const DEPTH_MIN: u32 = 16;

/// The capacity of a queue for which a program requests this one.
fn capacity(wanted: u32) -> Result<u32> {
    match wanted {
        1..=COMPLETIONS_MAX => Ok(wanted.max(DEPTH_MIN)),
        _ => Err(EINVAL),
    }
}

/// Parameters of a new completion queue.
pub(crate) struct Wanted<'a> {
    pub(crate) depth: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: Option<Ptr<'a, ibv_comp_channel>>,
    pub(crate) vector: u32,
    pub(crate) stamped: bool,
}

/// Creates a completion queue. The result is a pointer to its `ibv_cq`, or to its `ibv_cq_ex`.
fn create<T: Handle<Object = CompletionQueue>>(
    context: Ptr<'_, ibv_context>,
    wanted: &Wanted<'_>,
) -> Result<*mut T> {
    let owner = context.object();
    if wanted.vector >= owner.verbs.context.num_comp_vectors as u32 {
        return Err(EINVAL);
    }
    let depth = capacity(wanted.depth)?;
    let provider = owner.device_state.provider()?;
    let id = provider.create_completion_queue(depth)?;
    let base = ibv_cq {
        context: context.raw(),
        channel: wanted.channel.map_or(null_mut(), Ptr::raw),
        cq_context: Field::new(wanted.cq_context),
        handle: completion::number(id),
        cqe: Field::new(depth as c_int),
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: Field::new(0),
        async_events_completed: Field::new(0),
    };
    let reading = Reading {
        fetched: Box::new([Completion::EMPTY; BATCH]),
        current: completion::to_c(&Completion::EMPTY, |_| None),
        stamps: None,
        stamped: wanted.stamped,
        last: LastUser::default(),
    };
    let channel = wanted.channel.map(Ptr::object).map(|channel| {
        channel.base.refcnt.add(1);
        Arc::clone(&channel.queue)
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
            provider: Arc::clone(provider),
            // SAFETY: the lock moves into the box here, and is not moved again.
            reading: unsafe { Held::new(reading) },
            device_state: Arc::clone(&owner.device_state),
            events,
            datagrams: RwLock::default(),
            pairs: Users::default(),
            users: Mutex::new(0),
        },
    );
    Ok(T::give(queue))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_cq(
    context: Ptr<'_, ibv_context>,
    depth: c_int,
    cq_context: *mut c_void,
    channel: Option<Ptr<'_, ibv_comp_channel>>,
    vector: c_int,
) -> *mut ibv_cq {
    object(|| {
        let depth = u32::try_from(depth).map_err(|_| EINVAL)?;
        let vector = u32::try_from(vector).map_err(|_| EINVAL)?;
        let wanted = Wanted { depth, cq_context, channel, vector, stamped: false };
        create(context, &wanted)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_resize_cq(cq: Ptr<'_, ibv_cq>, depth: c_int) -> c_int {
    status(|| {
        let queue = cq.object();
        let wanted = u32::try_from(depth).map_err(|_| EINVAL)?;
        let capacity = capacity(wanted)?;
        // A queue with more completions than the program requests room for is not made smaller.
        queue.provider.resize_completion_queue(queue.id, wanted)?;
        if capacity > wanted {
            queue.provider.resize_completion_queue(queue.id, capacity)?;
        }
        queue.ex.base.cqe.set(depth);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_cq(cq: Last<'_, ibv_cq>) -> c_int {
    status(|| {
        let queue = cq.object();
        if *lock(&queue.users) != 0 {
            return Err(EBUSY);
        }
        queue.provider.destroy_completion_queue(queue.id)?;
        queue.device_state.remove_queue(queue.id, &queue.events);
        if let Some(channel) = &queue.events.channel {
            channel.forget(|event| event.subject.object == queue.events.subject.object);
            queue.events.unacked.wait();
            // SAFETY: the channel can't be destroyed before this queue is taken off its count.
            let channel: Ptr<'_, ibv_comp_channel> = unsafe { Ptr::kept(queue.ex.base.channel) };
            channel.object().base.refcnt.add(-1);
        }
        queue.events.subject.drain();
        drop(cq.take());
        Ok(())
    })
}

/// Fetches completions; the provider makes progress. Returns their number, or a negative number on
/// an error.
pub(crate) extern "C" fn poll(
    cq: Ptr<'_, ibv_cq>,
    room: c_int,
    completions: Array<'_, ibv_wc>,
) -> c_int {
    let queue = cq.object();
    let Ok(room) = usize::try_from(room) else { return -1 };
    // SAFETY: the program has passed this length.
    let completions = unsafe { completions.room(room) };
    let mut done = 0;
    queue.reading.with(|reading| {
        while done < room {
            let part = (room - done).min(BATCH);
            let found = queue.fetch(reading, part);
            for at in 0..found {
                if let Some(completion) = queue.take(reading, at) {
                    completions[done].write(completion);
                    done += 1;
                }
            }
            if found < part {
                break;
            }
        }
    });
    if done < room {
        after_poll::polled();
    }
    done as c_int
}

/// Arms the queue: the next completion (or only a solicited one or an error, if `solicited` is set)
/// raises an event.
pub(crate) extern "C" fn request_notification(cq: Ptr<'_, ibv_cq>, solicited: c_int) -> c_int {
    let queue = cq.object();
    status(|| Ok(queue.provider.arm(queue.id, solicited != 0)?))
}

pub(crate) extern "C" fn create_ex(
    context: Ptr<'_, ibv_context>,
    attr: &ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    const STAMPS: u64 =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    object(|| {
        if attr.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0 {
            return Err(EINVAL);
        }
        let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 { attr.flags } else { 0 };
        // Fields of a completion that are not offered, such as VLANs and flow tags.
        let unknown = attr.wc_flags & !(IBV_WC_STANDARD_FLAGS | STAMPS) != 0;
        // Overruns are not ignored; soft-RoCE refuses that flag, too.
        if unknown || flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
            return Err(crate::guard::EOPNOTSUPP);
        }
        let wanted = Wanted {
            depth: attr.cqe,
            cq_context: attr.cq_context,
            // SAFETY: the channel that attributes name is not destroyed before the call returns.
            channel: unsafe { Ptr::found(attr.channel) },
            vector: attr.comp_vector,
            stamped: attr.wc_flags & STAMPS != 0,
        };
        create(context, &wanted)
    })
}

/// Accepts and ignores the moderation of events, which is a hint.
pub(crate) extern "C" fn modify(_cq: Ptr<'_, ibv_cq>, attr: &ibv_modify_cq_attr) -> c_int {
    const MODERATE: u32 = 1;
    status(|| if attr.attr_mask & !MODERATE != 0 { Err(EINVAL) } else { Ok(()) })
}

/// Reads the monotonic and the wall clock, if the program requested time stamps.
pub(crate) fn stamps(reading: &Reading) -> Option<(u64, u64)> {
    reading.stamped.then(|| (query::monotonic_ns(), query::wall_ns()))
}

/// Import of protection domains from other processes is not offered.
#[unsafe(no_mangle)]
extern "C" fn ibv_import_pd() -> *mut ibv_pd {
    set_errno(crate::guard::EOPNOTSUPP);
    null_mut()
}
