//! Posts many operations at a time, each in its own tokio task.
//!
//! The context's background thread drives the NIC and wakes the tasks; no task blocks a thread.
//!
//! `cargo run --package fairway --features tokio --example async_tokio`

use std::sync::Arc;
use std::time::Duration;

use fairway::{Context, Error, JettyOptions, Memory, Rights};

const TIMEOUT: Duration = Duration::from_secs(5);
const TASKS: u64 = 16;
const PIECE: u64 = 4096;

/// Runs both sides on a tokio runtime with two worker threads.
pub fn main() -> Result<(), Error> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(run())
}

async fn run() -> Result<(), Error> {
    let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let exposed = owner.register(Memory::zeroed((TASKS * PIECE) as usize)?, Rights::READ_WRITE)?;
    let key = exposed.key();

    let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let peer = client.connect_async(owner.local_addrs()[0], TIMEOUT).await?;
    let jetty = Arc::new(client.create_jetty(JettyOptions::default())?);
    let memory = Memory::from_vec((0..TASKS * PIECE).map(|at| (at / PIECE) as u8).collect());
    let memory = Arc::new(client.register(memory, Rights::NONE)?);

    let tasks = (0..TASKS).map(|task| {
        let (jetty, memory, peer) = (jetty.clone(), memory.clone(), peer.clone());
        tokio::spawn(async move {
            let piece = memory.slice(task * PIECE..(task + 1) * PIECE);
            jetty.write_all_async(&peer, piece, key.at(task * PIECE), TIMEOUT).await
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a task does not panic")?;
    }
    for task in 0..TASKS {
        let piece = vec![task as u8; PIECE as usize];
        assert!(exposed.compare(task * PIECE, &piece)?, "piece {task} is in place");
    }
    println!("{TASKS} tasks have written {PIECE} bytes each");
    Ok(())
}
