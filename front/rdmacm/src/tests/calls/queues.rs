//! Completion queues of ids, and endpoints.

// SAFETY (all unsafe code of this file): as in the module above.

use super::*;
use crate::verbs;

unsafe extern "C" {
    fn rdma_create_ep(
        id: *mut *mut rdma_cm_id,
        info: *const rdma_addrinfo,
        pd: *mut ibv_pd,
        init: *mut ibv_qp_init_attr,
    ) -> c_int;
    fn rdma_destroy_ep(id: *mut rdma_cm_id);
}

#[test]
fn queue_pair_uses_the_queues_that_the_program_has_given_the_id() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let id = client.resolved(RDMA_PS_TCP, port);
    let context = unsafe { Ptr::kept((*id).verbs.get()) };
    let make = || verbs::ibv_create_cq(context, 4, null_mut(), None, 0);
    for is_one in [false, true] {
        let send = make();
        let receive = if is_one { send } else { make() };
        let mut init = no_queues(id);
        unsafe {
            (*id).send_cq.set(send);
            (*id).recv_cq.set(receive);
            assert_eq!(rdma_create_qp(id, null_mut(), &mut init), 0, "errno {}", errno());
            assert_eq!(((*(*id).qp.get()).send_cq, (*(*id).qp.get()).recv_cq), (send, receive));
            assert_eq!((init.send_cq, init.recv_cq), (send, receive));
            // As in Linux, the queues of an id are destroyed with its queue pair.
            rdma_destroy_qp(id);
            assert!((*id).send_cq.get().is_null() && (*id).recv_cq.get().is_null());
        }
    }
    part([id, listener]);
}

#[test]
fn queues_that_an_id_creates_are_returned_with_the_attributes() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let id = client.resolved(RDMA_PS_TCP, port);
    let mut init = no_queues(id);
    unsafe {
        assert_eq!(rdma_create_qp(id, null_mut(), &mut init), 0, "errno {}", errno());
        assert!(!init.send_cq.is_null() && !init.recv_cq.is_null());
        assert_eq!((init.send_cq, init.recv_cq), ((*id).send_cq.get(), (*id).recv_cq.get()));
    }
    part([id, listener]);
}

#[test]
fn private_data_of_an_endpoint_precede_those_of_the_call() {
    let server = Side::new();
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let client = std::thread::spawn(move || {
        let (mut to, mut id) = (loopback(port), null_mut());
        let mut greeting = *b"first ";
        // SAFETY: null pointers and zeros are values of its fields.
        let mut info: rdma_addrinfo = unsafe { std::mem::zeroed() };
        info.ai_dst_addr = (&raw mut to).cast();
        info.ai_dst_len = size_of::<libc::sockaddr_in>() as u32;
        (info.ai_port_space, info.ai_qp_type) = (RDMA_PS_TCP, IBV_QPT_RC);
        (info.ai_connect, info.ai_connect_len) = (greeting.as_mut_ptr().cast(), greeting.len());
        unsafe {
            assert_eq!(rdma_create_ep(&mut id, &info, null_mut(), null_mut()), 0);
            assert_eq!(rdma_connect(id, &mut param(b"second", 1, 1)), -1);
            assert_eq!(errno(), libc::ECONNREFUSED);
            static LONG: [u8; 51] = [0; 51];
            assert_eq!((rdma_connect(id, &mut param(&LONG, 1, 1)), errno()), (-1, libc::EINVAL));
            rdma_destroy_ep(id);
        }
    });
    let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_eq!(request.said(13), b"first second\0");
    let passive = request.id();
    drop(request);
    assert_eq!(unsafe { rdma_reject(passive, null(), 0) }, 0);
    client.join().expect("it ends");
    part([passive, listener]);
}
