//! State transitions of a queue pair, and the attributes that each requires and permits (InfiniBand
//! Architecture, 11.2.5.2, as the Linux kernel enforces it).

use fairway_roce::Transport;
use libc::c_int;

use crate::abi::*;

/// Attributes of a transition: required ones, and additional permitted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    required: c_int,
    optional: c_int,
}

const fn step(required: c_int, optional: c_int) -> Option<Step> {
    Some(Step { required, optional })
}

const INIT_UD: c_int = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
const INIT: c_int = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
const RTR: c_int = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RTR_RC: c_int = RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const RTR_OPTIONAL: c_int = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
const RTS_RC: c_int =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
/// Attributes that may change while a queue pair sends.
const LIVE_UD: c_int = IBV_QP_CUR_STATE | IBV_QP_QKEY;
const LIVE_UC: c_int =
    IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE;
const LIVE_RC: c_int = LIVE_UC | IBV_QP_MIN_RNR_TIMER;
/// Attributes that may change while the send queue is drained.
const DRAINED_UC: c_int =
    IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE;
const DRAINED_RC: c_int = DRAINED_UC
    | IBV_QP_PORT
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER;

/// Attributes of the transition from one state to another, if it exists.
fn between(transport: Transport, from: c_int, to: c_int) -> Option<Step> {
    use Transport::{Rc, Uc, Ud};
    let live = match transport {
        Ud => LIVE_UD,
        Uc => LIVE_UC,
        Rc => LIVE_RC,
    };
    match (from, to, transport) {
        (IBV_QPS_RESET, IBV_QPS_ERR, _) => None,
        (_, IBV_QPS_RESET | IBV_QPS_ERR, _) => step(0, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT, Ud) => step(INIT_UD, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT, Uc | Rc) => step(INIT, 0),
        (IBV_QPS_INIT, IBV_QPS_INIT, Ud) => step(0, INIT_UD),
        (IBV_QPS_INIT, IBV_QPS_INIT, Uc | Rc) => step(0, INIT),
        (IBV_QPS_INIT, IBV_QPS_RTR, Ud) => step(0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        (IBV_QPS_INIT, IBV_QPS_RTR, Uc) => step(RTR, RTR_OPTIONAL),
        (IBV_QPS_INIT, IBV_QPS_RTR, Rc) => step(RTR_RC, RTR_OPTIONAL),
        (IBV_QPS_RTR, IBV_QPS_RTS, Ud | Uc) => step(IBV_QP_SQ_PSN, live),
        (IBV_QPS_RTR, IBV_QPS_RTS, Rc) => step(RTS_RC, live),
        (IBV_QPS_RTS | IBV_QPS_SQD, IBV_QPS_RTS, _) => step(0, live),
        (IBV_QPS_SQE, IBV_QPS_RTS, Ud) => step(0, LIVE_UD),
        (IBV_QPS_SQE, IBV_QPS_RTS, Uc) => step(0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS),
        (IBV_QPS_RTS, IBV_QPS_SQD, _) => step(0, IBV_QP_EN_SQD_ASYNC_NOTIFY),
        (IBV_QPS_SQD, IBV_QPS_SQD, Ud) => step(0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        (IBV_QPS_SQD, IBV_QPS_SQD, Uc) => step(0, DRAINED_UC),
        (IBV_QPS_SQD, IBV_QPS_SQD, Rc) => step(0, DRAINED_RC),
        _ => None,
    }
}

/// True if a queue pair may change from one state to another with these attributes.
pub(crate) fn allowed(transport: Transport, from: c_int, to: c_int, mask: c_int) -> bool {
    between(transport, from, to).is_some_and(|Step { required, optional }| {
        mask & required == required && mask & !(required | optional | IBV_QP_STATE) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_state_changes_are_allowed_and_incomplete_ones_refused() {
        for (transport, mask) in [(Transport::Rc, INIT), (Transport::Ud, INIT_UD)] {
            let mask = mask | IBV_QP_STATE;
            assert!(allowed(transport, IBV_QPS_RESET, IBV_QPS_INIT, mask));
            assert!(!allowed(transport, IBV_QPS_RESET, IBV_QPS_RTR, mask));
            assert!(!allowed(transport, IBV_QPS_RESET, IBV_QPS_INIT, mask & !IBV_QP_PORT));
            assert!(!allowed(transport, IBV_QPS_RESET, IBV_QPS_INIT, mask | IBV_QP_AV));
        }
        let mask = RTR_RC | IBV_QP_STATE;
        assert!(allowed(Transport::Rc, IBV_QPS_INIT, IBV_QPS_RTR, mask));
        assert!(!allowed(Transport::Uc, IBV_QPS_INIT, IBV_QPS_RTR, mask));
        assert!(!allowed(Transport::Rc, IBV_QPS_ERR, IBV_QPS_RTS, IBV_QP_STATE));
        assert!(!allowed(Transport::Rc, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE));
        for state in [IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_SQD, IBV_QPS_ERR] {
            let may_fail = state != IBV_QPS_RESET;
            assert_eq!(allowed(Transport::Uc, state, IBV_QPS_ERR, IBV_QP_STATE), may_fail);
            assert!(allowed(Transport::Uc, state, IBV_QPS_RESET, IBV_QP_STATE));
        }
    }
}
