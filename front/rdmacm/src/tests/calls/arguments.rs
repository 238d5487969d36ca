//! Arguments that are refused, and those that stand for none.

// SAFETY (all unsafe code of this file): as in the module above.

use super::pending::rdma_set_option;
use super::*;

#[test]
fn wrong_arguments_fail_with_the_error_number_of_linux() {
    let side = Side::new();
    let id = side.id(RDMA_PS_TCP);
    let mut other = null_mut();
    unsafe {
        let failed = |result: c_int, expected: c_int| {
            assert_eq!((result, errno()), (-1, expected));
        };
        failed(rdma_create_id(side.0, &mut other, null_mut(), 0x13f), libc::EPROTONOSUPPORT);
        failed(rdma_connect(id, null_mut()), libc::EINVAL);
        failed(rdma_accept(id, null_mut()), libc::EINVAL);
        failed(rdma_disconnect(id), libc::EINVAL);
        failed(rdma_resolve_route(id, 1), libc::EINVAL);
        failed(rdma_connect(null_mut(), null_mut()), libc::EINVAL);
        failed(rdma_join_multicast(id, null_mut(), null_mut()), libc::EOPNOTSUPP);
        failed(rdma_ack_cm_event(null_mut()), libc::EINVAL);
        let mut foreign = address::write(SocketAddr::from(([198, 51, 100, 7], 0)));
        failed(rdma_bind_addr(id, (&raw mut foreign).cast()), libc::EADDRNOTAVAIL);
        let (listener, port) = side.listen(RDMA_PS_TCP);
        let mut taken = loopback(port);
        failed(rdma_bind_addr(id, (&raw mut taken).cast()), libc::EADDRINUSE);
        failed(rdma_listen(listener, 1), libc::EINVAL);
        let to = (&raw mut taken).cast();
        failed(rdma_resolve_addr(listener, null_mut(), to, 1000), libc::EINVAL);
        let active = side.resolved(RDMA_PS_TCP, port);
        static LONG: [u8; 57] = [0; 57];
        failed(rdma_connect(active, &mut param(&LONG, 1, 1)), libc::EINVAL);
        failed(rdma_connect(active, &mut param(b"", 129, 1)), libc::EINVAL);
        failed(rdma_reject(active, null(), 0), libc::EINVAL);
        part([id, listener, active]);
        // A program may make the channel non-blocking.
        libc::fcntl((*side.0).fd, libc::F_SETFL, libc::O_NONBLOCK);
        let mut event = null_mut();
        failed(rdma_get_cm_event(side.0, &mut event), libc::EAGAIN);
    }
}

#[test]
fn private_data_without_a_pointer_counts_as_none() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let nothing = |length| rdma_conn_param {
        private_data: null(),
        private_data_len: length,
        ..param(b"", 1, 1)
    };
    let [first, second] = [(); 2].map(|()| client.resolved(RDMA_PS_TCP, port));
    let [accepted, refused] = [first, second].map(|active| {
        equip(active);
        assert_eq!(unsafe { rdma_connect(active, &mut nothing(200)) }, 0, "errno {}", errno());
        let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_eq!(request.said(56), [0; 56]);
        request.id()
    });
    equip(accepted);
    assert_eq!(unsafe { rdma_accept(accepted, &mut nothing(255)) }, 0, "errno {}", errno());
    assert_eq!(client.receive(RDMA_CM_EVENT_ESTABLISHED).said(196), [0; 196]);
    let established = server.receive(RDMA_CM_EVENT_ESTABLISHED);
    let parameters = established.param();
    assert!(parameters.private_data.is_null(), "RTU has none");
    assert_eq!(parameters.private_data_len, 0);
    drop(established);
    assert_eq!(unsafe { rdma_reject(refused, null(), 255) }, 0, "errno {}", errno());
    assert_eq!(client.receive(RDMA_CM_EVENT_REJECTED).said(148), [0; 148]);
    part([first, second, accepted, refused]);
    part([listener]);
}

#[test]
fn ids_that_share_an_address_do_not_both_listen_there() {
    let side = Side::new();
    let ids = [(); 2].map(|()| {
        let (id, mut reuse) = (side.id(RDMA_PS_TCP), 1 as c_int);
        let (value, length) = ((&raw mut reuse).cast(), size_of::<c_int>());
        let (level, name) = (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR);
        unsafe { assert_eq!(rdma_set_option(id, level, name, value, length), 0) };
        id
    });
    let [first, second] = ids;
    // A port that is chosen is not shared, so it is chosen by another id.
    let (other, port) = side.listen(RDMA_PS_TCP);
    part([other]);
    let mut at = loopback(port);
    for id in ids {
        assert_eq!(unsafe { rdma_bind_addr(id, (&raw mut at).cast()) }, 0, "errno {}", errno());
    }
    unsafe {
        assert_eq!(rdma_listen(first, 1), 0);
        assert_eq!((rdma_listen(second, 1), errno()), (-1, libc::EADDRINUSE));
        part([first]);
        assert_eq!(rdma_listen(second, 1), 0, "the other does not listen any more");
        part([second]);
    }
}
