//! Event channels, which deliver connection events to programs.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::{Arc, Once, PoisonError, RwLock};
use std::thread::{self, ThreadId};

use libc::{c_int, c_void};

use super::abi::*;
use super::id::{Core, Id};
use super::note::{Details, Note, PRIVATE_MAX, Queue};
use super::{connect, lifetime, queue_pair};
use fairway_verbs::abi::zeroed;
use fairway_verbs::events::{EventQueue, NOT_YET, take_or_sleep};
use fairway_verbs::guard::{
    EBADF, EINVAL, Errno, Result, lock, number, object, set_errno, uncancelled,
};
use fairway_verbs::pointer::{Handle, Last, Out, Ptr};

/// Object behind an `rdma_event_channel` that a program holds.
#[repr(C)]
pub(crate) struct Channel {
    base: rdma_event_channel,
    queue: Queue,
}

/// Object behind an `rdma_cm_event` that a program holds.
#[repr(C)]
pub(crate) struct Event {
    pub(super) base: rdma_cm_event,
    owner: Arc<Core>,
    private: [u8; PRIVATE_MAX],
}

// SAFETY: `make` makes every `rdma_event_channel`, as the first field of a boxed `Channel`.
unsafe impl Handle for rdma_event_channel {
    type Object = Channel;
}

// SAFETY: `next` makes every `rdma_cm_event`, as the first field of a boxed `Event`.
unsafe impl Handle for rdma_cm_event {
    type Object = Event;
}

/// State of a channel.
enum State {
    Live(Queue),
    /// Destroyed by this thread.
    Destroyed(ThreadId),
}

/// All channels, by address; a destroyed one stays until its address is reused. A program may
/// request the next event of a channel that another of its threads has just destroyed: `rping` does
/// so while it ends.
static CHANNELS: RwLock<BTreeMap<usize, State>> = RwLock::new(BTreeMap::new());

fn set_state(channel: usize, state: State) {
    CHANNELS.write().unwrap_or_else(PoisonError::into_inner).insert(channel, state);
}

/// Creates a channel, and returns it with the queue of its events.
pub(super) fn make() -> Result<(*mut rdma_event_channel, Queue)> {
    static ONCE: Once = Once::new();
    // SAFETY: the handler waits for no lock and allocates nothing. If the system has no memory to
    // register it, programs that only wait for a descriptor are not woken in a child.
    ONCE.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
    let queue = Queue::new()?;
    let base = rdma_event_channel { fd: queue.0.descriptor() };
    let channel = rdma_event_channel::give(Box::new(Channel { base, queue: queue.clone() }));
    set_state(channel as usize, State::Live(queue.clone()));
    Ok((channel, queue))
}

/// Returns the channel that a program passes, and the queue of its events; creates a channel if
/// none is passed.
pub(super) fn given_or_new(
    channel: Option<Ptr<'_, rdma_event_channel>>,
) -> Result<(*mut rdma_event_channel, Queue)> {
    match channel {
        Some(channel) => Ok((channel.raw(), channel.object().queue.clone())),
        None => make(),
    }
}

/// The queue on which a call for the next event sleeps. If another thread has destroyed the
/// channel, the queue has no events, because the program can't know whether the call began to sleep
/// before; a thread that has destroyed the channel itself gets `EBADF`.
fn queue_to_sleep_on(channel: *mut rdma_event_channel) -> Result<Arc<EventQueue<Note>>> {
    if channel.is_null() {
        return Err(EINVAL);
    }
    match CHANNELS.read().unwrap_or_else(PoisonError::into_inner).get(&(channel as usize)) {
        Some(State::Live(queue)) => {
            queue.user().check()?;
            Ok(Arc::clone(&queue.0))
        }
        Some(State::Destroyed(by)) if *by != thread::current().id() => {
            Ok(Arc::new(EventQueue::new()?))
        }
        _ => Err(EBADF),
    }
}

/// Makes the channels that its parent uses readable in a child of `fork`. Other threads of the
/// parent may have held any lock.
extern "C" fn in_child() {
    let Ok(channels) = CHANNELS.try_read() else { return };
    for state in channels.values() {
        if let State::Live(queue) = state
            && queue.user().is_parent()
        {
            queue.0.replace_descriptor(1);
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    object(|| Ok(make()?.0))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_destroy_event_channel(channel: Option<Last<'_, rdma_event_channel>>) {
    if let Some(channel) = channel {
        set_state(channel.raw() as usize, State::Destroyed(thread::current().id()));
        uncancelled(|| drop(channel.take()));
    }
}

/// Returns the next event of a channel. Another thread may have destroyed the channel, so it is
/// used only as an address.
#[unsafe(no_mangle)]
extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: Option<Out<'_, *mut rdma_cm_event>>,
) -> c_int {
    let (queue, event) = match (queue_to_sleep_on(channel), event) {
        (Ok(queue), Some(event)) => (queue, event),
        (refused, _) => {
            set_errno(refused.err().unwrap_or(EINVAL));
            return -1;
        }
    };
    let take = |queue: &EventQueue<Note>| {
        let Some(next) = next(queue)? else { return Ok(NOT_YET) };
        event.write(rdma_cm_event::give(next));
        Ok(0)
    };
    take_or_sleep(queue, |queue| number(|| take(queue)))
}

/// The next event, if there is one, after the connection manager has processed it for the program.
fn next(queue: &EventQueue<Note>) -> Result<Option<Box<Event>>> {
    let Some(mut note) = queue.next(|note| note.owner().unacked.deliver()) else {
        return Ok(None);
    };
    match note.kind {
        RDMA_CM_EVENT_CONNECT_RESPONSE => connect::answered(&mut note),
        RDMA_CM_EVENT_REJECTED => note.id().map(Ptr::object).into_iter().for_each(queue_pair::fail),
        RDMA_CM_EVENT_CONNECT_REQUEST => {
            if let Err(error) = adopt(&note) {
                // The request waits until the program calls again, or destroys the listener.
                let owner = Arc::clone(note.owner());
                queue.put_back(note);
                owner.unacked.acknowledge(1);
                return Err(error);
            }
            delivered(&note.core);
        }
        _ => {}
    }
    let id = note.core.id();
    let listen_id = note.listener.as_ref().map_or(null_mut(), |listener| listener.id());
    let owner = Arc::clone(note.owner());
    let mut event = Box::new(Event {
        base: rdma_cm_event {
            id,
            listen_id,
            event: note.kind,
            status: note.status,
            param: rdma_param { conn: zeroed() },
        },
        owner,
        private: note.private,
    });
    let said: *const c_void = match note.private_len {
        0 => std::ptr::null(),
        _ => event.private.as_ptr().cast(),
    };
    event.base.param = param(&note, said);
    Ok(Some(event))
}

/// The next event of an id's channel. Sleeps until there is one.
fn awaited(this: &Id) -> Result<Box<Event>> {
    let queue = lock(&this.core.inner).queue.clone();
    queue.user().check()?;
    loop {
        if let Some(event) = next(&queue.0)? {
            return Ok(event);
        }
        queue.0.sleep()?;
    }
}

fn param(note: &Note, private_data: *const c_void) -> rdma_param {
    let private_data_len = note.private_len;
    match note.details {
        Details::Connection(conn) => {
            rdma_param { conn: rdma_conn_param { private_data, private_data_len, ..conn } }
        }
        Details::Datagram { address, queue_pair, q_key } => rdma_param {
            ud: rdma_ud_param {
                private_data,
                private_data_len,
                ah_attr: address,
                qp_num: queue_pair,
                qkey: q_key,
            },
        },
    }
}

/// Gives the new id of a connection request the channel and the context that the listening id has
/// now; they may have changed since the request arrived. If the listening id is synchronous, the
/// new one gets a channel of its own.
fn adopt(note: &Note) -> Result<()> {
    let (Some(listener), Some(id)) = (&note.listener, note.id()) else { return Ok(()) };
    // SAFETY: it is not destroyed before this event, one of its own, is acknowledged.
    let Some(parent) = (unsafe { Ptr::found(listener.id()) }) else { return Ok(()) };
    let (parent, id) = (parent.handle(), id.object());
    id.base.context.set(parent.context.get());
    let (queue, waits) = {
        let inner = lock(&listener.inner);
        (inner.queue.clone(), inner.is_synchronous)
    };
    if !waits {
        id.base.channel.set(parent.channel.get());
        lock(&note.core.inner).queue = queue;
    } else if !lock(&note.core.inner).is_synchronous {
        lifetime::migrate(id, None)?;
    }
    Ok(())
}

/// Makes room in the backlog for another request, because the program receives this one.
fn delivered(core: &Core) {
    if let Ok((cm_device, connection)) = core.connection() {
        cm_device.act(|state, now| state.manager.deliver(now, connection));
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_ack_cm_event(event: Option<Last<'_, rdma_cm_event>>) -> c_int {
    number(|| {
        acknowledge(event.ok_or(EINVAL)?.take());
        Ok(0)
    })
}

pub(super) fn acknowledge(event: Box<Event>) {
    let owner = Arc::clone(&event.owner);
    drop(event);
    owner.unacked.acknowledge(1);
}

/// Acknowledges the event that a synchronous id keeps.
pub(super) fn release_held(this: &Id) {
    // SAFETY: a program does not acknowledge the event that an id keeps, and no other call has
    // taken it from the id.
    let held = unsafe { Last::found(this.base.event.take()) };
    let is_synchronous = lock(&this.core.inner).is_synchronous;
    if let Some(held) = held.filter(|_| is_synchronous) {
        acknowledge(held.take());
    }
}

/// Waits for the outcome of an operation, if the id is synchronous.
pub(super) fn complete(this: &Id) -> Result<()> {
    if !lock(&this.core.inner).is_synchronous {
        return Ok(());
    }
    release_held(this);
    let event = awaited(this)?;
    let (kind, status) = (event.base.event, event.base.status);
    this.base.event.set(rdma_cm_event::give(event));
    match (kind, status) {
        (_, 0) => Ok(()),
        (RDMA_CM_EVENT_REJECTED, _) => Err(Errno(libc::ECONNREFUSED)),
        (_, status) if status < 0 => Err(Errno(-status)),
        _ => Err(Errno(libc::EHOSTUNREACH)),
    }
}

/// The next event of a listening id, which the id keeps.
pub(super) fn next_held(this: &Id) -> Result<Box<Event>> {
    release_held(this);
    awaited(this)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_event_str(event: c_int) -> *const c_char {
    let name = match event {
        0 => c"RDMA_CM_EVENT_ADDR_RESOLVED",
        1 => c"RDMA_CM_EVENT_ADDR_ERROR",
        2 => c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        3 => c"RDMA_CM_EVENT_ROUTE_ERROR",
        4 => c"RDMA_CM_EVENT_CONNECT_REQUEST",
        5 => c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        6 => c"RDMA_CM_EVENT_CONNECT_ERROR",
        7 => c"RDMA_CM_EVENT_UNREACHABLE",
        8 => c"RDMA_CM_EVENT_REJECTED",
        9 => c"RDMA_CM_EVENT_ESTABLISHED",
        10 => c"RDMA_CM_EVENT_DISCONNECTED",
        11 => c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        12 => c"RDMA_CM_EVENT_MULTICAST_JOIN",
        13 => c"RDMA_CM_EVENT_MULTICAST_ERROR",
        14 => c"RDMA_CM_EVENT_ADDR_CHANGE",
        15 => c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        _ => c"UNKNOWN EVENT",
    };
    name.as_ptr()
}
