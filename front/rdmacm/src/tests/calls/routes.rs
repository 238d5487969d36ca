//! The addresses and paths that ids show to programs.

// SAFETY (all unsafe code of this file): as in the module above.

use super::*;
use fairway_rdma::Gid;

#[test]
fn both_ends_of_a_connection_have_gids_and_a_path() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.id(RDMA_PS_TCP);
    let host = ibv_gid::new(Gid::from(IpAddr::from([127, 0, 0, 1])).0);
    let (mut from, mut to) = (loopback(0), loopback(port));
    unsafe {
        let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
        assert_eq!(rdma_resolve_addr(active, from, to, 1000), 0);
        drop(client.receive(RDMA_CM_EVENT_ADDR_RESOLVED));
        let shown = (*(*active).route.addr.get()).ibaddr;
        assert_eq!((shown.sgid, shown.dgid, shown.pkey), (host, host, 0xffff));
        assert_eq!(rdma_resolve_route(active, 1000), 0);
        drop(client.receive(RDMA_CM_EVENT_ROUTE_RESOLVED));
        equip(active);
        assert_eq!(rdma_connect(active, null_mut()), 0);
        let passive = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
        let route = &(*passive).route;
        let shown = (*route.addr.get()).ibaddr;
        assert_eq!((shown.sgid, shown.dgid, shown.pkey), (host, host, 0xffff));
        assert_eq!(route.num_paths.get(), 1);
        let [ours, theirs] = [active, passive].map(|id| *(*id).route.path_rec.get());
        assert_eq!((theirs.sgid, theirs.dgid), (ours.dgid, ours.sgid));
        assert_eq!((theirs.mtu, theirs.pkey, theirs.numb_path), (ours.mtu, 0xffff, 1));
        part([active, passive, listener]);
    }
}
