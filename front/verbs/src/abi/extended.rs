//! Queue pairs and completion queues with their functions inside.

use super::{Field, ibv_ah, ibv_cq, ibv_data_buf, ibv_qp, ibv_sge};
use libc::{c_int, c_uint, c_void};

#[repr(C)]
pub(crate) struct ibv_qp_ex {
    pub(crate) qp_base: ibv_qp,
    pub(crate) comp_mask: u64,
    pub(crate) wr_id: Field<u64>,
    pub(crate) wr_flags: Field<c_uint>,
    pub(crate) wr_atomic_cmp_swp: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64, u64),
    pub(crate) wr_atomic_fetch_add: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64),
    pub(crate) wr_bind_mw: unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, u32, *const c_void),
    pub(crate) wr_local_inv: unsafe extern "C" fn(*mut ibv_qp_ex, u32),
    pub(crate) wr_rdma_read: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64),
    pub(crate) wr_rdma_write: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64),
    pub(crate) wr_rdma_write_imm: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32),
    pub(crate) wr_send: unsafe extern "C" fn(*mut ibv_qp_ex),
    pub(crate) wr_send_imm: unsafe extern "C" fn(*mut ibv_qp_ex, u32),
    pub(crate) wr_send_inv: unsafe extern "C" fn(*mut ibv_qp_ex, u32),
    pub(crate) wr_send_tso: unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, u16, u16),
    pub(crate) wr_set_ud_addr: unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_ah, u32, u32),
    pub(crate) wr_set_xrc_srqn: unsafe extern "C" fn(*mut ibv_qp_ex, u32),
    pub(crate) wr_set_inline_data: unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, usize),
    pub(crate) wr_set_inline_data_list:
        unsafe extern "C" fn(*mut ibv_qp_ex, usize, *const ibv_data_buf),
    pub(crate) wr_set_sge: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32),
    pub(crate) wr_set_sge_list: unsafe extern "C" fn(*mut ibv_qp_ex, usize, *const ibv_sge),
    pub(crate) wr_start: unsafe extern "C" fn(*mut ibv_qp_ex),
    pub(crate) wr_complete: unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int,
    pub(crate) wr_abort: unsafe extern "C" fn(*mut ibv_qp_ex),
    pub(crate) wr_atomic_write: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, *const c_void),
    /// Newer than Debian 12's header.
    pub(crate) wr_flush: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, usize, u8, u8),
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
    pub(crate) start_poll: unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int,
    pub(crate) next_poll: unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int,
    pub(crate) end_poll: unsafe extern "C" fn(*mut ibv_cq_ex),
    pub(crate) read_opcode: unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int,
    pub(crate) read_vendor_err: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    pub(crate) read_byte_len: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    pub(crate) read_imm_data: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    pub(crate) read_qp_num: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    pub(crate) read_src_qp: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    pub(crate) read_wc_flags: unsafe extern "C" fn(*mut ibv_cq_ex) -> c_uint,
    pub(crate) read_slid: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    pub(crate) read_sl: unsafe extern "C" fn(*mut ibv_cq_ex) -> u8,
    pub(crate) read_dlid_path_bits: unsafe extern "C" fn(*mut ibv_cq_ex) -> u8,
    pub(crate) read_completion_ts: unsafe extern "C" fn(*mut ibv_cq_ex) -> u64,
    pub(crate) read_cvlan: unsafe extern "C" fn(*mut ibv_cq_ex) -> u16,
    pub(crate) read_flow_tag: unsafe extern "C" fn(*mut ibv_cq_ex) -> u32,
    pub(crate) read_tm_info: unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_wc_tm_info),
    pub(crate) read_completion_wallclock_ns: unsafe extern "C" fn(*mut ibv_cq_ex) -> u64,
}
