//! Options of ids, and what is not offered.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps librdmacm's
// contract: ids are alive, and values as long as is said.

use libc::{c_int, c_void, sockaddr};

use super::abi::*;
use super::id::Id;
use crate::abi::ibv_ece;
use crate::guard::{EINVAL, EOPNOTSUPP, Errno, Result, lock, number};

/// An option's value, of the size it must have.
unsafe fn value<T: Copy>(value: *const c_void, length: usize) -> Result<T> {
    if value.is_null() || length != size_of::<T>() {
        return Err(EINVAL);
    }
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    name: c_int,
    given: *mut c_void,
    length: usize,
) -> c_int {
    number(|| {
        let this = unsafe { Id::of(id)? };
        let mut inner = lock(&this.core.inner);
        match (level, name) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => {
                inner.options.tos = unsafe { value(given, length)? };
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
                inner.options.reuse = unsafe { value::<c_int>(given, length)? } != 0;
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
                inner.options.family_only = unsafe { value::<c_int>(given, length)? } != 0;
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => {
                let timeout: u8 = unsafe { value(given, length)? };
                if timeout > 31 {
                    return Err(EINVAL);
                }
                inner.options.ack_timeout = Some(timeout);
            }
            // The way is the kernel's to choose: a path that the program found is not needed.
            (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => {}
            _ => return Err(Errno(libc::ENOSYS)),
        }
        Ok(0)
    })
}

/// Multicast is not offered.
#[unsafe(no_mangle)]
extern "C" fn rdma_join_multicast(_: *mut rdma_cm_id, _: *mut sockaddr, _: *mut c_void) -> c_int {
    number(|| Err(EOPNOTSUPP))
}

/// Multicast is not offered.
#[unsafe(no_mangle)]
extern "C" fn rdma_join_multicast_ex(_: *mut rdma_cm_id, _: *mut c_void, _: *mut c_void) -> c_int {
    number(|| Err(EOPNOTSUPP))
}

/// Multicast is not offered.
#[unsafe(no_mangle)]
extern "C" fn rdma_leave_multicast(_: *mut rdma_cm_id, _: *mut sockaddr) -> c_int {
    number(|| Err(EOPNOTSUPP))
}

/// There are no options of a vendor: none are sent, whatever is asked.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    number(|| {
        let this = unsafe { Id::of(id)? };
        // With a queue pair of its own, they would be the queue pair's.
        if ece.is_null() || !this.base.qp.get().is_null() { Err(EINVAL) } else { Ok(0) }
    })
}

/// There are no options of a vendor.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    number(|| {
        let this = unsafe { Id::of(id)? };
        if ece.is_null() || !this.base.qp.get().is_null() {
            return Err(EINVAL);
        }
        unsafe { ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 }) };
        Ok(0)
    })
}
