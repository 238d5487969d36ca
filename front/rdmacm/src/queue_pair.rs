//! Queue pairs of ids, and their state changes during a connection.

use std::ptr::null_mut;

use libc::{c_int, c_void};

use super::abi::*;
use super::cm_device::address_of;
use super::id::{ACK_TIMEOUT, Id};
use super::verbs;
use fairway_roce::READ_DEPTH_MAX;
use fairway_verbs::abi::*;
use fairway_verbs::guard::{EINVAL, ENOMEM, Errno, Result, lock, number};
use fairway_verbs::pointer::{Handle, Last, Out, Ptr};

/// Largest number of READs and atomics that a queue pair has in flight.
pub(super) const READ_DEPTH: u8 = READ_DEPTH_MAX;

/// Bytes of inline payload that every queue pair of an id supports, even if fewer are requested.
/// Adapters round up, and some programs rely on it (rdma_xclient is one).
const INLINE_MIN: u32 = 64;

/// Delay of a retry when no receive is posted: 0.64 ms.
const RNR_TIMER: u8 = 12;

fn check(result: c_int) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(Errno(result)) }
}

/// Attributes and mask for `ibv_modify_qp` that change an id's queue pair to a state.
pub(super) fn attributes(this: &Id, state: c_int) -> Result<(ibv_qp_attr, c_int)> {
    let inner = lock(&this.core.inner);
    let agreed = inner.agreed;
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = state;
    let datagram = this.is_datagram();
    let mask = match (state, datagram) {
        (IBV_QPS_INIT, true) => {
            attr.port_num = 1;
            attr.qkey = RDMA_UDP_QKEY;
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
        }
        (IBV_QPS_INIT, false) => {
            attr.port_num = 1;
            let all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
            attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | all;
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS
        }
        (IBV_QPS_RTR, false) => {
            let (Some(cm_device), Some(local), Some(remote)) =
                (&inner.cm_device, inner.local, inner.remote)
            else {
                return Err(EINVAL);
            };
            attr.ah_attr = address_of(cm_device, local.ip(), remote.ip());
            attr.ah_attr.grh.traffic_class = inner.options.tos;
            attr.path_mtu = c_int::from(agreed.mtu);
            attr.dest_qp_num = agreed.queue_pair;
            attr.rq_psn = agreed.psn;
            attr.max_dest_rd_atomic = agreed.responder_resources.min(READ_DEPTH);
            attr.min_rnr_timer = RNR_TIMER;
            IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER
        }
        (IBV_QPS_RTS, false) => {
            attr.timeout = inner.options.ack_timeout.unwrap_or(ACK_TIMEOUT);
            attr.retry_cnt = agreed.retries;
            attr.rnr_retry = agreed.rnr_retries;
            attr.sq_psn = agreed.remote_psn;
            attr.max_rd_atomic = agreed.initiator_depth.min(READ_DEPTH);
            IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_SQ_PSN
                | IBV_QP_MAX_QP_RD_ATOMIC
        }
        (IBV_QPS_RTS, true) => {
            attr.sq_psn = agreed.psn;
            IBV_QP_SQ_PSN
        }
        (IBV_QPS_RTR | IBV_QPS_ERR | IBV_QPS_RESET | IBV_QPS_SQD, _) => 0,
        _ => return Err(EINVAL),
    };
    Ok((attr, mask | IBV_QP_STATE))
}

/// Changes an id's queue pair to a state.
pub(super) fn change(this: &Id, state: c_int) -> Result<()> {
    let (attr, mask) = attributes(this, state)?;
    check(verbs::ibv_modify_qp(this.queue_pair().ok_or(EINVAL)?, &attr, mask))
}

/// Changes the queue pair of a connection that failed to the error state, if the id has one: its
/// receives complete with errors.
pub(super) fn fail(this: &Id) {
    if !this.is_datagram() && this.queue_pair().is_some() {
        // A queue pair that the program has reset has no receives.
        let _ = change(this, IBV_QPS_ERR);
    }
}

/// Changes the queue pair to RTS, once both ends know each other's parameters.
pub(super) fn connect(this: &Id) -> Result<()> {
    change(this, IBV_QPS_RTR)?;
    change(this, IBV_QPS_RTS)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_init_qp_attr(
    id: Option<Ptr<'_, rdma_cm_id>>,
    attr: &mut ibv_qp_attr,
    mask: Out<'_, c_int>,
) -> c_int {
    number(|| {
        let (found, needed) = attributes(Id::of(id)?, attr.qp_state)?;
        *attr = found;
        mask.write(needed);
        Ok(0)
    })
}

/// The protection domain that a program names, or the id's.
fn domain<'a>(this: &'a Id, pd: Option<Ptr<'a, ibv_pd>>) -> Result<Ptr<'a, ibv_pd>> {
    let context = this.context().ok_or(EINVAL)?;
    match pd.or_else(|| this.domain()) {
        None => Err(ENOMEM),
        Some(pd) if pd.handle().context != context.raw() => Err(EINVAL),
        Some(pd) => Ok(pd),
    }
}

/// Creates a completion queue for this id alone, and the channel for its events.
fn own_queue(this: &Id, depth: u32) -> Result<(*mut ibv_comp_channel, *mut ibv_cq)> {
    let device = this.context().ok_or(EINVAL)?;
    let channel = verbs::ibv_create_comp_channel(device);
    // SAFETY: just made, and destroyed below at the earliest.
    let made = unsafe { Ptr::found(channel) }.ok_or(ENOMEM)?;
    let context = (&raw const this.base).cast_mut().cast::<c_void>();
    let depth = depth.max(1) as c_int;
    let cq = verbs::ibv_create_cq(device, depth, context, Some(made), 0);
    if cq.is_null() {
        // SAFETY: nothing else knows of it.
        if let Some(channel) = unsafe { Last::found(channel) } {
            verbs::ibv_destroy_comp_channel(channel);
        }
        return Err(ENOMEM);
    }
    Ok((channel, cq))
}

/// Creates the completion queues that neither the attributes nor the id name.
fn own_queues(this: &Id, init: &mut ibv_qp_init_attr) -> Result<()> {
    if init.send_cq.is_null() {
        if this.base.send_cq.get().is_null() {
            let (channel, cq) = own_queue(this, init.cap.max_send_wr)?;
            this.base.send_cq_channel.set(channel);
            this.base.send_cq.set(cq);
        }
        init.send_cq = this.base.send_cq.get();
    }
    if init.recv_cq.is_null() {
        if this.base.recv_cq.get().is_null() {
            let (channel, cq) = own_queue(this, init.cap.max_recv_wr)?;
            this.base.recv_cq_channel.set(channel);
            this.base.recv_cq.set(cq);
        }
        init.recv_cq = this.base.recv_cq.get();
    }
    Ok(())
}

/// Destroys the object in this field of an id, if there is one.
fn remove<T: Handle>(field: &Field<*mut T>, destroy: impl FnOnce(Last<'_, T>) -> c_int) {
    // SAFETY: the id has made the object for its program, which leaves it to the id to destroy it
    // and does not use it any more. No other call has taken it from the field.
    if let Some(object) = unsafe { Last::found(field.take()) } {
        // An object that is still in use stays, and the program loses it.
        destroy(object);
    }
}

fn destroy_queues(this: &Id) {
    let base = &this.base;
    if base.send_cq.get() == base.recv_cq.get() {
        // The program has given the id one queue for both.
        base.send_cq.set(null_mut());
    }
    for cq in [&base.send_cq, &base.recv_cq] {
        remove(cq, |cq| verbs::ibv_destroy_cq(cq));
    }
    for channel in [&base.send_cq_channel, &base.recv_cq_channel] {
        remove(channel, |channel| verbs::ibv_destroy_comp_channel(channel));
    }
}

/// Creates the id's queue pair by `make`, and changes it to the last state that needs no peer.
fn create(
    this: &Id,
    pd: Option<Ptr<'_, ibv_pd>>,
    init: &mut ibv_qp_init_attr,
    make: impl FnOnce(Ptr<'_, ibv_pd>, &mut ibv_qp_init_attr) -> *mut ibv_qp,
) -> Result<()> {
    if !this.base.qp.get().is_null() || init.qp_type != this.base.qp_type.get() {
        return Err(EINVAL);
    }
    let pd = domain(this, pd)?;
    init.cap.max_inline_data = init.cap.max_inline_data.max(INLINE_MIN);
    if init.srq.is_null() {
        init.srq = this.base.srq.get();
    }
    let made = own_queues(this, init).and_then(|()| {
        let qp = make(pd, init);
        if qp.is_null() { Err(Errno(last_error())) } else { Ok(qp) }
    });
    let qp = match made {
        Ok(qp) => qp,
        Err(error) => {
            destroy_queues(this);
            return Err(error);
        }
    };
    this.base.qp.set(qp);
    this.base.pd.set(pd.raw());
    let steps: &[c_int] = match this.is_datagram() {
        true => &[IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS],
        false => &[IBV_QPS_INIT],
    };
    let begun = steps.iter().try_for_each(|step| change(this, *step));
    if begun.is_err() {
        destroy(this);
    }
    begun
}

fn last_error() -> c_int {
    std::io::Error::last_os_error().raw_os_error().filter(|code| *code != 0).unwrap_or(libc::ENOMEM)
}

fn destroy(this: &Id) {
    remove(&this.base.qp, |qp| verbs::ibv_destroy_qp(qp));
    destroy_queues(this);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_create_qp(
    id: Option<Ptr<'_, rdma_cm_id>>,
    pd: Option<Ptr<'_, ibv_pd>>,
    init: Option<&mut ibv_qp_init_attr>,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let init = init.ok_or(EINVAL)?;
        let mut ours = *init;
        create(this, pd, &mut ours, |pd, init| verbs::ibv_create_qp(Some(pd), init))?;
        *init = ours;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_qp_ex(
    id: Option<Ptr<'_, rdma_cm_id>>,
    init: Option<&mut ibv_qp_init_attr_ex>,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let init = init.ok_or(EINVAL)?;
        let given = init.comp_mask & IBV_QP_INIT_ATTR_PD != 0;
        let pd = if given { init.pd } else { null_mut() };
        // SAFETY: the domain that attributes name is not freed before the call returns.
        let pd = unsafe { Ptr::found(pd) };
        let (mut base, mut whole) = (init.base(), *init);
        let context = this.context().ok_or(EINVAL)?;
        create(this, pd, &mut base, |pd, base| {
            (whole.send_cq, whole.recv_cq) = (base.send_cq, base.recv_cq);
            (whole.srq, whole.pd, whole.cap) = (base.srq, pd.raw(), base.cap);
            whole.comp_mask |= IBV_QP_INIT_ATTR_PD;
            let qp = verbs::create_qp_ex(context, &mut whole);
            base.cap = whole.cap;
            qp
        })?;
        (init.send_cq, init.recv_cq) = (base.send_cq, base.recv_cq);
        (init.srq, init.cap) = (base.srq, base.cap);
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_destroy_qp(id: Option<Ptr<'_, rdma_cm_id>>) {
    number(|| {
        destroy(Id::of(id)?);
        Ok(0)
    });
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_srq(
    id: Option<Ptr<'_, rdma_cm_id>>,
    pd: Option<Ptr<'_, ibv_pd>>,
    init: &mut ibv_srq_init_attr,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let pd = domain(this, pd)?;
        let srq = verbs::ibv_create_srq(pd, init);
        if srq.is_null() {
            return Err(Errno(last_error()));
        }
        this.base.srq.set(srq);
        this.base.pd.set(pd.raw());
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_srq_ex(
    id: Option<Ptr<'_, rdma_cm_id>>,
    init: Option<&mut ibv_srq_init_attr_ex>,
) -> c_int {
    /// Bit of the mask by which the protection domain is valid.
    const PD: u32 = 2;
    number(|| {
        let this = Id::of(id)?;
        let init = init.ok_or(EINVAL)?;
        let given = if init.comp_mask & PD != 0 { init.pd } else { null_mut() };
        // SAFETY: the domain that attributes name is not freed before the call returns.
        init.pd = domain(this, unsafe { Ptr::found(given) })?.raw();
        init.comp_mask |= PD;
        let srq = verbs::create_srq_ex(this.context().ok_or(EINVAL)?, init);
        if srq.is_null() {
            return Err(Errno(last_error()));
        }
        this.base.srq.set(srq);
        this.base.pd.set(init.pd);
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn rdma_destroy_srq(id: Option<Ptr<'_, rdma_cm_id>>) {
    number(|| {
        remove(&Id::of(id)?.base.srq, |srq| verbs::ibv_destroy_srq(srq));
        Ok(0)
    });
}
