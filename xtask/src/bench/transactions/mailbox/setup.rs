//! The exchange that RDMA requires before the first message into a buffer, and RVMA does not: the
//! initiator requests memory; the target registers it, and answers with its key.

use std::io;
use std::time::Instant;

use fairway::{CompletionKind, Error, Memory, Rights, SegmentKey};

use super::succeeded;
use crate::bench::transactions::failed;
use crate::bench::transactions::pair::{Pair, TIMEOUT, jetty, quantile_us, segment};

/// Number of exchanges measured.
const COUNT: usize = 20;

/// The median time of an exchange, in microseconds.
pub(super) fn measure(pair: &Pair, size: u64) -> io::Result<f64> {
    let key = SegmentKey { token_id: 0, token_value: 0, address: 0, length: 0 };
    let key_bytes = key.to_bytes().len() as u64;
    let (client, server) = (jetty(&pair.client)?, jetty(&pair.server)?);
    let (received, answered) = (
        segment(&pair.server, key_bytes, Rights::NONE)?,
        segment(&pair.client, key_bytes, Rights::NONE)?,
    );
    let request = segment(&pair.client, 8, Rights::NONE)?;
    server.post_receive(&received, 0).map_err(failed)?;
    let (back, client_number) = (pair.back()?, client.number());
    let (mut completions, mut buffers) = (Vec::new(), Vec::new());
    let serve = || -> Result<(), Error> {
        server.poll(&mut completions);
        for completion in completions.drain(..) {
            if completion.kind != CompletionKind::Receive {
                continue;
            }
            let memory = Memory::zeroed(size as usize)?;
            let buffer = pair.server.register(memory, Rights::WRITE)?;
            received.write_at(0, &buffer.key().to_bytes())?;
            buffers.push(buffer);
            server.send(&back, client_number, &received, 1)?;
            server.post_receive(&received, 0)?;
        }
        Ok(())
    };
    let number = server.number();
    pair.run(serve, || {
        let mut times = Vec::new();
        for _ in 0..COUNT {
            client.post_receive(&answered, 1).map_err(failed)?;
            let start = Instant::now();
            client.send(&pair.peer, number, request.slice(0..0), 0).map_err(failed)?;
            let (mut open, mut ends) = (2, Vec::new());
            let mut time = start.elapsed();
            while open > 0 {
                client.poll(&mut ends);
                for end in ends.drain(..) {
                    succeeded(&end)?;
                    open -= 1;
                    if end.kind == CompletionKind::Receive {
                        time = start.elapsed();
                    }
                }
                if start.elapsed() > TIMEOUT {
                    return Err(io::Error::other("no answer with a key arrived"));
                }
            }
            times.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
        }
        Ok(quantile_us(&mut times, 0.5))
    })
}
