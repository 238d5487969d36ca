//! Threads that poll on a host with more busy threads than cores.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use common::{Pair, TIMEOUT, engines};

/// Returns how often this thread has gone to sleep.
fn sleeps() -> libc::c_long {
    // SAFETY: all of it may be zeros, and the kernel writes one such structure.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nvcsw
}

/// Calls `work` while two threads per core are busy.
fn on_a_crowded_host(work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..2 * cores {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        result.unwrap();
    });
}

/// A thread that only polls uses up its time slices, and packets wait for it. On a crowded host it
/// sleeps instead, and packets wake it.
#[test]
fn thread_that_polls_in_vain_on_a_crowded_host_sleeps_and_misses_nothing() {
    if engines() > 1 {
        return; // Polling threads leave the work to the threads of the engines.
    }
    const SLEEPS: libc::c_long = 100;
    const MESSAGES: u64 = 200;
    let pair = Pair::new();
    let (client, server) = (&pair.client, &pair.server);
    on_a_crowded_host(|| {
        let (before, start) = (sleeps(), Instant::now());
        let mut completions = Vec::new();
        while sleeps() - before < SLEEPS {
            assert!(start.elapsed() < TIMEOUT, "slept only {} times", sleeps() - before);
            assert_eq!(server.jetty.poll(&mut completions), 0);
        }
        let (local, inbox) = (client.filled(64, 1), server.open_segment(64));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..MESSAGES {
                    client.jetty.send(&client.peer, server.jetty.number(), &local, round).unwrap();
                    let _ = client.succeed();
                }
            });
            let mut received = 0;
            server.jetty.post_receive(&inbox, 0).unwrap();
            while received < MESSAGES {
                assert!(start.elapsed() < 2 * TIMEOUT, "{received} of {MESSAGES} messages");
                if server.jetty.poll(&mut completions) > 0 {
                    received += completions.len() as u64;
                    completions.clear();
                    server.jetty.post_receive(&inbox, received).unwrap();
                }
            }
        });
    });
}
