//! Two contexts in this process, and operations kept in flight between them.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairway::{
    Batch, Completion, Context, DatapathKind, Error, Event, Jetty, JettyOptions, Memory, Peer,
    Rights, Segment, Status,
};

use super::failed;
use crate::peers::sockets::pin;

/// Time after which an operation is considered hung.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Cores of the serving and of the driving side.
pub const CORES: [usize; 2] = [0, 1];

/// Number of post times that are kept, far more than the operations that can overtake a waiting
/// one.
const STARTS: usize = 1 << 16;

/// A network between the two sides.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub name: &'static str,
    pub paths: u32,
    /// Specification of the emulator, applied in both directions.
    pub spec: &'static str,
}

/// The unimpaired loopback interface.
pub const LOOPBACK: Network = Network { name: "loopback", paths: 16, spec: "" };

/// Two connected contexts.
pub struct Pair {
    pub client: Context,
    pub server: Context,
    /// The server, from the client's side.
    pub peer: Peer,
}

impl Pair {
    pub fn new(network: &Network) -> io::Result<Pair> {
        Pair::with_engines(network, 1)
    }

    pub fn with_engines(network: &Network, engines: usize) -> io::Result<Pair> {
        let context = |seed: u64| {
            let builder = Context::builder().bind(Ipv4Addr::LOCALHOST.into()).paths(network.paths);
            let builder = builder.engines(engines).datapath(DatapathKind::Udp);
            let spec = network.spec.parse().map_err(|error| {
                io::Error::other(format!("'{}' describes no paths: {error:?}", network.spec))
            })?;
            let clean = network.spec.is_empty();
            let builder = if clean { builder } else { builder.emulate(spec, seed) };
            builder.build().map_err(failed)
        };
        let (server, client) = (context(1)?, context(2)?);
        let peer = client.connect(server.local_addrs()[0], TIMEOUT).map_err(failed)?;
        match server.wait_event(TIMEOUT).map_err(failed)? {
            Event::Connected(_) => Ok(Pair { client, server, peer }),
            event => Err(io::Error::other(format!("{event:?} instead of a connection"))),
        }
    }

    /// The client, from the server's side.
    pub fn back(&self) -> io::Result<Peer> {
        self.server.peers().pop().ok_or_else(|| io::Error::other("the client has gone"))
    }

    /// Runs `drive` on one core while another core calls `serve` repeatedly.
    pub fn run<R: Send>(
        &self,
        mut serve: impl FnMut() -> Result<(), Error> + Send,
        drive: impl FnOnce() -> io::Result<R> + Send,
    ) -> io::Result<R> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                pin(CORES[0])?;
                while !over.load(Ordering::Relaxed) {
                    serve().map_err(failed)?;
                }
                Ok(())
            });
            let client = scope.spawn(|| {
                let result = pin(CORES[1]).and_then(|()| drive());
                over.store(true, Ordering::Relaxed);
                result
            });
            let gone = || io::Error::other("a thread panicked");
            let result = client.join().map_err(|_| gone())?;
            let served: io::Result<()> = server.join().map_err(|_| gone())?;
            served.and(result)
        })
    }

    /// As [`Pair::run`], with a server whose application does nothing.
    pub fn run_alone<R: Send>(
        &self,
        drive: impl FnOnce() -> io::Result<R> + Send,
    ) -> io::Result<R> {
        let serve = || {
            self.server.poll();
            Ok(())
        };
        self.run(serve, drive)
    }
}

/// A segment whose pages are all present.
pub fn segment(context: &Context, length: u64, rights: Rights) -> io::Result<Segment> {
    let memory = Memory::zeroed(length as usize).map_err(|error| failed(error.into()))?;
    let segment = context.register(memory, rights).map_err(failed)?;
    segment.fill_with(0..length, |_, piece| piece.fill(1)).map_err(failed)?;
    Ok(segment)
}

/// A Jetty with a deep queue.
pub fn jetty(context: &Context) -> io::Result<Jetty> {
    context.create_jetty(JettyOptions::default().depth(4096)).map_err(failed)
}

/// Keeps operations of one Jetty in flight.
pub struct Flow<'a> {
    jetty: &'a Jetty,
    depth: u64,
    posted: u64,
    pub done: u64,
    completions: Vec<Completion>,
    /// Time at which each operation in flight was posted, if latency is measured.
    starts: Vec<Instant>,
    /// Number and nanoseconds of each measured operation.
    pub times: Vec<(u64, u32)>,
}

impl<'a> Flow<'a> {
    pub fn new(jetty: &'a Jetty, depth: u64, timed: bool) -> Self {
        let starts = if timed { vec![Instant::now(); STARTS] } else { Vec::new() };
        let completions = Vec::with_capacity(256);
        Flow { jetty, depth, posted: 0, done: 0, completions, starts, times: Vec::new() }
    }

    /// Posts operations up to the depth, by `post`, which receives their numbers, and handles
    /// completions.
    pub fn step(
        &mut self,
        mut post: impl FnMut(&Batch<'a>, u64) -> Result<(), Error>,
    ) -> io::Result<()> {
        let end = self.done + self.depth;
        if self.posted < end {
            let jetty = self.jetty;
            if !self.starts.is_empty() {
                let now = Instant::now();
                (self.posted..end).for_each(|number| self.starts[number as usize % STARTS] = now);
            }
            let posted =
                jetty.batch(|batch| (self.posted..end).try_for_each(|number| post(batch, number)));
            self.posted += posted.map_err(failed)? as u64;
        }
        self.take()
    }

    /// Handles completions.
    pub fn take(&mut self) -> io::Result<()> {
        if self.jetty.poll(&mut self.completions) == 0 {
            return Ok(());
        }
        let now = Instant::now();
        for completion in self.completions.drain(..) {
            if completion.status != Status::Success {
                return Err(io::Error::other(format!("an operation ended with {completion:?}")));
            }
            self.done += 1;
            if let Some(start) = self.starts.get(completion.id.value() as usize % STARTS) {
                let time = now.duration_since(*start).as_nanos();
                self.times.push((completion.id.value(), u32::try_from(time).unwrap_or(u32::MAX)));
            }
        }
        Ok(())
    }

    /// Whether operations are in flight.
    pub fn is_busy(&self) -> bool {
        self.done < self.posted
    }

    /// Waits until no operation is in flight.
    pub fn drain(&mut self) -> io::Result<()> {
        let start = Instant::now();
        while self.done < self.posted {
            self.take()?;
            if start.elapsed() > TIMEOUT {
                return Err(io::Error::other("operations did not complete"));
            }
        }
        Ok(())
    }
}

/// Quantile of the times, in microseconds.
pub fn quantile_us(times_ns: &mut [u32], share: f64) -> f64 {
    times_ns.sort_unstable();
    let index = (times_ns.len() as f64 * share) as usize;
    times_ns.get(index.min(times_ns.len().saturating_sub(1))).map_or(0.0, |ns| f64::from(*ns) / 1e3)
}
