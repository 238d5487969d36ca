//! The structs of `libibverbs.so.1` that the datapath uses, as `infiniband/verbs.h` lays them out.
//!
//! A test compares them with the installed header by the C compiler. Objects that the library makes
//! are listed up to the last field that is read here.

#![allow(non_camel_case_types)] // The names of the header.

use libc::{c_char, c_int, c_uint, c_void};

pub(super) const IBV_PORT_ACTIVE: c_int = 4;
pub(super) const IBV_LINK_LAYER_ETHERNET: u8 = 2;
pub(super) const IBV_GID_TYPE_IB: u32 = 0;
pub(super) const IBV_GID_TYPE_ROCE_V2: u32 = 2;

pub(super) const IBV_ACCESS_LOCAL_WRITE: c_int = 1;

pub(super) const IBV_QPT_UD: c_int = 4;

pub(super) const IBV_QP_STATE: c_int = 1;
pub(super) const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub(super) const IBV_QP_PORT: c_int = 1 << 5;
pub(super) const IBV_QP_QKEY: c_int = 1 << 6;
pub(super) const IBV_QP_SQ_PSN: c_int = 1 << 16;

pub(super) const IBV_QPS_INIT: c_int = 1;
pub(super) const IBV_QPS_RTR: c_int = 2;
pub(super) const IBV_QPS_RTS: c_int = 3;

pub(super) const IBV_WR_SEND: c_int = 2;
pub(super) const IBV_SEND_SIGNALED: c_uint = 2;
pub(super) const IBV_SEND_INLINE: c_uint = 8;

pub(super) const IBV_WC_SUCCESS: c_int = 0;
pub(super) const IBV_WC_GRH: c_uint = 1;

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
    post_srq_recv: Slot,
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

/// 16 bytes in network order, aligned as two words.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_gid {
    words: [u64; 2],
}

impl ibv_gid {
    pub(super) fn new(raw: [u8; 16]) -> ibv_gid {
        let half = |from: usize| u64::from_ne_bytes(std::array::from_fn(|at| raw[from + at]));
        ibv_gid { words: [half(0), half(8)] }
    }

    pub(super) fn raw(&self) -> [u8; 16] {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&self.words[0].to_ne_bytes());
        raw[8..].copy_from_slice(&self.words[1].to_ne_bytes());
        raw
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

/// The first 48 bytes of the attributes of a port, which the exported `ibv_query_port` fills.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_port_attr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    /// Room for what newer libraries fill.
    pub newer: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
pub(super) struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut c_void,
    pub cap: ibv_qp_cap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_qp_attr {
    pub qp_state: c_int,
    pub cur_qp_state: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
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

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

pub(super) type DeviceList = *mut *mut ibv_device;
pub(super) type Text = *const c_char;
