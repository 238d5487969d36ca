//! Ids that listen for one address family.

// SAFETY (all unsafe code of this file): as in the module above.

use super::pending::rdma_set_option;
use super::*;

/// As the iSER target of tgt does.
#[test]
fn listeners_of_both_families_share_a_port_and_get_the_requests_of_their_family() {
    let (server, client) = (Side::new(), Side::new());
    let mut port = 0;
    let listeners = [IpAddr::from([0; 4]), IpAddr::from([0_u16; 8])].map(|any| {
        let (id, mut only) = (server.id(RDMA_PS_TCP), 1 as c_int);
        let mut at = address::write(SocketAddr::new(any, port));
        let (level, name) = (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY);
        unsafe {
            let only = (&raw mut only).cast();
            assert_eq!(rdma_set_option(id, level, name, only, size_of::<c_int>()), 0);
            assert_eq!(rdma_bind_addr(id, (&raw mut at).cast()), 0, "{any}: errno {}", errno());
            assert_eq!(rdma_listen(id, 4), 0, "{any}: errno {}", errno());
            port = u16::from_be(rdma_get_src_port(id));
        }
        id
    });
    for (index, ip) in ["127.0.0.1", "::1"].into_iter().enumerate() {
        let id = client.resolved_to(RDMA_PS_TCP, ip.parse().expect("an address"), port);
        equip(id);
        assert_eq!(unsafe { rdma_connect(id, null_mut()) }, 0);
        let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_eq!(unsafe { (*request.0).listen_id }, listeners[index], "{ip}");
        let newcomer = request.id();
        assert_eq!(unsafe { rdma_reject(newcomer, null(), 0) }, 0);
        drop(request);
        assert_eq!(client.receive(RDMA_CM_EVENT_REJECTED).status(), 28);
        part([newcomer, id]);
    }
    part(listeners);
}
