//! Queue pairs: creation, queries and destruction.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fairway_rdma::Provider;
use fairway_roce::{QueuePairConfig, QueuePairState, SGE_MAX, Transport};
use fairway_wire::Qpn;
use libc::{c_int, c_uint};

use crate::abi::*;
use crate::cq::CompletionQueue;
use crate::device::Context;
use crate::device_state::{DeviceState, PairEvents, Subject};
use crate::guard::{EINVAL, EOPNOTSUPP, Held, Result, lock, object, set_errno, status};
use crate::inline::{BATCH, InlineRing};
use crate::keys::LastKey;
use crate::memory::Member;
use crate::outstanding::Outstanding;
use crate::pointer::{Handle, Last, Lockable, Out, Ptr};
use crate::post::Sends;
use crate::query::{DEPTH_MAX, INLINE_MAX};
use crate::receives::Receives;
use crate::srq::SharedQueue;
use crate::wr::{self, Building};

/// Object behind an `ibv_qp` that a program holds.
#[repr(C)]
pub struct QueuePair {
    pub(crate) ex: ibv_qp_ex,
    /// Whether the queue pair has `ibv_wr_*` functions.
    extended: bool,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) device_state: Arc<DeviceState>,
    pub(crate) number: Qpn,
    pub(crate) transport: Transport,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) signal_all: bool,
    pub(crate) outstanding: Arc<Outstanding>,
    pub(crate) sends: Held<Sends>,
    pub(crate) receives: Held<Receives>,
    /// Attributes set by `ibv_modify_qp`.
    pub(crate) attr: Mutex<ibv_qp_attr>,
    q_key: AtomicU32,
    pub(crate) events: Arc<PairEvents>,
    _member: Member,
}

// SAFETY: `create` makes every `ibv_qp`, as the first field of a boxed `QueuePair`.
unsafe impl Handle for ibv_qp {
    type Object = QueuePair;
}

// SAFETY: likewise: the first field of an `ibv_qp_ex` is an `ibv_qp`.
unsafe impl Handle for ibv_qp_ex {
    type Object = QueuePair;
}

impl Lockable for ibv_qp_ex {
    type Value = Sends;

    fn lock(pair: &QueuePair) -> &Held<Sends> {
        &pair.sends
    }
}

impl QueuePair {
    /// The context that the queue pair was created with.
    pub(crate) fn context(&self) -> &Context {
        // SAFETY: a program closes a context after the last use of what it has made of it.
        unsafe { Ptr::kept(self.ex.qp_base.context) }.object()
    }

    /// The completion queues of sends and of receives, and the shared receive queue.
    fn queues(&self) -> (&CompletionQueue, &CompletionQueue, Option<&SharedQueue>) {
        let base = &self.ex.qp_base;
        // SAFETY: `create` has counted this user of each, and until it is taken off the count they
        // are not destroyed.
        let (sending, receiving, shared): (Ptr<'_, ibv_cq>, Ptr<'_, ibv_cq>, _) =
            unsafe { (Ptr::kept(base.send_cq), Ptr::kept(base.recv_cq), Ptr::found(base.srq)) };
        (sending.object(), receiving.object(), shared.map(Ptr::object))
    }

    pub(crate) fn q_key(&self) -> u32 {
        self.q_key.load(Ordering::Relaxed)
    }

    pub(crate) fn set_q_key(&self, q_key: u32) {
        self.q_key.store(q_key, Ordering::Relaxed);
    }

    /// State of the queue pair, as a number of `enum ibv_qp_state`.
    pub(crate) fn state(&self) -> c_int {
        match self.provider.state(self.number) {
            Some(QueuePairState::Reset) => IBV_QPS_RESET,
            Some(QueuePairState::Init) => IBV_QPS_INIT,
            Some(QueuePairState::ReadyToReceive) => IBV_QPS_RTR,
            Some(QueuePairState::ReadyToSend) => IBV_QPS_RTS,
            Some(QueuePairState::SendDrained) => IBV_QPS_SQD,
            Some(QueuePairState::SendError) => IBV_QPS_SQE,
            Some(QueuePairState::Error) | None => IBV_QPS_ERR,
        }
    }
}

/// Checked parameters of a new queue pair.
struct Wanted<'a> {
    init: &'a ibv_qp_init_attr,
    transport: Transport,
    pd: Ptr<'a, ibv_pd>,
    extended: bool,
}

/// Minimum depth of a send queue, because adapters round up. A program that has one SEND under way
/// at a time may post the next when it has received the peer's reply, before it has polled the
/// completion of the one before: over Fairway's transport that may come after the reply.
const SEND_DEPTH_MIN: u32 = 8;

fn check_limits(cap: &ibv_qp_cap, shared: bool) -> Result<ibv_qp_cap> {
    let depth = |wanted: u32| if wanted <= DEPTH_MAX { Ok(wanted.max(1)) } else { Err(EINVAL) };
    let ranges = |wanted: u32| {
        if wanted as usize <= SGE_MAX { Ok(wanted.max(1)) } else { Err(EINVAL) }
    };
    if cap.max_inline_data > INLINE_MAX {
        return Err(EINVAL);
    }
    Ok(ibv_qp_cap {
        max_send_wr: depth(cap.max_send_wr)?.max(SEND_DEPTH_MIN),
        max_recv_wr: if shared { 0 } else { depth(cap.max_recv_wr)? },
        max_send_sge: ranges(cap.max_send_sge)?,
        max_recv_sge: if shared { 0 } else { ranges(cap.max_recv_sge)? },
        max_inline_data: cap.max_inline_data,
    })
}

fn transport(kind: c_int) -> Result<Transport> {
    match kind {
        IBV_QPT_RC => Ok(Transport::Rc),
        IBV_QPT_UC => Ok(Transport::Uc),
        IBV_QPT_UD => Ok(Transport::Ud),
        // XRC and raw packets are not offered.
        _ => Err(EOPNOTSUPP),
    }
}

fn c_base(pd: Ptr<'_, ibv_pd>, init: &ibv_qp_init_attr, number: Qpn) -> ibv_qp {
    ibv_qp {
        context: pd.object().context().raw(),
        qp_context: Field::new(init.qp_context),
        pd: pd.raw(),
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: number.value(),
        qp_num: number.value(),
        state: Field::new(IBV_QPS_RESET),
        qp_type: init.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: Field::new(0),
    }
}

/// The completion queues of sends and of receives, and the shared receive queue, of a new queue
/// pair.
fn queues<'a>(
    wanted: &Wanted<'a>,
) -> Result<(&'a CompletionQueue, &'a CompletionQueue, Option<&'a SharedQueue>)> {
    let init = wanted.init;
    // SAFETY: queues that attributes name are not destroyed before the call returns.
    let (sending, receiving, shared): (Option<Ptr<'a, ibv_cq>>, Option<Ptr<'a, ibv_cq>>, _) =
        unsafe { (Ptr::found(init.send_cq), Ptr::found(init.recv_cq), Ptr::found(init.srq)) };
    let sending = sending.ok_or(EINVAL)?.object();
    let receiving = receiving.ok_or(EINVAL)?.object();
    let shared: Option<&SharedQueue> = shared.map(Ptr::object);
    let domain = wanted.pd.object();
    domain.check_context(sending.ex.base.context)?;
    domain.check_context(receiving.ex.base.context)?;
    if let Some(shared) = shared {
        domain.check_context(shared.base.context)?;
    }
    Ok((sending, receiving, shared))
}

fn create(wanted: &Wanted<'_>) -> Result<(*mut ibv_qp, ibv_qp_cap)> {
    let (init, pd) = (wanted.init, wanted.pd);
    let (sending, receiving, shared) = queues(wanted)?;
    let owner = pd.object().context().object();
    let cap = check_limits(&init.cap, shared.is_some())?;
    let domain = pd.object().number;
    let provider = owner.device_state.provider()?;
    let config = QueuePairConfig {
        transport: wanted.transport,
        domain,
        send_queue: sending.id,
        receive_queue: receiving.id,
        shared_receives: shared.map(|queue| queue.id),
        send_depth: cap.max_send_wr,
        receive_depth: cap.max_recv_wr,
    };
    let inline = match cap.max_inline_data {
        0 => None,
        bytes => Some(InlineRing::new(provider, domain, cap.max_send_wr, bytes)?),
    };
    let number = provider.create_queue_pair(&config)?;
    let sends = Sends {
        batch: Vec::with_capacity(BATCH),
        last: LastKey::default(),
        inline,
        building: Building::default(),
    };
    let receive_depth = shared.is_none().then_some(cap.max_recv_wr);
    let outstanding = Arc::new(Outstanding::new(cap.max_send_wr, receive_depth));
    sending.attach((number, &outstanding), false);
    receiving.attach((number, &outstanding), wanted.transport == Transport::Ud);
    let mut pair = Box::<QueuePair>::new_uninit();
    let object = pair.as_mut_ptr() as usize;
    let subject = Subject { object, events: Arc::clone(&owner.events), unacked: Arc::default() };
    let events = Arc::new(PairEvents { subject, notify_drained: AtomicBool::new(false) });
    let pair = Box::write(
        pair,
        QueuePair {
            ex: wr::extended(c_base(pd, init, number)),
            extended: wanted.extended,
            provider: Arc::clone(provider),
            device_state: Arc::clone(&owner.device_state),
            number,
            transport: wanted.transport,
            cap,
            signal_all: init.sq_sig_all != 0,
            outstanding,
            // SAFETY: both locks move into the box here, and stay there.
            sends: unsafe { Held::new(sends) },
            // SAFETY: likewise.
            receives: unsafe { Held::new(Receives::new(cap.max_recv_sge)) },
            attr: Mutex::new(zeroed()),
            q_key: AtomicU32::new(0),
            events,
            _member: pd.object().member(),
        },
    );
    owner.device_state.add_pair(number.value(), Arc::clone(&pair.events));
    lock(&owner.held).pairs.insert(number);
    if let Some(queue) = shared {
        *lock(&queue.users) += 1;
    }
    Ok((ibv_qp::give(pair), cap))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_qp(
    pd: Option<Ptr<'_, ibv_pd>>,
    init: &mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    object(|| {
        let transport = transport(init.qp_type)?;
        let pd = pd.ok_or(EINVAL)?;
        let wanted = Wanted { init, transport, pd, extended: false };
        let (pair, cap) = create(&wanted)?;
        init.cap = cap;
        Ok(pair)
    })
}

pub(crate) extern "C" fn create_ex(
    context: Ptr<'_, ibv_context>,
    init: &mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    const KNOWN: u32 =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    object(|| {
        let flagged = init.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0;
        let extended = init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
        let unknown_operation = extended && init.send_ops_flags & !SEND_OPS != 0;
        if init.comp_mask & !KNOWN != 0 || flagged && init.create_flags != 0 || unknown_operation {
            return Err(EOPNOTSUPP);
        }
        if init.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
            return Err(EINVAL);
        }
        let transport = transport(init.qp_type)?;
        // SAFETY: the domain that attributes name is not freed before the call returns.
        let pd = unsafe { Ptr::found(init.pd) }.ok_or(EINVAL)?;
        pd.object().check_context(context.raw())?;
        let wanted = Wanted { init: &init.base(), transport, pd, extended };
        let (pair, cap) = create(&wanted)?;
        init.cap = cap;
        Ok(pair)
    })
}

/// Returns the queue pair with its `ibv_wr_*` functions, or null if they were not requested at its
/// creation.
#[unsafe(no_mangle)]
extern "C" fn ibv_qp_to_qp_ex(qp: Ptr<'_, ibv_qp>) -> *mut ibv_qp_ex {
    if qp.object().extended { qp.raw().cast() } else { null_mut() }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp(
    qp: Ptr<'_, ibv_qp>,
    attr: Out<'_, ibv_qp_attr>,
    mask: c_int,
    init: Option<Out<'_, ibv_qp_init_attr>>,
) -> c_int {
    status(|| {
        let pair = qp.object();
        let base = &pair.ex.qp_base;
        // The lock is held until the state is written, because other threads may query and modify
        // at the same time.
        let kept = lock(&pair.attr);
        let state = pair.state();
        let mut now = *kept;
        (now.qp_state, now.cur_qp_state) = (state, state);
        now.sq_draining = u8::from(pair.provider.is_draining(pair.number));
        now.cap = pair.cap;
        // Programs that do not query the state keep the one that they last saw (UCX asserts it).
        if mask & IBV_QP_STATE != 0 {
            base.state.set(state);
        }
        drop(kept);
        attr.write(now);
        if let Some(init) = init {
            init.write(ibv_qp_init_attr {
                qp_context: base.qp_context.get(),
                send_cq: base.send_cq,
                recv_cq: base.recv_cq,
                srq: base.srq,
                cap: pair.cap,
                qp_type: base.qp_type,
                sq_sig_all: c_int::from(pair.signal_all),
            });
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_qp(qp: Last<'_, ibv_qp>) -> c_int {
    status(|| {
        let pair = qp.object();
        pair.provider.destroy_queue_pair(pair.number)?;
        pair.device_state.remove_pair(pair.number.value());
        lock(&pair.context().held).pairs.remove(&pair.number);
        let (sending, receiving, shared) = pair.queues();
        if let Some(shared) = shared {
            *lock(&shared.users) -= 1;
        }
        // If both are the same queue, it has counted the pair twice.
        sending.detach((pair.number, &pair.outstanding));
        receiving.detach((pair.number, &pair.outstanding));
        pair.events.subject.drain();
        drop(qp.take());
        Ok(())
    })
}

/// Returns 0: no order is guaranteed. Data of one message may arrive in any order, although a
/// provider that places packets in order places the last byte of a WRITE last.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp_data_in_order(_: *mut ibv_qp, _: c_int, _: u32) -> c_int {
    0
}

/// Returns no enhanced connection establishment options, because none are offered.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_ece(_qp: Ptr<'_, ibv_qp>, ece: Out<'_, ibv_ece>) -> c_int {
    ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 });
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_set_ece(_qp: Ptr<'_, ibv_qp>, wanted: &ibv_ece) -> c_int {
    let anything: c_uint = wanted.vendor_id | wanted.options | wanted.comp_mask;
    if anything == 0 {
        return 0;
    }
    set_errno(EOPNOTSUPP);
    libc::EOPNOTSUPP
}

/// Multicast is not offered.
#[unsafe(no_mangle)]
extern "C" fn ibv_attach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    set_errno(EOPNOTSUPP);
    libc::EOPNOTSUPP
}

/// Multicast is not offered.
#[unsafe(no_mangle)]
extern "C" fn ibv_detach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    set_errno(EOPNOTSUPP);
    libc::EOPNOTSUPP
}
