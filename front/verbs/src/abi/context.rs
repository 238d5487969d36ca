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
pub(crate) struct ibv_device {
    pub(crate) ops: [*mut c_void; 2],
    pub(crate) node_type: c_int,
    pub(crate) transport_type: c_int,
    pub(crate) name: [c_char; 64],
    pub(crate) dev_name: [c_char; 64],
    pub(crate) dev_path: [c_char; 256],
    pub(crate) ibdev_path: [c_char; 256],
}

/// Stands in slots that no longer have a meaning.
pub(crate) type Compat = extern "C" fn() -> *mut c_void;
/// A function that we do not offer: it ignores what it is given.
pub(crate) type NoPointer = extern "C" fn() -> *mut c_void;
/// Likewise, of those that return an error number.
pub(crate) type NoStatus = extern "C" fn() -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_context_ops {
    pub(crate) compat_query_device:
        extern "C" fn(Ptr<'_, ibv_context>, Out<'_, ibv_device_attr>) -> c_int,
    pub(crate) compat_query_port:
        extern "C" fn(Ptr<'_, ibv_context>, u8, Out<'_, ibv_port_attr>) -> c_int,
    pub(crate) compat_pd_mr: [Compat; 5],
    pub(crate) alloc_mw: NoPointer,
    pub(crate) bind_mw: NoStatus,
    pub(crate) dealloc_mw: NoStatus,
    pub(crate) compat_create_cq: Compat,
    pub(crate) poll_cq: extern "C" fn(Ptr<'_, ibv_cq>, c_int, Array<'_, ibv_wc>) -> c_int,
    pub(crate) req_notify_cq: extern "C" fn(Ptr<'_, ibv_cq>, c_int) -> c_int,
    pub(crate) compat_cq_srq: [Compat; 7],
    pub(crate) post_srq_recv: extern "C" fn(
        Ptr<'_, ibv_srq>,
        List<'_, ibv_recv_wr>,
        Option<Out<'_, *mut ibv_recv_wr>>,
    ) -> c_int,
    pub(crate) compat_qp: [Compat; 4],
    pub(crate) post_send: extern "C" fn(
        Ptr<'_, ibv_qp>,
        List<'_, ibv_send_wr>,
        Option<Out<'_, *mut ibv_send_wr>>,
    ) -> c_int,
    pub(crate) post_recv: extern "C" fn(
        Ptr<'_, ibv_qp>,
        List<'_, ibv_recv_wr>,
        Option<Out<'_, *mut ibv_recv_wr>>,
    ) -> c_int,
    pub(crate) compat_rest: [Compat; 5],
}

#[repr(C)]
pub(crate) struct ibv_context {
    pub(crate) device: *mut ibv_device,
    pub(crate) ops: ibv_context_ops,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: pthread_mutex_t,
    pub(crate) abi_compat: *mut c_void,
}

/// The newest layout (v65). It grows upwards: a program that was compiled against an older header
/// counts back from `context`, and finds its fields.
#[repr(C)]
pub(crate) struct verbs_context {
    pub(crate) free_buf: NoStatus,
    pub(crate) alloc_buf: NoPointer,
    pub(crate) dm_export_dmabuf_fd: extern "C" fn() -> c_int,
    pub(crate) reg_mr_ex: NoPointer,
    pub(crate) dealloc_dmah: NoStatus,
    pub(crate) alloc_dmah: NoPointer,
    pub(crate) query_port:
        extern "C" fn(Ptr<'_, ibv_context>, u8, Out<'_, ibv_port_attr>, usize) -> c_int,
    pub(crate) advise_mr: NoStatus,
    pub(crate) alloc_null_mr: NoPointer,
    pub(crate) read_counters: NoStatus,
    pub(crate) attach_counters_point_flow: NoStatus,
    pub(crate) create_counters: NoPointer,
    pub(crate) destroy_counters: NoStatus,
    pub(crate) reg_dm_mr: NoPointer,
    pub(crate) alloc_dm: NoPointer,
    pub(crate) free_dm: NoStatus,
    pub(crate) modify_flow_action_esp: NoStatus,
    pub(crate) destroy_flow_action: NoStatus,
    pub(crate) create_flow_action_esp: NoPointer,
    pub(crate) modify_qp_rate_limit: NoStatus,
    pub(crate) alloc_parent_domain:
        extern "C" fn(Ptr<'_, ibv_context>, &ibv_parent_domain_init_attr) -> *mut ibv_pd,
    pub(crate) dealloc_td: extern "C" fn(Last<'_, ibv_td>) -> c_int,
    pub(crate) alloc_td: extern "C" fn(Ptr<'_, ibv_context>, &ibv_td_init_attr) -> *mut ibv_td,
    pub(crate) modify_cq: extern "C" fn(Ptr<'_, ibv_cq>, &ibv_modify_cq_attr) -> c_int,
    pub(crate) post_srq_ops: NoStatus,
    pub(crate) destroy_rwq_ind_table: NoStatus,
    pub(crate) create_rwq_ind_table: NoPointer,
    pub(crate) destroy_wq: NoStatus,
    pub(crate) modify_wq: NoStatus,
    pub(crate) create_wq: NoPointer,
    pub(crate) query_rt_values: extern "C" fn(Ptr<'_, ibv_context>, &mut ibv_values_ex) -> c_int,
    pub(crate) create_cq_ex:
        extern "C" fn(Ptr<'_, ibv_context>, &ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
    pub(crate) private: *mut c_void,
    pub(crate) query_device_ex: extern "C" fn(
        Ptr<'_, ibv_context>,
        Option<&u32>,
        Out<'_, ibv_device_attr_ex>,
        usize,
    ) -> c_int,
    pub(crate) ibv_destroy_flow: NoStatus,
    pub(crate) placeholder2: *mut c_void,
    pub(crate) ibv_create_flow: NoPointer,
    pub(crate) placeholder1: *mut c_void,
    pub(crate) open_qp: NoPointer,
    pub(crate) create_qp_ex:
        extern "C" fn(Ptr<'_, ibv_context>, &mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
    pub(crate) get_srq_num: extern "C" fn(Ptr<'_, ibv_srq>, Out<'_, u32>) -> c_int,
    pub(crate) create_srq_ex:
        extern "C" fn(Ptr<'_, ibv_context>, &mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
    pub(crate) open_xrcd: NoPointer,
    pub(crate) close_xrcd: NoStatus,
    pub(crate) placeholder3: u64,
    pub(crate) sz: usize,
    pub(crate) context: ibv_context,
}
