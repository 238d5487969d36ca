//! Calls that combine several steps: address lookup, endpoints, devices.

use std::ptr::null_mut;
use std::sync::Arc;

use libc::{addrinfo, c_int, sockaddr, socklen_t};

use super::abi::*;
use super::address::Address;
use super::channel;
use super::cm_device::CmDevice;
use super::id::{Id, Template};
use super::lifetime::{self, rdma_destroy_id};
use super::queue_pair::{rdma_create_qp, rdma_destroy_qp, rdma_destroy_srq};
use super::resolve::{rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route};
use fairway_verbs::abi::{
    IBV_QPT_RC, IBV_QPT_UD, ibv_context, ibv_cq, ibv_pd, ibv_qp_init_attr, ibv_srq, zeroed,
};
use fairway_verbs::guard::{EINVAL, ENOMEM, Errno, Result, lock, number, object};
use fairway_verbs::manager;
use fairway_verbs::pointer::{Array, Handle, Last, Out, Ptr, Text, null_ended};

/// Time-out of `rdma_create_ep` for resolving address and route, in milliseconds.
const TIMEOUT_MS: c_int = 2_000;

// ---- addresses ----

/// Copies a socket address to memory that `free` releases.
///
/// # Safety
///
/// The address has this length.
unsafe fn copy(address: *const sockaddr, length: socklen_t) -> Result<*mut sockaddr> {
    // SAFETY: no pointers.
    let room = unsafe { libc::malloc(length as usize) }.cast::<u8>();
    if room.is_null() {
        return Err(ENOMEM);
    }
    // SAFETY: as the caller says; the memory is new.
    unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), room, length as usize) };
    Ok(room.cast())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_getaddrinfo(
    node: Option<Text<'_>>,
    service: Option<Text<'_>>,
    hints: Option<&rdma_addrinfo>,
    result: Option<Out<'_, *mut rdma_addrinfo>>,
) -> c_int {
    let mut code = 0;
    let status = number(|| {
        let result = result.ok_or(EINVAL)?;
        if node.is_none() && service.is_none() && hints.is_none() {
            return Err(EINVAL);
        }
        let flags = hints.map_or(0, |hints| hints.ai_flags);
        if hints.is_some_and(|hints| !known_family(hints.ai_family)) {
            code = libc::EAI_FAMILY;
            return Ok(0);
        }
        // SAFETY: no pointers.
        let made = unsafe { libc::calloc(1, size_of::<rdma_addrinfo>()) }.cast::<rdma_addrinfo>();
        // SAFETY: new memory of this size, and all zeroes are a value of the struct.
        let info = unsafe { made.as_mut() }.ok_or(ENOMEM)?;
        describe(info, hints, flags);
        match look_up(info, (node, service), hints) {
            Ok(0) => result.write(made),
            other => {
                rdma_freeaddrinfo(AddressList(made));
                code = other?;
            }
        }
        Ok(0)
    });
    if status == 0 { code } else { status }
}

fn known_family(family: c_int) -> bool {
    matches!(family, libc::AF_UNSPEC | libc::AF_INET | libc::AF_INET6)
}

/// Fills in the kind of endpoint that the result is for.
fn describe(info: &mut rdma_addrinfo, hints: Option<&rdma_addrinfo>, flags: c_int) {
    info.ai_flags = flags;
    info.ai_qp_type = hints.map_or(0, |hints| hints.ai_qp_type);
    info.ai_port_space = hints.map_or(0, |hints| hints.ai_port_space);
    if info.ai_port_space == 0 {
        let datagram = info.ai_qp_type == IBV_QPT_UD;
        info.ai_port_space = if datagram { RDMA_PS_UDP } else { RDMA_PS_TCP };
    }
    if info.ai_qp_type == 0 {
        let connected = info.ai_port_space == RDMA_PS_TCP;
        info.ai_qp_type = if connected { IBV_QPT_RC } else { IBV_QPT_UD };
    }
}

/// Looks up the address of a name, a service or both by the system's `getaddrinfo`; `Ok` holds its
/// return code.
fn look_up(
    info: &mut rdma_addrinfo,
    (node, service): (Option<Text<'_>>, Option<Text<'_>>),
    hints: Option<&rdma_addrinfo>,
) -> Result<c_int> {
    let passive = info.ai_flags & RAI_PASSIVE != 0;
    if node.is_some() || service.is_some() {
        let mut query: addrinfo = zeroed();
        // The values of RDMA's flags differ from the system's.
        query.ai_flags = if passive { libc::AI_PASSIVE } else { 0 };
        if info.ai_flags & RAI_NUMERICHOST != 0 {
            query.ai_flags |= libc::AI_NUMERICHOST;
        }
        query.ai_family = hints.map_or(0, |hints| hints.ai_family);
        query.ai_socktype = libc::SOCK_STREAM;
        let mut found: *mut addrinfo = null_mut();
        let text = |text: Option<Text<'_>>| text.map_or(std::ptr::null(), Text::raw);
        // SAFETY: texts end with a zero byte; null pointers stand for none.
        let code = unsafe { libc::getaddrinfo(text(node), text(service), &query, &raw mut found) };
        if code != 0 {
            return Ok(code);
        }
        // SAFETY: the system returns at least one address without an error. It is freed once it is
        // copied.
        let (family, address, length) = unsafe {
            let first = &*found;
            let copied = copy(first.ai_addr, first.ai_addrlen);
            let first = (first.ai_family, copied, first.ai_addrlen);
            libc::freeaddrinfo(found);
            first
        };
        info.ai_family = family;
        match passive {
            true => (info.ai_src_addr, info.ai_src_len) = (address?, length),
            false => (info.ai_dst_addr, info.ai_dst_len) = (address?, length),
        }
    }
    let Some(hints) = hints else { return Ok(0) };
    // SAFETY: the program's addresses are as long as it says, and the last is one of our copies.
    unsafe {
        if info.ai_src_addr.is_null() && hints.ai_src_len > 0 && !hints.ai_src_addr.is_null() {
            info.ai_src_addr = copy(hints.ai_src_addr, hints.ai_src_len)?;
            info.ai_src_len = hints.ai_src_len;
        }
        if info.ai_dst_addr.is_null() && hints.ai_dst_len > 0 && !hints.ai_dst_addr.is_null() {
            info.ai_dst_addr = copy(hints.ai_dst_addr, hints.ai_dst_len)?;
            info.ai_dst_len = hints.ai_dst_len;
        }
        let known = [info.ai_src_addr, info.ai_dst_addr].into_iter().find(|a| !a.is_null());
        if let Some(known) = known.filter(|_| info.ai_family == 0) {
            info.ai_family = c_int::from((*known).sa_family);
        }
    }
    Ok(0)
}

/// A result of `rdma_getaddrinfo` that the program returns to be freed, or a null pointer.
#[repr(transparent)]
struct AddressList(*mut rdma_addrinfo);

#[unsafe(no_mangle)]
extern "C" fn rdma_freeaddrinfo(info: AddressList) {
    let AddressList(mut at) = info;
    while !at.is_null() {
        // SAFETY: it and what it points to were allocated as `free` expects, here or by the program
        // that has put it there, and this is the last use.
        unsafe {
            let next = (*at).ai_next;
            libc::free((*at).ai_src_addr.cast());
            libc::free((*at).ai_dst_addr.cast());
            libc::free((*at).ai_src_canonname.cast());
            libc::free((*at).ai_dst_canonname.cast());
            libc::free((*at).ai_route);
            libc::free((*at).ai_connect);
            libc::free(at.cast());
            at = next;
        }
    }
}

// ---- endpoints ----

/// Converts the result of another call of this library, which has set errno.
fn done(result: c_int) -> Result<()> {
    let code = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    if result == 0 { Ok(()) } else { Err(Errno(code())) }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_ep(
    id: Out<'_, *mut rdma_cm_id>,
    info: Option<&rdma_addrinfo>,
    pd: Option<Ptr<'_, ibv_pd>>,
    init: Option<&mut ibv_qp_init_attr>,
) -> c_int {
    number(|| {
        let info = info.ok_or(EINVAL)?;
        let made = lifetime::create(None, null_mut(), info.ai_port_space)?;
        // SAFETY: the program does not know the new id yet.
        let set_up = set_up(unsafe { Ptr::kept(made) }, info, pd, init);
        if set_up.is_err() {
            // SAFETY: likewise.
            rdma_destroy_ep(unsafe { Last::found(made) });
        }
        set_up?;
        id.write(made);
        Ok(0)
    })
}

fn set_up(
    id: Ptr<'_, rdma_cm_id>,
    info: &rdma_addrinfo,
    pd: Option<Ptr<'_, ibv_pd>>,
    init: Option<&mut ibv_qp_init_attr>,
) -> Result<()> {
    let this = id.object();
    // SAFETY: addresses that `info` names are as long as their families say.
    let (from, to) =
        unsafe { (Address::found(info.ai_src_addr), Address::found(info.ai_dst_addr)) };
    if info.ai_qp_type != 0 {
        this.base.qp_type.set(info.ai_qp_type);
    }
    if info.ai_flags & RAI_PASSIVE != 0 {
        done(rdma_bind_addr(Some(id), from))?;
        if let Some(pd) = pd {
            this.base.pd.set(pd.raw());
        }
        lock(&this.core.inner).template = init.map(|init| Template {
            cap: init.cap,
            qp_context: init.qp_context as usize,
            sq_sig_all: init.sq_sig_all,
            queues: [init.send_cq as usize, init.recv_cq as usize, init.srq as usize],
        });
        return Ok(());
    }
    done(rdma_resolve_addr(Some(id), from, to, TIMEOUT_MS))?;
    done(rdma_resolve_route(Some(id), TIMEOUT_MS))?;
    if let Some(init) = init {
        init.qp_type = info.ai_qp_type;
        done(rdma_create_qp(Some(id), pd, Some(init)))?;
    }
    let greeting = Array::found(info.ai_connect.cast::<u8>());
    // SAFETY: the program's data are as long as it says.
    if let Some(greeting) = unsafe { greeting.checked(info.ai_connect_len.min(255)) } {
        lock(&this.core.inner).greeting = greeting.to_vec();
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_ep(id: Option<Last<'_, rdma_cm_id>>) {
    let used = id.as_ref().map(Last::as_ptr);
    rdma_destroy_qp(used);
    rdma_destroy_srq(used);
    rdma_destroy_id(id);
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_request(
    listener: Option<Ptr<'_, rdma_cm_id>>,
    id: Option<Out<'_, *mut rdma_cm_id>>,
) -> c_int {
    number(|| {
        let this = Id::of(listener)?;
        let id = id.ok_or(EINVAL)?;
        if !lock(&this.core.inner).is_synchronous {
            return Err(EINVAL);
        }
        let event = channel::next_held(this)?;
        let (kind, status, listener) = (event.base.event, event.base.status, event.base.id);
        if kind != RDMA_CM_EVENT_CONNECT_REQUEST || status != 0 {
            channel::acknowledge(event);
            return Err(if status < 0 { Errno(-status) } else { EINVAL });
        }
        // SAFETY: the program does not know the new id of a request yet.
        let new = unsafe { Ptr::found(listener) }.ok_or(EINVAL)?;
        let template = lock(&this.core.inner).template;
        if let Some(template) = template {
            let (pd, qp_type) = (this.domain(), this.base.qp_type.get());
            if let Err(error) = equip(new, pd, qp_type, &template) {
                channel::acknowledge(event);
                // SAFETY: likewise.
                rdma_destroy_id(unsafe { Last::found(listener) });
                return Err(error);
            }
        }
        new.handle().event.set(rdma_cm_event::give(event));
        id.write(listener);
        Ok(0)
    })
}

/// Creates for the id of a request the queue pair that `rdma_create_ep` described.
fn equip(
    id: Ptr<'_, rdma_cm_id>,
    pd: Option<Ptr<'_, ibv_pd>>,
    qp_type: c_int,
    template: &Template,
) -> Result<()> {
    let [send_cq, recv_cq, srq] = template.queues;
    let mut init = ibv_qp_init_attr {
        qp_context: template.qp_context as *mut _,
        send_cq: send_cq as *mut ibv_cq,
        recv_cq: recv_cq as *mut ibv_cq,
        srq: srq as *mut ibv_srq,
        cap: template.cap,
        qp_type,
        sq_sig_all: template.sq_sig_all,
    };
    done(rdma_create_qp(Some(id), pd, Some(&mut init)))
}

// ---- devices ----

#[unsafe(no_mangle)]
extern "C" fn rdma_get_devices(count: Option<Out<'_, c_int>>) -> *mut *mut ibv_context {
    object(|| {
        let cm_devices: Vec<Arc<CmDevice>> = manager::devices()?
            .into_iter()
            .filter_map(|device| CmDevice::of(device).ok())
            .collect();
        let list = null_ended(cm_devices.iter().map(|cm_device| cm_device.context().raw()))?;
        if let Some(count) = count {
            count.write(cm_devices.len() as c_int);
        }
        Ok(list)
    })
}

/// Frees the list, not the contexts in it.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: the program gives back, once, what `null_ended` allocated, or a null pointer.
    unsafe { libc::free(list.cast()) };
}
