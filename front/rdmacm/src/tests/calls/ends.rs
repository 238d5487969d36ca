//! Queue pairs of connections that fail: they enter the error state, so that their receives
//! complete.

// SAFETY (all unsafe code of this file): as in the module above.

use super::*;
use crate::verbs;

unsafe extern "C" {
    fn ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        init: *mut ibv_qp_init_attr,
    ) -> c_int;
}

fn state(id: *mut rdma_cm_id) -> c_int {
    let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = (zeroed(), no_queues(id));
    let found = unsafe { ibv_query_qp((*id).qp.get(), &mut attr, IBV_QP_STATE, &mut init) };
    assert_eq!(found, 0);
    attr.qp_state
}

/// Creates the id's queue pair, and posts a receive.
fn equip_to_receive(id: *mut rdma_cm_id) {
    equip(id);
    let (mut receive, mut bad): (ibv_recv_wr, _) = (zeroed(), null_mut());
    let posted = (operations(id).post_recv)(
        unsafe { Ptr::kept((*id).qp.get()) },
        unsafe { List::found(&mut receive) },
        Some(Out::from(&mut bad)),
    );
    assert_eq!(posted, 0);
}

/// Asserts that the receive of [`equip_to_receive`] completes because its queue pair failed.
fn assert_flushed(id: *mut rdma_cm_id) {
    assert_eq!(state(id), IBV_QPS_ERR);
    let queue = unsafe { (*id).recv_cq.get() };
    let completion = until_completed(operations(id), queue);
    assert_eq!(completion.status, IBV_WC_WR_FLUSH_ERR);
}

#[test]
fn receives_complete_when_the_peer_rejects_the_request() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.resolved(RDMA_PS_TCP, port);
    equip_to_receive(active);
    assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
    let passive = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
    assert_eq!(unsafe { rdma_reject(passive, null(), 0) }, 0);
    drop(client.receive(RDMA_CM_EVENT_REJECTED));
    assert_flushed(active);
    part([active, passive, listener]);
}

#[test]
fn queue_pair_of_the_server_fails_when_that_of_the_client_can_not_be_connected() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.resolved(RDMA_PS_TCP, port);
    equip(active);
    assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
    let passive = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
    equip_to_receive(passive);
    // A queue pair in the reset state can be changed to INIT alone, and has no receives.
    let mut attr: ibv_qp_attr = zeroed();
    attr.qp_state = IBV_QPS_RESET;
    let queue_pair = unsafe { Ptr::kept((*active).qp.get()) };
    let reset = verbs::ibv_modify_qp(queue_pair, &attr, IBV_QP_STATE);
    assert_eq!(reset, 0);
    assert_eq!(unsafe { rdma_accept(passive, null_mut()) }, 0);
    drop(client.receive(RDMA_CM_EVENT_CONNECT_ERROR));
    assert_eq!(state(active), IBV_QPS_RESET);
    drop(server.receive(RDMA_CM_EVENT_REJECTED));
    assert_flushed(passive);
    part([active, passive, listener]);
}

#[test]
fn receives_complete_when_a_request_that_was_withdrawn_is_accepted() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let [first, second] = [(); 2].map(|()| client.resolved(RDMA_PS_TCP, port));
    equip(first);
    assert_eq!(unsafe { rdma_connect(first, null_mut()) }, 0);
    let withdrawn = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
    part([first]);
    // Everything that the first client sent is older than the second client's request.
    equip(second);
    assert_eq!(unsafe { rdma_connect(second, null_mut()) }, 0);
    let other = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
    equip_to_receive(withdrawn);
    assert_eq!((unsafe { rdma_accept(withdrawn, null_mut()) }, errno()), (-1, libc::EINVAL));
    assert_flushed(withdrawn);
    part([second, withdrawn, other, listener]);
}

#[test]
fn receives_complete_when_an_id_without_a_connection_is_disconnected() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.resolved(RDMA_PS_TCP, port);
    equip_to_receive(active);
    assert_eq!((unsafe { rdma_disconnect(active) }, errno()), (-1, libc::EINVAL));
    assert_flushed(active);
    part([active, listener]);
}
