//! Devices, contexts, and the tables of functions that the header's inline functions jump through.

use super::{
    ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device_attr, ibv_device_attr_ex,
    ibv_modify_cq_attr, ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_qp_init_attr_ex, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_srq_init_attr_ex, ibv_td,
    ibv_td_init_attr, ibv_values_ex, ibv_wc,
};
use crate::pointer::{Array, Last, List, Out, Ptr};
use libc::{c_char, c_int, c_void, pthread_mutex_t};

#[repr(C)]
pub struct ibv_device {
    pub ops: [*mut c_void; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; 64],
    pub dev_name: [c_char; 64],
    pub dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}

/// Type of slots that no longer have a meaning.
pub type Compat = extern "C" fn() -> *mut c_void;
/// A function that this library does not offer and that returns a null pointer. It ignores its
/// arguments.
pub type NoPointer = extern "C" fn() -> *mut c_void;
/// A function that this library does not offer and that returns an error number. It ignores its
/// arguments.
pub type NoStatus = extern "C" fn() -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_context_ops {
    pub compat_query_device: extern "C" fn(Ptr<'_, ibv_context>, Out<'_, ibv_device_attr>) -> c_int,
    pub compat_query_port: extern "C" fn(Ptr<'_, ibv_context>, u8, Out<'_, ibv_port_attr>) -> c_int,
    pub compat_pd_mr: [Compat; 5],
    pub alloc_mw: NoPointer,
    pub bind_mw: NoStatus,
    pub dealloc_mw: NoStatus,
    pub compat_create_cq: Compat,
    pub poll_cq: extern "C" fn(Ptr<'_, ibv_cq>, c_int, Array<'_, ibv_wc>) -> c_int,
    pub req_notify_cq: extern "C" fn(Ptr<'_, ibv_cq>, c_int) -> c_int,
    pub compat_cq_srq: [Compat; 7],
    pub post_srq_recv: extern "C" fn(
        Ptr<'_, ibv_srq>,
        List<'_, ibv_recv_wr>,
        Option<Out<'_, *mut ibv_recv_wr>>,
    ) -> c_int,
    pub compat_qp: [Compat; 4],
    pub post_send: extern "C" fn(
        Ptr<'_, ibv_qp>,
        List<'_, ibv_send_wr>,
        Option<Out<'_, *mut ibv_send_wr>>,
    ) -> c_int,
    pub post_recv: extern "C" fn(
        Ptr<'_, ibv_qp>,
        List<'_, ibv_recv_wr>,
        Option<Out<'_, *mut ibv_recv_wr>>,
    ) -> c_int,
    pub compat_rest: [Compat; 5],
}

#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// The newest layout (v65). It grows upwards: a program that was compiled against an older header
/// finds its fields by counting back from `context`.
#[repr(C)]
pub struct verbs_context {
    pub free_buf: NoStatus,
    pub alloc_buf: NoPointer,
    pub dm_export_dmabuf_fd: extern "C" fn() -> c_int,
    pub reg_mr_ex: NoPointer,
    pub dealloc_dmah: NoStatus,
    pub alloc_dmah: NoPointer,
    pub query_port: extern "C" fn(Ptr<'_, ibv_context>, u8, Out<'_, ibv_port_attr>, usize) -> c_int,
    pub advise_mr: NoStatus,
    pub alloc_null_mr: NoPointer,
    pub read_counters: NoStatus,
    pub attach_counters_point_flow: NoStatus,
    pub create_counters: NoPointer,
    pub destroy_counters: NoStatus,
    pub reg_dm_mr: NoPointer,
    pub alloc_dm: NoPointer,
    pub free_dm: NoStatus,
    pub modify_flow_action_esp: NoStatus,
    pub destroy_flow_action: NoStatus,
    pub create_flow_action_esp: NoPointer,
    pub modify_qp_rate_limit: NoStatus,
    pub alloc_parent_domain:
        extern "C" fn(Ptr<'_, ibv_context>, &ibv_parent_domain_init_attr) -> *mut ibv_pd,
    pub dealloc_td: extern "C" fn(Last<'_, ibv_td>) -> c_int,
    pub alloc_td: extern "C" fn(Ptr<'_, ibv_context>, &ibv_td_init_attr) -> *mut ibv_td,
    pub modify_cq: extern "C" fn(Ptr<'_, ibv_cq>, &ibv_modify_cq_attr) -> c_int,
    pub post_srq_ops: NoStatus,
    pub destroy_rwq_ind_table: NoStatus,
    pub create_rwq_ind_table: NoPointer,
    pub destroy_wq: NoStatus,
    pub modify_wq: NoStatus,
    pub create_wq: NoPointer,
    pub query_rt_values: extern "C" fn(Ptr<'_, ibv_context>, &mut ibv_values_ex) -> c_int,
    pub create_cq_ex: extern "C" fn(Ptr<'_, ibv_context>, &ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
    pub private: *mut c_void,
    pub query_device_ex: extern "C" fn(
        Ptr<'_, ibv_context>,
        Option<&u32>,
        Out<'_, ibv_device_attr_ex>,
        usize,
    ) -> c_int,
    pub ibv_destroy_flow: NoStatus,
    pub placeholder2: *mut c_void,
    pub ibv_create_flow: NoPointer,
    pub placeholder1: *mut c_void,
    pub open_qp: NoPointer,
    pub create_qp_ex: extern "C" fn(Ptr<'_, ibv_context>, &mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
    pub get_srq_num: extern "C" fn(Ptr<'_, ibv_srq>, Out<'_, u32>) -> c_int,
    pub create_srq_ex:
        extern "C" fn(Ptr<'_, ibv_context>, &mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
    pub open_xrcd: NoPointer,
    pub close_xrcd: NoStatus,
    pub placeholder3: u64,
    pub sz: usize,
    pub context: ibv_context,
}
