//! Objects and requests of `libibverbs.so.1` that the datapath uses, as `infiniband/verbs.h` lays
//! them out. Structs of numbers are in `fairway-ibverbs`.
//!
//! A test compares them with the installed header by the C compiler. Objects that the library makes
//! are listed up to the last field that is read here.

#![allow(non_camel_case_types)] // The names of the header.

pub(super) use fairway_ibverbs::*;
use libc::{c_char, c_int, c_uint, c_void};

/// Bytes in front of the payload of a datagram in a receive buffer: a global routing header, or 20
/// bytes without meaning and an IPv4 header.
pub(super) const GRH_BYTES: usize = 40;

#[repr(C)]
pub(super) struct ibv_device {
    opaque: [u8; 0],
}

#[repr(C)]
pub(super) struct ibv_pd {
    opaque: [u8; 0],
}

#[repr(C)]
pub(super) struct ibv_ah {
    opaque: [u8; 0],
}

type Slot = *mut c_void;

#[repr(C)]
pub(super) struct ibv_context_ops {
    compat_query: [Slot; 2],
    compat_pd_mr: [Slot; 5],
    memory_windows: [Slot; 3],
    compat_create_cq: Slot,
    pub poll_cq: unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
    pub req_notify_cq: unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int,
    compat_cq_srq: [Slot; 7],
    pub post_srq_recv:
        unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    compat_qp: [Slot; 4],
    pub post_send:
        unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
    pub post_recv:
        unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    compat_rest: [Slot; 5],
}

#[repr(C)]
pub(super) struct ibv_context {
    device: *mut ibv_device,
    pub ops: ibv_context_ops,
}

#[repr(C)]
pub(super) struct ibv_mr {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    pub lkey: u32,
}

#[repr(C)]
pub(super) struct ibv_comp_channel {
    context: *mut ibv_context,
    pub fd: c_int,
}

#[repr(C)]
pub(super) struct ibv_cq {
    pub context: *mut ibv_context,
}

#[repr(C)]
pub(super) struct ibv_qp {
    pub context: *mut ibv_context,
    qp_context: *mut c_void,
    pd: *mut ibv_pd,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut c_void,
    handle: u32,
    pub qp_num: u32,
}

#[repr(C)]
pub(super) struct ibv_srq {
    pub context: *mut ibv_context,
}

#[repr(C)]
pub(super) struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
pub(super) struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

/// Target of a datagram, padded to the size of the union that it belongs to.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub rest: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub ud: wr_ud,
    pub remote_srqn: u32,
    /// Parameters of memory windows and TSO.
    pub tail: [u64; 6],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

pub(super) type DeviceList = *mut *mut ibv_device;
pub(super) type Text = *const c_char;
