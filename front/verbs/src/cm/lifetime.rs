//! Making, moving and destroying ids.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps librdmacm's
// contract: an id was made by the calls here and is destroyed once, after its last use.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway::engine::wire::roce::cm::PortSpace;
use libc::{c_int, c_void};

use super::abi::*;
use super::channel;
use super::id::{Core, Id};
use super::note::Note;
use crate::guard::{Errno, Result, lock, number};

/// The kind of port that belongs to a port space.
fn space(ps: c_int) -> Result<PortSpace> {
    match ps {
        RDMA_PS_TCP => Ok(PortSpace::Tcp),
        RDMA_PS_UDP | RDMA_PS_IPOIB => Ok(PortSpace::Udp),
        // Those of InfiniBand's own addresses.
        _ => Err(Errno(libc::EPROTONOSUPPORT)),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn rdma_create_id(
    events: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: c_int,
) -> c_int {
    number(|| {
        let space = space(ps)?;
        let is_synchronous = events.is_null();
        let events = if is_synchronous { channel::make()? } else { events };
        let queue = unsafe { channel::queue(events) };
        let core = Arc::new(Core::new(queue, is_synchronous, space));
        unsafe { id.write(Id::make(core, events, context, ps)) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    number(|| {
        unsafe { Id::of(id)? };
        unsafe { destroy(id) };
        Ok(0)
    })
}

/// Ends what the id is in, drops its events, waits until those handed out are acknowledged, and
/// frees it.
unsafe fn destroy(id: *mut rdma_cm_id) {
    let this = unsafe { &*id.cast::<Id>() };
    channel::release_held(this);
    let core = Arc::clone(&this.core);
    super::cm_device::forget(&core);
    super::deferred_disconnect::forget(&core);
    let orphans = lock(&core.inner).queue.take(|note| Arc::ptr_eq(note.owner(), &core));
    for note in orphans {
        // A request that the program has not received yet.
        if note.listener.is_some() {
            unsafe { destroy(note.core.id()) };
        }
    }
    core.unacked.wait();
    let this = unsafe { Box::from_raw(id.cast::<Id>()) };
    core.id.store(0, Ordering::Release);
    if lock(&core.inner).is_synchronous {
        unsafe { channel::rdma_destroy_event_channel(this.base.channel.get()) };
    }
    let path = this.base.route.path_rec.take();
    if !path.is_null() {
        drop(unsafe { Box::from_raw(path) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    events: *mut rdma_event_channel,
) -> c_int {
    number(|| {
        let this = unsafe { Id::of(id)? };
        channel::release_held(this);
        unsafe { migrate(this, events) }?;
        Ok(0)
    })
}

/// Its events go there from now on, those that wait included; or, if that is null, nowhere but to
/// the calls that wait for them.
pub(super) unsafe fn migrate(this: &Id, events: *mut rdma_event_channel) -> Result<()> {
    let core = Arc::clone(&this.core);
    core.unacked.wait();
    let is_synchronous = events.is_null();
    let events = if is_synchronous { channel::make()? } else { events };
    let queue = unsafe { channel::queue(events) };
    let was_synchronous = {
        let mut inner = lock(&core.inner);
        let waiting: Vec<Note> = inner.queue.take(|note| Arc::ptr_eq(note.owner(), &core));
        waiting.into_iter().for_each(|note| queue.push(note));
        inner.queue = queue;
        std::mem::replace(&mut inner.is_synchronous, is_synchronous)
    };
    let before = this.base.channel.replace(events);
    if was_synchronous {
        unsafe { channel::rdma_destroy_event_channel(before) };
    }
    Ok(())
}

/// The port, in network order; 0 if there is none.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    let local = unsafe { Id::of(id) }.ok().and_then(|this| lock(&this.core.inner).local);
    local.map_or(0, |address| address.port().to_be())
}

/// Likewise.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    let remote = unsafe { Id::of(id) }.ok().and_then(|this| lock(&this.core.inner).remote);
    remote.map_or(0, |address| address.port().to_be())
}
