//! Converts events of the state machine to events for programs.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use fairway_roce::cm::{ConnectionId, Event, ListenerId};
use fairway_wire::Qpn;
use fairway_wire::roce::cm::{
    IpHeader, PortSpace, Reason, Reject, Reply, Request, ServiceReply, ServiceRequest,
    ServiceStatus, port_of_service,
};

use super::super::abi::*;
use super::super::address::{plain, scoped};
use super::super::clock::now;
use super::super::deferred_disconnect::{self, deliver};
use super::super::id::{Agreed, Core, Id};
use super::super::note::{Details, Note};
use super::{CmDevice, State};
use fairway_rdma::Gid;
use fairway_verbs::abi::{ibv_ah_attr, ibv_gid, zeroed};
use fairway_verbs::guard::lock;
use fairway_verbs::pointer::Ptr;

/// Delivers all pending events in order.
pub(super) fn dispatch(cm_device: &CmDevice, state: &mut State) {
    while let Some(event) = state.manager.poll_event() {
        match event {
            Event::Requested { listener, connection, from: _, request } => {
                requested(cm_device, state, listener, connection, &request);
            }
            Event::Queried { listener, connection, from: _, request } => {
                queried(cm_device, state, listener, connection, &request);
            }
            other => {
                let Some(core) = state.cores.get(&other.connection()).map(Arc::clone) else {
                    continue;
                };
                let note = match &other {
                    Event::Replied { reply, .. } if !accepts(cm_device, &core, reply.ca_guid) => {
                        Some(refused(state, &core, other.connection()))
                    }
                    _ => note(cm_device, &core, &other),
                };
                let Some(note) = note else { continue };
                if lock(&core.inner).is_unaccepted {
                    continue;
                }
                let is_end = matches!(other, Event::Disconnected { .. });
                match awaited(&core).filter(|_| is_end) {
                    Some(own) => deferred_disconnect::defer(&cm_device.provider, own, note, now()),
                    None => deliver(note),
                }
            }
        }
    }
}

/// The queue pair whose completions the program must poll before it receives the event that the
/// peer has disconnected.
pub(in super::super) fn awaited(core: &Core) -> Option<Qpn> {
    let inner = lock(&core.inner);
    inner.own_queue_pair.filter(|_| !inner.leaves)
}

fn note(cm_device: &CmDevice, core: &Arc<Core>, event: &Event) -> Option<Note> {
    let plain = |kind, status| Note::new(core, kind, status);
    let over = |note| {
        lock(&core.inner).is_over = true;
        note
    };
    Some(match event {
        Event::Replied { reply, .. } => {
            agree(core, reply);
            let mut note = plain(RDMA_CM_EVENT_CONNECT_RESPONSE, 0).saying(&reply.private);
            note.details = Details::Connection(offered_by_reply(reply));
            note
        }
        // Linux does not report the private data of RTU, which its programs cannot set.
        Event::Established { .. } => plain(RDMA_CM_EVENT_ESTABLISHED, 0),
        Event::Rejected { reject, .. } => {
            over(plain(RDMA_CM_EVENT_REJECTED, i32::from(reject.reason.0)).saying(&reject.private))
        }
        Event::TimedOut { .. } => over(plain(RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT)),
        Event::Disconnected { .. } => over(plain(RDMA_CM_EVENT_DISCONNECTED, 0)),
        Event::Released { .. } => plain(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0),
        Event::Answered { reply, .. } => over(answered(cm_device, core, reply)),
        Event::Requested { .. } | Event::Queried { .. } => return None,
    })
}

/// True if the peer whose REP names this GUID has queue pairs of the same protocol.
fn accepts(cm_device: &CmDevice, core: &Core, guid: u64) -> bool {
    let peer = lock(&core.inner).remote.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip());
    cm_device.is_compatible(guid, peer)
}

/// Refuses a REP on behalf of the program, whose event this is.
fn refused(state: &mut State, core: &Arc<Core>, connection: ConnectionId) -> Note {
    let reason = Reason::INVALID_TRANSPORT;
    // The state machine has just reported the REP.
    let _ = state.manager.reject(now(), connection, reason, &[0; Reject::PRIVATE_LEN]);
    lock(&core.inner).is_over = true;
    Note::new(core, RDMA_CM_EVENT_REJECTED, i32::from(reason.0))
}

/// Records the connection parameters that the peer's REP determines.
fn agree(core: &Core, reply: &Reply) {
    let mut inner = lock(&core.inner);
    let psn = inner.agreed;
    inner.agreed = Agreed {
        queue_pair: reply.queue_pair.value(),
        remote_psn: reply.psn.value(),
        // Operations that the peer has in flight must be served here.
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        rnr_retries: reply.rnr_retries,
        ..psn
    };
}

fn offered_by_reply(reply: &Reply) -> rdma_conn_param {
    rdma_conn_param {
        private_data: std::ptr::null(),
        private_data_len: 0,
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        flow_control: u8::from(reply.flow_control),
        retry_count: 0,
        rnr_retry_count: reply.rnr_retries,
        srq: u8::from(reply.shared_receives),
        qp_num: reply.queue_pair.value(),
    }
}

/// Address attributes for the datagrams of a queue pair, as `ibv_create_ah` takes them.
pub(in super::super) fn address_of(
    cm_device: &CmDevice,
    local: IpAddr,
    remote: IpAddr,
) -> ibv_ah_attr {
    let mut address: ibv_ah_attr = zeroed();
    address.grh.dgid = ibv_gid::new(Gid::from(remote).0);
    address.grh.sgid_index = cm_device.gid_index(local);
    address.grh.hop_limit = 64;
    address.is_global = 1;
    address.port_num = 1;
    address
}

fn answered(cm_device: &CmDevice, core: &Arc<Core>, reply: &ServiceReply) -> Note {
    if reply.status != ServiceStatus::SUCCESS {
        let status = i32::from(reply.status.0);
        return Note::new(core, RDMA_CM_EVENT_UNREACHABLE, status).saying(&reply.private);
    }
    let (local, remote) = {
        let mut inner = lock(&core.inner);
        inner.agreed.queue_pair = reply.queue_pair.value();
        inner.agreed.q_key = reply.q_key;
        (inner.local, inner.remote)
    };
    let mut note = Note::new(core, RDMA_CM_EVENT_ESTABLISHED, 0).saying(&reply.private);
    if let (Some(local), Some(remote)) = (local, remote) {
        note.details = Details::Datagram {
            address: address_of(cm_device, local.ip(), remote.ip()),
            queue_pair: reply.queue_pair.value(),
            q_key: reply.q_key,
        };
    }
    note
}

// ---- requests ----

/// The number of `enum ibv_mtu` for this many payload bytes of a packet.
pub(in super::super) fn mtu_code(bytes: u32) -> u8 {
    (bytes.ilog2().saturating_sub(7)).clamp(1, 5) as u8
}

fn requested(
    cm_device: &CmDevice,
    state: &mut State,
    listener: ListenerId,
    connection: ConnectionId,
    request: &Request,
) {
    let peer = IpHeader::parse(&request.private).map(|header| header.source);
    let peer = peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let found = if request.mtu > mtu_code(cm_device.device.device.mtu()) {
        Err(Reason::INVALID_MTU)
    } else if !cm_device.is_compatible(request.ca_guid, peer) {
        Err(Reason::INVALID_TRANSPORT)
    } else {
        // Otherwise no id listens at this address.
        newcomer(cm_device, state, listener, connection, request.service, &request.private)
            .ok_or(Reason::INVALID_SERVICE)
    };
    let (core, listening) = match found {
        Ok(found) => found,
        Err(reason) => return reject(state, connection, reason),
    };
    agree_as_requested(&core, request);
    // SAFETY: the program does not know the new id yet.
    if let Some(id) = unsafe { Ptr::found(core.id()) } {
        // It has both addresses and a device, so it has a path.
        let _ = id.object().show_path();
    }
    let mut note = Note::new(&core, RDMA_CM_EVENT_CONNECT_REQUEST, 0)
        .saying(&request.private[IpHeader::LEN..]);
    note.details = Details::Connection(rdma_conn_param {
        private_data: std::ptr::null(),
        private_data_len: 0,
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        flow_control: u8::from(request.flow_control),
        retry_count: request.retries,
        rnr_retry_count: request.rnr_retries,
        srq: u8::from(request.shared_receives),
        qp_num: request.queue_pair.value(),
    });
    note.listener = Some(listening);
    deliver(note);
}

/// Refuses a request that no program receives.
fn reject(state: &mut State, connection: ConnectionId, reason: Reason) {
    // The state machine has just reported the request.
    let _ = state.manager.reject(now(), connection, reason, &[0; Reject::PRIVATE_LEN]);
    let _ = state.manager.close(now(), connection);
}

/// Records the connection parameters that the peer's REQ determines.
fn agree_as_requested(core: &Core, request: &Request) {
    let mut inner = lock(&core.inner);
    let psn = inner.agreed.psn;
    inner.agreed = Agreed {
        queue_pair: request.queue_pair.value(),
        remote_psn: request.psn.value(),
        psn,
        mtu: request.mtu,
        // Operations that the peer has in flight must be served here.
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        retries: request.retries,
        rnr_retries: request.rnr_retries,
        q_key: 0,
    };
}

fn queried(
    cm_device: &CmDevice,
    state: &mut State,
    listener: ListenerId,
    connection: ConnectionId,
    request: &ServiceRequest,
) {
    let Some((core, listening)) =
        newcomer(cm_device, state, listener, connection, request.service, &request.private)
    else {
        // Closing refuses the request.
        let _ = state.manager.close(now(), connection);
        return;
    };
    let mut note = Note::new(&core, RDMA_CM_EVENT_CONNECT_REQUEST, 0)
        .saying(&request.private[IpHeader::LEN..]);
    let address = zeroed();
    note.details = Details::Datagram { address, queue_pair: 0, q_key: 0 };
    note.listener = Some(listening);
    deliver(note);
}

/// Whether an id listens at the wildcard address and accepts requests to `destination`. The IPv6
/// wildcard also covers IPv4, unless an option of the id excludes it.
fn takes_all(core: &Core, destination: IpAddr) -> bool {
    let inner = lock(&core.inner);
    inner.local.is_some_and(|local| match local.ip() {
        IpAddr::V4(ip) => ip.is_unspecified() && destination.is_ipv4(),
        IpAddr::V6(ip) => {
            let is_family_only = inner.options.is_family_only(ip.into());
            ip.is_unspecified() && (destination.is_ipv6() || !is_family_only)
        }
    })
}

/// Returns a new id for a request, and the listening id; `None` if no id listens at the requested
/// address.
fn newcomer(
    cm_device: &CmDevice,
    state: &mut State,
    listener: ListenerId,
    connection: ConnectionId,
    service: u64,
    private: &[u8],
) -> Option<(Arc<Core>, Arc<Core>)> {
    let header = IpHeader::parse(private)?;
    let (space, port) = port_of_service(service)?;
    let listening = state.services.get(&service).filter(|found| found.listener == listener)?;
    let destination = plain(header.destination);
    let local = |core: &Arc<Core>| lock(&core.inner).local.map(|local| plain(local.ip()));
    // An id that listens at this exact address has priority over ids at the wildcard address.
    let exact = listening.cores.iter().find(|core| local(core) == Some(destination));
    let any = || listening.cores.iter().find(|core| takes_all(core, destination));
    let listening_core = Arc::clone(exact.or_else(any)?);
    let (queue, options) = {
        let inner = lock(&listening_core.inner);
        (inner.queue.clone(), inner.options)
    };
    let core = Arc::new(Core::new(queue, false, space).ok()?);
    {
        let mut inner = lock(&core.inner);
        let interface = cm_device.interface();
        inner.local = Some(scoped(header.destination, port, interface));
        inner.remote = Some(scoped(header.source, header.source_port, interface));
        inner.cm_device = cm_device.me.upgrade();
        inner.connection = Some(connection);
        inner.options = options;
        inner.is_unaccepted = true;
    }
    let parent = listening_core.id();
    let ps = if space == PortSpace::Tcp { RDMA_PS_TCP } else { RDMA_PS_UDP };
    // SAFETY: an id that listens is destroyed only after it was taken from the list above, under
    // the lock that is held here.
    let parent = unsafe { Ptr::found(parent) }?.handle();
    let id = Id::new(Arc::clone(&core), parent.channel.get(), parent.context.get(), ps);
    id.show();
    // The program owns the new id from when it receives the request.
    id.give();
    state.cores.insert(connection, Arc::clone(&core));
    Some((core, listening_core))
}
