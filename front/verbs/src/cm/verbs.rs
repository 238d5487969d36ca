//! The calls of libibverbs that are used here: those a program would make, too.

use libc::{c_int, c_void};

use crate::abi::*;
use crate::pointer::Ptr;

unsafe extern "C" {
    pub(super) fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    pub(super) fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    pub(super) fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    pub(super) fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    pub(super) fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    pub(super) fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    pub(super) fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    pub(super) fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    pub(super) fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    pub(super) fn ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    pub(super) fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
}

/// The table behind a context.
///
/// # Safety
///
/// `context` is a context of ours.
unsafe fn table<'a>(context: *mut ibv_context) -> &'a verbs_context {
    let front = std::mem::offset_of!(verbs_context, context);
    // SAFETY: the `ibv_context` is a part of a `verbs_context`, at this place.
    unsafe { &*context.byte_sub(front).cast::<verbs_context>() }
}

/// `ibv_create_qp_ex`, which is inline in the header.
///
/// # Safety
///
/// As libibverbs says.
pub(super) unsafe fn create_qp_ex(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: as the caller says.
    unsafe { (table(context).create_qp_ex)(Ptr::kept(context), &mut *init) }
}

/// `ibv_create_srq_ex`, likewise.
///
/// # Safety
///
/// As libibverbs says.
pub(super) unsafe fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: as the caller says.
    unsafe { (table(context).create_srq_ex)(Ptr::kept(context), &mut *init) }
}
