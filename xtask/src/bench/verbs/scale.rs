//! Cost of queue pairs: memory and throughput with 1 to 16,384 of them, over both providers.
//!
//! Both ends are in this process, so the additional memory is halved. Pools whose size depends on a
//! provider's limits are allocated before.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairway::Rights;
use fairway_rdma::{
    ForeignMemory, Listener, Management, Provider, ProviderKind, ProviderOptions, Routed, open,
};
use fairway_roce::{
    Change, Completion, MemoryRegion, MemoryRequest, Peer, QueuePairConfig, Reliability,
    RemoteAddress, ScatterList, Status, Transport, Work, WorkRequest,
};
use fairway_ub::{CompletionQueueId, LocalRange};
use fairway_wire::roce::{RnrTimer, Tail};
use fairway_wire::{Psn, Qpn};
use serde_json::{Value, json};

use crate::bench::table::Spread;
use crate::programs::check_signals;

/// Numbers of queue pairs.
const COUNTS: &[u32] = &[1, 16, 256, 1024, 4096, 16_384];
/// Bytes of each WRITE.
const BYTES: u32 = 4096;
/// Largest number of WRITEs in flight, each on another queue pair if there are enough.
const DEPTH: u32 = 64;
const ADDRESS: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// A listener that ignores events, because no thread waits.
struct Deaf;

impl Listener for Deaf {
    fn completion(&self, _queue: CompletionQueueId) {}
    fn event(&self, _event: fairway_roce::Event) {}
    fn management(&self, _datagram: &Management<'_>) -> Routed {
        Routed::Here
    }
}

/// One end.
struct End {
    provider: Arc<dyn Provider>,
    queue: CompletionQueueId,
    region: MemoryRegion,
    memory: Vec<u8>,
    pairs: Vec<Qpn>,
}

/// A row of the table.
struct Row {
    kind: ProviderKind,
    count: u32,
    bytes_per_pair: Vec<f64>,
    gbps: Vec<f64>,
    failed: Option<String>,
}

/// Measures all numbers of queue pairs over both providers, in alternation.
pub fn run(repeats: usize, slice: Duration) -> io::Result<(String, Value)> {
    let mut rows: Vec<Row> = [ProviderKind::Roce, ProviderKind::Fairway]
        .iter()
        .flat_map(|kind| COUNTS.iter().map(|count| (*kind, *count)))
        .map(|(kind, count)| Row {
            kind,
            count,
            bytes_per_pair: Vec::new(),
            gbps: Vec::new(),
            failed: None,
        })
        .collect();
    for repeat in 0..repeats {
        for row in &mut rows {
            check_signals()?;
            eprint!("\rqueue pairs: {} of {repeats}: {:?} {:<8}", repeat + 1, row.kind, row.count);
            if let Err(error) = measure(row, slice) {
                row.failed = Some(error.to_string());
            }
        }
    }
    eprint!("\r{:60}\r", "");
    Ok(show(&rows))
}

fn measure(row: &mut Row, slice: Duration) -> io::Result<()> {
    let mut ends = [end(row.kind)?, end(row.kind)?];
    let before = allocated_bytes();
    connect(&mut ends, row.count)?;
    row.gbps.push(write(&ends, slice)?);
    // This includes memory that is allocated on use.
    let grown = allocated_bytes().saturating_sub(before);
    row.bytes_per_pair.push(grown as f64 / f64::from(2 * row.count));
    let [first, second] = &ends;
    if first.memory != second.memory {
        return Err(io::Error::other("what was written differs from what it was written from"));
    }
    for end in &ends {
        for pair in &end.pairs {
            end.provider.destroy_queue_pair(*pair).map_err(io::Error::other)?;
        }
        end.provider.deregister(end.region.segment).map_err(io::Error::other)?;
    }
    Ok(())
}

fn end(kind: ProviderKind) -> io::Result<End> {
    let options = ProviderOptions::new(vec![ADDRESS], 4096);
    let provider = open(kind, &options, Arc::new(Deaf)).map_err(io::Error::other)?;
    let mut memory: Vec<u8> = (0..DEPTH * BYTES).map(|i| (i % 251) as u8).collect();
    // SAFETY: it is deregistered before it is dropped, and it is not read while WRITEs go on.
    let foreign = unsafe { ForeignMemory::new(memory.as_mut_ptr(), memory.len()) };
    let address = memory.as_ptr() as u64;
    let length = memory.len() as u64;
    let request = MemoryRequest { domain: 1, address, length, rights: Rights::ALL };
    let region = provider.register(foreign, &request).map_err(io::Error::other)?;
    let queue = provider.create_completion_queue(2 * DEPTH).map_err(io::Error::other)?;
    Ok(End { provider, queue, region, memory, pairs: Vec::new() })
}

fn connect(ends: &mut [End; 2], count: u32) -> io::Result<()> {
    for end in ends.iter_mut() {
        let config = QueuePairConfig {
            transport: Transport::Rc,
            domain: 1,
            send_queue: end.queue,
            receive_queue: end.queue,
            shared_receives: None,
            send_depth: DEPTH,
            receive_depth: 1,
        };
        for _ in 0..count {
            end.pairs.push(end.provider.create_queue_pair(&config).map_err(io::Error::other)?);
        }
    }
    for (here, there) in [(0, 1), (1, 0)] {
        let address = ends[here].provider.resolve(ADDRESS.into()).map_err(io::Error::other)?;
        for index in 0..count as usize {
            let peer = Peer { address, queue_pair: ends[there].pairs[index] };
            ready(&ends[here], ends[here].pairs[index], peer)?;
        }
    }
    Ok(())
}

fn ready(end: &End, pair: Qpn, peer: Peer) -> io::Result<()> {
    let changes = [
        Change::Init { rights: Rights::ALL, p_key: 0xffff, q_key: 0 },
        Change::ReadyToReceive {
            peer,
            mtu: 4096,
            expected: Psn::new(0),
            read_depth: 1,
            rnr_timer: RnrTimer::from_code(12),
        },
        Change::ReadyToSend { first: Psn::new(0), reliability: Reliability::default() },
    ];
    for change in &changes {
        let refused = |error| io::Error::other(format!("{change:?}: {error:?}"));
        end.provider.modify(pair, change).map_err(refused)?;
    }
    Ok(())
}

/// Writes from the first end to the second, by all queue pairs in rotation; returns Gb/s.
fn write(ends: &[End; 2], slice: Duration) -> io::Result<f64> {
    let [source, target] = ends;
    let mut out = vec![empty(); DEPTH as usize];
    let (mut posted, mut done) = (0_u64, 0_u64);
    let begun = Instant::now();
    loop {
        let over = begun.elapsed() >= slice;
        while !over && posted - done < u64::from(DEPTH) {
            let place = posted % u64::from(DEPTH) * u64::from(BYTES);
            let range = LocalRange { segment: source.region.segment, offset: place, length: BYTES };
            let remote = RemoteAddress {
                address: target.memory.as_ptr() as u64 + place,
                r_key: target.region.r_key,
            };
            let request = WorkRequest {
                id: posted,
                work: Work::Write { remote, immediate: None },
                local: ScatterList::new(&[range]).unwrap_or_default(),
                signaled: true,
                solicited: false,
                fence: false,
            };
            let pair = source.pairs[(posted % source.pairs.len() as u64) as usize];
            if let (0, error) = source.provider.post_send(pair, &[request]) {
                return Err(io::Error::other(format!("a WRITE was refused: {error:?}")));
            }
            posted += 1;
        }
        let taken = source.provider.poll(source.queue, &mut out);
        for completion in &out[..taken] {
            if completion.status != Status::Success {
                return Err(io::Error::other(format!(
                    "a WRITE ended with {:?}",
                    completion.status
                )));
            }
        }
        done += taken as u64;
        if over && done == posted {
            break;
        }
        if begun.elapsed() > slice + Duration::from_secs(20) {
            return Err(io::Error::other("WRITEs were not completed within 20 s"));
        }
    }
    Ok(done as f64 * f64::from(BYTES) * 8.0 / begun.elapsed().as_secs_f64() / 1e9)
}

fn empty() -> Completion {
    Completion {
        id: 0,
        queue_pair: Qpn::new(0),
        status: Status::Success,
        kind: fairway_roce::CompletionKind::Write,
        bytes: 0,
        tail: Tail::Nothing,
        value: 0,
        from: Peer::default(),
        solicited: false,
    }
}

/// Bytes that are allocated, touched or not.
fn allocated_bytes() -> u64 {
    // SAFETY: the call only returns figures.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

fn show(rows: &[Row]) -> (String, Value) {
    let mut text = "| queue pairs | provider | bytes of memory each | WRITE of 4 KiB, Gb/s |\n\
                    |---|---|---|---|\n"
        .to_owned();
    let mut list = Vec::new();
    for row in rows {
        let spread = |samples: &[f64]| Spread::of(samples).unwrap_or_default();
        let bytes = spread(&row.bytes_per_pair);
        let samples = Spread::of(&row.gbps).map(Spread::show);
        let failed = row.failed.as_ref().map(|failed| format!("failed: {failed}"));
        // Samples from before or after a failure are shown beside it.
        let cells: Vec<String> = samples.into_iter().chain(failed).collect();
        let rate = cells.join("; ");
        text += &format!("| {} | {:?} | {:.0} | {rate} |\n", row.count, row.kind, bytes.median);
        list.push(json!({
            "queue_pairs": row.count, "provider": format!("{:?}", row.kind),
            "bytes_each": row.bytes_per_pair, "gbps": row.gbps, "failed": row.failed,
        }));
    }
    (text, Value::Array(list))
}
