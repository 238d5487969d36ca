//! `ibv_modify_qp`: performs the kernel's checks, then changes the queue pair at the provider.

use std::sync::Once;
use std::sync::atomic::Ordering;

use fairway_roce::{Attributes, Change, Peer, READ_DEPTH_MAX, Reliability, Transport};
use fairway_wire::roce::RnrTimer;
use fairway_wire::{Duration, Psn, Qpn};
use libc::c_int;

use crate::abi::*;
use crate::ah;
use crate::device::Context;
use crate::guard::{EINVAL, Result, lock, status};
use crate::memory::rights;
use crate::pointer::Ptr;
use crate::qp::QueuePair;
use crate::query::{self, DEFAULT_PARTITION};
use crate::transitions;

/// Payload bytes per packet for a number of `enum ibv_mtu`.
fn mtu_bytes(code: c_int) -> Result<u32> {
    match code {
        1..=5 => Ok(128 << code),
        _ => Err(EINVAL),
    }
}

/// Checks that attributes are within their ranges.
fn check(attr: &ibv_qp_attr, mask: c_int) -> Result<()> {
    let read_depth = READ_DEPTH_MAX;
    let given = |flag: c_int| mask & flag != 0;
    let wrong = given(IBV_QP_PORT) && attr.port_num != 1
        || given(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0
        || given(IBV_QP_PATH_MTU) && mtu_bytes(attr.path_mtu).is_err()
        || given(IBV_QP_DEST_QPN) && attr.dest_qp_num > 0xff_ffff
        || given(IBV_QP_TIMEOUT) && attr.timeout > 31
        || given(IBV_QP_RETRY_CNT) && attr.retry_cnt > 7
        || given(IBV_QP_RNR_RETRY) && attr.rnr_retry > 7
        || given(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31
        || given(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > read_depth
        || given(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > read_depth
        // Path migration is not offered.
        || given(IBV_QP_ALT_PATH)
        || given(IBV_QP_PATH_MIG_STATE) && attr.path_mig_state != 0;
    if wrong { Err(EINVAL) } else { Ok(()) }
}

/// Records the given attributes, for `ibv_query_qp` and for later transitions.
fn keep(kept: &mut ibv_qp_attr, attr: &ibv_qp_attr, mask: c_int) {
    macro_rules! keep {
        ($($flag:ident: $($field:ident),+;)*) => {
            $(if mask & $flag != 0 { $(kept.$field = attr.$field;)+ })*
        };
    }
    keep! {
        IBV_QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify;
        IBV_QP_ACCESS_FLAGS: qp_access_flags;
        IBV_QP_PKEY_INDEX: pkey_index;
        IBV_QP_PORT: port_num;
        IBV_QP_QKEY: qkey;
        IBV_QP_AV: ah_attr;
        IBV_QP_PATH_MTU: path_mtu;
        IBV_QP_TIMEOUT: timeout;
        IBV_QP_RETRY_CNT: retry_cnt;
        IBV_QP_RNR_RETRY: rnr_retry;
        IBV_QP_RQ_PSN: rq_psn;
        IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic;
        IBV_QP_MIN_RNR_TIMER: min_rnr_timer;
        IBV_QP_SQ_PSN: sq_psn;
        IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
        IBV_QP_DEST_QPN: dest_qp_num;
    }
}

fn init_change(kept: &ibv_qp_attr) -> Change {
    Change::Init {
        rights: rights(kept.qp_access_flags),
        p_key: DEFAULT_PARTITION,
        q_key: kept.qkey,
    }
}

/// Prints, once per process, a hint about the GID that programs written for InfiniBand omit.
fn explain_missing_gid() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        eprintln!(
            "fairway: ibv_modify_qp: the address has no GID, and Ethernet has no LIDs: give the \
             program a GID index (option -g 0 of the pingpong programs, -x 0 of perftest)"
        );
    });
}

fn ready_to_receive(pair: &QueuePair, context: &Context, kept: &ibv_qp_attr) -> Result<Change> {
    let rnr_timer = RnrTimer::from_code(kept.min_rnr_timer);
    let device_mtu = context.device().device.mtu();
    let (peer, mtu) = if pair.transport == Transport::Ud {
        (Peer::default(), device_mtu)
    } else {
        if kept.ah_attr.is_global == 0 {
            explain_missing_gid();
        }
        let address = ah::resolve(context, &pair.provider, &kept.ah_attr)?;
        let peer = Peer { address, queue_pair: Qpn::new(kept.dest_qp_num) };
        // A path MTU above the interface's is allowed, as with soft-RoCE and mlx5: packets are then
        // no longer than the interface's MTU, at the peer as well if its interface has the same
        // MTU.
        (peer, mtu_bytes(kept.path_mtu)?.min(device_mtu))
    };
    let expected = Psn::new(kept.rq_psn);
    let read_depth = kept.max_dest_rd_atomic;
    Ok(Change::ReadyToReceive { peer, mtu, expected, read_depth, rnr_timer })
}

fn reliability(kept: &ibv_qp_attr) -> Reliability {
    // 4.096 µs × 2^n; zero means no time-out.
    let timeout = match kept.timeout {
        0 => Duration::ZERO,
        code => Duration::from_ns(4_096 << code),
    };
    Reliability {
        timeout,
        retries: kept.retry_cnt,
        rnr_retries: kept.rnr_retry,
        read_depth: kept.max_rd_atomic,
    }
}

fn ready_to_send(kept: &ibv_qp_attr) -> Change {
    Change::ReadyToSend { first: Psn::new(kept.sq_psn), reliability: reliability(kept) }
}

fn adjustment(kept: &ibv_qp_attr) -> Change {
    Change::Adjust(Attributes {
        rights: rights(kept.qp_access_flags),
        q_key: kept.qkey,
        reliability: reliability(kept),
        rnr_timer: RnrTimer::from_code(kept.min_rnr_timer),
    })
}

/// Refuses to change attributes that a provider cannot change once the queue pair is ready.
fn check_fixed(
    pair: &QueuePair,
    context: &Context,
    (before, after): (&ibv_qp_attr, &ibv_qp_attr),
    mask: c_int,
) -> Result<()> {
    if mask & IBV_QP_MAX_DEST_RD_ATOMIC != 0
        && before.max_dest_rd_atomic != after.max_dest_rd_atomic
    {
        return Err(EINVAL);
    }
    if mask & IBV_QP_AV != 0 {
        let [before, after] = [before, after]
            .map(|attributes| ah::resolve(context, &pair.provider, &attributes.ah_attr));
        if before? != after? {
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// Attributes that may change although the state stays the same.
const ADJUSTABLE: c_int = IBV_QP_ACCESS_FLAGS
    | IBV_QP_QKEY
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_MIN_RNR_TIMER
    | IBV_QP_MAX_QP_RD_ATOMIC;

/// Performs the transition from one state to another.
fn take_step(
    pair: &QueuePair,
    context: &Context,
    (from, to): (c_int, c_int),
    (kept, mask): (&ibv_qp_attr, c_int),
) -> Result<()> {
    let change = |change: &Change| Ok(pair.provider.modify(pair.number, change)?);
    let adjust = || match mask & ADJUSTABLE {
        0 => Ok(()),
        _ => change(&adjustment(kept)),
    };
    match (from, to) {
        (_, IBV_QPS_RESET) => {
            change(&Change::Reset)?;
            pair.outstanding.reset();
            Ok(())
        }
        (_, IBV_QPS_ERR) => change(&Change::Error),
        (_, IBV_QPS_INIT) => change(&init_change(kept)),
        (_, IBV_QPS_RTR) => {
            // The address is resolved first, so that a failure changes nothing.
            let ready = ready_to_receive(pair, context, kept)?;
            if mask & (IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY) != 0 {
                change(&init_change(kept))?;
            }
            change(&ready)
        }
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            change(&ready_to_send(kept))?;
            adjust()
        }
        (IBV_QPS_SQD | IBV_QPS_SQE, IBV_QPS_RTS) => {
            adjust()?;
            change(&Change::Resume)
        }
        (IBV_QPS_RTS, IBV_QPS_SQD) => {
            let notify = mask & IBV_QP_EN_SQD_ASYNC_NOTIFY != 0 && kept.en_sqd_async_notify != 0;
            pair.events.notify_drained.store(notify, Ordering::Release);
            change(&Change::Drain)
        }
        _ => adjust(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_modify_qp(qp: Ptr<'_, ibv_qp>, attr: &ibv_qp_attr, mask: c_int) -> c_int {
    status(|| {
        let pair = qp.object();
        let context = pair.context();
        let mut kept = lock(&pair.attr);
        let from = pair.state();
        if mask & IBV_QP_CUR_STATE != 0 && attr.cur_qp_state != from {
            return Err(EINVAL);
        }
        let to = if mask & IBV_QP_STATE != 0 { attr.qp_state } else { from };
        if !transitions::allowed(pair.transport, from, to, mask) {
            return Err(EINVAL);
        }
        check(attr, mask)?;
        if mask & IBV_QP_AV != 0 {
            query::gid(context.device(), usize::from(attr.ah_attr.grh.sgid_index))?;
        }
        let mut next = *kept;
        keep(&mut next, attr, mask);
        if to == IBV_QPS_RESET {
            next = zeroed();
        }
        if from == IBV_QPS_SQD {
            check_fixed(pair, context, (&*kept, &next), mask)?;
        }
        take_step(pair, context, (from, to), (&next, mask))?;
        if mask & IBV_QP_AV != 0 || to == IBV_QPS_RESET {
            pair.provider.set_service_level(pair.number, next.ah_attr.sl);
        }
        *kept = next;
        pair.set_q_key(next.qkey);
        pair.ex.qp_base.state.set(to);
        Ok(())
    })
}
