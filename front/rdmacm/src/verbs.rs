//! The calls of libibverbs that are used here, which programs may call, too.

use libc::{c_int, c_void};

use fairway_verbs::abi::*;
use fairway_verbs::pointer::{Last, Ptr};

// SAFETY: this library defines these functions, with these types.
unsafe extern "C" {
    pub(super) safe fn ibv_open_device(device: Ptr<'_, ibv_device>) -> *mut ibv_context;
    pub(super) safe fn ibv_alloc_pd(context: Ptr<'_, ibv_context>) -> *mut ibv_pd;
    pub(super) safe fn ibv_create_comp_channel(
        context: Ptr<'_, ibv_context>,
    ) -> *mut ibv_comp_channel;
    pub(super) safe fn ibv_destroy_comp_channel(channel: Last<'_, ibv_comp_channel>) -> c_int;
    pub(super) safe fn ibv_create_cq(
        context: Ptr<'_, ibv_context>,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: Option<Ptr<'_, ibv_comp_channel>>,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    pub(super) safe fn ibv_destroy_cq(cq: Last<'_, ibv_cq>) -> c_int;
    pub(super) safe fn ibv_create_qp(
        pd: Option<Ptr<'_, ibv_pd>>,
        init: &mut ibv_qp_init_attr,
    ) -> *mut ibv_qp;
    pub(super) safe fn ibv_destroy_qp(qp: Last<'_, ibv_qp>) -> c_int;
    pub(super) safe fn ibv_modify_qp(qp: Ptr<'_, ibv_qp>, attr: &ibv_qp_attr, mask: c_int)
    -> c_int;
    pub(super) safe fn ibv_create_srq(
        pd: Ptr<'_, ibv_pd>,
        init: &mut ibv_srq_init_attr,
    ) -> *mut ibv_srq;
    pub(super) safe fn ibv_destroy_srq(srq: Last<'_, ibv_srq>) -> c_int;
}

/// The extended table of a context.
fn table(context: Ptr<'_, ibv_context>) -> &verbs_context {
    let front = std::mem::offset_of!(verbs_context, context);
    // SAFETY: the `ibv_context` is a part of a `verbs_context`, at this place.
    unsafe { &*context.raw().byte_sub(front).cast::<verbs_context>() }
}

/// `ibv_create_qp_ex`, which is inline in the header.
pub(super) fn create_qp_ex(
    context: Ptr<'_, ibv_context>,
    init: &mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    (table(context).create_qp_ex)(context, init)
}

/// `ibv_create_srq_ex`, likewise.
pub(super) fn create_srq_ex(
    context: Ptr<'_, ibv_context>,
    init: &mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    (table(context).create_srq_ex)(context, init)
}
