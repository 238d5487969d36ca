//! Functions that libibverbs exports and this library does not offer: drivers' entries to the
//! kernel, and calls without meaning for software. Libraries that a program loads (it is linked to
//! providers by name) fail to load if one of these names is missing; none is ever called.
//!
//! In C, a function may be called with more arguments than it takes. These take none.

use std::ptr::null_mut;

use libc::{c_int, c_void};

use crate::guard::{EOPNOTSUPP, set_errno};

/// Defines functions that return an error number.
macro_rules! unsupported_status {
    ($($name:ident),* $(,)?) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            set_errno(EOPNOTSUPP);
            libc::EOPNOTSUPP
        })*
    };
}

/// Defines functions that return a null pointer instead of an object.
macro_rules! unsupported_object {
    ($($name:ident),* $(,)?) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> *mut c_void {
            set_errno(EOPNOTSUPP);
            null_mut()
        })*
    };
}

/// Defines functions that return nothing and do nothing.
macro_rules! nothing {
    ($($name:ident),* $(,)?) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() {})*
    };
}

unsupported_status! {
    ibv_cmd_advise_mr,
    ibv_cmd_alloc_dm,
    ibv_cmd_alloc_dmah,
    ibv_cmd_alloc_mw,
    ibv_cmd_alloc_pd,
    ibv_cmd_attach_mcast,
    ibv_cmd_close_xrcd,
    ibv_cmd_create_ah,
    ibv_cmd_create_comp_cntr,
    ibv_cmd_create_counters,
    ibv_cmd_create_cq,
    ibv_cmd_create_cq_ex,
    ibv_cmd_create_cq_ex2,
    ibv_cmd_create_flow,
    ibv_cmd_create_flow_action_esp,
    ibv_cmd_create_qp,
    ibv_cmd_create_qp_ex,
    ibv_cmd_create_qp_ex2,
    ibv_cmd_create_rwq_ind_table,
    ibv_cmd_create_srq,
    ibv_cmd_create_srq_ex,
    ibv_cmd_create_wq,
    ibv_cmd_dealloc_mw,
    ibv_cmd_dealloc_pd,
    ibv_cmd_dereg_mr,
    ibv_cmd_destroy_ah,
    ibv_cmd_destroy_comp_cntr,
    ibv_cmd_destroy_counters,
    ibv_cmd_destroy_cq,
    ibv_cmd_destroy_flow,
    ibv_cmd_destroy_flow_action,
    ibv_cmd_destroy_qp,
    ibv_cmd_destroy_rwq_ind_table,
    ibv_cmd_destroy_srq,
    ibv_cmd_destroy_wq,
    ibv_cmd_detach_mcast,
    ibv_cmd_export_dmabuf_fd,
    ibv_cmd_free_dm,
    ibv_cmd_free_dmah,
    ibv_cmd_get_context,
    ibv_cmd_inc_comp_cntr,
    ibv_cmd_inc_err_comp_cntr,
    ibv_cmd_modify_cq,
    ibv_cmd_modify_flow_action_esp,
    ibv_cmd_modify_qp,
    ibv_cmd_modify_qp_ex,
    ibv_cmd_modify_srq,
    ibv_cmd_modify_wq,
    ibv_cmd_open_qp,
    ibv_cmd_open_xrcd,
    ibv_cmd_poll_cq,
    ibv_cmd_post_recv,
    ibv_cmd_post_send,
    ibv_cmd_post_srq_recv,
    ibv_cmd_qp_attach_comp_cntr,
    ibv_cmd_query_comp_cntr_caps,
    ibv_cmd_query_context,
    ibv_cmd_query_device_any,
    ibv_cmd_query_mr,
    ibv_cmd_query_port,
    ibv_cmd_query_port_speed,
    ibv_cmd_query_qp,
    ibv_cmd_query_srq,
    ibv_cmd_read_comp_cntr,
    ibv_cmd_read_counters,
    ibv_cmd_read_err_comp_cntr,
    ibv_cmd_reg_dm_mr,
    ibv_cmd_reg_dmabuf_mr,
    ibv_cmd_reg_mr,
    ibv_cmd_reg_mr_ex,
    ibv_cmd_req_notify_cq,
    ibv_cmd_rereg_mr,
    ibv_cmd_resize_cq,
    ibv_cmd_set_comp_cntr,
    ibv_cmd_set_err_comp_cntr,
    __ioctl_final_num_attrs,
    _ibv_query_comp_cntr_caps,
    execute_ioctl,
    ibv_dealloc_dmah,
    ibv_destroy_comp_cntr,
    ibv_dmabuf_heap_alloc,
    ibv_dmabuf_heap_cc_shared_init,
    ibv_inc_comp_cntr,
    ibv_inc_err_comp_cntr,
    ibv_qp_attach_comp_cntr,
    ibv_read_comp_cntr,
    ibv_read_err_comp_cntr,
    ibv_set_comp_cntr,
    ibv_set_err_comp_cntr,
    verbs_init_cq,
}

unsupported_object! {
    _verbs_init_and_alloc_context,
    ibv_alloc_buf,
    ibv_alloc_dmah,
    ibv_create_comp_cntr,
    ibv_import_dm,
    ibv_import_mr,
    ibv_reg_buf_mr,
    ibv_reg_mr_ex,
    verbs_open_device,
}

nothing! {
    __verbs_log,
    ibv_copy_ah_attr_from_kern,
    ibv_copy_path_rec_from_kern,
    ibv_copy_path_rec_to_kern,
    ibv_copy_qp_attr_from_kern,
    ibv_dmabuf_heap_destroy,
    ibv_dmabuf_heap_free,
    ibv_free_buf,
    ibv_register_driver,
    ibv_unimport_dm,
    ibv_unimport_mr,
    ibv_unimport_pd,
    verbs_register_driver_34,
    verbs_set_ops,
    verbs_uninit_context,
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dm_export_dmabuf_fd() -> c_int {
    set_errno(EOPNOTSUPP);
    -1
}

#[unsafe(no_mangle)]
extern "C" fn ibv_export_buf_dmabuf_fd() -> c_int {
    set_errno(EOPNOTSUPP);
    -1
}

/// Read by drivers, never written.
#[unsafe(no_mangle)]
static verbs_allow_disassociate_destroy: u8 = 0;

/// Succeeds without doing anything: memory is found by its address in this process, which a child
/// never touches, so `fork` needs no preparation.
#[unsafe(no_mangle)]
extern "C" fn ibv_fork_init() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_is_fork_initialized() -> c_int {
    const UNNEEDED: c_int = 2;
    UNNEEDED
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dontfork_range(_: *mut c_void, _: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dofork_range(_: *mut c_void, _: usize) -> c_int {
    0
}
