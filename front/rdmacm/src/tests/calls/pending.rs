//! Requests that wait in a listener's channel, and events of options.

use super::*;

unsafe extern "C" {
    pub(super) fn rdma_set_option(
        id: *mut rdma_cm_id,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        length: usize,
    ) -> c_int;
}

#[test]
fn pending_request_gets_the_channel_and_context_that_its_listener_has_then() {
    let (first, second, client) = (Side::new(), Side::new(), Side::new());
    let (listener, port) = first.listen(RDMA_PS_TCP);
    let active = client.resolved(RDMA_PS_TCP, port);
    equip(active);
    assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
    assert!(has_news(&first, 10_000), "the request has arrived");
    let context = std::ptr::without_provenance_mut(7);
    unsafe {
        (*listener).context.set(context);
        assert_eq!(rdma_migrate_id(listener, second.0), 0);
    }
    // The program may destroy the channel that no id uses any more.
    drop(first);
    let passive = second.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
    unsafe {
        assert_eq!((*passive).channel.get(), second.0);
        assert_eq!((*passive).context.get(), context);
    }
    equip(passive);
    assert_eq!(unsafe { rdma_accept(passive, null_mut()) }, 0);
    drop(client.receive(RDMA_CM_EVENT_ESTABLISHED));
    drop(second.receive(RDMA_CM_EVENT_ESTABLISHED));
    assert_eq!(unsafe { rdma_disconnect(active) }, 0);
    drop(client.receive(RDMA_CM_EVENT_DISCONNECTED));
    drop(second.receive(RDMA_CM_EVENT_DISCONNECTED));
    part([active, passive, listener]);
}

#[test]
fn path_that_a_program_sets_resolves_the_route() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.id(RDMA_PS_TCP);
    // The size of `struct ibv_path_data`.
    let mut path = [0_u8; 72];
    let mut set = |length| unsafe {
        let path = path.as_mut_ptr().cast();
        rdma_set_option(active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, length)
    };
    assert_eq!((set(72), errno()), (-1, libc::EINVAL), "no address is resolved");
    let mut to = loopback(port);
    let resolved = unsafe { rdma_resolve_addr(active, null_mut(), (&raw mut to).cast(), 1000) };
    assert_eq!(resolved, 0);
    drop(client.receive(RDMA_CM_EVENT_ADDR_RESOLVED));
    assert_eq!((set(0), errno()), (-1, libc::EINVAL), "there is no path");
    assert_eq!(set(72), 0);
    drop(client.receive(RDMA_CM_EVENT_ROUTE_RESOLVED));
    assert_eq!(unsafe { (*active).route.num_paths.get() }, 1);
    equip(active);
    assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
    drop(server.receive(RDMA_CM_EVENT_CONNECT_REQUEST));
    part([active, listener]);
}
