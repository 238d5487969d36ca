//! Model checks of every interleaving of the lock-free code, within small bounds: `RUSTFLAGS="--cfg
//! loom" cargo test -p fairway-ring --release --lib`.

use crate::{Doorbell, ProgressLock, Role, Spsc};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

#[test]
fn records_arrive_whole_and_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = Spsc::<2>::owned(2).unwrap();
        let writer = thread::spawn(move || {
            let mut sent = 0;
            for i in 1..=3 {
                // A full ring loses the record, so the records received are a prefix.
                if producer.push([i, i + 10]).is_err() {
                    break;
                }
                sent = i;
            }
            sent
        });
        let mut expected = 1;
        for _ in 0..3 {
            if let Some(record) = consumer.pop() {
                assert_eq!(record, [expected, expected + 10]);
                expected += 1;
            }
        }
        let sent = writer.join().unwrap();
        while let Some(record) = consumer.pop() {
            assert_eq!(record, [expected, expected + 10]);
            expected += 1;
        }
        assert_eq!(expected, sent + 1, "everything that went in came out");
    });
}

#[test]
fn no_ring_is_lost() {
    loom::model(|| {
        let shared = Arc::new((Doorbell::new(), AtomicU32::new(0)));
        let ringer = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.store(1, Ordering::Relaxed);
                shared.0.ring();
            })
        };
        let ticket = shared.0.listen();
        if shared.1.load(Ordering::Relaxed) == 0 {
            // Never returns if the ring was missed: loom reports it.
            shared.0.wait(ticket, None);
        }
        assert_eq!(shared.1.load(Ordering::Relaxed), 1);
        ringer.join().unwrap();
    });
}

#[test]
fn a_parked_background_is_woken_when_the_leader_resigns() {
    loom::model(|| {
        let shared = Arc::new((ProgressLock::new(), Doorbell::new()));
        let application = {
            let shared = shared.clone();
            thread::spawn(move || {
                assert!(shared.0.try_lead());
                if shared.0.resign() {
                    shared.1.ring();
                }
            })
        };
        let mut seen = 0;
        let ticket = shared.1.listen();
        if shared.0.decide(&mut seen) == Role::Parked {
            shared.1.wait(ticket, None);
            assert_ne!(shared.0.decide(&mut seen), Role::Parked);
        }
        application.join().unwrap();
        assert!(!shared.0.has_leader());
    });
}

#[test]
fn a_demand_makes_the_background_drive() {
    loom::model(|| {
        let shared = Arc::new((ProgressLock::new(), Doorbell::new()));
        let application = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.0.touch();
                if shared.0.demand() {
                    shared.1.ring();
                }
            })
        };
        let mut seen = u32::MAX;
        let ticket = shared.1.listen();
        if shared.0.decide(&mut seen) != Role::Driving {
            // The background thread saw the poll and not the demand: the demand must ring.
            shared.1.wait(ticket, None);
            assert_eq!(shared.0.decide(&mut seen), Role::Driving);
        }
        application.join().unwrap();
    });
}
