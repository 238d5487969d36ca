//! Options of ids, and calls that are not offered.

use libc::{c_int, c_void, sockaddr};

use super::abi::*;
use super::id::Id;
use super::resolve::resolve_route;
use fairway_verbs::abi::ibv_ece;
use fairway_verbs::guard::{EINVAL, EOPNOTSUPP, Errno, Result, lock, number};
use fairway_verbs::pointer::{Array, Out, Ptr};

/// The value of an option, which must have exactly `N` bytes.
fn value<const N: usize>(given: Option<&[u8]>) -> Result<[u8; N]> {
    given.ok_or(EINVAL)?.try_into().map_err(|_| EINVAL)
}

fn is_set(given: Option<&[u8]>) -> Result<bool> {
    Ok(c_int::from_ne_bytes(value(given)?) != 0)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_set_option(
    id: Option<Ptr<'_, rdma_cm_id>>,
    level: c_int,
    name: c_int,
    given: Array<'_, u8>,
    length: usize,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        // SAFETY: the program has passed this length.
        let given = unsafe { given.checked(length) };
        let mut inner = lock(&this.core.inner);
        match (level, name) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => {
                [inner.options.tos] = value(given)?;
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
                inner.options.reuse = is_set(given)?;
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
                inner.options.family_only = Some(is_set(given)?);
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => {
                let [timeout] = value(given)?;
                if timeout > 31 {
                    return Err(EINVAL);
                }
                inner.options.ack_timeout = Some(timeout);
            }
            // The kernel chooses the route, so a path that the program found stands for any. A
            // program that has set one does not resolve the route.
            (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => {
                drop(inner);
                given.filter(|given| !given.is_empty()).ok_or(EINVAL)?;
                resolve_route(this)?;
            }
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

/// Accepts and ignores the ECE options, because no vendor options are offered.
#[unsafe(no_mangle)]
extern "C" fn rdma_set_local_ece(id: Option<Ptr<'_, rdma_cm_id>>, ece: Option<&ibv_ece>) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        // If the id has a queue pair of its own, the options would belong to the queue pair.
        if ece.is_none() || !this.base.qp.get().is_null() { Err(EINVAL) } else { Ok(0) }
    })
}

/// Returns no ECE options, because no vendor options are offered.
#[unsafe(no_mangle)]
extern "C" fn rdma_get_remote_ece(
    id: Option<Ptr<'_, rdma_cm_id>>,
    ece: Option<Out<'_, ibv_ece>>,
) -> c_int {
    number(|| {
        let this = Id::of(id)?;
        let ece = ece.filter(|_| this.base.qp.get().is_null()).ok_or(EINVAL)?;
        ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 });
        Ok(0)
    })
}
