//! Posting: work requests of C become those of the carrier.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: queue pairs are alive; work requests are lists that end with a null pointer, whose
// `sg_list` has `num_sge` entries; inline data is readable now.

use fairway::engine::wire::Qpn;
use fairway::engine::wire::roce::Tail;
use fairway_roce::{Peer, RemoteAddress, ScatterList, Transport, Work, WorkRequest};
use libc::{c_int, c_uint};

use crate::abi::*;
use crate::ah::AddressHandle;
use crate::guard::{EINVAL, ENOMEM, EOPNOTSUPP, Errno, Result, set_errno, uncancelled};
use crate::inline::{BATCH, InlineRing};
use crate::keys::LastKey;
use crate::qp::QueuePair;
use crate::receives::scatter;

/// The sending side's room for conversion, and its inline data.
pub(crate) struct Sends {
    pub(crate) batch: Vec<WorkRequest>,
    pub(crate) last: LastKey,
    pub(crate) inline: Option<InlineRing>,
    /// What `ibv_wr_*` has built so far.
    pub(crate) building: crate::wr::Building,
}

/// Where a request's bytes are.
pub(crate) enum Source<'a> {
    /// Registered memory.
    Registered(&'a [ibv_sge]),
    /// Anywhere: to be copied now.
    Inline(&'a [ibv_sge]),
}

impl Sends {
    /// The bytes of a request, which the NIC writes if `written`. `at`: how many requests wait
    /// before this one.
    pub(crate) fn local(
        &mut self,
        qp: &QueuePair,
        source: &Source<'_>,
        written: bool,
    ) -> Result<ScatterList> {
        match source {
            Source::Registered(list) => {
                if list.len() > qp.cap.max_send_sge as usize {
                    return Err(EINVAL);
                }
                let rim = (&*qp.device_state, &*qp.carrier, &mut self.last);
                unsafe { scatter(rim, list.as_ptr(), list.len(), written) }
            }
            Source::Inline(list) => {
                let length: u64 = list.iter().map(|sge| u64::from(sge.length)).sum();
                if length == 0 {
                    return Ok(ScatterList::EMPTY);
                }
                if written || length > u64::from(qp.cap.max_inline_data) {
                    return Err(EINVAL);
                }
                let ring = self.inline.as_mut().ok_or(EINVAL)?;
                Ok(unsafe { ring.fill(list, self.batch.len()) }.into())
            }
        }
    }

    /// Hands the batch to the carrier. How many were taken, and why not the next.
    pub(crate) fn hand_over(&mut self, qp: &QueuePair) -> (usize, Option<Errno>) {
        let (taken, error) = uncancelled(|| qp.carrier.post_send(qp.number, &self.batch));
        if let Some(ring) = &mut self.inline {
            ring.taken(taken);
        }
        let left = taken < self.batch.len();
        self.batch.clear();
        (taken, left.then(|| error.map_or(ENOMEM, Errno::from)))
    }
}

/// What a queue pair can be asked for, besides what its transport forbids: the carrier checks that.
unsafe fn work(qp: &QueuePair, wr: &ibv_send_wr) -> Result<Work> {
    let immediate = u32::from_be(wr.imm_data);
    let rdma = unsafe { wr.wr.rdma };
    let remote = RemoteAddress { address: rdma.remote_addr, r_key: rdma.rkey };
    let atomic = unsafe { wr.wr.atomic };
    let word = RemoteAddress { address: atomic.remote_addr, r_key: atomic.rkey };
    if qp.transport == Transport::Ud {
        let immediate = match wr.opcode {
            IBV_WR_SEND => None,
            IBV_WR_SEND_WITH_IMM => Some(immediate),
            _ => return Err(EINVAL),
        };
        let ud = unsafe { wr.wr.ud };
        return datagram(qp, unsafe { ud.ah.as_ref() }, (ud.remote_qpn, ud.remote_qkey), immediate);
    }
    Ok(match wr.opcode {
        IBV_WR_RDMA_WRITE => Work::Write { remote, immediate: None },
        IBV_WR_RDMA_WRITE_WITH_IMM => Work::Write { remote, immediate: Some(immediate) },
        IBV_WR_SEND => Work::Send { tail: Tail::Nothing },
        IBV_WR_SEND_WITH_IMM => Work::Send { tail: Tail::Immediate(immediate) },
        IBV_WR_SEND_WITH_INV => Work::Send { tail: Tail::Invalidate(wr.imm_data) },
        IBV_WR_RDMA_READ => Work::Read { remote },
        IBV_WR_ATOMIC_CMP_AND_SWP => {
            Work::CompareSwap { remote: word, compare: atomic.compare_add, swap: atomic.swap }
        }
        IBV_WR_ATOMIC_FETCH_AND_ADD => Work::FetchAdd { remote: word, add: atomic.compare_add },
        _ => return Err(EOPNOTSUPP),
    })
}

/// A datagram to the address that a handle names.
pub(crate) fn datagram(
    qp: &QueuePair,
    ah: Option<&ibv_ah>,
    (number, q_key): (u32, u32),
    immediate: Option<u32>,
) -> Result<Work> {
    /// A Q_Key with this bit stands for the sender's own (10.2.5).
    const OWN_Q_KEY: u32 = 1 << 31;
    let address = AddressHandle::of(ah.ok_or(EINVAL)?).address;
    let to = Peer { address, queue_pair: Qpn::new(number) };
    let q_key = if q_key & OWN_Q_KEY != 0 { qp.q_key() } else { q_key };
    Ok(Work::Datagram { to, q_key, immediate })
}

/// True if the local bytes of an operation are written by the NIC.
pub(crate) fn writes_locally(work: &Work) -> bool {
    matches!(work, Work::Read { .. } | Work::CompareSwap { .. } | Work::FetchAdd { .. })
}

/// The request with the flags of `ibv_send_flags`.
pub(crate) fn flagged(
    qp: &QueuePair,
    id: u64,
    work: Work,
    local: ScatterList,
    flags: c_uint,
) -> WorkRequest {
    WorkRequest {
        id,
        work,
        local,
        signaled: qp.signal_all || flags & IBV_SEND_SIGNALED != 0,
        solicited: flags & IBV_SEND_SOLICITED != 0,
        fence: flags & IBV_SEND_FENCE != 0,
    }
}

unsafe fn convert(qp: &QueuePair, sends: &mut Sends, wr: &ibv_send_wr) -> Result<WorkRequest> {
    let count = usize::try_from(wr.num_sge).map_err(|_| EINVAL)?;
    let list = match count {
        0 => &[][..],
        _ => unsafe { std::slice::from_raw_parts(wr.sg_list, count) },
    };
    let work = unsafe { work(qp, wr)? };
    let source = match wr.send_flags & IBV_SEND_INLINE {
        0 => Source::Registered(list),
        _ => Source::Inline(list),
    };
    let local = sends.local(qp, &source, writes_locally(&work))?;
    Ok(flagged(qp, wr.wr_id, work, local, wr.send_flags))
}

pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let pair = unsafe { QueuePair::of(qp) };
    let post = |sends: &mut Sends| {
        while !wr.is_null() {
            let first = wr;
            let mut refused = None;
            while !wr.is_null() && sends.batch.len() < BATCH && refused.is_none() {
                match unsafe { convert(pair, sends, &*wr) } {
                    Ok(request) => {
                        sends.batch.push(request);
                        wr = unsafe { (*wr).next };
                    }
                    Err(error) => refused = Some(error),
                }
            }
            let (taken, error) = sends.hand_over(pair);
            if let Some(error) = error.or(refused) {
                let mut at = first;
                for _ in 0..taken {
                    at = unsafe { (*at).next };
                }
                unsafe { *bad = at };
                set_errno(error);
                return error.0;
            }
        }
        0
    };
    unsafe { pair.sends.with(post) }
}

pub(crate) unsafe extern "C" fn post_receive(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let pair = unsafe { QueuePair::of(qp) };
    unsafe {
        pair.receives.with(|receives| {
            receives.post(&pair.device_state, &*pair.carrier, wr, bad, |requests| {
                pair.carrier.post_receive(pair.number, requests)
            })
        })
    }
}
