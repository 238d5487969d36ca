//! Queue pairs and completion queues with their functions inside.

use super::{Field, ibv_ah, ibv_cq, ibv_data_buf, ibv_qp, ibv_sge};
use crate::pointer::{Array, Locked, Out, Ptr};
use libc::{c_int, c_uint, c_void};

#[repr(C)]
pub(crate) struct ibv_qp_ex {
    pub(crate) qp_base: ibv_qp,
    pub(crate) comp_mask: u64,
    pub(crate) wr_id: Field<u64>,
    pub(crate) wr_flags: Field<c_uint>,
    pub(crate) wr_atomic_cmp_swp: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u64, u64),
    pub(crate) wr_atomic_fetch_add: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u64),
    pub(crate) wr_bind_mw: extern "C" fn(Locked<'_, ibv_qp_ex>, *mut c_void, u32, *const c_void),
    pub(crate) wr_local_inv: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub(crate) wr_rdma_read: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64),
    pub(crate) wr_rdma_write: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64),
    pub(crate) wr_rdma_write_imm: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u32),
    pub(crate) wr_send: extern "C" fn(Locked<'_, ibv_qp_ex>),
    pub(crate) wr_send_imm: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub(crate) wr_send_inv: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub(crate) wr_send_tso: extern "C" fn(Locked<'_, ibv_qp_ex>, *mut c_void, u16, u16),
    pub(crate) wr_set_ud_addr:
        extern "C" fn(Locked<'_, ibv_qp_ex>, Option<Ptr<'_, ibv_ah>>, u32, u32),
    pub(crate) wr_set_xrc_srqn: extern "C" fn(Locked<'_, ibv_qp_ex>, u32),
    pub(crate) wr_set_inline_data: extern "C" fn(Locked<'_, ibv_qp_ex>, *mut c_void, usize),
    pub(crate) wr_set_inline_data_list:
        extern "C" fn(Locked<'_, ibv_qp_ex>, usize, Array<'_, ibv_data_buf>),
    pub(crate) wr_set_sge: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, u32),
    pub(crate) wr_set_sge_list: extern "C" fn(Locked<'_, ibv_qp_ex>, usize, Array<'_, ibv_sge>),
    pub(crate) wr_start: extern "C" fn(Ptr<'_, ibv_qp_ex>),
    pub(crate) wr_complete: extern "C" fn(Locked<'_, ibv_qp_ex>) -> c_int,
    pub(crate) wr_abort: extern "C" fn(Locked<'_, ibv_qp_ex>),
    pub(crate) wr_atomic_write: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, *const c_void),
    /// Newer than Debian 12's header.
    pub(crate) wr_flush: extern "C" fn(Locked<'_, ibv_qp_ex>, u32, u64, usize, u8, u8),
}

#[repr(C)]
pub(crate) struct ibv_poll_cq_attr {
    pub(crate) comp_mask: u32,
}

#[repr(C)]
pub(crate) struct ibv_wc_tm_info {
    pub(crate) tag: u64,
    pub(crate) private: u32,
}

#[repr(C)]
pub(crate) struct ibv_cq_ex {
    pub(crate) base: ibv_cq,
    pub(crate) comp_mask: u32,
    pub(crate) status: Field<c_int>,
    pub(crate) wr_id: Field<u64>,
    pub(crate) start_poll: extern "C" fn(Ptr<'_, ibv_cq_ex>, Option<&ibv_poll_cq_attr>) -> c_int,
    pub(crate) next_poll: extern "C" fn(Locked<'_, ibv_cq_ex>) -> c_int,
    pub(crate) end_poll: extern "C" fn(Locked<'_, ibv_cq_ex>),
    pub(crate) read_opcode: extern "C" fn(Locked<'_, ibv_cq_ex>) -> c_int,
    pub(crate) read_vendor_err: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub(crate) read_byte_len: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub(crate) read_imm_data: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub(crate) read_qp_num: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub(crate) read_src_qp: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub(crate) read_wc_flags: extern "C" fn(Locked<'_, ibv_cq_ex>) -> c_uint,
    pub(crate) read_slid: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub(crate) read_sl: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u8,
    pub(crate) read_dlid_path_bits: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u8,
    pub(crate) read_completion_ts: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u64,
    pub(crate) read_cvlan: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u16,
    pub(crate) read_flow_tag: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u32,
    pub(crate) read_tm_info: extern "C" fn(Locked<'_, ibv_cq_ex>, Out<'_, ibv_wc_tm_info>),
    pub(crate) read_completion_wallclock_ns: extern "C" fn(Locked<'_, ibv_cq_ex>) -> u64,
}
