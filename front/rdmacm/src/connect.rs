//! Establishing connections and ending them.

use std::net::SocketAddr;
use std::sync::Arc;

use fairway_rdma::Gid;
use fairway_roce::cm::CommandError;
use fairway_wire::roce::cm::{
    CommunicationId, IpHeader, Names, Path, PortSpace, ReadyToUse, Reason, Reject, Reply, Request,
    Service, ServiceReply, ServiceRequest, ServiceStatus, service_id,
};
use fairway_wire::{Psn, Qpn};
use libc::c_int;

use super::abi::*;
use super::cm_device::CmDevice;
use super::id::{ACK_TIMEOUT, Agreed, Core, Id, P_KEY};
use super::note::{self, Note};
use super::queue_pair::{self, READ_DEPTH};
use super::{channel, inherited};
use fairway_verbs::abi::{IBV_EVENT_COMM_EST, IBV_QPS_ERR};
use fairway_verbs::guard::{EINVAL, Errno, Result, lock, number};
use fairway_verbs::pointer::{Array, Ptr};

/// Values that REQ announces: 4.3 s, and fifteen retransmissions, as in Linux.
const RESPONSE_TIMEOUT: u8 = 20;
const CM_RETRIES: u8 = 15;

/// Copies private data into the field of a message, behind its first `skip` bytes, which have
/// another use.
fn private<const N: usize>(data: &[u8], skip: usize) -> Result<[u8; N]> {
    let mut out = [0; N];
    out[skip..].get_mut(..data.len()).ok_or(EINVAL)?.copy_from_slice(data);
    Ok(out)
}

/// Private data that a program passes; empty if the pointer is null, whatever the length.
///
/// # Safety
///
/// The data are as long as `length` says, and the program lends them to the call.
unsafe fn data_of(data: Array<'_, u8>, length: u8) -> &[u8] {
    // SAFETY: as the caller says.
    unsafe { data.checked(length.into()) }.unwrap_or_default()
}

/// Private data of the parameters that a program has passed to the call; empty if it passed none.
fn given(param: &rdma_conn_param) -> &[u8] {
    // SAFETY: they are as long as the parameters say, and the program lends them to the call.
    unsafe { data_of(Array::found(param.private_data.cast()), param.private_data_len) }
}

/// Connection parameters that a program requests; the maximum of each if it passes none.
fn wanted(param: Option<&rdma_conn_param>) -> Result<rdma_conn_param> {
    let mut wanted = match param {
        Some(param) => *param,
        None => rdma_conn_param {
            private_data: std::ptr::null(),
            private_data_len: 0,
            responder_resources: RDMA_MAX_RESP_RES,
            initiator_depth: RDMA_MAX_INIT_DEPTH,
            flow_control: 0,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: 0,
            qp_num: 0,
        },
    };
    let within = |depth: u8| depth <= READ_DEPTH || depth == u8::MAX;
    if !within(wanted.responder_resources) || !within(wanted.initiator_depth) {
        return Err(EINVAL);
    }
    (wanted.retry_count, wanted.rnr_retry_count) =
        (wanted.retry_count.min(7), wanted.rnr_retry_count.min(7));
    Ok(wanted)
}

fn failed(error: CommandError) -> Errno {
    match error {
        CommandError::Limit(_) => Errno(libc::ENOMEM),
        CommandError::Missing | CommandError::State(_) | CommandError::ServiceTaken => EINVAL,
    }
}

/// The queue pair of a connection, and whether it uses a shared receive queue: the id's own, or the
/// one that the program names.
fn queue_pair_of(this: &Id, param: &rdma_conn_param) -> (Qpn, bool) {
    match this.queue_pair().map(Ptr::handle) {
        Some(qp) => (Qpn::new(qp.qp_num), !qp.srq.is_null()),
        None => (Qpn::new(param.qp_num), param.srq != 0),
    }
}

/// Device, local address and remote address of an id that has resolved its address.
fn ends(core: &Core) -> Result<(Arc<CmDevice>, SocketAddr, SocketAddr)> {
    let inner = lock(&core.inner);
    let cm_device = inner.cm_device.clone().ok_or(EINVAL)?;
    inherited::check(cm_device.is_own())?;
    Ok((cm_device, inner.local.ok_or(EINVAL)?, inner.remote.ok_or(EINVAL)?))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_connect(
    id: Option<Ptr<'_, rdma_cm_id>>,
    param: Option<&rdma_conn_param>,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let param = wanted(param)?;
        let core = Arc::clone(&this.core);
        let (cm_device, local, remote) = ends(&core)?;
        let mut data = lock(&core.inner).greeting.clone();
        data.extend_from_slice(given(&param));
        let to = cm_device.provider.resolve(Gid::from(remote.ip()))?;
        // The source is the address to which the peer sends, and which it compares: a device uses
        // one route to a host, whichever of its addresses the program is bound to.
        let source = cm_device.provider.leaves_from(to).map_or(local.ip(), |gid| gid.ip());
        let header = IpHeader { source_port: local.port(), source, destination: remote.ip() };
        match this.is_datagram() {
            true => query(&core, &cm_device, to, &header, &data)?,
            false => request(this, &cm_device, to, (&header, &data), &param)?,
        }
        channel::complete(this)?;
        Ok(0)
    })
}

fn request(
    this: &Id,
    cm_device: &CmDevice,
    to: u64,
    (header, data): (&IpHeader, &[u8]),
    param: &rdma_conn_param,
) -> Result<()> {
    let mut private = private(data, IpHeader::LEN)?;
    private[..IpHeader::LEN].copy_from_slice(&header.emit());
    let (queue_pair, shared_receives) = queue_pair_of(this, param);
    let remote = lock(&this.core.inner).remote.ok_or(EINVAL)?;
    let core = Arc::clone(&this.core);
    cm_device.act(|state, now| {
        let mut inner = lock(&core.inner);
        if inner.connection.is_some() {
            return Err(EINVAL);
        }
        let agreed = &mut inner.agreed;
        agreed.responder_resources = param.responder_resources.min(READ_DEPTH);
        agreed.initiator_depth = param.initiator_depth.min(READ_DEPTH);
        agreed.retries = param.retry_count;
        let agreed = *agreed;
        let request = Request {
            local: CommunicationId(0),
            service: service_id(PortSpace::Tcp, remote.port()),
            ca_guid: cm_device.guid(),
            q_key: 0,
            queue_pair,
            responder_resources: agreed.responder_resources,
            initiator_depth: agreed.initiator_depth,
            remote_response_timeout: RESPONSE_TIMEOUT,
            transport: Service::Rc,
            flow_control: param.flow_control != 0,
            psn: Psn::new(agreed.psn),
            local_response_timeout: RESPONSE_TIMEOUT,
            retries: param.retry_count,
            p_key: P_KEY,
            mtu: agreed.mtu,
            rnr_retries: param.rnr_retry_count,
            cm_retries: CM_RETRIES,
            shared_receives,
            extended_transport: 0,
            primary: path(header, inner.options.tos, inner.options.ack_timeout),
            alternate: Path::default(),
            private,
        };
        let connection = state.manager.connect(now, to, &request).map_err(failed)?;
        inner.connection = Some(connection);
        inner.own_queue_pair = Some(queue_pair);
        drop(inner);
        state.cores.insert(connection, core);
        Ok(())
    })
}

fn path(header: &IpHeader, traffic_class: u8, ack_timeout: Option<u8>) -> Path {
    Path {
        local_lid: 0xffff,
        remote_lid: 0xffff,
        local_gid: Gid::from(header.source).0,
        remote_gid: Gid::from(header.destination).0,
        // 10 Gbit/s in IBTA's encoding.
        flow_and_rate: 3,
        traffic_class,
        hop_limit: 64,
        service_level: 0,
        subnet_local: false,
        ack_timeout: ack_timeout.unwrap_or(ACK_TIMEOUT),
    }
}

fn query(
    core: &Arc<Core>,
    cm_device: &CmDevice,
    to: u64,
    header: &IpHeader,
    data: &[u8],
) -> Result<()> {
    let mut private = private(data, IpHeader::LEN)?;
    private[..IpHeader::LEN].copy_from_slice(&header.emit());
    cm_device.act(|state, now| {
        let mut inner = lock(&core.inner);
        let remote = inner.remote.ok_or(EINVAL)?;
        if inner.connection.is_some() {
            return Err(EINVAL);
        }
        let service = service_id(PortSpace::Udp, remote.port());
        let request = ServiceRequest { id: CommunicationId(0), p_key: P_KEY, service, private };
        let connection = state.manager.query(now, to, CM_RETRIES, &request).map_err(failed)?;
        inner.connection = Some(connection);
        drop(inner);
        state.cores.insert(connection, Arc::clone(core));
        Ok(())
    })
}

/// Handles the peer's acceptance. An id with a queue pair of its own is connected before its
/// program receives the event.
pub(super) fn answered(note: &mut Note) {
    let Some(this) = note.id().map(Ptr::object) else { return };
    if this.base.qp.get().is_null() {
        return;
    }
    let connected = queue_pair::connect(this).and_then(|()| confirm(&note.core));
    if connected.is_err() {
        queue_pair::fail(this);
    }
    match connected {
        Ok(()) => note.kind = RDMA_CM_EVENT_ESTABLISHED,
        Err(Errno(error)) => {
            note.kind = RDMA_CM_EVENT_CONNECT_ERROR;
            note.status = -error;
            if let Ok((cm_device, connection)) = note.core.connection() {
                // If the peer has ended the connection meanwhile, there is nothing to refuse.
                let _ = cm_device.act(|state, now| {
                    let nothing = [0; Reject::PRIVATE_LEN];
                    state.manager.reject(now, connection, Reason::CONSUMER, &nothing)
                });
            }
        }
    }
}

fn confirm(core: &Core) -> Result<()> {
    let (cm_device, connection) = core.connection()?;
    let confirmed = cm_device
        .act(|state, now| state.manager.confirm(now, connection, &[0; ReadyToUse::PRIVATE_LEN]));
    match confirmed {
        // The connection ended before it was confirmed, and the program receives that event next.
        Ok(()) | Err(CommandError::State(_)) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rdma_establish(id: Option<Ptr<'_, rdma_cm_id>>) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        // If the id has a queue pair of its own, it is connected automatically.
        if !this.base.qp.get().is_null() {
            return Err(EINVAL);
        }
        let (cm_device, connection) = this.core.connection()?;
        let nothing = [0; ReadyToUse::PRIVATE_LEN];
        cm_device
            .act(|state, now| state.manager.confirm(now, connection, &nothing))
            .map_err(failed)?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_accept(
    id: Option<Ptr<'_, rdma_cm_id>>,
    param: Option<&rdma_conn_param>,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let param = wanted(param)?;
        if this.is_datagram() {
            answer(this, ServiceStatus::SUCCESS, &param, given(&param))?;
            return Ok(0);
        }
        let (cm_device, connection) = this.core.connection()?;
        let private = private(given(&param), 0)?;
        let (queue_pair, shared_receives) = queue_pair_of(this, &param);
        let agreed = limit_agreed(&this.core, &param);
        lock(&this.core.inner).own_queue_pair = Some(queue_pair);
        if !this.base.qp.get().is_null() {
            queue_pair::connect(this)?;
        }
        let reply = Reply {
            names: Names::default(),
            q_key: 0,
            queue_pair,
            psn: Psn::new(agreed.psn),
            responder_resources: agreed.responder_resources,
            initiator_depth: agreed.initiator_depth,
            ack_delay: 15,
            failover: 0,
            flow_control: param.flow_control != 0,
            rnr_retries: param.rnr_retry_count,
            shared_receives,
            ca_guid: cm_device.guid(),
            private,
        };
        let accepted = cm_device.act(|state, now| {
            state.manager.accept(now, connection, &reply)?;
            lock(&this.core.inner).is_unaccepted = false;
            Ok(())
        });
        if let Err(error) = accepted {
            // The peer has given up.
            queue_pair::fail(this);
            return Err(failed(error));
        }
        channel::complete(this)?;
        Ok(0)
    })
}

/// Limits the agreed parameters to what the program grants, the peer requested and the device
/// supports.
fn limit_agreed(core: &Core, param: &rdma_conn_param) -> Agreed {
    let mut inner = lock(&core.inner);
    let agreed = &mut inner.agreed;
    let granted = |requested: u8, given: u8| requested.min(given).min(READ_DEPTH);
    agreed.responder_resources = granted(agreed.responder_resources, param.responder_resources);
    agreed.initiator_depth = granted(agreed.initiator_depth, param.initiator_depth);
    *agreed
}

/// Answers a datagram's service request with SIDR_REP.
fn answer(this: &Id, status: ServiceStatus, param: &rdma_conn_param, data: &[u8]) -> Result<()> {
    let (cm_device, connection) = this.core.connection()?;
    let private = private(data, 0)?;
    let (queue_pair, _) = queue_pair_of(this, param);
    let local = lock(&this.core.inner).local.ok_or(EINVAL)?;
    let reply = ServiceReply {
        id: CommunicationId(0),
        status,
        queue_pair,
        service: service_id(PortSpace::Udp, local.port()),
        q_key: RDMA_UDP_QKEY,
        information_len: 0,
        information: [0; ServiceReply::INFORMATION_LEN],
        private,
    };
    cm_device.act(|state, now| state.manager.answer(now, connection, &reply)).map_err(failed)
}

fn refuse(
    id: Option<Ptr<'_, rdma_cm_id>>,
    data: Array<'_, u8>,
    length: u8,
    reason: Reason,
) -> Result<()> {
    let this = Id::of(id)?;
    // SAFETY: the program has passed this length.
    let data = unsafe { data_of(data, length) };
    if this.is_datagram() {
        return answer(this, ServiceStatus::REJECTED, &wanted(None)?, data);
    }
    let private = private(data, 0)?;
    let (cm_device, connection) = this.core.connection()?;
    cm_device
        .act(|state, now| state.manager.reject(now, connection, reason, &private))
        .map_err(failed)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_reject(
    id: Option<Ptr<'_, rdma_cm_id>>,
    data: Array<'_, u8>,
    length: u8,
) -> c_int {
    number(|| refuse(id, data, length, Reason::CONSUMER).map(|()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_reject_ece(
    id: Option<Ptr<'_, rdma_cm_id>>,
    data: Array<'_, u8>,
    length: u8,
) -> c_int {
    number(|| refuse(id, data, length, Reason::VENDOR).map(|()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_disconnect(id: Option<Ptr<'_, rdma_cm_id>>) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let (cm_device, connection) = this.core.connection().inspect_err(|error| {
            if *error == EINVAL {
                // There is no connection.
                queue_pair::fail(this);
            }
        })?;
        lock(&this.core.inner).leaves = true;
        if !this.is_datagram() && !this.base.qp.get().is_null() {
            queue_pair::change(this, IBV_QPS_ERR)?;
        }
        let ended = cm_device.act(|state, now| state.manager.disconnect(now, connection));
        match ended {
            // The peer may have disconnected first, or there was no connection.
            Ok(()) | Err(CommandError::State(_)) => {}
            Err(error) => return Err(failed(error)),
        }
        if ended.is_ok() || note::has_waiting(this) {
            channel::complete(this)?;
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_notify(id: Option<Ptr<'_, rdma_cm_id>>, event: c_int) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let (cm_device, connection) = this.core.connection()?;
        if event == IBV_EVENT_COMM_EST {
            // RTU may have arrived meanwhile.
            let _ = cm_device.act(|state, now| state.manager.establish(now, connection));
        }
        Ok(0)
    })
}
