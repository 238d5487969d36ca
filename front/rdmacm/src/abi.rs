//! librdmacm's types, mirrored by hand from its public header; names and layout are the header's.
//!
//! The unit test has the C compiler compare every size and offset with the installed header.
#![allow(non_camel_case_types)]

use std::cell::UnsafeCell;

use libc::{c_char, c_int, c_void, sockaddr, sockaddr_storage, socklen_t};

use fairway_verbs::abi::{
    Field, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_pd, ibv_qp, ibv_srq,
};

fairway_verbs::zero! { rdma_conn_param, rdma_route }

pub(crate) const RDMA_CM_EVENT_ADDR_RESOLVED: c_int = 0;
pub(crate) const RDMA_CM_EVENT_ROUTE_RESOLVED: c_int = 2;
pub(crate) const RDMA_CM_EVENT_CONNECT_REQUEST: c_int = 4;
pub(crate) const RDMA_CM_EVENT_CONNECT_RESPONSE: c_int = 5;
pub(crate) const RDMA_CM_EVENT_CONNECT_ERROR: c_int = 6;
pub(crate) const RDMA_CM_EVENT_UNREACHABLE: c_int = 7;
pub(crate) const RDMA_CM_EVENT_REJECTED: c_int = 8;
pub(crate) const RDMA_CM_EVENT_ESTABLISHED: c_int = 9;
pub(crate) const RDMA_CM_EVENT_DISCONNECTED: c_int = 10;
pub(crate) const RDMA_CM_EVENT_TIMEWAIT_EXIT: c_int = 15;

pub(crate) const RDMA_PS_IPOIB: c_int = 0x0002;
pub(crate) const RDMA_PS_TCP: c_int = 0x0106;
pub(crate) const RDMA_PS_UDP: c_int = 0x0111;

/// Default Q_Key of queue pairs that receive datagrams.
pub(crate) const RDMA_UDP_QKEY: u32 = 0x0123_4567;

/// Requests the device's maximum.
pub(crate) const RDMA_MAX_RESP_RES: u8 = 0xff;
pub(crate) const RDMA_MAX_INIT_DEPTH: u8 = 0xff;

pub(crate) const RAI_PASSIVE: c_int = 1;
pub(crate) const RAI_NUMERICHOST: c_int = 2;

pub(crate) const RDMA_OPTION_ID: c_int = 0;
pub(crate) const RDMA_OPTION_IB: c_int = 1;
pub(crate) const RDMA_OPTION_ID_TOS: c_int = 0;
pub(crate) const RDMA_OPTION_ID_REUSEADDR: c_int = 1;
pub(crate) const RDMA_OPTION_ID_AFONLY: c_int = 2;
pub(crate) const RDMA_OPTION_ID_ACK_TIMEOUT: c_int = 3;
pub(crate) const RDMA_OPTION_IB_PATH: c_int = 1;

#[repr(C)]
pub(crate) struct rdma_event_channel {
    pub(crate) fd: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct rdma_ib_addr {
    pub(crate) sgid: ibv_gid,
    pub(crate) dgid: ibv_gid,
    pub(crate) pkey: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct rdma_addr {
    pub(crate) src_storage: sockaddr_storage,
    pub(crate) dst_storage: sockaddr_storage,
    pub(crate) ibaddr: rdma_ib_addr,
}

#[repr(C)]
pub(crate) struct rdma_route {
    /// The program may read this field at any time.
    pub(crate) addr: UnsafeCell<rdma_addr>,
    pub(crate) path_rec: Field<*mut ibv_sa_path_rec>,
    pub(crate) num_paths: Field<c_int>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_sa_path_rec {
    pub(crate) dgid: ibv_gid,
    pub(crate) sgid: ibv_gid,
    pub(crate) dlid: u16,
    pub(crate) slid: u16,
    pub(crate) raw_traffic: c_int,
    pub(crate) flow_label: u32,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) reversible: c_int,
    pub(crate) numb_path: u8,
    pub(crate) pkey: u16,
    pub(crate) sl: u8,
    pub(crate) mtu_selector: u8,
    pub(crate) mtu: u8,
    pub(crate) rate_selector: u8,
    pub(crate) rate: u8,
    pub(crate) packet_life_time_selector: u8,
    pub(crate) packet_life_time: u8,
    pub(crate) preference: u8,
}

#[repr(C)]
pub(crate) struct rdma_cm_id {
    pub(crate) verbs: Field<*mut ibv_context>,
    pub(crate) channel: Field<*mut rdma_event_channel>,
    pub(crate) context: Field<*mut c_void>,
    pub(crate) qp: Field<*mut ibv_qp>,
    pub(crate) route: rdma_route,
    pub(crate) ps: c_int,
    pub(crate) port_num: Field<u8>,
    pub(crate) event: Field<*mut rdma_cm_event>,
    pub(crate) send_cq_channel: Field<*mut ibv_comp_channel>,
    pub(crate) send_cq: Field<*mut ibv_cq>,
    pub(crate) recv_cq_channel: Field<*mut ibv_comp_channel>,
    pub(crate) recv_cq: Field<*mut ibv_cq>,
    pub(crate) srq: Field<*mut ibv_srq>,
    pub(crate) pd: Field<*mut ibv_pd>,
    pub(crate) qp_type: Field<c_int>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct rdma_conn_param {
    pub(crate) private_data: *const c_void,
    pub(crate) private_data_len: u8,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) srq: u8,
    pub(crate) qp_num: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct rdma_ud_param {
    pub(crate) private_data: *const c_void,
    pub(crate) private_data_len: u8,
    pub(crate) ah_attr: ibv_ah_attr,
    pub(crate) qp_num: u32,
    pub(crate) qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union rdma_param {
    pub(crate) conn: rdma_conn_param,
    pub(crate) ud: rdma_ud_param,
}

#[repr(C)]
pub(crate) struct rdma_cm_event {
    pub(crate) id: *mut rdma_cm_id,
    pub(crate) listen_id: *mut rdma_cm_id,
    pub(crate) event: c_int,
    pub(crate) status: c_int,
    pub(crate) param: rdma_param,
}

#[repr(C)]
pub(crate) struct rdma_addrinfo {
    pub(crate) ai_flags: c_int,
    pub(crate) ai_family: c_int,
    pub(crate) ai_qp_type: c_int,
    pub(crate) ai_port_space: c_int,
    pub(crate) ai_src_len: socklen_t,
    pub(crate) ai_dst_len: socklen_t,
    pub(crate) ai_src_addr: *mut sockaddr,
    pub(crate) ai_dst_addr: *mut sockaddr,
    pub(crate) ai_src_canonname: *mut c_char,
    pub(crate) ai_dst_canonname: *mut c_char,
    pub(crate) ai_route_len: usize,
    pub(crate) ai_route: *mut c_void,
    pub(crate) ai_connect_len: usize,
    pub(crate) ai_connect: *mut c_void,
    pub(crate) ai_next: *mut rdma_addrinfo,
}
