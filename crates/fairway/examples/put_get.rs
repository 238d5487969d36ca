//! Writes to another context's memory and reads it back, by blocking calls.
//!
//! The owner of the memory registers it, passes the key on, and does nothing more: the background
//! thread of its context serves the client. Both contexts are in this program. If they were in two
//! programs, the client would need the owner's address and the 48 digits that the key prints as.
//!
//! `cargo run --package fairway --example put_get`

use std::time::Duration;

use fairway::{Context, Error, JettyOptions, Memory, Rights};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs both sides.
pub fn main() -> Result<(), Error> {
    let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let exposed = owner.register(Memory::zeroed(1 << 20)?, Rights::READ_WRITE)?;

    let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let peer = client.connect(owner.local_addrs()[0], TIMEOUT)?;
    let local = client.register(Memory::zeroed(1 << 20)?, Rights::NONE)?;
    let jetty = client.create_jetty(JettyOptions::default())?;

    local.write_at(0, b"over the fairway")?;
    jetty.write_all(&peer, local.slice(0..16), exposed.key().at(4096), TIMEOUT)?;
    assert!(exposed.compare(4096, b"over the fairway")?, "the bytes are in the owner's memory");

    jetty.read_exact(&peer, local.slice(100..116), exposed.key().at(4096), TIMEOUT)?;
    assert!(local.compare(100, b"over the fairway")?, "and here again");
    println!("16 bytes were written to {} and read back", peer.address());

    // A failed operation returns an `Err` that names the cause.
    let past_the_end = exposed.key().at(1 << 20);
    let refused = jetty.write_all(&peer, local.slice(0..16), past_the_end, TIMEOUT);
    println!("a write past the end: {}", refused.expect_err("the segment ends there"));
    client.shutdown(TIMEOUT)
}
