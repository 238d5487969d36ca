//! Work requests and completions.
//!
//! Programs leave fields of requests uninitialised that their operation does not use. Those are
//! `MaybeUninit` here, or in a union.

use std::mem::MaybeUninit;

use super::ibv_ah;
use crate::guard::{EINVAL, Result};
use crate::pointer::Chained;
use libc::{c_int, c_uint, c_void};

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_data_buf {
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct wr_rdma {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct wr_atomic {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct wr_ud {
    pub(crate) ah: *mut ibv_ah,
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union wr_target {
    pub(crate) rdma: wr_rdma,
    pub(crate) atomic: wr_atomic,
    pub(crate) ud: wr_ud,
    /// What an operation has that uses none of these.
    #[cfg(test)]
    pub(crate) nothing: (),
}

#[repr(C)]
pub(crate) struct ibv_send_wr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut ibv_send_wr,
    /// Used if `num_sge` is not zero.
    pub(crate) sg_list: MaybeUninit<*mut ibv_sge>,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: c_int,
    pub(crate) send_flags: c_uint,
    /// Immediate data in network order, or the key to be invalidated.
    pub(crate) imm_data: MaybeUninit<u32>,
    pub(crate) wr: wr_target,
    pub(crate) remote_srqn: MaybeUninit<u32>,
    /// Memory windows and TSO, which we do not have: 48 bytes.
    pub(crate) tail: MaybeUninit<[u64; 6]>,
}

#[repr(C)]
pub(crate) struct ibv_recv_wr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut ibv_recv_wr,
    /// Used if `num_sge` is not zero.
    pub(crate) sg_list: MaybeUninit<*mut ibv_sge>,
    pub(crate) num_sge: c_int,
}

macro_rules! requests {
    ($($name:ty),*) => {
        $(impl Chained for $name {
            #[inline]
            fn next(&self) -> *mut $name {
                self.next
            }
        }

        impl $name {
            /// Where the bytes of the request are.
            ///
            /// # Safety
            ///
            /// A program has posted it, and the call has not returned.
            #[inline]
            pub(crate) unsafe fn entries(&self) -> Result<&[ibv_sge]> {
                match usize::try_from(self.num_sge).map_err(|_| EINVAL)? {
                    0 => Ok(&[]),
                    // SAFETY: a request has a list of as many entries as it says.
                    count => Ok(unsafe {
                        std::slice::from_raw_parts(self.sg_list.assume_init(), count)
                    }),
                }
            }
        })*
    };
}

requests!(ibv_send_wr, ibv_recv_wr);

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_wc {
    pub(crate) wr_id: u64,
    pub(crate) status: c_int,
    pub(crate) opcode: c_int,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    /// Immediate data in network order, or the key to be invalidated.
    pub(crate) imm_data: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: c_uint,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}
