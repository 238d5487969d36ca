//! Queue pairs: making, asking and removing them.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: objects were made by the calls here and are destroyed once, after their last use.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fairway::engine::wire::Qpn;
use fairway_rdma::Carrier;
use fairway_roce::{QueuePairConfig, QueuePairState, SGE_MAX, Transport};
use libc::{c_int, c_uint};

use crate::abi::*;
use crate::cq::CompletionQueue;
use crate::device::Context;
use crate::device_state::{DeviceState, PairEvents, Subject};
use crate::guard::{EINVAL, EOPNOTSUPP, Held, Result, lock, object, set_errno, status};
use crate::inline::{BATCH, InlineRing};
use crate::keys::LastKey;
use crate::memory::Domain;
use crate::post::Sends;
use crate::query::{DEPTH_MAX, INLINE_MAX};
use crate::receives::Receives;
use crate::srq::SharedQueue;
use crate::wr::{self, Building};

/// A queue pair as programs hold it.
#[repr(C)]
pub(crate) struct QueuePair {
    pub(crate) ex: ibv_qp_ex,
    /// It has `ibv_wr_*` functions.
    extended: bool,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) device_state: Arc<DeviceState>,
    pub(crate) number: Qpn,
    pub(crate) transport: Transport,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) signal_all: bool,
    pub(crate) sends: Held<Sends>,
    pub(crate) receives: Held<Receives>,
    /// What it was given, by `ibv_modify_qp`.
    pub(crate) attr: Mutex<ibv_qp_attr>,
    q_key: AtomicU32,
    pub(crate) events: Arc<PairEvents>,
}

impl QueuePair {
    /// # Safety
    ///
    /// `qp` is a queue pair of ours, not destroyed yet.
    pub(crate) unsafe fn of<'a>(qp: *mut ibv_qp) -> &'a QueuePair {
        unsafe { &*qp.cast::<QueuePair>() }
    }

    pub(crate) fn q_key(&self) -> u32 {
        self.q_key.load(Ordering::Relaxed)
    }

    pub(crate) fn set_q_key(&self, q_key: u32) {
        self.q_key.store(q_key, Ordering::Relaxed);
    }

    /// Where in its life it is, in the header's numbers.
    pub(crate) fn state(&self) -> c_int {
        match self.carrier.state(self.number) {
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

/// What a queue pair is to be like, once checked.
struct Wanted<'a> {
    init: &'a ibv_qp_init_attr,
    transport: Transport,
    pd: *mut ibv_pd,
    extended: bool,
}

fn check_limits(cap: &ibv_qp_cap, shared: bool) -> Result<ibv_qp_cap> {
    let depth = |wanted: u32| if wanted <= DEPTH_MAX { Ok(wanted.max(1)) } else { Err(EINVAL) };
    let ranges = |wanted: u32| {
        if wanted as usize <= SGE_MAX { Ok(wanted.max(1)) } else { Err(EINVAL) }
    };
    if cap.max_inline_data > INLINE_MAX {
        return Err(EINVAL);
    }
    Ok(ibv_qp_cap {
        max_send_wr: depth(cap.max_send_wr)?,
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
        // XRC and raw packets we do not have.
        _ => Err(EOPNOTSUPP),
    }
}

fn c_base(context: *mut ibv_context, wanted: &Wanted<'_>, number: Qpn) -> ibv_qp {
    let init = wanted.init;
    ibv_qp {
        context,
        qp_context: Field::new(init.qp_context),
        pd: wanted.pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: number.value(),
        qp_num: number.value(),
        state: Field::new(IBV_QPS_RESET),
        qp_type: init.qp_type,
        mutex: unsafe { zeroed() },
        cond: unsafe { zeroed() },
        events_completed: Field::new(0),
    }
}

unsafe fn create(wanted: &Wanted<'_>) -> Result<(*mut ibv_qp, ibv_qp_cap)> {
    let init = wanted.init;
    if init.send_cq.is_null() || init.recv_cq.is_null() || wanted.pd.is_null() {
        return Err(EINVAL);
    }
    let context = unsafe { (*wanted.pd).context };
    let owner = unsafe { Context::of(context) };
    let (sending, receiving) =
        unsafe { (CompletionQueue::of(init.send_cq), CompletionQueue::of(init.recv_cq)) };
    let shared = (!init.srq.is_null()).then(|| unsafe { SharedQueue::of(init.srq) });
    let cap = check_limits(&init.cap, shared.is_some())?;
    let domain = unsafe { Domain::of(wanted.pd) }.number;
    let carrier = owner.device_state.carrier()?;
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
        bytes => Some(InlineRing::new(carrier, domain, cap.max_send_wr, bytes)?),
    };
    let number = carrier.create_queue_pair(&config)?;
    let mut pair = Box::<QueuePair>::new_uninit();
    let object = pair.as_mut_ptr() as usize;
    let subject = Subject { object, events: Arc::clone(&owner.events), unacked: Arc::default() };
    let events = Arc::new(PairEvents { subject, notify_drained: AtomicBool::new(false) });
    let pair = Box::write(
        pair,
        QueuePair {
            ex: wr::extended(c_base(context, wanted, number)),
            extended: wanted.extended,
            carrier: Arc::clone(carrier),
            device_state: Arc::clone(&owner.device_state),
            number,
            transport: wanted.transport,
            cap,
            signal_all: init.sq_sig_all != 0,
            sends: Held::new(Sends {
                batch: Vec::with_capacity(BATCH),
                last: LastKey::default(),
                inline,
                building: Building::default(),
            }),
            receives: Held::new(Receives::new(cap.max_recv_sge)),
            attr: Mutex::new(unsafe { zeroed() }),
            q_key: AtomicU32::new(0),
            events,
        },
    );
    owner.device_state.add_pair(number.value(), Arc::clone(&pair.events));
    lock(&owner.held).pairs.insert(number);
    sending.attach(None);
    receiving.attach((wanted.transport == Transport::Ud).then_some(number));
    if let Some(queue) = shared {
        *lock(&queue.users) += 1;
    }
    Ok((Box::into_raw(pair).cast(), cap))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    object(|| {
        let init = unsafe { &mut *init };
        let transport = transport(init.qp_type)?;
        let wanted = Wanted { init, transport, pd, extended: false };
        let (pair, cap) = unsafe { create(&wanted)? };
        init.cap = cap;
        Ok(pair)
    })
}

pub(crate) unsafe extern "C" fn create_ex(
    _context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    const KNOWN: u32 =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    object(|| {
        let init = unsafe { &mut *init };
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
        let wanted = Wanted { init: &init.base(), transport, pd: init.pd, extended };
        let (pair, cap) = unsafe { create(&wanted)? };
        init.cap = cap;
        Ok(pair)
    })
}

/// The same with its `ibv_wr_*` functions, if they were asked for.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    if unsafe { QueuePair::of(qp) }.extended { qp.cast() } else { null_mut() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        let pair = unsafe { QueuePair::of(qp) };
        // Held until the state is written: other threads may query and modify at the same time.
        let kept = lock(&pair.attr);
        let state = pair.state();
        let mut now = *kept;
        (now.qp_state, now.cur_qp_state) = (state, state);
        now.cap = pair.cap;
        unsafe {
            // Programs that do not ask keep the state that they know (UCX asserts it).
            if mask & IBV_QP_STATE != 0 {
                pair.ex.qp_base.state.set(state);
            }
            drop(kept);
            attr.write(now);
            if !init.is_null() {
                init.write(ibv_qp_init_attr {
                    qp_context: (*qp).qp_context.get(),
                    send_cq: (*qp).send_cq,
                    recv_cq: (*qp).recv_cq,
                    srq: (*qp).srq,
                    cap: pair.cap,
                    qp_type: (*qp).qp_type,
                    sq_sig_all: c_int::from(pair.signal_all),
                });
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    status(|| {
        let pair = unsafe { QueuePair::of(qp) };
        pair.carrier.destroy_queue_pair(pair.number)?;
        pair.device_state.remove_pair(pair.number.value());
        let owner = unsafe { Context::of((*qp).context) };
        lock(&owner.held).pairs.remove(&pair.number);
        unsafe {
            CompletionQueue::of((*qp).send_cq).detach(pair.number);
            CompletionQueue::of((*qp).recv_cq).detach(pair.number);
            if !(*qp).srq.is_null() {
                *lock(&SharedQueue::of((*qp).srq).users) -= 1;
            }
        }
        pair.events.subject.settle();
        drop(unsafe { Box::from_raw(qp.cast::<QueuePair>()) });
        Ok(())
    })
}

/// Data of one message may come in any order; but the last byte of a WRITE is placed last by a
/// carrier that places packets in order. We promise nothing.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp_data_in_order(_: *mut ibv_qp, _: c_int, _: u32) -> c_int {
    0
}

/// Options of a connection that its ends agree on: none.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_ece(_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    unsafe { ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_set_ece(_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    let wanted = unsafe { &*ece };
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
