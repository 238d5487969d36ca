//! UB: a Jetty and a segment per application, a TP channel per host, and imports per pair.

use super::{Input, Job, Next, Plane, Work};
use crate::config::Config;
use crate::constants::ps;
use crate::error::{ConnectError, ModelError};
use crate::random::mix;
use fairway_ub::policy::PolicySpec;
use fairway_ub::setup::{
    Attempt, Established, Identity, Listener, OpenRequest, Opening, Outcome, Padded, Reaction,
    Terms,
};
use fairway_ub::wire::{
    BYPASS, Cna, Decoded, Duration, Instant, JettyId, KEY_LEN, PADDED_HELLOS, Parameters, Ports,
    Psn, RejectReason, SETUP_LEN, Setup, UNRELIABLE, decode, encode_setup,
};
use fairway_ub::{
    ChannelId, JettyConfig, Limits, Profile, Rights, SegmentId, SegmentRequest, UbDevice,
};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};

/// Node number of the local host; those of remote hosts follow.
const LOCAL: u32 = 1;
/// The UDP port of every host.
const PORT: u16 = 4791;
/// The first PSN of every channel, in each direction.
const FIRST_PSN: Psn = Psn::new(1);
/// Time for which the local host tries to open a channel.
const CONNECT_FOR: Duration = Duration::from_secs(60);
/// Public keys cost nothing in this model: channels use the simulators' public key.
const KEY: [u8; KEY_LEN] = [0; KEY_LEN];

/// Bytes of a request for a handle, and bytes that name a Jetty and a segment.
const HANDLE_REQUEST_BYTES: usize = 12;
const HANDLE_BYTES: usize = 24;

type Handle = [u8; HANDLE_BYTES];

pub(super) struct UbPlane {
    local: UbDevice,
    jetties: Vec<Option<JettyId>>,
    remotes: Vec<Remote>,
    spec: PolicySpec,
    /// Identity that the local host presents in set-up messages.
    identity: Identity,
    /// Applications whose handles are requested in one message.
    batch: usize,
    calls: u32,
    /// By group of applications and remote host: the first requesting application, and the
    /// response.
    handles: BTreeMap<(usize, usize), (usize, Option<Handle>)>,
    imported: u64,
}

struct Remote {
    nic: UbDevice,
    jetty: JettyId,
    segment: SegmentId,
    token: u32,
    near: Near,
    far: Far,
    is_open: bool,
}

/// The local host's end of a channel.
#[derive(Default)]
struct Near {
    channel: Option<ChannelId>,
    attempt: Option<Attempt>,
    terms: Option<Terms>,
}

/// A remote host's end of its channel.
struct Far {
    listener: Listener,
    /// The channel that the kernel is opening, and the CONFIRM that requested it.
    opening: Option<(Opening, Padded)>,
    terms: Option<Terms>,
}

fn nic(config: &Config, number: u32, jetties: u32, channels: u32) -> UbDevice {
    let limits = Limits::new()
        .channels(channels + 1)
        .jetties(jetties + 8)
        .segments(jetties + 2)
        .completion_queues(1)
        .completions(64)
        .messages(64)
        .receives(1)
        .arrivals(64)
        .window_packets(128)
        .send_blocks(2 * channels + 256)
        .bitmap_blocks(4 * channels + 256)
        .read_slots(8)
        .message_slots(8)
        .paths(1);
    let rto = Duration::from_ps(ps(config.constants.rto_us * 1000.0));
    let profile = Profile::new().timeout_min(rto).timeout_initial(rto);
    UbDevice::new(Cna::new(number), &limits, &profile, config.seed << 16 | u64::from(number))
}

/// Returns the identity that a host presents in set-up messages.
fn identity(number: u32, limits: Parameters) -> Identity {
    let ports = vec![Ports::new(&[PORT]).unwrap_or_else(|| unreachable!("one port"))];
    let setup_cna = Cna::new(number | 1 << 23);
    Identity { cna: Cna::new(number), setup_cna, ports, limits }
}

/// Returns a host's address, a unique local IPv6 address.
fn address(number: u32) -> SocketAddr {
    let ip = Ipv6Addr::from(0xFD << 120 | u128::from(number));
    SocketAddr::from((ip, PORT))
}

fn register(nic: &mut UbDevice, token_value: u32) -> Result<SegmentId, ConnectError> {
    let address = u64::from(token_value) << 32;
    let request = SegmentRequest { address, length: 1 << 20, rights: Rights::ALL, token_value };
    Ok(nic.register(&request)?)
}

impl UbPlane {
    pub(super) fn new(config: &Config) -> Result<UbPlane, ModelError> {
        let (apps, hosts) = (config.jetties, config.connections);
        let mut local = nic(config, LOCAL, apps, hosts);
        local.create_completion_queue(64).map_err(ConnectError::from)?;
        let limits = *local.limits();
        let parameters = Parameters {
            mtu_bytes: config.mtu as u16,
            paths: 1,
            window_packets: limits.receive_window() as u16,
            message_slots: limits.message_slots as u16,
            read_slots: limits.read_slots as u16,
            keep_alive_ms: 0,
            channels: 1,
            capabilities: PADDED_HELLOS | UNRELIABLE | BYPASS,
        };
        let mut remotes = Vec::new();
        for host in 0..hosts {
            let number = LOCAL + 1 + host;
            let mut nic = nic(config, number, 1, 1);
            let queue = nic.create_completion_queue(64).map_err(ConnectError::from)?;
            let jetty =
                nic.create_jetty(&JettyConfig::new(queue, queue)).map_err(ConnectError::from)?;
            let token = mix(u64::from(host) + config.seed) as u32;
            let segment = register(&mut nic, token)?;
            let mut secret = [0; 32];
            secret[..8].copy_from_slice(&mix(config.seed ^ u64::from(number)).to_le_bytes());
            let listener = Listener::new(identity(number, parameters), secret);
            let far = Far { listener, opening: None, terms: None };
            let (near, is_open) = (Near::default(), false);
            remotes.push(Remote { nic, jetty, segment, token, near, far, is_open });
        }
        Ok(UbPlane {
            local,
            jetties: vec![None; apps as usize],
            remotes,
            spec: config.policies()?,
            identity: identity(LOCAL, parameters),
            batch: config.constants.handles_per_message.max(1.0) as usize,
            calls: config.constants.import_calls as u32,
            handles: BTreeMap::new(),
            imported: 0,
        })
    }

    fn own(&mut self, app: usize, stage: u32) -> Result<Next, ConnectError> {
        match stage {
            1 => drop(register(&mut self.local, app as u32 + 1)?),
            2 => {
                let queue = fairway_ub::CompletionQueueId::new(0);
                let number = Some(app as u32 + 1);
                let config = JettyConfig { number, ..JettyConfig::new(queue, queue) };
                self.jetties[app] = Some(self.local.create_jetty(&config)?);
                return Ok(Next::Done);
            }
            _ => {}
        }
        Ok(Next::Kernel(None))
    }

    /// Executes a step of the live state machines that open a channel; each step is charged here.
    fn channel(&mut self, now: u64, number: usize, input: Input<'_>) -> Result<Next, ConnectError> {
        let now = Instant::from_ps(now);
        match input {
            Input::Ready => Ok(Next::Kernel(None)),
            Input::Called(None) if self.remotes[number].near.attempt.is_none() => {
                self.connect(now, number)
            }
            Input::Called(None) => {
                self.remotes[number].is_open = true;
                Ok(Next::Done)
            }
            Input::Called(Some(_)) => self.accept(now, number),
            Input::Message(None, bytes) => self.receive_answer(now, number, bytes),
            Input::Message(Some(_), bytes) => self.receive_request(now, number, bytes),
            Input::Timeout => self.send_requests(now, number),
        }
    }

    /// Starts the set-up after the local kernel has reserved a channel.
    fn connect(&mut self, now: Instant, number: usize) -> Result<Next, ConnectError> {
        let near = &mut self.remotes[number].near;
        let channel = self.local.reserve_channel()?;
        let request = OpenRequest {
            server: address(LOCAL + 1 + number as u32),
            tpn: channel.tpn(),
            first_psn: FIRST_PSN,
            nonce: mix(number as u64),
            joins: None,
            mtu_bytes: u16::MAX,
            deadline: now + CONNECT_FOR,
            key: KEY,
        };
        near.channel = Some(channel);
        near.attempt = Some(Attempt::new(now, &self.identity, request));
        self.send_requests(now, number)
    }

    /// Sends the pending messages of the attempt.
    fn send_requests(&mut self, now: Instant, number: usize) -> Result<Next, ConnectError> {
        let attempt = self.remotes[number]
            .near
            .attempt
            .as_mut()
            .ok_or(ConnectError::Unexpected("a timer of nothing"))?;
        let messages: Vec<_> = attempt.poll_transmit(now).iter().map(encoded).collect();
        match (attempt.outcome(), messages.is_empty()) {
            (Some(Outcome::TimedOut), _) => Err(ConnectError::Ended(Outcome::TimedOut)),
            (_, true) => Ok(Next::Wait),
            (_, false) => Ok(Next::Send { remote: number, outward: true, messages }),
        }
    }

    /// Handles a HELLO or CONFIRM that has arrived at a remote host.
    fn receive_request(
        &mut self,
        now: Instant,
        number: usize,
        bytes: &[u8],
    ) -> Result<Next, ConnectError> {
        let request = decoded(bytes)?;
        let far = &mut self.remotes[number].far;
        if far.opening.is_some() {
            // A repeated message that arrives while the kernel opens the channel is answered by the
            // ACCEPT.
            return Ok(Next::Wait);
        }
        match far.listener.handle_message(now, address(LOCAL), u16::MAX, &request.setup) {
            Reaction::Ignore => Ok(Next::Wait),
            Reaction::Answer(answer) => Ok(answered(number, &request, answer)),
            Reaction::Open(opening) => {
                far.opening = Some((opening, request));
                Ok(Next::Kernel(Some(number)))
            }
        }
    }

    /// Accepts the channel that the remote kernel has created for a CONFIRM.
    fn accept(&mut self, now: Instant, number: usize) -> Result<Next, ConnectError> {
        let Remote { nic, far, .. } = &mut self.remotes[number];
        let (opening, request) =
            far.opening.take().ok_or(ConnectError::Unexpected("a call that opens nothing"))?;
        let Ok(channel) = nic.reserve_channel() else {
            let answer = far.listener.refuse(&opening, RejectReason::NoResources);
            return Ok(answered(number, &request, answer));
        };
        open(nic, now, channel, &opening.established(FIRST_PSN), &self.spec)?;
        let end = (channel.tpn(), FIRST_PSN);
        far.terms = Some(far.listener.terms(&opening, channel.tpn(), KEY));
        let answer = far.listener.opened(now, &opening, end, KEY);
        Ok(answered(number, &request, answer))
    }

    /// Handles a WELCOME, ACCEPT or REJECT that has arrived at the local host.
    fn receive_answer(
        &mut self,
        now: Instant,
        number: usize,
        bytes: &[u8],
    ) -> Result<Next, ConnectError> {
        let answer = decoded(bytes)?;
        let Near { channel, attempt, terms } = &mut self.remotes[number].near;
        let attempt = attempt.as_mut().ok_or(ConnectError::Unexpected("an answer to nothing"))?;
        if attempt.outcome().is_some() {
            return Ok(Next::Wait);
        }
        attempt.handle_message(now, address(LOCAL + 1 + number as u32), &answer.setup);
        match attempt.outcome() {
            None => self.send_requests(now, number),
            Some(Outcome::Open { server, accept }) => {
                let channel = channel.ok_or(ConnectError::Unexpected("an ACCEPT of nothing"))?;
                *terms = Some(attempt.terms(server, &accept));
                let established = attempt.established(server, &accept);
                open(&mut self.local, now, channel, &established, &self.spec)?;
                Ok(Next::Kernel(None))
            }
            Some(other) => Err(ConnectError::Ended(other)),
        }
    }

    /// Sets up a pair: handles are requested once per group of applications; then Jetty and segment
    /// are imported.
    fn pair(
        &mut self,
        app: usize,
        number: usize,
        stage: u32,
        bytes: &[u8],
    ) -> Result<Next, ConnectError> {
        let key = (app / self.batch, number);
        let remote = &self.remotes[number];
        if stage == 0 && !remote.is_open {
            return Ok(Next::After(Work::Host { remote: number }));
        }
        let (requester, start_known) = *self.handles.entry(key).or_insert((app, None));
        if app == requester {
            match stage {
                0 => {
                    let bytes = vec![app as u8; HANDLE_REQUEST_BYTES];
                    return Ok(Next::Send { remote: number, outward: true, messages: vec![bytes] });
                }
                1 => {
                    let mut handle = [0; HANDLE_BYTES];
                    handle[..4].copy_from_slice(&remote.jetty.value().to_le_bytes());
                    handle[12..16].copy_from_slice(&remote.token.to_le_bytes());
                    let segment = remote.segment.token_id().value();
                    handle[16..20].copy_from_slice(&segment.to_le_bytes());
                    let messages = vec![handle.into()];
                    return Ok(Next::Send { remote: number, outward: false, messages });
                }
                2 => {
                    let handle = bytes
                        .try_into()
                        .map_err(|_| ConnectError::Unexpected("a handle of another length"))?;
                    self.handles.insert(key, (app, Some(handle)));
                }
                _ => {}
            }
        } else if stage == 0 && start_known.is_none() {
            return Ok(Next::After(Work::Pair { app: requester, remote: number }));
        }
        let calls = stage - if app == requester { 2 } else { 0 };
        if calls < self.calls {
            return Ok(Next::Kernel(None));
        }
        self.import(key, number)?;
        Ok(Next::Done)
    }

    /// Checks that the received handle names the remote Jetty and segment, and imports them.
    fn import(&mut self, key: (usize, usize), number: usize) -> Result<(), ConnectError> {
        let handle = self
            .handles
            .get(&key)
            .and_then(|known| known.1)
            .ok_or(ConnectError::Unexpected("no handle"))?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| handle[at + byte]));
        let remote = &self.remotes[number];
        let known = (word(0), word(12), word(16));
        let right = (remote.jetty.value(), remote.token, remote.segment.token_id().value());
        if known != right {
            return Err(ConnectError::Import { found: known, expected: right });
        }
        self.imported += 1;
        Ok(())
    }
}

fn open(
    nic: &mut UbDevice,
    now: Instant,
    channel: ChannelId,
    established: &Established,
    spec: &PolicySpec,
) -> Result<(), ConnectError> {
    let policy = spec.build(u32::from(established.agreed.mtu_bytes));
    Ok(nic.open_channel(now, channel, established.config(policy))?)
}

/// Returns the datagram of a message, including the padding behind it.
fn encoded(message: &Padded) -> Vec<u8> {
    let mut bytes = vec![0; message.length];
    encode_setup(&message.setup, &mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Padded, ConnectError> {
    match decode(&bytes[..bytes.len().min(SETUP_LEN)], bytes.len()) {
        Ok(Decoded::Setup(setup)) => Ok(Padded { setup, length: bytes.len() }),
        _ => Err(ConnectError::Unexpected("a datagram that is no set-up message")),
    }
}

/// Sends a remote host's response.
fn answered(remote: usize, request: &Padded, answer: Setup) -> Next {
    let messages = vec![encoded(&request.answered(answer))];
    Next::Send { remote, outward: false, messages }
}

impl Plane for UbPlane {
    fn advance(&mut self, now: u64, job: &Job, input: Input<'_>) -> Result<Next, ConnectError> {
        match job.work {
            Work::Own { app } => self.own(app, job.stage),
            Work::Host { remote } => self.channel(now, remote, input),
            Work::Pair { app, remote } => self.pair(app, remote, job.stage, input.bytes()),
        }
    }

    fn poll_timeout(&self, work: Work) -> Option<u64> {
        let Work::Host { remote } = work else { return None };
        let attempt = self.remotes[remote].near.attempt.as_ref()?;
        attempt.poll_timeout().map(Instant::as_ps)
    }

    fn check(&self) -> Result<(), ConnectError> {
        let agrees = |remote: &Remote| {
            remote.is_open && remote.far.terms.is_some() && remote.near.terms == remote.far.terms
        };
        let open = self.remotes.iter().all(agrees);
        let pairs = (self.jetties.len() * self.remotes.len()) as u64;
        let complete = open && self.jetties.iter().all(Option::is_some) && self.imported == pairs;
        let missing = "a channel, a Jetty or an import is missing";
        complete.then_some(()).ok_or(ConnectError::Unexpected(missing))
    }

    fn has_channels(&self) -> bool {
        true
    }
}
