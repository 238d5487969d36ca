//! The live NIC of an application.

use crate::options::{GroupOptions, JettyOptions, MailboxOptions};
use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairway_observe::{ControlLatency, Counters, HostPressure, HostSignals};
use fairway_port::QueueWatch;
use fairway_runtime::{Memory, clock};
use fairway_sandbox::Policies;
use fairway_ub::control::{ProcessorStats, TraceRecord};
use fairway_ub::{FlowView, Rights, Usage};

use crate::builder::Builder;
use crate::core::{Core, Notice};
use crate::datapath::DatapathKind;
use crate::error::Error;
use crate::event::Event;
use crate::group::JettyGroup;
use crate::jetty::Jetty;
use crate::mailbox::Mailbox;
use crate::peer::Peer;
use crate::protocol::Io;
use crate::record::EpochRecord;
use crate::segment::Segment;
use crate::server_address::ServerAddress;
use crate::shared::Handle;
use crate::socket_shortage::SocketShortage;
use crate::stats::{Stats, statistics};

/// A NIC in software: sockets, the protocol, and tables of the objects that belong to it.
///
/// Clones refer to the same NIC. It lives as long as any of them, or any [`Segment`], [`Jetty`] or
/// [`Peer`] of it. When the last one is dropped, each peer is notified once and the sockets are
/// closed. [`Context::shutdown`] makes sure that peers receive the notification. Both cut off what
/// is under way; [`Jetty::drain`] waits for its end. A child of `fork` can't use a context
/// ([`Context::is_forked`]).
///
/// Contexts share nothing. A program that needs more than one core for the protocol opens several,
/// and drives each with a thread of its own. They can serve the same memory:
///
/// ```
/// use fairway::{Context, Error, Memory, Rights, Segment};
///
/// fn serve(length: usize, cores: usize) -> Result<Vec<(Context, Segment)>, Error> {
///     let open = |share: Memory| {
///         let context = Context::builder().bind("127.0.0.1".parse().unwrap()).build()?;
///         let segment = context.register(share, Rights::READ_WRITE)?;
///         Ok((context, segment))
///     };
///     Memory::zeroed(length)?.shares(cores).into_iter().map(open).collect()
/// }
/// # let contexts = serve(4096, 2)?;
/// # contexts[0].1.write_at(0, &[7])?;
/// # let mut seen = [0];
/// # contexts[1].1.read_at(0, &mut seen)?;
/// # assert_eq!(seen, [7]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct Context {
    handle: Arc<Handle>,
}

impl Context {
    /// Returns a builder with default settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(core: Core, ios: Vec<Io>, progress_thread: bool) -> Result<Context, Error> {
        Ok(Context { handle: Arc::new(Handle::start(core, ios, progress_thread)?) })
    }

    pub(crate) fn watch_pressure(
        &self,
        queues: Vec<QueueWatch>,
        options: &HostPressure,
    ) -> Result<(), Error> {
        self.handle.watch_pressure(queues, options)
    }

    /// True in a child process that was forked after the context was built. The child has none of
    /// the context's threads, so calls that return a [`Result`] fail with [`Error::Forked`] there,
    /// others panic, and dropping the context's objects has no effect on the parent.
    pub fn is_forked(&self) -> bool {
        self.handle.is_forked()
    }

    /// True if acknowledgements request that peers slow down, because this host is short of a
    /// resource ([`Builder::host_pressure`]).
    pub fn is_under_pressure(&self) -> bool {
        self.handle.here().with(|core| core.nic.is_under_pressure())
    }

    /// Resources that this host was short of in the last period; `None` before the end of the first
    /// period, and if they are not measured ([`Builder::host_pressure`]).
    pub fn host_signals(&self) -> Option<HostSignals> {
        self.handle.here().with(|core| core.host)
    }

    /// Returns the context of a handle.
    pub(crate) fn of(handle: Arc<Handle>) -> Context {
        Context { handle }
    }

    pub(crate) fn into_handle(self) -> Arc<Handle> {
        self.handle
    }

    /// Returns the policies that channels are opened with. Use it to replace user-written modules
    /// while traffic runs ([`Policies::swap`], [`Policies::reload`]), and to read reports about
    /// them ([`Policies::reports`]).
    pub fn policies(&self) -> Policies {
        self.handle.here().with(|core| core.policy.clone())
    }

    /// Local addresses of the sockets. Peers can connect to any of them.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.handle.here().with(|core| core.local_addrs().to_vec())
    }

    /// The way that packets take, as [`Builder::datapath`](crate::Builder::datapath) says.
    pub fn datapath(&self) -> DatapathKind {
        self.handle.here().with(|core| core.datapath)
    }

    /// Returns why packets take UDP, although the datapath that was requested is
    /// [`DatapathKind::RdmaOrUdp`] or [`DatapathKind::Auto`]; `None` if they need not.
    pub fn datapath_fallback(&self) -> Option<String> {
        self.handle.here().with(|core| core.fallback.clone())
    }

    /// Returns why the context has fewer sockets than its paths need; `None` if it has enough, or
    /// the builder named their number.
    pub fn socket_shortage(&self) -> Option<SocketShortage> {
        self.handle.here().with(|core| core.shortage)
    }

    /// Registers memory. Peers that have the segment's key may access it as `rights` allow; for
    /// them its first byte has address 0.
    ///
    /// # Errors
    /// [`Error::Limit`]; [`Error::ReadOnly`] if peers are to write memory that can't be written;
    /// [`Error::Parameter`] if it is for atomics and does not begin at a multiple of 8.
    pub fn register(&self, memory: Memory, rights: Rights) -> Result<Segment, Error> {
        self.register_at(memory, rights, 0)
    }

    /// As [`Context::register`], with `address` instead of 0 for the first byte.
    ///
    /// # Errors
    /// As [`Context::register`]; or the addresses would wrap, or it is for atomics and `address` is
    /// no multiple of 8.
    pub fn register_at(
        &self,
        memory: Memory,
        rights: Rights,
        address: u64,
    ) -> Result<Segment, Error> {
        let memory = Arc::new(memory);
        let (id, key) = self.handle.live()?.with(|core| core.register(&memory, rights, address))?;
        let share = self.handle.share(key, rights, &memory);
        Ok(Segment::new(self.handle.clone(), id, key, memory, share))
    }

    /// Creates an endpoint.
    ///
    /// # Errors
    /// The number is taken, or a limit is reached.
    pub fn create_jetty(&self, options: JettyOptions) -> Result<Jetty, Error> {
        let (index, id) = self.handle.live()?.with(|core| core.create_jetty(&options))?;
        Ok(Jetty::new(self.handle.clone(), index, id))
    }

    /// Creates a group: a number under which the Jetties that join it receive.
    ///
    /// # Errors
    /// The number is taken, or a limit is reached.
    pub fn create_group(&self, options: GroupOptions) -> Result<JettyGroup, Error> {
        let id = self.handle.live()?.with(|core| core.create_group(&options))?;
        Ok(JettyGroup::new(self.handle.clone(), id))
    }

    /// Creates a mailbox: peers put into it, and this side chooses the buffers.
    ///
    /// # Errors
    /// The address is taken, the threshold is 0, or a limit is reached.
    pub fn create_mailbox(&self, options: &MailboxOptions) -> Result<Mailbox, Error> {
        let id = self.handle.live()?.with(|core| core.create_mailbox(options))?;
        Ok(Mailbox::new(self.handle.clone(), id, options))
    }

    /// Sleeps until the epoch that `record` was posted with has ended.
    ///
    /// # Errors
    /// As [`Context::wait_until`].
    pub fn wait_record(&self, record: &EpochRecord, timeout: Duration) -> Result<(), Error> {
        self.wait_until(|| record.is_done(), timeout)
    }

    /// Sleeps until `done` returns true. It is called again after every event of this context, and
    /// must not call any method of it, because the context is locked meanwhile.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::ShutDown`] if `done` returns false after the context was shut
    /// down.
    pub fn wait_until(
        &self,
        mut done: impl FnMut() -> bool,
        timeout: Duration,
    ) -> Result<(), Error> {
        let shared = self.handle.live()?;
        shared.wait_for("what is waited for", Some(timeout), None, |core| match done() {
            true => Some(Ok(())),
            false => core.is_shut_down().then_some(Err(Error::ShutDown)),
        })?
    }

    /// Connects to the context that has a socket at `server`: a [`SocketAddr`], an address and a
    /// port, or text such as `"storage1:4810"`. If a name has several addresses of a family that
    /// this context is bound to, they are tried in turn, each for an equal part of the remaining
    /// time.
    ///
    /// ```no_run
    /// # fn example(context: &fairway::Context) -> Result<(), fairway::Error> {
    /// let peer = context.connect("storage1:4810", std::time::Duration::from_secs(5))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoListener`], within a third of a second, if the network reports that no program
    /// listens there; [`Error::Unanswered`] if no answer arrives within `timeout`;
    /// [`Error::Refused`] if the peer refuses the connection; [`Error::UnknownHost`] if a name has
    /// no address; [`Error::Parameter`] if the context is bound to none of the address's family, or
    /// a link-local address has no link and this host has several; or a limit. If all of several
    /// addresses fail, the error is that of the first.
    pub fn connect(
        &self,
        server: impl Into<ServerAddress>,
        timeout: Duration,
    ) -> Result<Peer, Error> {
        self.connect_to(&server.into(), timeout, true)
    }

    /// As [`Context::connect`], for a peer whose program may start later: while no program listens
    /// there, the request is repeated until the time is up.
    ///
    /// # Errors
    /// As [`Context::connect`], without [`Error::NoListener`].
    pub fn connect_when_up(
        &self,
        server: impl Into<ServerAddress>,
        timeout: Duration,
    ) -> Result<Peer, Error> {
        self.connect_to(&server.into(), timeout, false)
    }

    fn connect_to(
        &self,
        server: &ServerAddress,
        timeout: Duration,
        heeds_refusals: bool,
    ) -> Result<Peer, Error> {
        self.handle.live()?;
        let started = Instant::now();
        let mut addresses = server.resolve_within(timeout)?;
        let own = self.local_addrs();
        let is_reachable = |remote: &SocketAddr| {
            let is_both = |own: &SocketAddr| own.ip() == Ipv6Addr::UNSPECIFIED;
            own.iter()
                .any(|own| is_both(own) || own.is_ipv6() == remote.ip().to_canonical().is_ipv6())
        };
        // If none has a family that this context is bound to, the attempt at the first reports it.
        if addresses.iter().any(is_reachable) {
            addresses.retain(is_reachable);
        }
        let count = addresses.len();
        let mut first_error = None;
        for (at, address) in addresses.into_iter().enumerate() {
            let left = timeout.saturating_sub(started.elapsed()) / (count - at) as u32;
            // An address takes no time to resolve, and an error names the time that was asked for.
            let limit = if count == 1 && !server.is_name() { timeout } else { left };
            match self.connect_as(address, limit, heeds_refusals) {
                Ok(peer) => return Ok(peer),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.expect("a name resolves to an address at least"))
    }

    fn connect_as(
        &self,
        server: SocketAddr,
        timeout: Duration,
        heeds_refusals: bool,
    ) -> Result<Peer, Error> {
        let shared = self.handle.live()?;
        let attempt = shared.with(|core| {
            let attempt = core.start_attempt(server, timeout)?;
            if heeds_refusals {
                core.heed_refusals(attempt);
            }
            Ok::<_, Error>(attempt)
        })?;
        // The attempt enforces the deadline; the wait adds a margin for its last poll.
        let timeout = timeout.saturating_add(Duration::from_secs(1));
        let ended =
            shared.wait_for("answer to the connection request", Some(timeout), None, |core| {
                core.take_attempt(attempt)
            });
        let state = match ended {
            Ok(result) => result?,
            Err(error) => {
                shared.with(|core| core.abandon_attempt(attempt));
                return Err(error);
            }
        };
        Ok(self.peer(state))
    }

    /// Returns the events since the last call, oldest first. Does not wait for events; it may
    /// sleep as [`crate::Jetty::poll`] does.
    pub fn poll_events(&self) -> Vec<Event> {
        let notices: Vec<Notice> = self.handle.here().poll(|core| core.notices.drain(..).collect());
        notices.into_iter().map(|notice| self.event(notice)).collect()
    }

    /// Waits for the next event and returns it.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::ShutDown`] when the context was shut down and all events have
    /// been returned.
    pub fn wait_event(&self, timeout: Duration) -> Result<Event, Error> {
        let shared = self.handle.live()?;
        let notice = shared.wait_for("event", Some(timeout), None, |core| {
            let notice = core.notices.pop_front().map(Ok);
            notice.or_else(|| core.is_shut_down().then_some(Err(Error::ShutDown)))
        })??;
        Ok(self.event(notice))
    }

    /// Returns the connections that are alive.
    pub fn peers(&self) -> Vec<Peer> {
        let states = self.handle.here().with(|core| core.peer_states());
        states.into_iter().map(|state| self.peer(state)).collect()
    }

    /// Counters of the context since it was built.
    pub fn counters(&self) -> Counters {
        self.handle.here().counters()
    }

    /// Records of the protocol's pools in use now.
    pub fn usage(&self) -> Usage {
        self.handle.here().with(|core| core.usage())
    }

    /// Changes the policies while the context is in use. The scheduler changes at once. If the
    /// congestion control is another one, the policy that grants credit to senders changes at once
    /// too, and credit granted before is forgotten. All other policies apply to connections made
    /// from now on. With a progress thread the files of the new policies are watched from now on,
    /// and those of the old ones no longer.
    ///
    /// # Errors
    /// [`Error::Io`]: no thread can be started for the watcher; nothing changes.
    pub fn set_policy(&self, policy: impl Into<Policies>) -> Result<(), Error> {
        self.handle.live()?;
        self.handle.set_policy(&policy.into())
    }

    /// Returns the current flows: the data that each Jetty sends to each peer, and the answers to
    /// peers' READs.
    pub fn flows(&self) -> Vec<FlowView> {
        self.handle.here().with(|core| core.nic.flows().collect())
    }

    /// Statistics of the scheduler; `None` without one (`sched=greedy`).
    pub fn scheduler_stats(&self) -> Option<ProcessorStats> {
        self.handle.here().with(|core| core.scheduler_stats())
    }

    /// Statistics of the congestion controls; `None` unless they run on threads of their own
    /// ([`crate::Builder::control_threads`]) instead of being called for every packet.
    pub fn congestion_stats(&self) -> Option<ProcessorStats> {
        self.handle.here().with(|core| core.congestion_stats())
    }

    /// The statistics that `fairway top` receives of this context ([`crate::Builder::stats`]). What
    /// flows have sent that have ended is in them if the context serves statistics or metrics.
    pub fn stats(&self) -> Stats {
        self.handle.here().with(|core| statistics(core, Duration::ZERO))
    }

    /// Address at which metrics are served; `None` if they are not
    /// ([`crate::Builder::prometheus`]).
    pub fn prometheus_addr(&self) -> Option<SocketAddr> {
        self.handle.exporter()
    }

    /// Starts to serve statistics and metrics, as the builder requested.
    pub(crate) fn publish(&self, stats: bool, metrics: Option<SocketAddr>) -> Result<(), Error> {
        if stats {
            self.handle.publish()?;
        } else if std::env::var_os("FAIRWAY_STATS").is_some_and(|value| value == "1") {
            // A failure is only printed, because the environment variable must not make building
            // fail. Nor must a standard error that can't be written.
            self.handle.publish().unwrap_or_else(|error| {
                let _ = writeln!(io::stderr(), "fairway: {error}");
            });
        }
        metrics.map_or(Ok(()), |address| self.handle.export(address))
    }

    /// Starts to record the inputs and decisions of congestion controls, with room for `records`
    /// records (64 bytes each, allocated here) between two calls of [`Context::take_trace`]. 0
    /// stops the recording.
    pub fn set_trace(&self, records: u32) {
        self.handle.here().with(|core| core.nic.set_trace(clock::now(), records));
    }

    /// Appends the records since the last call to `to`, oldest first. Returns how many records have
    /// found no room since [`Context::set_trace`]. Times are of the monotonic clock.
    pub fn take_trace(&self, to: &mut Vec<TraceRecord>) -> u64 {
        self.handle.here().with(|core| core.nic.take_trace(clock::now(), to))
    }

    /// Appends the measurements since the last call to `to`
    /// ([`crate::Builder::measure_control_latency`]); nothing if the measurement is disabled.
    pub fn take_control_latency(&self, to: &mut ControlLatency) {
        let probe = self.handle.here().with(|core| core.probe.clone());
        if let Some(probe) = probe {
            probe.take(to);
        }
    }

    /// Runs one poll of the NIC. Only needed without a progress thread, by programs that neither
    /// poll a Jetty nor wait.
    pub fn poll(&self) {
        self.handle.here().poll(|_| ());
    }

    /// Closes all connections, waits until the peers have acknowledged that or `timeout` is over,
    /// and stops the background thread. Everything that is posted after this fails.
    ///
    /// Operations under way and posted receives complete as flushed, and buffers that were posted
    /// to mailboxes belong to the application again. Waits return what has ended by then, and after
    /// that fail with [`Error::ShutDown`], also those that were begun before.
    ///
    /// # Errors
    /// [`Error::Timeout`]: some peer has not answered; it is all closed nonetheless.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), Error> {
        let shared = self.handle.live()?;
        shared.with_quiesced(|core| core.close_all());
        let closed = shared.wait_for("farewell of all peers", Some(timeout), None, |core| {
            core.is_silent().then_some(())
        });
        self.handle.stop();
        closed
    }

    /// Ends as if the process had been killed, without notifying any peer. For tests of how peers
    /// react.
    #[doc(hidden)]
    pub fn simulate_crash(&self) {
        self.handle.here().with(|core| core.simulate_crash());
        self.handle.stop();
    }

    fn peer(&self, state: Arc<crate::peer_state::PeerState>) -> Peer {
        Peer { handle: self.handle.clone(), state }
    }

    fn event(&self, notice: Notice) -> Event {
        match notice {
            Notice::Connected(state) => Event::Connected(self.peer(state)),
            Notice::PeerDead(state) => Event::PeerDead(self.peer(state)),
            Notice::PeerClosed(state) => Event::PeerClosed(self.peer(state)),
            Notice::KeysRefused(state) => Event::KeysRefused(self.peer(state)),
            Notice::ExecutionLost(state) => Event::ExecutionLost(self.peer(state)),
            Notice::Evicted(state) => Event::Evicted(self.peer(state)),
            Notice::PathShortened(state) => Event::PathShortened(self.peer(state)),
            Notice::PathDown(state, path) => Event::PathDown { peer: self.peer(state), path },
            Notice::PathUp(state, path) => Event::PathUp { peer: self.peer(state), path },
            Notice::ChannelDead(state, channel) => {
                Event::ChannelDead { peer: self.peer(state), channel }
            }
            Notice::JettyFault { jetty, status, state } => {
                Event::JettyFault { jetty: jetty.value(), status, state }
            }
            Notice::JettyDrained { jetty } => Event::JettyDrained { jetty: jetty.value() },
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.handle.live().ok().map(|_| self.local_addrs());
        f.debug_struct("Context").field("local_addrs", &addresses).finish_non_exhaustive()
    }
}
