//! Creating, migrating and destroying ids.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_wire::roce::cm::PortSpace;
use libc::{c_int, c_void};

use super::abi::*;
use super::channel;
use super::id::{Core, Id};
use super::note::Note;
use fairway_verbs::guard::{EINVAL, Errno, Result, lock, number};
use fairway_verbs::pointer::{Last, Out, Ptr};

/// Converts a port space of the header.
fn space(ps: c_int) -> Result<PortSpace> {
    match ps {
        RDMA_PS_TCP => Ok(PortSpace::Tcp),
        RDMA_PS_UDP | RDMA_PS_IPOIB => Ok(PortSpace::Udp),
        // The port spaces of InfiniBand's own addresses are not offered.
        _ => Err(Errno(libc::EPROTONOSUPPORT)),
    }
}

/// Creates an id for a program.
pub(super) fn create(
    events: Option<Ptr<'_, rdma_event_channel>>,
    context: *mut c_void,
    ps: c_int,
) -> Result<*mut rdma_cm_id> {
    let space = space(ps)?;
    let (channel, queue) = channel::given_or_new(events)?;
    let core = Arc::new(Core::new(queue, events.is_none(), space)?);
    Ok(Id::new(core, channel, context, ps).give())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_id(
    events: Option<Ptr<'_, rdma_event_channel>>,
    id: Out<'_, *mut rdma_cm_id>,
    context: *mut c_void,
    ps: c_int,
) -> c_int {
    number(|| {
        id.write(create(events, context, ps)?);
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_destroy_id(id: Option<Last<'_, rdma_cm_id>>) -> c_int {
    number(|| {
        destroy(id.ok_or(EINVAL)?);
        Ok(0)
    })
}

/// Ends the id's connection or listening, drops its undelivered events, waits until the delivered
/// ones are acknowledged, and frees it.
fn destroy(id: Last<'_, rdma_cm_id>) {
    let this = id.object();
    channel::release_held(this);
    let core = Arc::clone(&this.core);
    super::cm_device::forget(&core);
    super::deferred_disconnect::forget(&core);
    let orphans = lock(&core.inner).queue.take(|note| Arc::ptr_eq(note.owner(), &core));
    for note in orphans {
        // The event is a request that the program has not received yet.
        if note.listener.is_some() {
            // SAFETY: the program does not know the new id of such a request.
            unsafe { Last::found(note.core.id()) }.map(destroy);
        }
    }
    core.unacked.wait();
    let this = id.take();
    core.id.store(0, Ordering::Release);
    if lock(&core.inner).is_synchronous {
        // SAFETY: the channel of an id whose calls wait is its own.
        channel::rdma_destroy_event_channel(unsafe { Last::found(this.base.channel.get()) });
    }
    this.set_path(None);
}

#[unsafe(no_mangle)]
extern "C" fn rdma_migrate_id(
    id: Option<Ptr<'_, rdma_cm_id>>,
    events: Option<Ptr<'_, rdma_event_channel>>,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        channel::release_held(this);
        migrate(this, events)?;
        Ok(0)
    })
}

/// Moves the id to another event channel, with its undelivered events; without a channel the id
/// becomes synchronous, and its calls wait for its events.
pub(super) fn migrate(this: &Id, events: Option<Ptr<'_, rdma_event_channel>>) -> Result<()> {
    let core = Arc::clone(&this.core);
    core.unacked.wait();
    let (channel, queue) = channel::given_or_new(events)?;
    let was_synchronous = {
        let mut inner = lock(&core.inner);
        let waiting: Vec<Note> = inner.queue.take(|note| Arc::ptr_eq(note.owner(), &core));
        waiting.into_iter().for_each(|note| queue.push(note));
        inner.queue = queue;
        std::mem::replace(&mut inner.is_synchronous, events.is_none())
    };
    let before = this.base.channel.replace(channel);
    if was_synchronous {
        // SAFETY: the channel of an id whose calls wait was its own.
        channel::rdma_destroy_event_channel(unsafe { Last::found(before) });
    }
    Ok(())
}

/// The local port in network order; 0 if there is none.
#[unsafe(no_mangle)]
extern "C" fn rdma_get_src_port(id: Option<Ptr<'_, rdma_cm_id>>) -> u16 {
    let local = Id::of(id).ok().and_then(|this| lock(&this.core.inner).local);
    local.map_or(0, |address| address.port().to_be())
}

/// The remote port in network order; 0 if there is none.
#[unsafe(no_mangle)]
extern "C" fn rdma_get_dst_port(id: Option<Ptr<'_, rdma_cm_id>>) -> u16 {
    let remote = Id::of(id).ok().and_then(|this| lock(&this.core.inner).remote);
    remote.map_or(0, |address| address.port().to_be())
}
