//! Blocking operations, results of completions, and numbers of requests.

use std::time::Duration;

use fairway::{
    AtomicOp, CompletionKind, Context, Error, Jetty, JettyOptions, Limits, Memory, Peer, Rights,
    Segment, Status, WrId,
};

const TIMEOUT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);
const BYTES: usize = 300_000;

struct Ends {
    owner: Context,
    exposed: Segment,
    client: Context,
    peer: Peer,
    local: Segment,
    jetty: Jetty,
}

fn ends() -> Ends {
    let here = || Context::builder().bind([127, 0, 0, 1].into()).build().expect("a context");
    let (owner, client) = (here(), here());
    let exposed = owner.register(Memory::zeroed(BYTES).unwrap(), Rights::ALL).unwrap();
    let peer = client.connect(owner.local_addrs()[0], TIMEOUT).expect("a connection");
    let data = (0..BYTES).map(|at| (at * 7 / 5) as u8).collect();
    let local = client.register(Memory::from_vec(data), Rights::NONE).unwrap();
    let jetty = client.create_jetty(JettyOptions::default()).unwrap();
    Ends { owner, exposed, client, peer, local, jetty }
}

fn contents(segment: &Segment) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    segment.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn bytes_are_in_place_when_write_all_and_read_exact_return() {
    let Ends { exposed, client, peer, local, jetty, .. } = &ends();
    let all = 0..BYTES as u64;
    jetty.write_all(peer, local.slice(all.clone()), exposed.key(), TIMEOUT).unwrap();
    assert_eq!(contents(exposed), contents(local));
    let back = client.register(Memory::zeroed(BYTES).unwrap(), Rights::NONE).unwrap();
    jetty.read_exact(peer, back.slice(all), exposed.key(), TIMEOUT).unwrap();
    assert_eq!(contents(&back), contents(local));
}

#[test]
fn refused_blocking_write_is_an_error_that_names_the_status() {
    let Ends { exposed, peer, local, jetty, .. } = &ends();
    let beyond = exposed.key().at(BYTES as u64 - 1);
    let refused = jetty.write_all(peer, local.slice(0..2), beyond, TIMEOUT);
    let error = refused.expect_err("it leaves the segment");
    assert!(
        matches!(error, Error::Failed { operation: "WRITE", status: Status::RemoteAccess }),
        "{error}"
    );
    assert!(error.to_string().contains("the range leaves the segment"), "{error}");
    assert!(contents(exposed).iter().all(|byte| *byte == 0), "nothing was written");
    jetty.write_all(peer, local.slice(0..2), exposed.key(), TIMEOUT).expect("the next one works");
}

#[test]
fn completion_of_a_failed_operation_is_an_err_with_its_number() {
    let Ends { exposed, peer, local, jetty, .. } = &ends();
    jetty.write(peer, local.slice(0..2), exposed.key().at(BYTES as u64), 41).unwrap();
    let error = jetty.wait(TIMEOUT).unwrap().result().expect_err("it was refused");
    assert_eq!((error.id, error.operation), (WrId::new(41), CompletionKind::Write));
    assert_eq!(error.status, Status::RemoteAccess);
    jetty.write(peer, local.slice(0..2), exposed.key(), WrId::from(42)).unwrap();
    let done = jetty.wait(TIMEOUT).unwrap().result().expect("it was done");
    assert_eq!(done.id, 42);
}

#[test]
fn blocking_operations_leave_completions_of_the_jetty_alone() {
    let Ends { exposed, peer, local, jetty, .. } = &ends();
    jetty.write(peer, local.slice(0..8), exposed.key().at(64), 7).unwrap();
    jetty.write_all(peer, local.slice(8..16), exposed.key().at(72), TIMEOUT).unwrap();
    let word = exposed.key().at(128).word64();
    assert_eq!(jetty.update(peer, word, AtomicOp::Add(5), TIMEOUT).unwrap(), 0);
    assert_eq!(jetty.update(peer, word, AtomicOp::Swap(9), TIMEOUT).unwrap(), 5);
    let done = jetty.wait(TIMEOUT).unwrap();
    assert_eq!((done.id, done.kind), (WrId::new(7), CompletionKind::Write));
    assert!(matches!(jetty.wait(SHORT), Err(Error::Timeout { .. })), "there is no other");
}

#[test]
fn send_all_returns_when_the_receive_has_the_bytes() {
    let Ends { owner, peer, local, jetty, .. } = &ends();
    let inbox = owner.register(Memory::zeroed(64).unwrap(), Rights::NONE).unwrap();
    let receiver = owner.create_jetty(JettyOptions::default().number(5)).unwrap();
    receiver.post_receive(inbox.slice(0..64), 3).unwrap();
    jetty.send_all(peer, 5, local.slice(10..20), TIMEOUT).unwrap();
    let mut sent = [0; 10];
    local.read_at(10, &mut sent).unwrap();
    assert!(inbox.compare(0, &sent).unwrap());
    assert_eq!(receiver.wait(TIMEOUT).unwrap().result().expect("a message").id, 3);
}

#[test]
fn blocking_operation_on_a_silent_peer_times_out() {
    let Ends { owner, exposed, peer, local, jetty, .. } = &ends();
    let key = exposed.key();
    owner.simulate_crash();
    let waited = jetty.write_all(peer, local.slice(0..8), key, SHORT);
    assert!(matches!(waited, Err(Error::Timeout { .. })), "{waited:?}");
    // An operation that was given up does not end the wait for the next one.
    let waited = jetty.write_all(peer, local.slice(0..8), key, SHORT);
    assert!(matches!(waited, Err(Error::Timeout { .. })), "{waited:?}");
}

#[test]
fn operations_that_time_out_take_nothing_for_good() {
    let limits = Limits::default().jetties(16).messages(64);
    let few = Context::builder().bind([127, 0, 0, 1].into()).limits(limits).build().unwrap();
    let Ends { owner, exposed, .. } = &ends();
    let peer = few.connect(owner.local_addrs()[0], TIMEOUT).expect("a connection");
    let receiver = owner.create_jetty(JettyOptions::default()).unwrap();
    let local = few.register(Memory::zeroed(64).unwrap(), Rights::NONE).unwrap();
    let jetty = few.create_jetty(JettyOptions::default()).unwrap();
    for round in 0..200 {
        let millisecond = Duration::from_millis(1);
        let waited = jetty.send_all(&peer, receiver.number(), local.slice(0..64), millisecond);
        assert!(matches!(waited, Err(Error::Timeout { .. })), "{round}: {waited:?}");
    }
    jetty.write_all(&peer, local.slice(0..64), exposed.key(), TIMEOUT).unwrap();
    assert!(few.usage().jetties <= 4, "{:?}", few.usage());
}

#[test]
fn aborted_jetty_flushes_what_is_under_way_and_goes_on() {
    let Ends { owner, exposed, peer, local, jetty, .. } = &ends();
    let receiver = owner.create_jetty(JettyOptions::default()).unwrap();
    jetty.post_receive(local.slice(100..200), 1).unwrap();
    jetty.send(peer, receiver.number(), local.slice(0..8), 2).unwrap();
    jetty.abort().unwrap();
    let mut ended = Vec::new();
    for _ in 0..2 {
        let done = jetty.wait(TIMEOUT).unwrap();
        ended.push((done.id.value(), done.status));
    }
    ended.sort_by_key(|&(id, _)| id);
    assert_eq!(ended, [(1, Status::Flushed), (2, Status::Flushed)]);
    jetty.write(peer, local.slice(0..8), exposed.key(), 3).unwrap();
    let done = jetty.wait(TIMEOUT).unwrap();
    assert_eq!((done.id, done.status), (WrId::new(3), Status::Success));
}

#[test]
fn threads_share_a_jetty_for_blocking_operations() {
    let Ends { exposed, peer, local, jetty, .. } = &ends();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            threads.spawn(move || {
                for round in 0..20 {
                    let at = (thread * 20 + round) * 100;
                    let piece = local.slice(at..at + 100);
                    jetty.write_all(peer, piece, exposed.key().at(at), TIMEOUT).unwrap();
                }
            });
        }
    });
    assert_eq!(contents(exposed)[..8000], contents(local)[..8000]);
}

#[cfg(feature = "tokio")]
mod tokio_tasks {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn tasks_write_read_and_update_without_blocking() {
        let Ends { exposed, client, peer, local, jetty, .. } = &ends();
        block_on(async {
            let key = exposed.key();
            let both = tokio::join!(
                jetty.write_all_async(peer, local.slice(0..1000), key, TIMEOUT),
                jetty.update_async(peer, key.at(4096).word64(), AtomicOp::Add(3), TIMEOUT),
            );
            both.0.unwrap();
            assert_eq!(both.1.unwrap(), 0);
            let back = client.register(Memory::zeroed(1000).unwrap(), Rights::NONE).unwrap();
            jetty.read_exact_async(peer, back.slice(0..1000), key, TIMEOUT).await.unwrap();
            let mut bytes = vec![0; 1000];
            back.read_at(0, &mut bytes).unwrap();
            assert_eq!(bytes, contents(local)[..1000]);
        });
    }

    #[test]
    fn task_gets_a_failure_as_an_error_and_silence_as_a_timeout() {
        let Ends { owner, exposed, peer, local, jetty, .. } = &ends();
        block_on(async {
            let beyond = exposed.key().at(BYTES as u64);
            let refused = jetty.write_all_async(peer, local.slice(0..8), beyond, TIMEOUT).await;
            let refused = refused.expect_err("it leaves the segment");
            assert!(matches!(refused, Error::Failed { .. }), "{refused}");
            owner.simulate_crash();
            let key = exposed.key();
            let waited = jetty.write_all_async(peer, local.slice(0..8), key, SHORT).await;
            assert!(matches!(waited, Err(Error::Timeout { .. })), "{waited:?}");
        });
    }

    #[test]
    fn operation_whose_future_is_dropped_is_called_off() {
        let Ends { owner, exposed, client, peer, local, jetty, .. } = &ends();
        let before = client.usage();
        owner.simulate_crash();
        block_on(async {
            let writing = jetty.write_all_async(peer, local.slice(0..8), exposed.key(), TIMEOUT);
            let first = tokio::time::timeout(SHORT, writing).await;
            assert!(first.is_err(), "nothing answers");
        });
        assert_eq!(client.usage().jetties, before.jetties);
    }

    #[test]
    fn connection_is_made_from_a_task() {
        let Ends { owner, client, .. } = &ends();
        let server = owner.local_addrs()[0];
        let peer = block_on(client.connect_async(server, TIMEOUT)).expect("a connection");
        assert!(peer.is_alive());
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = block_on(client.connect_async(closed, TIMEOUT));
        assert!(matches!(refused, Err(Error::NoListener { .. })), "{refused:?}");
    }
}
