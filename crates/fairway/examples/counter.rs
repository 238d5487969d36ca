//! A counter that several clients, and its owner, add to at the same time.
//!
//! Each atomic operation is executed exactly once, even if the network loses or duplicates packets,
//! and is atomic with the owner's own instructions. The network of this example loses and
//! duplicates packets on purpose.
//!
//! `cargo run --package fairway --example counter`

use std::sync::atomic::Ordering;
use std::time::Duration;

use fairway::{AtomicOp, Context, Error, JettyOptions, Memory, Rights};

const TIMEOUT: Duration = Duration::from_secs(20);
const CLIENTS: u64 = 3;
const STEPS: u64 = 50;

/// Runs the owner and its clients.
pub fn main() -> Result<(), Error> {
    let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let segment = owner.register(Memory::zeroed(4096)?, Rights::ALL)?;
    let (server, key) = (owner.local_addrs()[0], segment.key());

    let count = |client: u64| -> Result<u64, Error> {
        let bad = "loss=2%,dup=2%".parse().expect("a description of a network");
        let builder = Context::builder().bind([127, 0, 0, 1].into()).emulate(bad, client);
        let context = builder.build()?;
        let peer = context.connect(server, TIMEOUT)?;
        let jetty = context.create_jetty(JettyOptions::default())?;
        let mut last = 0;
        for _ in 0..STEPS {
            last = jetty.update(&peer, key.at(0).word64(), AtomicOp::Add(1), TIMEOUT)?;
        }
        Ok(last)
    };
    std::thread::scope(|threads| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| threads.spawn(move || count(client))).collect();
        for _ in 0..STEPS {
            segment.atomic_u64(0)?.fetch_add(1, Ordering::SeqCst);
        }
        for (number, client) in clients.into_iter().enumerate() {
            let last = client.join().expect("a client does not panic")?;
            println!("client {number} saw {last} before its last step");
        }
        Ok::<(), Error>(())
    })?;
    let total = segment.atomic_u64(0)?.load(Ordering::SeqCst);
    assert_eq!(total, (CLIENTS + 1) * STEPS, "every step counted once");
    println!("the counter is at {total}");
    Ok(())
}
