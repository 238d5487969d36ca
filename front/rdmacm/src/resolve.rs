//! Addresses of ids: binding, resolving the route, listening.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use fairway_rdma::Gid;
use fairway_wire::roce::cm::service_id;
use libc::c_int;

use super::abi::*;
use super::address::{self, Address, plain, scoped};
use super::channel;
use super::cm_device::{self, CmDevice, mtu_code};
use super::deferred_disconnect::deliver;
use super::id::Id;
use super::note::Note;
use super::port::Port;
use fairway_verbs::guard::{EINVAL, Errno, Result, lock, number};
use fairway_verbs::pointer::Ptr;

const RDMA_CM_EVENT_ADDR_ERROR: c_int = 1;

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_bind_addr(
    id: Option<Ptr<'_, rdma_cm_id>>,
    address: Option<Address<'_>>,
) -> c_int {
    number(|| {
        bind(Id::of(id)?, address::read(address)?)?;
        Ok(0)
    })
}

fn bind(this: &Id, address: SocketAddr) -> Result<()> {
    let core = Arc::clone(&this.core);
    let (space, options) = {
        let inner = lock(&core.inner);
        if inner.local.is_some() {
            return Err(EINVAL);
        }
        (inner.space, inner.options)
    };
    let ip = plain(address.ip());
    // A loopback address selects no device, as in Linux: libfabric binds to one to list what all
    // devices offer.
    let open = ip.is_unspecified() || ip.is_loopback();
    let cm_device = if open { None } else { Some(CmDevice::at(ip, address::scope(&address))?) };
    let scope = cm_device.as_ref().map_or(0, |cm_device| cm_device.interface());
    let address = scoped(address.ip(), address.port(), scope);
    let port = Port::take(space, address, options)?;
    {
        let mut inner = lock(&core.inner);
        inner.local = Some(scoped(address.ip(), port.number(), scope));
        inner.port = Some(port);
        inner.cm_device = cm_device;
    }
    this.show();
    Ok(())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_resolve_addr(
    id: Option<Ptr<'_, rdma_cm_id>>,
    source: Option<Address<'_>>,
    destination: Option<Address<'_>>,
    _timeout_ms: c_int,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let destination = address::read(destination)?;
        if lock(&this.core.inner).service.is_some() {
            return Err(EINVAL);
        }
        if source.is_some() && lock(&this.core.inner).local.is_none() {
            let source = address::read(source)?;
            // A program may leave the address open and give only the family.
            if !(source.ip().is_unspecified() && source.port() == 0) {
                bind(this, source)?;
            }
        }
        if lock(&this.core.inner).connection.is_some() {
            return Err(EINVAL);
        }
        let (kind, status) = match find_way(this, destination) {
            Ok(()) => (RDMA_CM_EVENT_ADDR_RESOLVED, 0),
            Err(Errno(error)) => (RDMA_CM_EVENT_ADDR_ERROR, -error),
        };
        this.show();
        deliver(Note::new(&this.core, kind, status));
        channel::complete(this)?;
        Ok(0)
    })
}

/// The source address of packets to a destination. Link-local addresses include their interface.
fn source_for(mut destination: SocketAddr) -> Result<SocketAddr> {
    let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EHOSTUNREACH));
    let socket = UdpSocket::bind((address::any(destination.ip()), 0)).map_err(failed)?;
    destination.set_port(fairway_rdma::ROCE_PORT);
    // Connecting a datagram socket sends nothing: the kernel only looks up the route.
    socket.connect(destination).map_err(failed)?;
    socket.local_addr().map_err(failed)
}

fn find_way(this: &Id, destination: SocketAddr) -> Result<()> {
    let to = plain(destination.ip());
    let (bound, space, options) = {
        let inner = lock(&this.core.inner);
        (inner.local, inner.space, inner.options)
    };
    let bound_to = bound.filter(|local| !plain(local.ip()).is_unspecified());
    // An id that is bound to a link-local address reaches other addresses of that link only.
    let scope = match (address::scope(&destination), &bound_to) {
        (0, Some(local)) => address::scope(local),
        (scope, _) => scope,
    };
    let towards = scoped(to, destination.port(), scope);
    let from = bound_to.map_or_else(|| source_for(towards), Ok)?;
    let from_ip = plain(from.ip());
    if from_ip.is_ipv4() != to.is_ipv4() {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let cm_device = CmDevice::at(from_ip, address::scope(&from))?;
    let interface = cm_device.interface();
    if ![0, interface].contains(&address::scope(&towards)) {
        // The peer is on the link of another device.
        return Err(Errno(libc::ENETUNREACH));
    }
    cm_device.provider.resolve(Gid::from(to))?;
    let taken = match bound {
        Some(_) => None,
        None => Some(Port::choose_source(space, scoped(from_ip, 0, interface), options)?),
    };
    let mut inner = lock(&this.core.inner);
    let number = taken.as_ref().map(Port::number).or(bound.map(|local| local.port()));
    inner.local = Some(scoped(from_ip, number.unwrap_or(0), interface));
    inner.remote = Some(scoped(to, destination.port(), interface));
    inner.port = taken.or(inner.port.take());
    inner.port.iter_mut().for_each(Port::connects);
    inner.agreed.mtu = mtu_code(cm_device.device.device.mtu());
    inner.cm_device = Some(cm_device);
    Ok(())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_resolve_route(
    id: Option<Ptr<'_, rdma_cm_id>>,
    _timeout_ms: c_int,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        resolve_route(this)?;
        channel::complete(this)?;
        Ok(0)
    })
}

/// Finds the path of an id that has resolved its address, and reports that to the program.
pub(super) fn resolve_route(this: &Id) -> Result<()> {
    this.show_path()?;
    deliver(Note::new(&this.core, RDMA_CM_EVENT_ROUTE_RESOLVED, 0));
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_listen(id: Option<Ptr<'_, rdma_cm_id>>, backlog: c_int) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let core = Arc::clone(&this.core);
        let bound = lock(&core.inner).local;
        if bound.is_none() {
            bind(this, SocketAddr::from(([0, 0, 0, 0], 0)))?;
        }
        let (local, space) = {
            let mut inner = lock(&core.inner);
            if inner.service.is_some() || inner.connection.is_some() {
                return Err(EINVAL);
            }
            inner.port.as_mut().ok_or(EINVAL)?.listen()?;
            (inner.local.ok_or(EINVAL)?, inner.space)
        };
        let local = scoped(plain(local.ip()), local.port(), address::scope(&local));
        let result = cm_device::listen(&core, local, service_id(space, local.port()), backlog);
        if result.is_err() {
            cm_device::forget(&core);
            lock(&core.inner).port.iter_mut().for_each(Port::unlisten);
        }
        result.map(|()| 0)
    })
}
