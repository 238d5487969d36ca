//! Converts completions of the provider to the form that programs read.

use fairway_device::CompletionQueueId;
use fairway_roce::{Completion, CompletionKind, Status};
use fairway_wire::roce::Tail;
use libc::{c_int, c_uint};

use crate::abi::*;
use crate::outstanding::is_receive;

/// Largest number of completions fetched from the provider at once.
pub(crate) const BATCH: usize = 32;

/// The identifier of a completion queue as a number.
pub(crate) fn number(id: CompletionQueueId) -> u32 {
    id.index() as u32
}

fn status(status: Status) -> c_int {
    match status {
        Status::Success => IBV_WC_SUCCESS,
        Status::LocalLength => IBV_WC_LOC_LEN_ERR,
        Status::LocalProtection => IBV_WC_LOC_PROT_ERR,
        Status::Flushed => IBV_WC_WR_FLUSH_ERR,
        Status::BadResponse => IBV_WC_BAD_RESP_ERR,
        Status::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        Status::RemoteAccess => IBV_WC_REM_ACCESS_ERR,
        Status::RemoteOperation => IBV_WC_REM_OP_ERR,
        Status::RetryExceeded => IBV_WC_RETRY_EXC_ERR,
        Status::RnrRetryExceeded => IBV_WC_RNR_RETRY_EXC_ERR,
    }
}

fn opcode(kind: CompletionKind) -> c_int {
    match kind {
        CompletionKind::Send => IBV_WC_SEND,
        CompletionKind::Write => IBV_WC_RDMA_WRITE,
        CompletionKind::Read => IBV_WC_RDMA_READ,
        CompletionKind::CompareSwap => IBV_WC_COMP_SWAP,
        CompletionKind::FetchAdd => IBV_WC_FETCH_ADD,
        CompletionKind::Receive => IBV_WC_RECV,
        CompletionKind::ReceiveWrite => IBV_WC_RECV_RDMA_WITH_IMM,
    }
}

/// Kind of packet in which a datagram arrived. It is reported in the completion's field for the
/// service level, as RNICs do (A17.4.5.1; bit 3: the packet had a UDP header). UCX uses it to find
/// the addresses in the header in front of the payload.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum PacketKind {
    V6 = 0x9,
    V4 = 0xa,
}

/// Returns a completion in the form of `ibv_poll_cq`. `datagram` returns the kind of packet if a
/// packet's header precedes the payload of a receive.
pub(crate) fn to_c(
    completion: &Completion,
    datagram: impl FnOnce(&Completion) -> Option<PacketKind>,
) -> ibv_wc {
    let (imm_data, mut wc_flags): (u32, c_uint) = match completion.tail {
        Tail::Nothing => (0, 0),
        Tail::Immediate(value) => (value.to_be(), IBV_WC_WITH_IMM),
        Tail::Invalidate(key) => (key, IBV_WC_WITH_INV),
    };
    let mut sl = 0;
    if is_receive(completion)
        && completion.status == Status::Success
        && let Some(kind) = datagram(completion)
    {
        wc_flags |= IBV_WC_GRH;
        sl = kind as u8;
    }
    ibv_wc {
        wr_id: completion.id,
        status: status(completion.status),
        opcode: opcode(completion.kind),
        vendor_err: 0,
        byte_len: completion.bytes,
        imm_data,
        qp_num: completion.queue_pair.value(),
        src_qp: completion.from.queue_pair.value(),
        wc_flags,
        pkey_index: 0,
        slid: 0,
        sl,
        dlid_path_bits: 0,
    }
}
