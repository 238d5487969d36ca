//! Requests beyond the backlog of a listener.

// SAFETY (all unsafe code of this file): as in the module above.

use super::*;

#[test]
fn requests_that_the_program_has_received_leave_the_backlog() {
    let (server, client) = (Side::new(), Side::new());
    let (id, mut any) = (server.id(RDMA_PS_TCP), loopback(0));
    let port = unsafe {
        assert_eq!(rdma_bind_addr(id, (&raw mut any).cast()), 0);
        assert_eq!(rdma_listen(id, 1), 0);
        u16::from_be(rdma_get_src_port(id))
    };
    let actives = [(); 20].map(|()| client.resolved(RDMA_PS_TCP, port));
    // None of the requests is accepted before all of them are received.
    let passives = actives.map(|active| {
        equip(active);
        assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
        assert!(has_news(&server, 10_000), "the backlog has room");
        server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id()
    });
    for passive in passives {
        equip(passive);
        assert_eq!(unsafe { rdma_accept(passive, null_mut()) }, 0);
        drop(client.receive(RDMA_CM_EVENT_ESTABLISHED));
        drop(server.receive(RDMA_CM_EVENT_ESTABLISHED));
    }
    part(actives);
    part(passives);
    part([id]);
}
