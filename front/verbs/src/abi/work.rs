//! Work requests and completions.
//!
//! Programs leave fields of requests uninitialised that their operation does not use. Those are
//! `MaybeUninit` here, or in a union.

use std::mem::MaybeUninit;

use super::{ibv_ah, ibv_sge};
use crate::guard::{EINVAL, Result};
use crate::pointer::Chained;
use libc::{c_int, c_uint, c_void};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_data_buf {
    pub addr: *mut c_void,
    pub length: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union wr_target {
    pub rdma: wr_rdma,
    pub atomic: wr_atomic,
    pub ud: wr_ud,
    /// For operations that use none of the other fields.
    #[cfg(test)]
    pub nothing: (),
}

#[repr(C)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    /// Used if `num_sge` is not zero.
    pub sg_list: MaybeUninit<*mut ibv_sge>,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    /// Immediate data in network order, or the key to be invalidated.
    pub imm_data: MaybeUninit<u32>,
    pub wr: wr_target,
    pub remote_srqn: MaybeUninit<u32>,
    /// Parameters of memory windows and TSO, which are not offered: 48 bytes.
    pub tail: MaybeUninit<[u64; 6]>,
}

#[repr(C)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    /// Used if `num_sge` is not zero.
    pub sg_list: MaybeUninit<*mut ibv_sge>,
    pub num_sge: c_int,
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
            /// Scatter-gather entries of the request.
            ///
            /// # Safety
            ///
            /// A program has posted the request, and the call has not returned.
            #[inline]
            pub unsafe fn entries(&self) -> Result<&[ibv_sge]> {
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
