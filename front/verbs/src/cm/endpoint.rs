//! Calls that do several things at once: addresses by name, endpoints, devices.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps librdmacm's
// contract: ids are alive, strings end with a zero byte, and results point to room for them.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Arc;

use libc::{addrinfo, c_int, sockaddr, socklen_t};

use super::abi::*;
use super::channel;
use super::cm_device::CmDevice;
use super::id::{Id, Template};
use super::lifetime::{rdma_create_id, rdma_destroy_id};
use super::queue_pair::{rdma_create_qp, rdma_destroy_qp, rdma_destroy_srq};
use super::resolve::{rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route};
use crate::abi::{
    IBV_QPT_RC, IBV_QPT_UD, ibv_context, ibv_cq, ibv_pd, ibv_qp_init_attr, ibv_srq, zeroed,
};
use crate::device;
use crate::guard::{EINVAL, ENOMEM, Errno, Result, lock, number, object};

/// How long `rdma_create_ep` may look for the way, in milliseconds.
const TIMEOUT_MS: c_int = 2_000;

// ---- addresses ----

/// Copies a socket address to memory that `free` takes back.
unsafe fn copy(address: *const sockaddr, length: socklen_t) -> Result<*mut sockaddr> {
    let room = unsafe { libc::malloc(length as usize) }.cast::<u8>();
    if room.is_null() {
        return Err(ENOMEM);
    }
    unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), room, length as usize) };
    Ok(room.cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    result: *mut *mut rdma_addrinfo,
) -> c_int {
    let mut code = 0;
    let status = number(|| {
        let hints = unsafe { hints.as_ref() };
        if node.is_null() && service.is_null() && hints.is_none() || result.is_null() {
            return Err(EINVAL);
        }
        let flags = hints.map_or(0, |hints| hints.ai_flags);
        if hints.is_some_and(|hints| !known_family(hints.ai_family)) {
            code = libc::EAI_FAMILY;
            return Ok(0);
        }
        let made = unsafe { libc::calloc(1, size_of::<rdma_addrinfo>()) }.cast::<rdma_addrinfo>();
        if made.is_null() {
            return Err(ENOMEM);
        }
        let info = unsafe { &mut *made };
        describe(info, hints, flags);
        let filled = unsafe { look_up(info, node, service, hints) };
        match filled {
            Ok(0) => unsafe { result.write(made) },
            other => {
                unsafe { rdma_freeaddrinfo(made) };
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

/// What kind of endpoint it is for.
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

/// Asks the system for the address; `Ok` is its code.
unsafe fn look_up(
    info: &mut rdma_addrinfo,
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
) -> Result<c_int> {
    let passive = info.ai_flags & RAI_PASSIVE != 0;
    unsafe {
        if !(node.is_null() && service.is_null()) {
            let mut asked: addrinfo = zeroed();
            // RDMA's flags are not the system's.
            asked.ai_flags = if passive { libc::AI_PASSIVE } else { 0 };
            if info.ai_flags & RAI_NUMERICHOST != 0 {
                asked.ai_flags |= libc::AI_NUMERICHOST;
            }
            asked.ai_family = hints.map_or(0, |hints| hints.ai_family);
            asked.ai_socktype = libc::SOCK_STREAM;
            let mut found: *mut addrinfo = null_mut();
            let code = libc::getaddrinfo(node, service, &asked, &mut found);
            if code != 0 {
                return Ok(code);
            }
            let first = &*found;
            info.ai_family = first.ai_family;
            let address = copy(first.ai_addr, first.ai_addrlen);
            let length = first.ai_addrlen;
            libc::freeaddrinfo(found);
            match passive {
                true => (info.ai_src_addr, info.ai_src_len) = (address?, length),
                false => (info.ai_dst_addr, info.ai_dst_len) = (address?, length),
            }
        }
        let Some(hints) = hints else { return Ok(0) };
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

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_freeaddrinfo(info: *mut rdma_addrinfo) {
    let mut at = info;
    while !at.is_null() {
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

/// The result of another call of this library, which has set errno.
fn done(result: c_int) -> Result<()> {
    let code = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    if result == 0 { Ok(()) } else { Err(Errno(code())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    info: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    number(|| {
        let info = unsafe { info.as_ref() }.ok_or(EINVAL)?;
        let mut made: *mut rdma_cm_id = null_mut();
        let context = null_mut();
        done(unsafe { rdma_create_id(null_mut(), &mut made, context, info.ai_port_space) })?;
        match unsafe { set_up(made, info, pd, init) } {
            Ok(()) => unsafe { id.write(made) },
            Err(error) => {
                unsafe { rdma_destroy_ep(made) };
                return Err(error);
            }
        }
        Ok(0)
    })
}

unsafe fn set_up(
    id: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> Result<()> {
    let this = unsafe { Id::of(id)? };
    if info.ai_qp_type != 0 {
        this.base.qp_type.set(info.ai_qp_type);
    }
    if info.ai_flags & RAI_PASSIVE != 0 {
        done(unsafe { rdma_bind_addr(id, info.ai_src_addr) })?;
        if !pd.is_null() {
            this.base.pd.set(pd);
        }
        lock(&this.core.inner).template = unsafe { init.as_ref() }.map(|init| Template {
            cap: init.cap,
            qp_context: init.qp_context as usize,
            sq_sig_all: init.sq_sig_all,
            queues: [init.send_cq as usize, init.recv_cq as usize, init.srq as usize],
        });
        return Ok(());
    }
    unsafe {
        done(rdma_resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, TIMEOUT_MS))?;
        done(rdma_resolve_route(id, TIMEOUT_MS))?;
        if let Some(init) = init.as_mut() {
            init.qp_type = info.ai_qp_type;
            done(rdma_create_qp(id, pd, init))?;
        }
        if info.ai_connect_len > 0 && !info.ai_connect.is_null() {
            let data = info.ai_connect.cast::<u8>();
            let greeting = std::slice::from_raw_parts(data, info.ai_connect_len.min(255));
            lock(&this.core.inner).greeting = greeting.to_vec();
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_ep(id: *mut rdma_cm_id) {
    unsafe {
        rdma_destroy_qp(id);
        rdma_destroy_srq(id);
        rdma_destroy_id(id);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_request(
    listener: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    number(|| {
        let this = unsafe { Id::of(listener)? };
        if !lock(&this.core.inner).is_synchronous || id.is_null() {
            return Err(EINVAL);
        }
        let event = unsafe { channel::next_held(this)? };
        let (kind, status, asked) = unsafe { ((*event).event, (*event).status, (*event).id) };
        if kind != RDMA_CM_EVENT_CONNECT_REQUEST || status != 0 {
            unsafe { channel::rdma_ack_cm_event(event) };
            return Err(if status < 0 { Errno(-status) } else { EINVAL });
        }
        let template = lock(&this.core.inner).template;
        if let Some(template) = template {
            let (pd, qp_type) = (this.base.pd.get(), this.base.qp_type.get());
            if let Err(error) = unsafe { equip(asked, pd, qp_type, &template) } {
                unsafe {
                    channel::rdma_ack_cm_event(event);
                    rdma_destroy_id(asked);
                }
                return Err(error);
            }
        }
        unsafe {
            (*asked).event.set(event);
            id.write(asked);
        }
        Ok(0)
    })
}

/// Gives the id of a request the queue pair that `rdma_create_ep` described.
unsafe fn equip(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
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
    done(unsafe { rdma_create_qp(id, pd, &mut init) })
}

// ---- devices ----

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    object(|| {
        let cm_devices: Vec<Arc<CmDevice>> =
            device::devices()?.into_iter().filter_map(|device| CmDevice::of(device).ok()).collect();
        let size = size_of::<*mut ibv_context>();
        let list = unsafe { libc::calloc(cm_devices.len() + 1, size) }.cast::<*mut ibv_context>();
        if list.is_null() {
            return Err(ENOMEM);
        }
        for (at, cm_device) in cm_devices.iter().enumerate() {
            unsafe { list.add(at).write(cm_device.context()) };
        }
        if !count.is_null() {
            unsafe { count.write(cm_devices.len() as c_int) };
        }
        Ok(list)
    })
}

/// Frees the list, not what is in it.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    unsafe { libc::free(list.cast()) };
}
