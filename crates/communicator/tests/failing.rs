//! Groups that cannot go on: every rank learns why, and nothing hangs.

mod ranks;

use fairway::{DatapathKind, Limits};
use fairway_communicator::{
    Algorithm, Call, Communicator, Error, Failure, Message, Options, Piece, Reduction, Rendezvous,
    TcpRendezvous,
};
use ranks::{free_address, group, group_with, options};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

fn failure(result: Result<(), Error>) -> Failure {
    match result {
        Err(Error::Failed(failure)) => failure,
        other => panic!("the call fails because the group is over, not {other:?}"),
    }
}

#[test]
fn ranks_that_call_different_operations_are_both_named() {
    let agreed = Barrier::new(3);
    let failures = group(3, &options(), |group| {
        group.barrier().expect("all agree");
        // A group that is over ends the calls of all ranks, also earlier ones.
        agreed.wait();
        let mut data = [group.rank(); 100];
        let result = match group.rank() {
            1 => group.broadcast(&mut data, 0),
            _ => group.all_reduce(&mut data, Reduction::Sum),
        };
        let first = failure(result);
        // The group stays over.
        assert_eq!(failure(group.barrier()), first);
        first.to_string()
    });
    // Each names both calls, also a rank that was notified of them.
    let named = failures.iter().filter(|text| {
        text.contains("all-reduce (sum) of 400 bytes of u32")
            && text.contains("broadcast of 400 bytes from rank 0")
    });
    assert_eq!(named.count(), 3, "{failures:#?}");
    assert!(failures.iter().all(|text| text.contains("rank 1")), "{failures:#?}");
}

#[test]
fn ranks_that_pass_different_lengths_are_named() {
    let failures = group(2, &options(), |group| {
        let mut data = vec![0f32; 100 + group.rank() as usize];
        failure(group.all_reduce(&mut data, Reduction::Sum)).to_string()
    });
    for text in &failures {
        assert!(text.contains("of 400 bytes") && text.contains("of 404 bytes"), "{failures:#?}");
    }
}

#[test]
fn order_that_deadlocks_is_found_without_a_message() {
    // Each rank is the root of a broadcast that the other one does not call: neither waits for a
    // message that is on its way, but the first call of each differs.
    let failures = group(2, &options(), |group| {
        let mut data = [0u8; 4];
        failure(group.broadcast(&mut data, 1 - group.rank())).to_string()
    });
    for text in &failures {
        let both = text.contains("from rank 0") && text.contains("from rank 1");
        assert!(both, "{failures:#?}");
    }
}

#[test]
fn call_that_takes_too_long_names_the_rank_that_did_not_come() {
    let come = Barrier::new(2);
    let failures = group(2, &options(), |group| {
        if group.rank() == 1 {
            // Comes only when the other rank has given up.
            come.wait();
            return failure(group.barrier()).to_string();
        }
        let result = group.monitored_barrier(Duration::from_millis(200));
        let text = failure(result).to_string();
        come.wait();
        text
    });
    assert!(failures[0].contains("rank 1"), "{}", failures[0]);
    assert!(failures[0].contains("barrier did not end within"), "{}", failures[0]);
    assert!(failures[0].contains("it has not called anything yet"), "{}", failures[0]);
    assert!(failures[1].contains("rank 0 has given up"), "{}", failures[1]);
}

#[test]
fn call_that_only_sends_names_the_rank_that_does_not_receive() {
    let come = Barrier::new(2);
    let lends_nothing =
        Options { timeout: Duration::from_secs(1), lend_from: u32::MAX, ..options() };
    let failures = group(2, &lends_nothing, |group| {
        // More than the slots of the other rank hold.
        let mut data = vec![1u8; 16 << 20];
        if group.rank() == 1 {
            come.wait();
            return failure(group.broadcast(&mut data, 0)).to_string();
        }
        let text = failure(group.broadcast(&mut data, 0)).to_string();
        come.wait();
        text
    });
    let text = &failures[0];
    assert!(text.contains("broadcast") && text.contains("it waits for rank 1 ("), "{text}");
    assert!(failures[1].contains("rank 0 has given up"), "{}", failures[1]);
}

#[test]
fn rank_that_leaves_early_is_named_by_the_next_call_only() {
    let failures = group(3, &options(), |group| {
        let mut data = [1u32; 50_000];
        group.all_reduce(&mut data, Reduction::Sum).expect("all take part");
        assert_eq!(data, [3; 50_000]);
        if group.rank() == 2 {
            return String::new();
        }
        failure(group.all_reduce(&mut data, Reduction::Sum)).to_string()
    });
    assert!(failures[..2].iter().all(|text| text.contains("rank 2")), "{failures:#?}");
}

#[test]
fn application_that_gives_up_ends_the_calls_of_all() {
    let failures = group(3, &options(), |group| {
        if group.rank() == 1 {
            group.abort("its input is broken");
            return failure(group.barrier()).to_string();
        }
        failure(group.barrier()).to_string()
    });
    assert!(failures[1].contains("its input is broken"), "{failures:#?}");
    assert!(failures.iter().all(|text| text.contains("rank 1 has given up")), "{failures:#?}");
}

#[test]
fn call_outlives_its_communicator_as_a_failure() {
    let address = free_address();
    std::thread::scope(|scope| {
        let join = |rank: u32| {
            let address = address.clone();
            move || {
                let mut rendezvous = TcpRendezvous::new(&address, "test", rank, 2);
                Communicator::new(rank, 2, &mut rendezvous, options()).expect("both come")
            }
        };
        let (first, second) = (scope.spawn(join(0)), scope.spawn(join(1)));
        let (first, second) = (first.join().expect("joined"), second.join().expect("joined"));
        let nothing = std::ptr::null_mut();
        // SAFETY: no bytes.
        let pending = unsafe { first.start(Call::Barrier, (nothing, 0), (nothing, 0)) };
        drop(first);
        let text = failure(pending.expect("it begins").wait()).to_string();
        assert!(text.contains("dropped during a call"), "{text}");
        let text = failure(second.barrier()).to_string();
        assert!(text.contains("rank 0"), "{text}");
    });
}

#[test]
fn strangers_at_the_rendezvous_do_no_harm() {
    let address = free_address();
    std::thread::scope(|scope| {
        let meet = |rank: u32, group: &'static str| {
            let address = address.clone();
            move || {
                let mut rendezvous = TcpRendezvous::new(&address, group, rank, 2);
                rendezvous.exchange(&[rank as u8; 10], Duration::from_secs(20))
            }
        };
        let first = scope.spawn(meet(0, "right"));
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"FWR\x02\xff\xff\xff\xff", b""] {
            let mut stream = connect(&address);
            // Rank 0 may have refused the first bytes already.
            let _ = stream.write_all(bytes);
        }
        let second = scope.spawn(meet(1, "right"));
        let expected = vec![vec![0; 10], vec![1; 10]];
        assert_eq!(first.join().expect("no panic").expect("both came"), expected);
        assert_eq!(second.join().expect("no panic").expect("both came"), expected);
    });
}

#[test]
fn silent_connections_do_not_delay_the_ranks() {
    let address = free_address();
    std::thread::scope(|scope| {
        let meet = |rank: u32| {
            let address = address.clone();
            move || {
                let mut rendezvous = TcpRendezvous::new(&address, "test", rank, 2);
                rendezvous.exchange(&[rank as u8; 10], Duration::from_secs(20))
            }
        };
        let first = scope.spawn(meet(0));
        // Each of them would be waited for during five seconds.
        let silent: Vec<_> = (0..8).map(|_| connect(&address)).collect();
        let second = scope.spawn(meet(1));
        let expected = vec![vec![0; 10], vec![1; 10]];
        assert_eq!(first.join().expect("no panic").expect("both came"), expected);
        assert_eq!(second.join().expect("no panic").expect("both came"), expected);
        drop(silent);
    });
}

#[test]
fn rank_0_gives_up_in_time_although_a_stranger_goes_on_sending() {
    let address = free_address();
    std::thread::scope(|scope| {
        let (ended, end) = channel();
        let first = scope.spawn({
            let address = address.clone();
            move || {
                let mut rendezvous = TcpRendezvous::new(&address, "test", 0, 2);
                let result = rendezvous.exchange(b"record", Duration::from_millis(300));
                drop(ended);
                result
            }
        });
        let mut stream = connect(&address);
        let _ = stream.write_all(b"FWR\x02\x00\x00\x10\x00");
        assert!(dribble(stream, &end), "rank 0 waits for the stranger");
        let error = first.join().expect("no panic").unwrap_err();
        assert!(error.to_string().contains("ranks 1 of 2 did not come"), "{error}");
    });
}

#[test]
fn rank_gives_up_in_time_although_rank_0_goes_on_sending() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::scope(|scope| {
        let (ended, end) = channel();
        let second = scope.spawn(move || {
            let mut rendezvous = TcpRendezvous::new(&address, "test", 1, 2);
            let result = rendezvous.exchange(b"record", Duration::from_millis(300));
            drop(ended);
            result
        });
        let (mut stream, _) = listener.accept().expect("the rank comes");
        let _ = stream.write_all(b"\x00\x00\x10\x00");
        assert!(dribble(stream, &end), "the rank waits for the rest");
        let error = second.join().expect("no panic").unwrap_err();
        assert!(error.to_string().contains("rank 1 could not find rank 0"), "{error}");
    });
}

/// Connects to rank 0, which may not listen yet.
fn connect(address: &str) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(address) {
            return stream;
        }
        std::thread::yield_now();
    }
}

/// Sends a byte, again and again, until the other side of `end` has gone. Returns false if it is
/// still there after a number of bytes that takes much longer than its deadline.
fn dribble(mut stream: TcpStream, end: &Receiver<()>) -> bool {
    (0..2000).any(|_| {
        // The other side may have closed the connection.
        let _ = stream.write_all(b"x");
        end.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Disconnected)
    })
}

/// A rendezvous by the test, which takes the record of the rank and answers for all ranks.
struct Passed {
    own: Sender<Vec<u8>>,
    records: Receiver<Result<Vec<Vec<u8>>, Error>>,
}

impl Rendezvous for Passed {
    fn exchange(&mut self, record: &[u8], _: Duration) -> Result<Vec<Vec<u8>>, Error> {
        self.own.send(record.to_vec()).expect("the test collects records");
        self.records.recv().expect("the test answers")
    }
}

#[test]
fn rank_that_ends_while_the_others_connect_is_named_long_before_the_time_is_up() {
    std::thread::scope(|scope| {
        let begin = |rank| {
            let (own, record) = channel();
            let (answer, records) = channel();
            let joined = scope.spawn(move || {
                let options = Options { setup_timeout: Duration::from_secs(600), ..options() };
                Communicator::new(rank, 2, &mut Passed { own, records }, options).err()
            });
            (joined, record, answer)
        };
        let [(zero, record, end), (one, other, go_on)] = [begin(0), begin(1)];
        let records = [record.recv(), other.recv()].map(|record| record.expect("it is sent"));
        // Rank 0 ends after it has told its address.
        end.send(Err(Error::Rendezvous("it has to end".to_string()))).expect("it waits");
        assert!(zero.join().expect("no panic").is_some());
        go_on.send(Ok(records.to_vec())).expect("it waits");
        let error = one.join().expect("no panic").expect("there is no rank 0");
        assert!(error.to_string().contains("rank 0 is gone: no program listens"), "{error}");
    });
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let mut rendezvous = TcpRendezvous::new(&free_address(), "alone", 0, 3);
    let error = rendezvous.exchange(b"record", Duration::from_millis(50)).unwrap_err();
    assert!(error.to_string().contains("ranks 1, 2 of 3 did not come"), "{error}");
}

#[test]
fn rank_of_a_group_of_another_size_is_refused_and_the_group_goes_on() {
    let address = free_address();
    let timeout = Duration::from_secs(60);
    let join = |rank: u32, ranks: u32| {
        let mut rendezvous = TcpRendezvous::new(&address, "test", rank, ranks);
        rendezvous.exchange(&[rank as u8], timeout)
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| join(0, 2));
        for ranks in [1, 3] {
            let error = join(1, ranks).unwrap_err().to_string();
            assert!(
                error.contains(&format!("rank 1 was started as one of {ranks} ranks")),
                "{error}"
            );
            assert!(error.contains("rank 0 at") && error.contains("as one of 2;"), "{error}");
        }
        assert_eq!(join(1, 2).expect("it has come"), [[0], [1]]);
        assert_eq!(first.join().expect("no panic").expect("all have come"), [[0], [1]]);
    });
}

#[test]
fn options_that_differ_are_refused() {
    let address = free_address();
    std::thread::scope(|scope| {
        let join = |rank: u32, slots: u32| {
            let address = address.clone();
            move || {
                let options = Options { slots, ..options() };
                let mut rendezvous = TcpRendezvous::new(&address, "test", rank, 2);
                Communicator::new(rank, 2, &mut rendezvous, options).map(drop)
            }
        };
        let (first, second) = (scope.spawn(join(0, 8)), scope.spawn(join(1, 16)));
        for thread in [first, second] {
            let error = thread.join().expect("no panic").unwrap_err().to_string();
            assert!(error.contains("ranks disagree: "), "{error}");
            let both = error.contains("has 8 slots of 262144") && error.contains("has 16 slots");
            assert!(both, "{error}");
        }
    });
}

#[test]
fn algorithms_that_differ_are_refused_before_the_first_call() {
    let address = free_address();
    std::thread::scope(|scope| {
        let join = |rank: u32, algorithm: Option<Algorithm>| {
            let address = address.clone();
            move || {
                // The costs would be measured, by calls.
                let options = Options { algorithm, costs: None, ..options() };
                let mut rendezvous = TcpRendezvous::new(&address, "test", rank, 2);
                Communicator::new(rank, 2, &mut rendezvous, options).map(drop)
            }
        };
        let threads = [join(0, Some(Algorithm::Ring)), join(1, None)].map(|join| scope.spawn(join));
        for thread in threads {
            let error = thread.join().expect("no panic").unwrap_err().to_string();
            let both = error.contains("the algorithm ring") && error.contains("no algorithm");
            assert!(both && error.contains("ranks disagree: "), "{error}");
        }
    });
}

#[test]
fn ranks_with_different_roots_are_both_named_although_one_has_ended_its_call() {
    for _ in 0..5 {
        let failures = group(2, &options(), |group| {
            let mut data = [0u8; 4];
            // A root has sent everything, and may learn of the failure by its next call.
            let result = group.broadcast(&mut data, group.rank());
            failure(result.and_then(|()| group.barrier())).to_string()
        });
        for text in &failures {
            assert!(text.contains("ranks disagree: rank "), "{failures:#?}");
            assert!(!text.contains("nothing yet") && !text.contains("called ;"), "{failures:#?}");
            let both = text.contains("from rank 0") && text.contains("from rank 1");
            assert!(both, "{failures:#?}");
        }
    }
}

#[test]
fn operation_that_the_nic_refuses_ends_the_group_before_the_buffers_return() {
    let message = |rank: u32, bytes: u64| Message { rank, piece: Piece { offset: 0, bytes } };
    let failures = group_with(2, crowded, |group| {
        let other = 1 - group.rank();
        if group.rank() == 0 {
            let sent = group.send(&[7u8; 16], other).err();
            let mut data = vec![0u8; 1 << 20];
            let received = group.receive(&mut data, other);
            return failure(sent.map_or(received, Err)).to_string();
        }
        let (input, mut output) = (vec![1u8; 1 << 20], vec![0u8; 16]);
        let sends = vec![message(other, 1 << 20)];
        let receives = vec![message(other, 16)];
        let call = Call::Exchange { is_collective: false, sends, receives };
        // SAFETY: the buffers live until the call has ended, and are not used meanwhile.
        let started =
            unsafe { group.start(call, (input.as_ptr(), 1 << 20), (output.as_mut_ptr(), 16)) };
        let text = failure(started.and_then(|pending| pending.wait())).to_string();
        // The buffers are this rank's again.
        output.fill(9);
        assert_eq!(failure(group.barrier()).to_string(), text);
        assert_eq!(output, [9; 16]);
        text
    });
    assert!(failures[1].contains("its NIC has refused an operation"), "{failures:#?}");
    assert!(failures[0].contains("rank 1 has given up"), "{failures:#?}");
}

/// Options of ranks that reach each other through the network. Rank 1 can register no buffer.
fn crowded(rank: u32) -> Options {
    let mut options = options();
    options.context = options.context.datapath(DatapathKind::Udp);
    if rank == 1 {
        // The status, the slots, and the copies of short messages.
        options.context = options.context.limits(Limits::new().segments(3));
    }
    options
}
