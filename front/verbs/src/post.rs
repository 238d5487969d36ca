//! Posting of sends: converts C work requests to the provider's.

use fairway_roce::{Peer, RemoteAddress, ScatterList, Transport, Work, WorkRequest};
use fairway_wire::Qpn;
use fairway_wire::roce::Tail;
use libc::{c_int, c_uint};

use crate::abi::*;
use crate::guard::{EINVAL, ENOMEM, EOPNOTSUPP, Errno, Result, set_errno, uncancelled};
use crate::inline::{BATCH, InlineRing};
use crate::keys::LastKey;
use crate::pointer::{List, Out, Ptr};
use crate::qp::QueuePair;
use crate::receives::scatter;

/// Buffers for the conversion of sends, and their inline data.
pub struct Sends {
    pub(crate) batch: Vec<WorkRequest>,
    pub(crate) last: LastKey,
    pub(crate) inline: Option<InlineRing>,
    /// Requests that `ibv_wr_*` calls are building.
    pub(crate) building: crate::wr::Building,
}

/// Location of a request's bytes.
pub(crate) enum Source<'a> {
    /// Registered memory.
    Registered(&'a [ibv_sge]),
    /// Arbitrary memory, which is copied when the request is posted.
    Inline(&'a [ibv_sge]),
}

impl Sends {
    /// Local ranges of a request's bytes, which the NIC writes if `written`. Inline data is copied.
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
                let context = (&*qp.device_state, &*qp.provider, &mut self.last);
                scatter(context, list, written)
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
                // SAFETY: a slot has room for `max_inline_data` bytes, and the program lends what
                // it posts inline until the call returns.
                Ok(unsafe { ring.fill(list, self.batch.len()) }.into())
            }
        }
    }

    /// Puts a request into the batch, if the queue has a place for it.
    #[inline]
    pub(crate) fn add(&mut self, qp: &QueuePair, request: WorkRequest) -> Result<()> {
        let position = qp.outstanding.place(self.batch.len(), request.id).ok_or(ENOMEM)?;
        self.batch.push(request);
        if let Some(request) = self.batch.last_mut() {
            request.id = position;
        }
        Ok(())
    }

    /// Posts the batch to the provider. Returns how many requests it accepted, and the error of the
    /// first that it refused.
    pub(crate) fn hand_over(&mut self, qp: &QueuePair) -> (usize, Option<Errno>) {
        let (taken, error) = uncancelled(|| qp.provider.post_send(qp.number, &self.batch));
        qp.outstanding.sent(taken);
        if let Some(ring) = &mut self.inline {
            ring.taken(taken);
        }
        let left = taken < self.batch.len();
        self.batch.clear();
        (taken, left.then(|| error.map_or(ENOMEM, Errno::from)))
    }
}

impl Sends {
    /// Posts the batch to the provider, all of it or nothing.
    pub(crate) fn hand_over_whole(&mut self, qp: &QueuePair) -> Result<()> {
        // A single request is never posted in part.
        if self.batch.len() > 1 {
            uncancelled(|| qp.provider.check_sends(qp.number, &self.batch))?;
        }
        self.hand_over(qp).1.map_or(Ok(()), Err)
    }
}

/// Converts the operation of a request. The provider checks what the transport forbids.
///
/// # Safety
///
/// The fields that the request's opcode uses are initialised.
unsafe fn work(qp: &QueuePair, wr: &ibv_send_wr) -> Result<Work> {
    if qp.transport != Transport::Ud {
        // SAFETY: as the caller says.
        return unsafe { connected(wr) };
    }
    // SAFETY: as the caller says: a datagram has an address, which is not destroyed before the call
    // returns, and its immediate data if the opcode says so.
    unsafe {
        let immediate = match wr.opcode {
            IBV_WR_SEND => None,
            IBV_WR_SEND_WITH_IMM => Some(immediate(wr)),
            _ => return Err(EINVAL),
        };
        let ud = &wr.wr.ud;
        datagram(qp, Ptr::found(ud.ah), (ud.remote_qpn, ud.remote_qkey), immediate)
    }
}

/// Converts an operation of a connected queue pair.
///
/// # Safety
///
/// The fields that the request's opcode uses are initialised.
unsafe fn connected(wr: &ibv_send_wr) -> Result<Work> {
    // SAFETY: each arm reads the fields that its opcode uses, and no other.
    unsafe {
        Ok(match wr.opcode {
            IBV_WR_RDMA_WRITE => Work::Write { remote: remote(wr), immediate: None },
            IBV_WR_RDMA_WRITE_WITH_IMM => {
                Work::Write { remote: remote(wr), immediate: Some(immediate(wr)) }
            }
            IBV_WR_SEND => Work::Send { tail: Tail::Nothing },
            IBV_WR_SEND_WITH_IMM => Work::Send { tail: Tail::Immediate(immediate(wr)) },
            IBV_WR_SEND_WITH_INV => {
                Work::Send { tail: Tail::Invalidate(wr.imm_data.assume_init()) }
            }
            IBV_WR_RDMA_READ => Work::Read { remote: remote(wr) },
            IBV_WR_ATOMIC_CMP_AND_SWP => Work::CompareSwap {
                remote: word(wr),
                compare: wr.wr.atomic.compare_add,
                swap: wr.wr.atomic.swap,
            },
            IBV_WR_ATOMIC_FETCH_AND_ADD => {
                Work::FetchAdd { remote: word(wr), add: wr.wr.atomic.compare_add }
            }
            _ => return Err(EOPNOTSUPP),
        })
    }
}

/// # Safety
///
/// The request has immediate data.
unsafe fn immediate(wr: &ibv_send_wr) -> u32 {
    // SAFETY: as the caller says.
    u32::from_be(unsafe { wr.imm_data.assume_init() })
}

/// # Safety
///
/// The request is a WRITE or a READ.
unsafe fn remote(wr: &ibv_send_wr) -> RemoteAddress {
    // SAFETY: as the caller says.
    unsafe { RemoteAddress { address: wr.wr.rdma.remote_addr, r_key: wr.wr.rdma.rkey } }
}

/// # Safety
///
/// The request is an atomic operation.
unsafe fn word(wr: &ibv_send_wr) -> RemoteAddress {
    // SAFETY: as the caller says.
    unsafe { RemoteAddress { address: wr.wr.atomic.remote_addr, r_key: wr.wr.atomic.rkey } }
}

/// Converts a datagram to the address that a handle names.
pub(crate) fn datagram(
    qp: &QueuePair,
    ah: Option<Ptr<'_, ibv_ah>>,
    (number, q_key): (u32, u32),
    immediate: Option<u32>,
) -> Result<Work> {
    /// A Q_Key with this bit stands for the sender's own (10.2.5).
    const OWN_Q_KEY: u32 = 1 << 31;
    let ah = ah.ok_or(EINVAL)?.object();
    ah.check_device(&qp.device_state)?;
    let to = Peer { address: ah.address, queue_pair: Qpn::new(number) };
    let q_key = if q_key & OWN_Q_KEY != 0 { qp.q_key() } else { q_key };
    Ok(Work::Datagram { to, q_key, immediate })
}

/// True if the local bytes of an operation are written by the NIC.
pub(crate) fn writes_locally(work: &Work) -> bool {
    matches!(work, Work::Read { .. } | Work::CompareSwap { .. } | Work::FetchAdd { .. })
}

/// Builds a request with the flags of `ibv_send_flags`.
#[inline]
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

/// Adds a request to the batch.
fn convert(qp: &QueuePair, sends: &mut Sends, wr: &ibv_send_wr) -> Result<()> {
    // SAFETY: the program has posted the request, with the fields that its opcode uses.
    let (list, work) = unsafe { (wr.entries()?, work(qp, wr)?) };
    let source = match wr.send_flags & IBV_SEND_INLINE {
        0 => Source::Registered(list),
        _ if list.len() > qp.cap.max_send_sge as usize => return Err(EINVAL),
        _ => Source::Inline(list),
    };
    let local = sends.local(qp, &source, writes_locally(&work))?;
    sends.add(qp, flagged(qp, wr.wr_id, work, local, wr.send_flags))
}

pub(crate) extern "C" fn post_send(
    qp: Ptr<'_, ibv_qp>,
    mut list: List<'_, ibv_send_wr>,
    bad: Option<Out<'_, *mut ibv_send_wr>>,
) -> c_int {
    let pair = qp.object();
    pair.sends.with(|sends| {
        while list.first().is_some() {
            let posted = list;
            let mut refused = None;
            while let Some(wr) = list.first()
                && sends.batch.len() < BATCH
                && refused.is_none()
            {
                match convert(pair, sends, wr) {
                    Ok(()) => list = list.rest(),
                    Err(error) => refused = Some(error),
                }
            }
            let (taken, error) = sends.hand_over(pair);
            if let Some(error) = error.or(refused) {
                if let Some(bad) = bad {
                    bad.write(posted.after(taken).raw());
                }
                set_errno(error);
                return error.0;
            }
        }
        0
    })
}

pub(crate) extern "C" fn post_receive(
    qp: Ptr<'_, ibv_qp>,
    list: List<'_, ibv_recv_wr>,
    bad: Option<Out<'_, *mut ibv_recv_wr>>,
) -> c_int {
    let pair = qp.object();
    pair.receives.with(|receives| {
        receives.post(&pair.device_state, &*pair.provider, list, bad, |requests| {
            let fitting = &requests[..requests.len().min(pair.outstanding.receive_room())];
            let (taken, error) = pair.provider.post_receive(pair.number, fitting);
            pair.outstanding.receiving(taken);
            (taken, error)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    use super::*;

    /// Converts a request in which only the fields that every opcode uses are initialised, and
    /// those that `fill` sets.
    fn converted(opcode: c_int, fill: impl FnOnce(&mut ibv_send_wr)) -> Result<Work> {
        let mut wr = ibv_send_wr {
            wr_id: 1,
            next: null_mut(),
            sg_list: MaybeUninit::uninit(),
            num_sge: 0,
            opcode,
            send_flags: 0,
            imm_data: MaybeUninit::uninit(),
            wr: wr_target { nothing: () },
            remote_srqn: MaybeUninit::uninit(),
            tail: MaybeUninit::uninit(),
        };
        fill(&mut wr);
        // SAFETY: each test below sets what its opcode uses.
        unsafe { connected(&wr) }
    }

    fn rdma(wr: &mut ibv_send_wr) {
        wr.wr.rdma = wr_rdma { remote_addr: 0x1000, rkey: 7 };
    }

    const BIND_MW: c_int = 8;
    const REMOTE: RemoteAddress = RemoteAddress { address: 0x1000, r_key: 7 };

    #[test]
    fn request_is_converted_if_only_the_fields_of_its_opcode_are_initialised() {
        assert_eq!(converted(IBV_WR_SEND, |_| ()), Ok(Work::Send { tail: Tail::Nothing }));
        let data = |wr: &mut ibv_send_wr| _ = wr.imm_data.write(5_u32.to_be());
        assert_eq!(
            converted(IBV_WR_SEND_WITH_IMM, data),
            Ok(Work::Send { tail: Tail::Immediate(5) })
        );
        let key = |wr: &mut ibv_send_wr| _ = wr.imm_data.write(9);
        assert_eq!(
            converted(IBV_WR_SEND_WITH_INV, key),
            Ok(Work::Send { tail: Tail::Invalidate(9) })
        );
        let write = |immediate| Ok(Work::Write { remote: REMOTE, immediate });
        assert_eq!(converted(IBV_WR_RDMA_WRITE, rdma), write(None));
        let both = |wr: &mut ibv_send_wr| {
            rdma(wr);
            data(wr);
        };
        assert_eq!(converted(IBV_WR_RDMA_WRITE_WITH_IMM, both), write(Some(5)));
        assert_eq!(converted(IBV_WR_RDMA_READ, rdma), Ok(Work::Read { remote: REMOTE }));
        assert_eq!(converted(BIND_MW, |_| ()), Err(EOPNOTSUPP));
    }

    #[test]
    fn atomic_addition_needs_no_value_to_swap() {
        let add = |wr: &mut ibv_send_wr| {
            wr.wr.atomic.remote_addr = REMOTE.address;
            wr.wr.atomic.compare_add = 3;
            wr.wr.atomic.rkey = REMOTE.r_key;
        };
        assert_eq!(
            converted(IBV_WR_ATOMIC_FETCH_AND_ADD, add),
            Ok(Work::FetchAdd { remote: REMOTE, add: 3 })
        );
        let swap = |wr: &mut ibv_send_wr| {
            let (remote_addr, rkey) = (REMOTE.address, REMOTE.r_key);
            wr.wr.atomic = wr_atomic { remote_addr, compare_add: 3, swap: 4, rkey };
        };
        assert_eq!(
            converted(IBV_WR_ATOMIC_CMP_AND_SWP, swap),
            Ok(Work::CompareSwap { remote: REMOTE, compare: 3, swap: 4 })
        );
    }
}
