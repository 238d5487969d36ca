//! Queue pairs and completion queues that contain their function pointers.

use super::{Field, ibv_ah, ibv_cq, ibv_data_buf, ibv_qp, ibv_sge};
use crate::pointer::{Array, Locked, Out, Ptr};
use libc::{c_int, c_uint, c_void};

#[repr(C)]
pub struct ibv_qp_ex {
    pub qp_base: ibv_qp,
    pub comp_mask: u64,
    pub wr_id: Field<u64>,
    pub wr_flags: Field<c_uint>,
    pub wr_atomic_cmp_swp: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u64, u64),
    pub wr_atomic_fetch_add: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u64),
    pub wr_bind_mw: extern "C" fn(Locked<'_, ibv_qp_ex>, *mut c_void, u32, *const c_void),
    pub wr_local_inv: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub wr_rdma_read: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64),
    pub wr_rdma_write: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64),
    pub wr_rdma_write_imm: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u32),
    pub wr_send: extern "C" fn(Locked<'_, ibv_qp_ex>),
    pub wr_send_imm: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub wr_send_inv: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub wr_send_tso: extern "C" fn(Locked<'_, ibv_qp_ex>, *mut c_void, u16, u16),
    pub wr_set_ud_addr: extern "C" fn(Locked<'_, ibv_qp_ex>, Option<Ptr<'_, ibv_ah>>, u32, u32),
    pub wr_set_xrc_srqn: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub wr_set_inline_data: extern "C" fn(Locked<'_, ibv_qp_ex>, *mut c_void, usize),
    pub wr_set_inline_data_list:
        extern "C" fn(Locked<'_, ibv_qp_ex>, usize, Array<'_, ibv_data_buf>),
    pub wr_set_sge: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u32),
    pub wr_set_sge_list: extern "C" fn(Locked<'_, ibv_qp_ex>, usize, Array<'_, ibv_sge>),
    pub wr_start: extern "C" fn(Ptr<'_, ibv_qp_ex>),
    pub wr_complete: extern "C" fn(Locked<'_, ibv_qp_ex>) -> c_int,
    pub wr_abort: extern "C" fn(Locked<'_, ibv_qp_ex>),
    pub wr_atomic_write: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, *const c_void),
    /// Newer than Debian 12's header.
    pub wr_flush: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, usize, u8, u8),
}

#[repr(C)]
pub struct ibv_poll_cq_attr {
    pub comp_mask: u32,
}

#[repr(C)]
pub struct ibv_wc_tm_info {
    pub tag: u64,
    pub private: u32,
}

#[repr(C)]
pub struct ibv_cq_ex {
    pub base: ibv_cq,
    pub comp_mask: u32,
    pub status: Field<c_int>,
    pub wr_id: Field<u64>,
    pub start_poll: extern "C" fn(Ptr<'_, ibv_cq_ex>, Option<&ibv_poll_cq_attr>) -> c_int,
    pub next_poll: extern "C" fn(Locked<'_, ibv_cq_ex>) -> c_int,
    pub end_poll: extern "C" fn(Locked<'_, ibv_cq_ex>),
    pub read_opcode: extern "C" fn(Locked<'_, ibv_cq_ex>) -> c_int,
    pub read_vendor_err: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub read_byte_len: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub read_imm_data: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub read_qp_num: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub read_src_qp: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub read_wc_flags: extern "C" fn(Locked<'_, ibv_cq_ex>) -> c_uint,
    pub read_slid: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub read_sl: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u8,
    pub read_dlid_path_bits: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u8,
    pub read_completion_ts: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u64,
    pub read_cvlan: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u16,
    pub read_flow_tag: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub read_tm_info: extern "C" fn(Locked<'_, ibv_cq_ex>, Out<'_, ibv_wc_tm_info>),
    pub read_completion_wallclock_ns: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u64,
}
