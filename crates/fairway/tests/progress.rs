//! Threads that drive the NIC: polling threads, waiting threads, tasks, and the background thread.

mod common;
#[path = "common/tasks.rs"]
mod tasks;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Wake, Waker};
use std::time::{Duration, Instant};

use common::{Pair, TIMEOUT, builder, content};
use fairway::{CompletionKind, DatapathKind, NotifyTarget};
use tasks::block_on;

#[test]
fn completions_can_be_awaited() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(1 << 20, 1);
    let remote = server.open_segment(1 << 20);
    block_on(async {
        for id in 0..50 {
            client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
            assert_eq!(client.jetty.next_completion().await.unwrap().id, id);
        }
    });
    assert_eq!(content(&remote), content(&local));
}

#[test]
fn context_goes_on_after_a_panic_of_the_condition_that_was_waited_for() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let waiting = server.context.clone();
    let thread = std::thread::spawn(move || {
        let begun = Instant::now();
        let condition = || {
            // By then the thread no longer polls, but drives the context while it sleeps.
            let sleeps = begun.elapsed() > Duration::from_millis(2);
            assert!(!sleeps, "a condition that panics, as the test wants it");
            false
        };
        waiting.wait_until(condition, TIMEOUT)
    });
    let (local, remote) = (client.filled(64, 1), server.open_segment(64));
    while !thread.is_finished() {
        client.jetty.write(&client.peer, &local, remote.key(), 6).unwrap();
        assert_eq!(client.jetty.wait(TIMEOUT).unwrap().status, fairway::Status::Success);
    }
    thread.join().expect_err("it has panicked");
    client.jetty.write(&client.peer, &local, remote.key(), 7).unwrap();
    assert_eq!(client.jetty.wait(TIMEOUT).unwrap().status, fairway::Status::Success);
}

/// A task that owns a Jetty.
struct Owner(fairway::Jetty);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        assert!(self.0.outstanding() == 0, "the Jetty can be asked");
    }
}

#[test]
fn end_of_a_task_that_owns_a_jetty_is_not_awaited() {
    let pair = Pair::new();
    let (done, ended) = std::sync::mpsc::channel();
    let context = pair.client.context.clone();
    std::thread::spawn(move || {
        let jetty = |_| context.create_jetty(fairway::JettyOptions::default()).unwrap();
        let [awaited, first, second] = std::array::from_fn(jetty);
        let mut next = awaited.next_completion();
        for owned in [first, second] {
            // The future has the only other reference to the task, and gives up the one before.
            let waker = Waker::from(Arc::new(Owner(owned)));
            assert!(pin!(&mut next).poll(&mut TaskContext::from_waker(&waker)).is_pending());
        }
        drop(next);
        let left = context.usage().jetties;
        done.send(left).unwrap();
    });
    let left = ended.recv_timeout(TIMEOUT).expect("no thread waits for a lock that it holds");
    assert_eq!(left, 2, "that of the pair, and the one that was awaited");
}

#[test]
fn threads_that_do_not_poll_before_they_sleep_get_all_completions() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(1 << 16, 1);
    let remote = server.open_segment(1 << 16);
    let nothing = client.jetty.wait_asleep(Duration::from_millis(1));
    assert!(matches!(nothing, Err(fairway::Error::Timeout { .. })), "{nothing:?}");
    let mut done = Vec::new();
    for id in 0..50 {
        client.jetty.write(&client.peer, &local, remote.key(), 2 * id).unwrap();
        assert_eq!(client.jetty.wait_asleep(TIMEOUT).unwrap().id, 2 * id);
        client.jetty.write(&client.peer, &local, remote.key(), 2 * id + 1).unwrap();
        while client.jetty.poll_once(&mut done) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(done.pop().unwrap().id, 2 * id + 1);
    }
    assert_eq!(content(&remote), content(&local));
}

#[test]
fn two_tasks_play_ping_pong() {
    let pair = Pair::new();
    let play = |side: &common::Side, other: u32, first: bool| {
        let room = side.open_segment(64);
        for id in 0..200 {
            side.jetty.post_receive(&room, id).unwrap();
        }
        block_on(async {
            let (mut received, mut sent) = (0, 0);
            for round in 0..200 {
                while received < round + u64::from(!first) {
                    let completion = side.jetty.next_completion().await.unwrap();
                    if completion.immediate.is_some() {
                        assert_eq!(completion.immediate, Some(received));
                        received += 1;
                    } else {
                        sent += 1;
                    }
                }
                let notify = NotifyTarget::new(other, round);
                let local = room.slice(0..8);
                side.jetty.send_immediate(&side.peer, notify, local, 1000).unwrap();
            }
            while received < 200 || sent < 200 {
                let completion = side.jetty.next_completion().await.unwrap();
                match completion.immediate {
                    Some(_) => received += 1,
                    None => sent += 1,
                }
            }
        });
    };
    let (client, server) = (&pair.client, &pair.server);
    std::thread::scope(|scope| {
        scope.spawn(|| play(server, client.jetty.number(), false));
        play(client, server.jetty.number(), true);
    });
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let pair = Pair::new();
    let client = &pair.client;
    let waker = Waker::noop();
    for _ in 0..100 {
        let mut future = pin!(client.jetty.next_completion());
        let polled = future.as_mut().poll(&mut TaskContext::from_waker(waker));
        assert!(polled.is_pending());
    }
    let local = client.filled(100, 1);
    client.jetty.write(&client.peer, &local, local.key(), 1).unwrap();
    assert_eq!(block_on(client.jetty.next_completion()).unwrap().id, 1);
}

#[test]
fn background_thread_yields_to_polling_threads() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(64, 1);
    let remote = server.open_segment(64);
    let mut done = Vec::new();
    let mut write = |count: u64| {
        for id in 0..count {
            client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
            done.clear();
            while client.jetty.poll(&mut done) == 0 {}
        }
    };
    write(100);
    let before = client.context.counters().nic;
    write(5000);
    let after = client.context.counters().nic;
    let polls = after.polls - before.polls;
    let background = after.background_polls - before.background_polls;
    // The background thread may run when this thread is not scheduled for a while, but not for
    // every packet.
    assert!(background * 10 < polls, "{background} of {polls} polls in the background");
}

#[test]
fn several_threads_wait_at_once() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(100, 1);
    std::thread::scope(|scope| {
        let mut jetties = Vec::new();
        for _ in 0..6 {
            let jetty = Arc::new(server.context.create_jetty(Default::default()).unwrap());
            let room = server.open_segment(100);
            jetty.post_receive(&room, 1).unwrap();
            jetties.push(jetty.clone());
            scope.spawn(move || {
                let received = jetty.wait(TIMEOUT).unwrap();
                assert_eq!((received.id.value(), received.bytes), (1, 100));
                drop(room);
            });
        }
        for jetty in jetties {
            client.jetty.send(&client.peer, jetty.number(), &local, 1).unwrap();
            let _ = client.succeed();
        }
    });
}

#[test]
fn without_a_background_thread_the_application_drives() {
    let make = || builder().engines(1).progress_thread(false);
    let server = make().build().unwrap();
    let address = server.local_addrs()[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                server.poll();
            }
        });
        let client = make().build().unwrap();
        let peer = client.connect(address, TIMEOUT).unwrap();
        let side = common::side(client, peer);
        let local = side.filled(100_000, 2);
        let bytes =
            server.register(fairway::Memory::zeroed(100_000).unwrap(), fairway::Rights::READ_WRITE);
        let remote = bytes.unwrap();
        side.jetty.write(&side.peer, &local, remote.key(), 1).unwrap();
        let _ = side.succeed();
        assert_eq!(content(&remote), content(&local));
        stop.store(true, Ordering::Release);
        worker.join().unwrap();
    });
}

#[test]
fn several_threads_wait_without_a_background_thread() {
    let pair = Pair::of(builder().engines(1).progress_thread(false), builder());
    let (client, server) = (&pair.client, &pair.server);
    let local = server.filled(100, 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let jetty = client.context.create_jetty(Default::default()).unwrap();
            let room = client.open_segment(100);
            jetty.post_receive(&room, 1).unwrap();
            let number = jetty.number();
            scope.spawn(move || {
                assert_eq!(jetty.wait(TIMEOUT).unwrap().id, 1);
                drop(room);
            });
            server.jetty.send(&server.peer, number, &local, 1).unwrap();
        }
        for _ in 0..4 {
            let _ = server.succeed();
        }
    });
}

#[test]
fn a_wait_ends_on_time() {
    let pair = Pair::new();
    for ms in [0, 1, 20] {
        let start = Instant::now();
        let span = Duration::from_millis(ms);
        assert!(pair.client.jetty.wait(span).is_err());
        assert!(start.elapsed() >= span);
    }
}

#[test]
fn a_sleeper_is_woken_by_what_another_thread_received() {
    let pair = Pair::of(builder(), builder());
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(100, 1);
    let room = server.open_segment(100);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // This thread polls all the time, and so takes most packets from the sockets.
        scope.spawn(|| {
            let jetty = server.context.create_jetty(Default::default()).unwrap();
            let mut nothing = Vec::new();
            while !done.load(Ordering::Acquire) {
                assert_eq!(jetty.poll(&mut nothing), 0);
            }
        });
        let start = Instant::now();
        for id in 0..200 {
            server.jetty.post_receive(&room, id).unwrap();
            client.jetty.send(&client.peer, server.jetty.number(), &local, id).unwrap();
            assert_eq!(server.succeed().id, id);
            let _ = client.succeed();
        }
        done.store(true, Ordering::Release);
        // Far less than 200 keep-alive intervals: no thread slept through its completion.
        assert!(start.elapsed() < TIMEOUT);
    });
}

#[test]
fn posted_operation_leaves_although_no_thread_polls() {
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    let local = client.filled(16 << 20, 1);
    let remote = server.open_segment(16 << 20);
    let hash = local.hash(0..16 << 20).unwrap();
    client.jetty.write(&client.peer, &local, remote.key(), 1).unwrap();
    // Neither application calls its NIC now; the background threads move all data.
    let start = Instant::now();
    while remote.hash(0..16 << 20).unwrap() != hash {
        assert!(start.elapsed() < TIMEOUT, "it never arrived");
    }
    assert_eq!(client.succeed().id, 1);
}

/// Sends messages to and fro. Both programs poll and answer at once.
fn exchange(pair: &Pair, count: u64, since: Option<Duration>) {
    let sides = [&pair.client, &pair.server];
    let rooms = sides.map(|side| side.open_segment(64));
    let (start, mut sent, mut done) = (Instant::now(), 0, Vec::new());
    while sent < count || since.is_some_and(|span| start.elapsed() < span) {
        for (from, to) in [(0, 1), (1, 0)] {
            let (message, room) = (&rooms[from], &rooms[to]);
            let (from, to) = (sides[from], sides[to]);
            to.jetty.post_receive(room, sent).unwrap();
            from.jetty.send(&from.peer, to.jetty.number(), message, sent).unwrap();
            await_receive(to, &mut done);
            sent += 1;
        }
    }
}

/// Polls until a message has arrived.
fn await_receive(side: &common::Side, done: &mut Vec<fairway::Completion>) {
    let start = Instant::now();
    loop {
        side.jetty.poll(done);
        let found = done.drain(..).any(|done| done.kind == CompletionKind::Receive);
        if found {
            return;
        }
        assert!(start.elapsed() < TIMEOUT, "the message has not arrived");
    }
}

#[test]
fn message_is_acknowledged_although_the_program_answers_and_polls_no_more() {
    for datapath in [DatapathKind::Udp, DatapathKind::Shm] {
        let pair = Pair::of(builder().datapath(datapath), builder().datapath(datapath));
        let (client, server) = (&pair.client, &pair.server);
        let local = client.filled(64, 1);
        let room = server.open_segment(64);
        for round in 0..20 {
            // The server's answers lead its NIC to expect another one.
            exchange(&pair, 10, None);
            while client.jetty.outstanding() > 0 {
                let _ = client.succeed();
            }
            server.jetty.post_receive(&room, round).unwrap();
            client.jetty.send(&client.peer, server.jetty.number(), &local, round).unwrap();
            await_receive(server, &mut Vec::new());
            // From now on the server's program does nothing.
            assert_eq!(client.succeed().id, round);
        }
    }
}

/// Waits until nothing is in flight, and takes the completions, of which some may lie ready.
fn take_all(side: &common::Side) {
    while side.jetty.outstanding() > 0 {
        let _ = side.succeed();
    }
    side.jetty.poll(&mut Vec::new());
}

#[test]
fn background_thread_and_waiting_threads_are_woken_after_a_long_time_of_polling() {
    for datapath in [DatapathKind::Udp, DatapathKind::Shm] {
        let pair = Pair::of(builder().datapath(datapath), builder().datapath(datapath));
        let (client, server) = (&pair.client, &pair.server);
        let local = client.filled(64, 1);
        let remote = server.open_segment(64);
        for round in 0..10 {
            exchange(&pair, 0, Some(Duration::from_millis(20)));
            take_all(client);
            // The server's background thread receives this.
            client.jetty.write(&client.peer, &local, remote.key(), round).unwrap();
            assert_eq!(client.succeed().id, round);
            exchange(&pair, 0, Some(Duration::from_millis(20)));
            // The server's thread sleeps until this arrives.
            server.jetty.post_receive(&remote, round).unwrap();
            std::thread::scope(|scope| {
                let waits =
                    scope.spawn(|| while server.succeed().kind != CompletionKind::Receive {});
                std::thread::yield_now();
                let number = server.jetty.number();
                client.jetty.send(&client.peer, number, &local, round).unwrap();
                take_all(client);
                waits.join().unwrap();
            });
        }
    }
}

/// A sleeper is woken for a completion that another thread may take first. It sleeps on then, and
/// the next completion wakes it.
#[test]
fn waiting_thread_gets_the_completion_that_a_polling_thread_leaves() {
    for datapath in [DatapathKind::Udp, DatapathKind::Shm] {
        let pair = Pair::of(builder().datapath(datapath), builder().datapath(datapath));
        let (client, server) = (&pair.client, &pair.server);
        let local = client.filled(64, 1);
        let remote = server.open_segment(64);
        let write = |id| client.jetty.write(&client.peer, &local, remote.key(), id).unwrap();
        for round in 0..200 {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| client.succeed());
                (0..4).for_each(|_| write(round));
                let mut taken = Vec::new();
                while client.jetty.outstanding() > 0 {
                    client.jetty.poll(&mut taken);
                }
                client.jetty.poll(&mut taken);
                // Whether or not all were taken: from now on this thread polls no more.
                write(round);
                assert!(waits.join().unwrap().is_success());
                while client.jetty.outstanding() > 0 {
                    client.jetty.poll(&mut taken);
                }
                client.jetty.poll(&mut taken);
                assert_eq!(taken.len(), 4, "each completion is returned once");
            });
        }
    }
}
