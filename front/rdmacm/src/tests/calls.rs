//! Calls of librdmacm, with both ends in this process, over the loopback interface.

// SAFETY (all unsafe code of this file): the contract of librdmacm is kept: ids, channels and
// events are given back once, after their last use, and results point to room for them.

use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void, sockaddr};

use super::*;
use fairway_verbs::abi::*;
use fairway_verbs::pointer::{Array, List, Out, Ptr};
use fairway_wire::Qpn;

mod arguments;
mod backlog;
mod ends;
mod families;
mod pending;
mod queues;
mod routes;

unsafe extern "C" {
    fn rdma_create_event_channel() -> *mut rdma_event_channel;
    fn rdma_destroy_event_channel(channel: *mut rdma_event_channel);
    fn rdma_get_cm_event(channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event)
    -> c_int;
    fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int;
    fn rdma_create_id(
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut c_void,
        ps: c_int,
    ) -> c_int;
    fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
    fn rdma_create_qp(id: *mut rdma_cm_id, pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> c_int;
    fn rdma_destroy_qp(id: *mut rdma_cm_id);
    fn rdma_bind_addr(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int;
    fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
    fn rdma_resolve_addr(
        id: *mut rdma_cm_id,
        source: *mut sockaddr,
        destination: *mut sockaddr,
        timeout_ms: c_int,
    ) -> c_int;
    fn rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int;
    fn rdma_connect(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int;
    fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int;
    fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
    fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int;
    fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16;
    fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16;
    fn rdma_join_multicast(id: *mut rdma_cm_id, to: *mut sockaddr, context: *mut c_void) -> c_int;
    fn rdma_init_qp_attr(id: *mut rdma_cm_id, attr: *mut ibv_qp_attr, mask: *mut c_int) -> c_int;
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn loopback(port: u16) -> libc::sockaddr_storage {
    address::write(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// A channel whose events the test receives.
struct Side(*mut rdma_event_channel);

/// An event that is acknowledged when it is dropped.
struct ReceivedEvent(*mut rdma_cm_event);

impl Drop for ReceivedEvent {
    fn drop(&mut self) {
        assert_eq!(unsafe { rdma_ack_cm_event(self.0) }, 0);
    }
}

impl ReceivedEvent {
    fn id(&self) -> *mut rdma_cm_id {
        unsafe { (*self.0).id }
    }

    fn status(&self) -> c_int {
        unsafe { (*self.0).status }
    }

    fn param(&self) -> rdma_conn_param {
        unsafe { (*self.0).param.conn }
    }

    /// The first bytes of the event's private data.
    fn said(&self, length: usize) -> Vec<u8> {
        let param = self.param();
        assert!(usize::from(param.private_data_len) >= length);
        unsafe { std::slice::from_raw_parts(param.private_data.cast::<u8>(), length) }.to_vec()
    }
}

impl Side {
    fn new() -> Side {
        Side(unsafe { rdma_create_event_channel() })
    }

    fn id(&self, ps: c_int) -> *mut rdma_cm_id {
        let mut id = null_mut();
        assert_eq!(unsafe { rdma_create_id(self.0, &mut id, null_mut(), ps) }, 0);
        id
    }

    /// Waits for the next event, which must be of this kind.
    fn receive(&self, kind: c_int) -> ReceivedEvent {
        let mut event = null_mut();
        assert_eq!(unsafe { rdma_get_cm_event(self.0, &mut event) }, 0);
        assert_eq!(unsafe { (*event).event }, kind);
        ReceivedEvent(event)
    }

    fn listen(&self, ps: c_int) -> (*mut rdma_cm_id, u16) {
        let id = self.id(ps);
        let mut any = loopback(0);
        unsafe {
            assert_eq!(rdma_bind_addr(id, (&raw mut any).cast()), 0);
            let port = u16::from_be(rdma_get_src_port(id));
            assert_ne!(port, 0, "it is chosen when it is bound");
            assert!((*id).verbs.get().is_null(), "a loopback address says nothing of a device");
            assert_eq!(rdma_listen(id, 4), 0, "errno {}", errno());
            (id, port)
        }
    }

    /// An id that has resolved the route to a port of this host.
    fn resolved(&self, ps: c_int, port: u16) -> *mut rdma_cm_id {
        self.resolved_to(ps, [127, 0, 0, 1].into(), port)
    }

    fn resolved_to(&self, ps: c_int, ip: IpAddr, port: u16) -> *mut rdma_cm_id {
        let id = self.id(ps);
        let mut to = address::write(SocketAddr::new(ip, port));
        unsafe {
            assert_eq!(rdma_resolve_addr(id, null_mut(), (&raw mut to).cast(), 1000), 0);
            assert_eq!(self.receive(RDMA_CM_EVENT_ADDR_RESOLVED).status(), 0);
            assert!(!(*id).verbs.get().is_null());
            assert_eq!(rdma_resolve_route(id, 1000), 0);
            assert_eq!(self.receive(RDMA_CM_EVENT_ROUTE_RESOLVED).id(), id);
            assert_eq!((*id).route.num_paths.get(), 1);
            assert_eq!(u16::from_be(rdma_get_dst_port(id)), port);
        }
        id
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        unsafe { rdma_destroy_event_channel(self.0) };
    }
}

/// Attributes of a small queue pair that leave its completion queues to the id.
fn no_queues(id: *mut rdma_cm_id) -> ibv_qp_init_attr {
    let cap = ibv_qp_cap {
        max_send_wr: 2,
        max_recv_wr: 2,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        cap,
        qp_type: unsafe { (*id).qp_type.get() },
        sq_sig_all: 1,
    }
}

fn equip(id: *mut rdma_cm_id) {
    let mut init = no_queues(id);
    unsafe {
        assert_eq!(rdma_create_qp(id, null_mut(), &mut init), 0, "errno {}", errno());
        assert!(
            !(*id).qp.get().is_null()
                && !(*id).pd.get().is_null()
                && !(*id).recv_cq.get().is_null()
        );
    }
}

fn param(private: &'static [u8], responder_resources: u8, initiator_depth: u8) -> rdma_conn_param {
    rdma_conn_param {
        private_data: private.as_ptr().cast(),
        private_data_len: private.len() as u8,
        responder_resources,
        initiator_depth,
        flow_control: 0,
        retry_count: 7,
        rnr_retry_count: 6,
        srq: 0,
        qp_num: 0,
    }
}

#[test]
fn two_ids_connect_exchange_private_data_and_disconnect() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.resolved(RDMA_PS_TCP, port);
    equip(active);
    let mut parameters = param(b"please", 3, 5);
    assert_eq!(unsafe { rdma_connect(active, &mut parameters) }, 0);

    let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_eq!(request.said(8), b"please\0\0");
    // Each end serves the operations that the other has in flight.
    let offered = request.param();
    assert_eq!((offered.responder_resources, offered.initiator_depth), (5, 3));
    assert_eq!((offered.retry_count, offered.rnr_retry_count), (7, 6));
    assert_eq!(offered.private_data_len, 56);
    assert_eq!(unsafe { (*request.0).listen_id }, listener);
    let passive = request.id();
    drop(request);
    equip(passive);
    let mut granted = param(b"yes", 2, 2);
    assert_eq!(unsafe { rdma_accept(passive, &mut granted) }, 0);

    let established = client.receive(RDMA_CM_EVENT_ESTABLISHED);
    assert_eq!(established.said(4), b"yes\0");
    assert_eq!(established.param().private_data_len, 196);
    let offered = established.param();
    assert_eq!((offered.responder_resources, offered.initiator_depth), (2, 2));
    drop(established);
    drop(server.receive(RDMA_CM_EVENT_ESTABLISHED));
    // Both queue pairs are ready to send to each other.
    let states = [active, passive].map(|id| {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_RTR;
        let mut mask = 0;
        assert_eq!(unsafe { rdma_init_qp_attr(id, &mut attr, &mut mask) }, 0);
        assert_ne!(mask & IBV_QP_DEST_QPN, 0);
        (unsafe { (*(*id).qp.get()).qp_num }, attr.dest_qp_num)
    });
    assert_eq!(states[0].0, states[1].1);
    assert_eq!(states[1].0, states[0].1);

    assert_eq!(unsafe { rdma_disconnect(active) }, 0);
    drop(client.receive(RDMA_CM_EVENT_DISCONNECTED));
    drop(server.receive(RDMA_CM_EVENT_DISCONNECTED));
    assert_eq!(unsafe { rdma_disconnect(passive) }, 0, "though the other was faster");
    for id in [active, passive] {
        unsafe { rdma_destroy_qp(id) };
    }
    for id in [active, passive, listener] {
        assert_eq!(unsafe { rdma_destroy_id(id) }, 0);
    }
}

/// A listener and both ends of a connection.
fn connected(server: &Side, client: &Side) -> [*mut rdma_cm_id; 3] {
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.resolved(RDMA_PS_TCP, port);
    equip(active);
    assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
    let passive = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
    equip(passive);
    assert_eq!(unsafe { rdma_accept(passive, null_mut()) }, 0);
    drop(client.receive(RDMA_CM_EVENT_ESTABLISHED));
    drop(server.receive(RDMA_CM_EVENT_ESTABLISHED));
    [active, passive, listener]
}

/// Sends one message without bytes, which is acknowledged.
fn send_one(active: *mut rdma_cm_id, passive: *mut rdma_cm_id) {
    unsafe {
        let mut receive: ibv_recv_wr = zeroed();
        let mut bad = null_mut();
        assert_eq!(
            (operations(passive).post_recv)(
                Ptr::kept((*passive).qp.get()),
                List::found(&mut receive),
                Some(Out::from(&mut bad))
            ),
            0
        );
        let mut send: ibv_send_wr = zeroed();
        send.opcode = IBV_WR_SEND;
        let mut bad = null_mut();
        assert_eq!(
            (operations(active).post_send)(
                Ptr::kept((*active).qp.get()),
                List::found(&mut send),
                Some(Out::from(&mut bad))
            ),
            0
        );
        assert_eq!(until_polled(operations(active), (*active).send_cq.get()), IBV_WC_SEND);
    }
}

/// The functions that the header's inline calls jump through.
fn operations(id: *mut rdma_cm_id) -> ibv_context_ops {
    unsafe { (*(*id).verbs.get()).ops }
}

/// Polls until there is a successful completion, and returns its kind.
fn until_polled(operations: ibv_context_ops, cq: *mut ibv_cq) -> c_int {
    let completion = until_completed(operations, cq);
    assert_eq!(completion.status, IBV_WC_SUCCESS);
    completion.opcode
}

/// Polls until there is a completion.
fn until_completed(operations: ibv_context_ops, cq: *mut ibv_cq) -> ibv_wc {
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(10) {
        let mut found: [ibv_wc; 2] = zeroed();
        let room = Array::found(found.as_mut_ptr());
        if (operations.poll_cq)(unsafe { Ptr::kept(cq) }, 2, room) == 1 {
            return found[0];
        }
    }
    panic!("no completion within ten seconds");
}

fn has_news(side: &Side, timeout_ms: c_int) -> bool {
    let mut waiting =
        libc::pollfd { fd: unsafe { (*side.0).fd }, events: libc::POLLIN, revents: 0 };
    unsafe { libc::poll(&mut waiting, 1, timeout_ms) == 1 }
}

fn part<const COUNT: usize>(ids: [*mut rdma_cm_id; COUNT]) {
    for id in ids {
        unsafe {
            if !(*id).qp.get().is_null() {
                rdma_destroy_qp(id);
            }
            assert_eq!(rdma_destroy_id(id), 0);
        }
    }
}

#[test]
fn disconnect_waits_until_the_last_message_is_polled() {
    let (server, client) = (Side::new(), Side::new());
    let ids @ [active, passive, _] = connected(&server, &client);
    send_one(active, passive);
    assert_eq!(unsafe { rdma_disconnect(active) }, 0);
    // The peer has confirmed the disconnection, so it has received the request.
    drop(client.receive(RDMA_CM_EVENT_DISCONNECTED));
    assert!(!has_news(&server, 0), "the message is not read yet");
    assert_eq!(until_polled(operations(passive), unsafe { (*passive).recv_cq.get() }), IBV_WC_RECV);
    assert!(has_news(&server, 0), "it is read now");
    drop(server.receive(RDMA_CM_EVENT_DISCONNECTED));
    part(ids);
}

#[test]
fn disconnect_is_delivered_to_a_program_that_never_polls() {
    let (server, client) = (Side::new(), Side::new());
    let ids @ [active, passive, _] = connected(&server, &client);
    send_one(active, passive);
    assert_eq!(unsafe { rdma_disconnect(active) }, 0);
    drop(client.receive(RDMA_CM_EVENT_DISCONNECTED));
    drop(server.receive(RDMA_CM_EVENT_DISCONNECTED));
    part(ids);
    // An id that is destroyed before the delivery gets no event.
    let (server, client) = (Side::new(), Side::new());
    let again @ [active, passive, _] = connected(&server, &client);
    send_one(active, passive);
    assert_eq!(unsafe { rdma_disconnect(active) }, 0);
    drop(client.receive(RDMA_CM_EVENT_DISCONNECTED));
    part(again);
    assert!(!has_news(&server, 3000));
}

#[test]
fn disconnect_is_immediate_for_the_side_that_ends_the_connection() {
    let (server, client) = (Side::new(), Side::new());
    let ids @ [active, passive, _] = connected(&server, &client);
    send_one(active, passive);
    let awaited = |id: *mut rdma_cm_id| cm_device::awaited(&unsafe { Ptr::kept(id) }.object().core);
    assert_eq!(awaited(passive).map(Qpn::value), Some(unsafe { (*(*passive).qp.get()).qp_num }));
    assert_eq!(unsafe { rdma_disconnect(passive) }, 0);
    assert_eq!(awaited(passive), None);
    drop(server.receive(RDMA_CM_EVENT_DISCONNECTED));
    drop(client.receive(RDMA_CM_EVENT_DISCONNECTED));
    part(ids);
}

#[test]
fn rejected_connections_report_the_reason() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let refused = client.resolved(RDMA_PS_TCP, port);
    equip(refused);
    assert_eq!(unsafe { rdma_connect(refused, null_mut()) }, 0);
    let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_eq!(unsafe { rdma_reject(request.id(), b"no".as_ptr().cast(), 2) }, 0);
    assert_eq!(unsafe { rdma_accept(request.id(), null_mut()) }, -1);
    let newcomer = request.id();
    drop(request);
    assert_eq!(unsafe { rdma_destroy_id(newcomer) }, 0);
    let rejected = client.receive(RDMA_CM_EVENT_REJECTED);
    assert_eq!((rejected.status(), rejected.said(3)), (28, b"no\0".to_vec()));
    drop(rejected);
    // No id listens any more.
    assert_eq!(unsafe { rdma_destroy_id(listener) }, 0);
    let unheard = client.resolved(RDMA_PS_TCP, port);
    assert_eq!(unsafe { rdma_connect(unheard, null_mut()) }, 0);
    assert_eq!(client.receive(RDMA_CM_EVENT_REJECTED).status(), 8);
    unsafe { rdma_destroy_qp(refused) };
    for id in [refused, unheard] {
        assert_eq!(unsafe { rdma_destroy_id(id) }, 0);
    }
}

#[test]
fn pending_request_is_rejected_when_its_listener_is_destroyed() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let active = client.resolved(RDMA_PS_TCP, port);
    assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
    let mut waiting =
        libc::pollfd { fd: unsafe { (*server.0).fd }, events: libc::POLLIN, revents: 0 };
    assert_eq!(unsafe { libc::poll(&mut waiting, 1, 10_000) }, 1, "the channel is pollable");
    assert_eq!(unsafe { rdma_destroy_id(listener) }, 0);
    assert_eq!(unsafe { libc::poll(&mut waiting, 1, 0) }, 0, "and has nothing any more");
    assert_eq!(client.receive(RDMA_CM_EVENT_REJECTED).status(), 28);
    assert_eq!(unsafe { rdma_destroy_id(active) }, 0);
}

#[test]
fn peer_that_gives_up_before_it_is_accepted_is_no_event() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let [first, second] = [(); 2].map(|()| client.resolved(RDMA_PS_TCP, port));
    let requests = [first, second].map(|active| {
        equip(active);
        assert_eq!(unsafe { rdma_connect(active, null_mut()) }, 0);
        let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST).id();
        if active == first {
            part([first]);
        }
        // Everything that the first client sent is older than the second client's request.
        request
    });
    equip(requests[0]);
    assert_eq!(unsafe { rdma_accept(requests[0], null_mut()) }, -1, "there is no peer any more");
    part([second, requests[0], requests[1]]);
    part([listener]);
}

#[test]
fn datagrams_need_a_queue_pair_and_a_key() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_UDP);
    let active = client.resolved(RDMA_PS_UDP, port);
    equip(active);
    let mut parameters = param(b"where", 0, 0);
    assert_eq!(unsafe { rdma_connect(active, &mut parameters) }, 0);
    let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
    let passive = request.id();
    assert_eq!(request.param().private_data_len, 180);
    drop(request);
    equip(passive);
    assert_eq!(unsafe { rdma_accept(passive, &mut parameters) }, 0);
    let answer = client.receive(RDMA_CM_EVENT_ESTABLISHED);
    let ud = unsafe { (*answer.0).param.ud };
    assert_eq!(ud.qp_num, unsafe { (*(*passive).qp.get()).qp_num });
    assert_eq!((ud.qkey, ud.ah_attr.is_global, ud.ah_attr.port_num), (RDMA_UDP_QKEY, 1, 1));
    drop(answer);
    for id in [active, passive] {
        unsafe { rdma_destroy_qp(id) };
    }
    for id in [active, passive, listener] {
        assert_eq!(unsafe { rdma_destroy_id(id) }, 0);
    }
}

#[test]
fn calls_of_a_synchronous_id_return_after_their_event() {
    let server = Side::new();
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let waiting = std::thread::spawn(move || {
        let mut id = null_mut();
        let mut to = loopback(port);
        unsafe {
            assert_eq!(rdma_create_id(null_mut(), &mut id, null_mut(), RDMA_PS_TCP), 0);
            assert_eq!(rdma_resolve_addr(id, null_mut(), (&raw mut to).cast(), 1000), 0);
            assert_eq!(rdma_resolve_route(id, 1000), 0);
            equip(id);
            assert_eq!(rdma_connect(id, null_mut()), 0, "errno {}", errno());
            assert_eq!((*(*id).event.get()).event, RDMA_CM_EVENT_ESTABLISHED);
            assert_eq!(rdma_disconnect(id), 0);
            rdma_destroy_qp(id);
            assert_eq!(rdma_destroy_id(id), 0);
            // The connection is refused, and the call reports it.
            assert_eq!(rdma_create_id(null_mut(), &mut id, null_mut(), RDMA_PS_TCP), 0);
            assert_eq!(rdma_resolve_addr(id, null_mut(), (&raw mut to).cast(), 1000), 0);
            assert_eq!(rdma_connect(id, null_mut()), -1);
            assert_eq!(errno(), libc::ECONNREFUSED);
            assert_eq!(rdma_destroy_id(id), 0);
        }
    });
    let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
    let passive = request.id();
    drop(request);
    equip(passive);
    let own = Side::new();
    assert_eq!(unsafe { rdma_migrate_id(passive, own.0) }, 0);
    assert_eq!(unsafe { rdma_accept(passive, null_mut()) }, 0);
    drop(own.receive(RDMA_CM_EVENT_ESTABLISHED));
    drop(own.receive(RDMA_CM_EVENT_DISCONNECTED));
    let request = server.receive(RDMA_CM_EVENT_CONNECT_REQUEST);
    let refused = request.id();
    drop(request);
    // Destroying the id refuses the request.
    assert_eq!(unsafe { rdma_destroy_id(refused) }, 0);
    waiting.join().expect("it ends");
    unsafe { rdma_destroy_qp(passive) };
    for id in [passive, listener] {
        assert_eq!(unsafe { rdma_destroy_id(id) }, 0);
    }
}

/// An id that more than one thread uses.
#[derive(Clone, Copy)]
struct SharedId(*mut rdma_cm_id);

// SAFETY: the calls of librdmacm on one id may be made by any thread, and by several at once.
unsafe impl Send for SharedId {}

impl SharedId {
    /// Runs `call` on two threads at once, `times` times on each.
    fn by_two_threads(self, times: u32, call: impl Fn(*mut rdma_cm_id) + Copy + Send + 'static) {
        let ready = Arc::new(AtomicU32::new(0));
        let threads = [(); 2].map(|()| {
            let ready = Arc::clone(&ready);
            std::thread::spawn(move || {
                let SharedId(id) = { self };
                ready.fetch_add(1, Ordering::AcqRel);
                while ready.load(Ordering::Acquire) < 2 {
                    std::hint::spin_loop();
                }
                (0..times).for_each(|_| call(id));
            })
        });
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}

#[test]
fn id_resolved_by_two_threads_frees_each_path_once() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let id = client.resolved(RDMA_PS_TCP, port);
    SharedId(id).by_two_threads(5_000, |id| {
        assert_eq!(unsafe { rdma_resolve_route(id, 1000) }, 0);
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_INIT;
        let mut mask = 0;
        assert_eq!(unsafe { rdma_init_qp_attr(id, &mut attr, &mut mask) }, 0);
    });
    part([id, listener]);
}

#[test]
fn queue_pair_removed_by_two_threads_is_destroyed_once() {
    let (server, client) = (Side::new(), Side::new());
    let (listener, port) = server.listen(RDMA_PS_TCP);
    let id = client.resolved(RDMA_PS_TCP, port);
    for _ in 0..100 {
        equip(id);
        SharedId(id).by_two_threads(1, |id| unsafe { rdma_destroy_qp(id) });
    }
    part([id, listener]);
}
