//! The tables of functions in a context. Every slot is filled, because programs call most of them
//! without checking.

use std::ptr::null_mut;

use libc::{c_int, c_void};

use crate::abi::{ibv_context, ibv_context_ops, verbs_context};
use crate::guard::{EOPNOTSUPP, set_errno};
use crate::{cq, memory, post, qp, query, srq};

extern "C" fn no_object() -> *mut c_void {
    set_errno(EOPNOTSUPP);
    null_mut()
}

extern "C" fn no_status() -> c_int {
    set_errno(EOPNOTSUPP);
    libc::EOPNOTSUPP
}

extern "C" fn no_number() -> c_int {
    set_errno(EOPNOTSUPP);
    -1
}

pub(crate) const OPERATIONS: ibv_context_ops = ibv_context_ops {
    compat_query_device: query::ibv_query_device,
    compat_query_port: query::ibv_query_port,
    compat_pd_mr: [no_object; 5],
    alloc_mw: no_object,
    bind_mw: no_status,
    dealloc_mw: no_status,
    compat_create_cq: no_object,
    poll_cq: cq::poll,
    req_notify_cq: cq::request_notification,
    compat_cq_srq: [no_object; 7],
    post_srq_recv: srq::post_receives,
    compat_qp: [no_object; 4],
    post_send: post::post_send,
    post_recv: post::post_receive,
    compat_rest: [no_object; 5],
};

/// Returns the extended table around a context.
pub(crate) fn verbs_context(context: ibv_context) -> verbs_context {
    verbs_context {
        free_buf: no_status,
        alloc_buf: no_object,
        dm_export_dmabuf_fd: no_number,
        reg_mr_ex: no_object,
        dealloc_dmah: no_status,
        alloc_dmah: no_object,
        query_port: query::query_port,
        advise_mr: no_status,
        alloc_null_mr: no_object,
        read_counters: no_status,
        attach_counters_point_flow: no_status,
        create_counters: no_object,
        destroy_counters: no_status,
        reg_dm_mr: no_object,
        alloc_dm: no_object,
        free_dm: no_status,
        modify_flow_action_esp: no_status,
        destroy_flow_action: no_status,
        create_flow_action_esp: no_object,
        modify_qp_rate_limit: no_status,
        alloc_parent_domain: memory::alloc_parent_domain,
        dealloc_td: memory::dealloc_td,
        alloc_td: memory::alloc_td,
        modify_cq: cq::modify,
        post_srq_ops: no_status,
        destroy_rwq_ind_table: no_status,
        create_rwq_ind_table: no_object,
        destroy_wq: no_status,
        modify_wq: no_status,
        create_wq: no_object,
        query_rt_values: query::query_rt_values,
        create_cq_ex: cq::create_ex,
        private: null_mut(),
        query_device_ex: query::query_device_ex,
        ibv_destroy_flow: no_status,
        placeholder2: null_mut(),
        ibv_create_flow: no_object,
        placeholder1: null_mut(),
        open_qp: no_object,
        create_qp_ex: qp::create_ex,
        get_srq_num: srq::number,
        create_srq_ex: srq::create_ex,
        open_xrcd: no_object,
        close_xrcd: no_status,
        placeholder3: 0,
        sz: size_of::<verbs_context>(),
        context,
    }
}
