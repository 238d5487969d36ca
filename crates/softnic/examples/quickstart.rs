//! Two contexts in one program: register, connect, write, read back.

use std::time::Duration;

use fairway_softnic::{Context, Error, Memory, Post, Rights};

const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Error> {
    // The passive side: memory that others may use, and its key.
    let server = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let exposed = server.register(Memory::zeroed(1 << 20)?, Rights::READ_WRITE)?;
    let key = exposed.key();

    // The active side: a peer, local memory, and a Jetty to post operations to.
    let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let peer = client.connect(server.local_addrs()[0], PATIENCE)?;
    let local = client.register(Memory::zeroed(1 << 20)?, Rights::NONE)?;
    let jetty = client.create_jetty(Default::default())?;

    local.write_at(0, b"over the fairway")?;
    jetty.write(&peer, local.slice(0..16), key.at(4096), 1)?;
    println!("written: {:?}", jetty.wait(PATIENCE)?.status);
    jetty.read(&peer, local.slice(100..116), key.at(4096), 2)?;
    println!("read back: {:?}", jetty.wait(PATIENCE)?.status);

    let mut text = [0; 16];
    local.read_at(100, &mut text)?;
    println!("{}", String::from_utf8_lossy(&text));
    client.shutdown(PATIENCE)
}
