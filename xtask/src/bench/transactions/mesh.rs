//! Contexts in this process that write to each other, driven by one thread per core.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairway::{
    Builder, Context, DatapathKind, Event, Jetty, JettyOptions, Peer, Post, Rights, Segment,
    SegmentKey,
};

use super::failed;
use super::pair::{CORES, Flow, TIMEOUT, segment};
use crate::peers::sockets::pin;

/// Load that each sending context keeps in flight to each of its peers.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of messages, in rotation.
    pub sizes: &'static [u64],
    /// Messages in flight per flow.
    pub depth: u64,
    /// Number of flows, each with its own Jetty.
    pub flows: usize,
    /// Whether all contexts send, or only the first.
    pub all_send: bool,
}

/// Depth of a flow's Jetty.
const JETTY_DEPTH: u32 = 64;

/// Contexts, each connected to every other.
pub struct Mesh {
    pub contexts: Vec<Context>,
    load: Load,
    /// For each context: memory that is read, followed by memory that is written.
    memory: Vec<Segment>,
    /// For each context: flows to peers.
    lanes: Vec<Vec<Lane>>,
}

/// A flow to a peer.
struct Lane {
    jetty: Jetty,
    peer: Peer,
    to: SegmentKey,
}

impl Mesh {
    /// Creates `count` contexts, configured by `build`.
    pub fn new(count: usize, load: &Load, build: impl Fn(Builder) -> Builder) -> io::Result<Mesh> {
        Mesh::with_channels(count, load, 1, build)
    }

    /// As [`Mesh::new`], with `channels` connections of each pair, among which flows are divided.
    pub fn with_channels(
        count: usize,
        load: &Load,
        channels: usize,
        build: impl Fn(Builder) -> Builder,
    ) -> io::Result<Mesh> {
        let context = |_| {
            let builder = Context::builder().bind(Ipv4Addr::LOCALHOST.into());
            let builder = builder.datapath(DatapathKind::Udp);
            build(builder).build().map_err(failed)
        };
        let contexts = (0..count).map(context).collect::<io::Result<Vec<_>>>()?;
        let half = load.half();
        let memory = contexts.iter().map(|context| segment(context, 2 * half, Rights::WRITE));
        let memory = memory.collect::<io::Result<Vec<_>>>()?;
        let mut lanes: Vec<Vec<Lane>> = (0..count).map(|_| Vec::new()).collect();
        for one in 0..count {
            for two in one + 1..count {
                let address = contexts[two].local_addrs()[0];
                let mut peers = [Vec::new(), Vec::new()];
                for _ in 0..channels {
                    peers[0].push(contexts[one].connect(address, TIMEOUT).map_err(failed)?);
                    let Event::Connected(back) =
                        contexts[two].wait_event(TIMEOUT).map_err(failed)?
                    else {
                        return Err(io::Error::other("something else happened than a connection"));
                    };
                    peers[1].push(back);
                }
                let [there, back] = peers;
                for (from, to, peers) in [(one, two, there), (two, one, back)] {
                    for flow in 0..load.flows_of(from) {
                        let peer = &peers[flow % channels];
                        let options = JettyOptions::default().depth(JETTY_DEPTH);
                        let jetty = contexts[from].create_jetty(options).map_err(failed)?;
                        let (peer, to) = (peer.clone(), memory[to].key());
                        lanes[from].push(Lane { jetty, peer, to });
                    }
                }
            }
        }
        Ok(Mesh { contexts, load: *load, memory, lanes })
    }

    /// Runs the load, first for the warm-up and then for the measured time; calls `begin` and `end`
    /// at the start and the end of the latter. Returns the payload received in that time, in Gb/s.
    pub fn run(
        &self,
        (warm_up, time): (Duration, Duration),
        begin: impl FnOnce(),
        end: impl FnOnce(),
    ) -> io::Result<f64> {
        let (over, idle) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let drivers = CORES.map(|core| {
                let (over, idle) = (&over, &idle);
                scope.spawn(move || {
                    let result = pin(core).and_then(|()| self.drive(core, over, idle));
                    // Otherwise other threads would wait for a thread that has failed.
                    over.store(true, Ordering::Relaxed);
                    idle.store(CORES.len(), Ordering::Release);
                    result
                })
            });
            thread::sleep(warm_up);
            begin();
            let (from, before) = (Instant::now(), self.bytes_received());
            thread::sleep(time);
            end();
            let (seconds, bytes) = (from.elapsed().as_secs_f64(), self.bytes_received() - before);
            over.store(true, Ordering::Relaxed);
            for driver in drivers {
                driver.join().map_err(|_| io::Error::other("a thread panicked"))??;
            }
            Ok(8.0 * bytes as f64 / seconds / 1e9)
        })
    }

    /// Drives this core's share of the contexts, until the run is over and nothing is in flight
    /// anywhere.
    fn drive(&self, core: usize, over: &AtomicBool, idle: &AtomicUsize) -> io::Result<()> {
        let own = (core..self.contexts.len()).step_by(CORES.len());
        let mut flows: Vec<(usize, &Lane, Flow<'_>)> = own
            .clone()
            .flat_map(|context| self.lanes[context].iter().map(move |lane| (context, lane)))
            .map(|(context, lane)| (context, lane, Flow::new(&lane.jetty, self.load.depth, false)))
            .collect();
        while !over.load(Ordering::Relaxed) {
            for (context, lane, flow) in &mut flows {
                flow.step(|batch, number| {
                    let bytes = self.load.sizes[number as usize % self.load.sizes.len()];
                    let local = self.memory[*context].slice(0..bytes);
                    batch.write(&lane.peer, local, lane.to.at(self.load.half()), number)
                })?;
            }
            // Contexts that only receive are polled, too.
            own.clone().for_each(|context| self.contexts[context].poll());
        }
        let since = Instant::now();
        let mut waits = true;
        while idle.load(Ordering::Acquire) < CORES.len() {
            let mut busy = false;
            for (_, _, flow) in &mut flows {
                flow.take()?;
                busy |= flow.is_busy();
            }
            own.clone().for_each(|context| self.contexts[context].poll());
            if !busy && std::mem::take(&mut waits) {
                idle.fetch_add(1, Ordering::AcqRel);
            }
            if since.elapsed() > TIMEOUT {
                return Err(io::Error::other("operations did not complete"));
            }
        }
        Ok(())
    }

    fn bytes_received(&self) -> u64 {
        let each = self.contexts.iter().map(|context| context.counters().engine.payload_received);
        each.sum()
    }
}

impl Load {
    /// Bytes of the memory that is read, and also of the memory that is written.
    fn half(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or_default()
    }

    fn flows_of(&self, context: usize) -> usize {
        if self.all_send || context == 0 { self.flows } else { 0 }
    }
}
