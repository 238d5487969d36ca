//! Calls of a process that has no file descriptor left. The test runs itself again in a process of
//! its own, because the limit of descriptors is that of the whole process.

// SAFETY (all unsafe code of this file): the contract of librdmacm is kept: ids are given back
// once, after their last use, and results point to room for them.

use std::ptr::null_mut;

use libc::{c_int, sockaddr};

use super::*;
use fairway_verbs::abi::{IBV_QPT_RC, ibv_pd, ibv_qp_cap, ibv_qp_init_attr};

unsafe extern "C" {
    fn rdma_create_ep(
        id: *mut *mut rdma_cm_id,
        info: *const rdma_addrinfo,
        pd: *mut ibv_pd,
        init: *mut ibv_qp_init_attr,
    ) -> c_int;
    fn rdma_destroy_ep(id: *mut rdma_cm_id);
    fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
    fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    fn rdma_get_request(listener: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int;
    fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16;
}

/// Environment variable of the process that has the test for itself.
const ALONE: &str = "FAIRWAY_TEST_DESCRIPTORS";

/// Runs a call while no descriptor is free. Returns errno if it fails.
fn without_descriptors(call: impl FnOnce() -> c_int) -> Option<c_int> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    unsafe { assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits), 0) };
    let none = libc::rlimit { rlim_cur: 0, ..limits };
    unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &none), 0) };
    let failed = call() != 0;
    let error = std::io::Error::last_os_error().raw_os_error();
    unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limits), 0) };
    error.filter(|_| failed)
}

fn init() -> ibv_qp_init_attr {
    let (max_send_wr, max_recv_wr, max_send_sge, max_recv_sge) = (1, 1, 1, 1);
    let max_inline_data = 0;
    ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        cap: ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data },
        qp_type: IBV_QPT_RC,
        sq_sig_all: 1,
    }
}

/// Creates an endpoint at, or towards, a port of this host.
fn endpoint(flags: c_int, port: u16) -> *mut rdma_cm_id {
    let mut storage = address::write(SocketAddr::from(([127, 0, 0, 1], port)));
    let at: *mut sockaddr = (&raw mut storage).cast();
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // Zeroes stand for nothing in it.
    let mut info: rdma_addrinfo = unsafe { std::mem::zeroed() };
    (info.ai_flags, info.ai_family) = (flags, libc::AF_INET);
    (info.ai_qp_type, info.ai_port_space) = (IBV_QPT_RC, RDMA_PS_TCP);
    match flags & RAI_PASSIVE != 0 {
        true => (info.ai_src_addr, info.ai_src_len) = (at, length),
        false => (info.ai_dst_addr, info.ai_dst_len) = (at, length),
    }
    let mut id = null_mut();
    let made = unsafe { rdma_create_ep(&mut id, &info, null_mut(), &mut init()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    id
}

fn port_of(id: *mut rdma_cm_id) -> u16 {
    u16::from_be(unsafe { rdma_get_src_port(id) })
}

/// Waits until the id has an event, and returns true if it has one within `timeout_ms`.
fn has_event(id: *mut rdma_cm_id, timeout_ms: c_int) -> bool {
    let fd = unsafe { (*(*id).channel.get()).fd };
    let mut waiting = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    unsafe { libc::poll(&mut waiting, 1, timeout_ms) == 1 }
}

#[test]
fn request_that_finds_no_descriptor_waits_for_the_next_call() {
    if std::env::var_os(ALONE).is_none() {
        let name = "tests::descriptors::request_that_finds_no_descriptor_waits_for_the_next_call";
        let mut alone = Command::new(std::env::current_exe().expect("this program"));
        alone.args(["--exact", name, "--test-threads=1"]).env(ALONE, "1");
        let result = alone.output().expect("this program runs");
        let text = String::from_utf8_lossy(&result.stdout);
        assert!(result.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let listener = endpoint(RAI_PASSIVE, 0);
    assert_eq!(unsafe { rdma_listen(listener, 4) }, 0);
    let other = endpoint(RAI_PASSIVE, 0);
    let refused = without_descriptors(|| unsafe { rdma_listen(other, 4) });
    assert_eq!(refused, Some(libc::EMFILE), "the address is not in use");

    let port = port_of(listener);
    let client = std::thread::spawn(move || {
        let active = endpoint(0, port);
        let connected = unsafe { rdma_connect(active, null_mut()) };
        unsafe { rdma_destroy_ep(active) };
        connected
    });
    assert!(has_event(listener, -1), "the request");
    let mut passive = null_mut();
    let refused = without_descriptors(|| unsafe { rdma_get_request(listener, &mut passive) });
    assert_eq!(refused, Some(libc::EMFILE));
    assert!(has_event(listener, 0), "the request is still there");
    assert_eq!(unsafe { rdma_get_request(listener, &mut passive) }, 0);
    assert_eq!(unsafe { rdma_accept(passive, null_mut()) }, 0);
    assert_eq!(client.join().expect("it connects"), 0);
    for id in [passive, other, listener] {
        unsafe { rdma_destroy_ep(id) };
    }
}
