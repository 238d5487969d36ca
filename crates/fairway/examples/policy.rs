//! Selects policies by name: runs the same transfer under several, over the same impaired network.
//!
//! User-written policies are WebAssembly files: `examples/policies` contains examples in C and
//! Rust, and `docs/policies.md` describes the calls.
//!
//! `cargo run --package fairway --example policy`, optionally with names of policies as arguments,
//! such as `cc=swift,path=p2c` or `cc=./mine.wasm`.

use std::time::{Duration, Instant};

use fairway::{Context, Error, JettyOptions, Memory, Rights};

const TIMEOUT: Duration = Duration::from_secs(20);
const BYTES: u64 = 1 << 20;

/// Writes a mebibyte under each policy.
pub fn main() -> Result<(), Error> {
    let named: Vec<String> = std::env::args().skip(1).filter(|name| name.contains('=')).collect();
    let policies = match named.is_empty() {
        true => ["cc=cubic,path=spray", "cc=swift,path=p2c", "cc=fixed"].map(String::from).to_vec(),
        false => named,
    };
    for policy in &policies {
        let (took, lost) = measure(policy)?;
        println!("{policy}: {BYTES} bytes in {took:.1?}, {lost} packets lost on the way");
    }
    // Building the context fails if the name of a policy does not exist.
    let refused = Context::builder().policy_named("cc=hope").build();
    println!("cc=hope: {}", refused.expect_err("there is no such policy"));
    Ok(())
}

fn measure(policy: &str) -> Result<(Duration, u64), Error> {
    let here = || Context::builder().bind([127, 0, 0, 1].into()).policy_named(policy);
    let owner = here().build()?;
    let exposed = owner.register(Memory::zeroed(BYTES as usize)?, Rights::WRITE)?;
    let bad = "delay=100us,loss=1%".parse().expect("a description of a network");
    let client = here().emulate(bad, 7).build()?;
    let peer = client.connect(owner.local_addrs()[0], TIMEOUT)?;
    let data: Vec<u8> = (0..BYTES).map(|at| (at * 31 / 7) as u8).collect();
    let local = client.register(Memory::from_vec(data.clone()), Rights::NONE)?;
    let jetty = client.create_jetty(JettyOptions::default())?;
    let start = Instant::now();
    jetty.write_all(&peer, local.slice(0..BYTES), exposed.key(), TIMEOUT)?;
    let took = start.elapsed();
    assert!(exposed.compare(0, &data)?, "every byte is in place");
    Ok((took, peer.stats().lost))
}
