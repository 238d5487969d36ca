//! UB: a Jetty and a segment per application, a TP channel per host, and imports per pair.

use super::{Job, Next, Plane, Work};
use crate::config::Config;
use crate::constants::ps;
use crate::random::mix;
use fairway_engine::policy::PolicySpec;
use fairway_engine::wire::{
    Accept, Cna, Confirm, Decoded, Duration, Endpoint, Hello, Instant, JettyId, KEY_LEN, Msn,
    PROTOCOL_VERSION, Parameters, Ports, Psn, SETUP_LEN, Setup, SetupMessage, Tpn, Versions,
    Welcome, decode, encode_setup,
};
use fairway_engine::{
    ChannelConfig, ChannelId, JettyConfig, Limits, Nic, Profile, Rights, SegmentId, SegmentRequest,
};
use std::collections::BTreeMap;

/// Bytes that a handle is asked for in, and those that name a Jetty and a segment.
const ASK_BYTES: usize = 12;
const HANDLE_BYTES: usize = 24;

type Handle = [u8; HANDLE_BYTES];

pub(super) struct UbPlane {
    local: Nic,
    jetties: Vec<Option<JettyId>>,
    remotes: Vec<Remote>,
    spec: PolicySpec,
    parameters: Parameters,
    /// Applications whose handles are asked for in one message.
    batch: usize,
    calls: u32,
    /// By group of applications and remote host: who asked first, and what was learned.
    handles: BTreeMap<(usize, usize), (usize, Option<Handle>)>,
    imported: u64,
}

struct Remote {
    nic: Nic,
    jetty: JettyId,
    segment: SegmentId,
    token: u32,
    /// The two ends, once there are any, and whether they are open.
    near: Option<ChannelId>,
    far: Option<ChannelId>,
    is_open: bool,
    said: Option<(Hello, Welcome)>,
}

fn nic(config: &Config, number: u32, jetties: u32, channels: u32) -> Nic {
    let limits = Limits {
        channels: channels + 1,
        jetties: jetties + 8,
        segments: jetties + 2,
        completion_queues: 1,
        completions: 64,
        messages: 64,
        receives: 1,
        arrivals: 64,
        window_packets: 128,
        send_blocks: 2 * channels + 256,
        bitmap_blocks: 4 * channels + 256,
        read_slots: 8,
        message_slots: 8,
        paths: 1,
        ..Limits::default()
    };
    let rto = Duration::from_ps(ps(config.constants.rto_us * 1000.0));
    let profile = Profile { timeout_min: rto, timeout_initial: rto, ..Profile::default() };
    Nic::new(Cna::new(number), &limits, &profile, config.seed << 16 | u64::from(number))
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("setting up: {error:?}")
}

fn register(nic: &mut Nic, token_value: u32) -> Result<SegmentId, String> {
    let address = u64::from(token_value) << 32;
    let request = SegmentRequest { address, length: 1 << 20, rights: Rights::ALL, token_value };
    nic.register(&request).map_err(text)
}

impl UbPlane {
    pub(super) fn new(config: &Config) -> Result<UbPlane, String> {
        let (apps, hosts) = (config.jetties, config.connections);
        let mut local = nic(config, 1, apps, hosts);
        local.create_completion_queue(64).map_err(text)?;
        let mut remotes = Vec::new();
        for host in 0..hosts {
            let mut nic = nic(config, host + 2, 1, 1);
            let queue = nic.create_completion_queue(64).map_err(text)?;
            let jetty = nic.create_jetty(&JettyConfig::new(queue, queue)).map_err(text)?;
            let token = mix(u64::from(host) + config.seed) as u32;
            let segment = register(&mut nic, token)?;
            let (near, far, is_open, said) = (None, None, false, None);
            remotes.push(Remote { nic, jetty, segment, token, near, far, is_open, said });
        }
        let limits = *local.limits();
        Ok(UbPlane {
            local,
            jetties: vec![None; apps as usize],
            remotes,
            spec: config.policy.parse().map_err(|error| format!("policy: {error}"))?,
            parameters: Parameters {
                mtu_bytes: config.mtu as u16,
                paths: 1,
                window_packets: limits.receive_window() as u16,
                message_slots: limits.message_slots as u16,
                read_slots: limits.read_slots as u16,
                keep_alive_ms: 0,
                channels: 1,
                capabilities: 0,
            },
            batch: config.constants.handles_per_message.max(1.0) as usize,
            calls: config.constants.import_calls as u32,
            handles: BTreeMap::new(),
            imported: 0,
        })
    }

    fn own(&mut self, app: usize, stage: u32) -> Result<Next, String> {
        match stage {
            1 => drop(register(&mut self.local, app as u32 + 1)?),
            2 => {
                let queue = fairway_engine::CompletionQueueId::new(0);
                let number = Some(app as u32 + 1);
                let config = JettyConfig { number, ..JettyConfig::new(queue, queue) };
                self.jetties[app] = Some(self.local.create_jetty(&config).map_err(text)?);
                return Ok(Next::Done);
            }
            _ => {}
        }
        Ok(Next::Kernel(None))
    }

    fn say(remote: usize, outward: bool, message: SetupMessage) -> Next {
        let near = Cna::new(1);
        let far = Cna::new(remote as u32 + 2);
        let (source, destination) = if outward { (near, far) } else { (far, near) };
        let mut bytes = vec![0; SETUP_LEN];
        encode_setup(&Setup { source, destination, message }, &mut bytes);
        Next::Send { remote, outward, bytes }
    }

    fn channel(
        &mut self,
        now: u64,
        number: usize,
        stage: u32,
        bytes: &[u8],
    ) -> Result<Next, String> {
        let wish = self.parameters;
        let heard = match stage {
            2 | 3 | 4 | 6 => match decode(bytes, bytes.len()).map_err(text)? {
                Decoded::Setup(setup) => Some(setup.message),
                other => return Err(format!("{other:?} is no set-up message")),
            },
            _ => None,
        };
        let remote = &mut self.remotes[number];
        let endpoint = |tpn: Tpn| Endpoint {
            tpn,
            initial_psn: Psn::new(1),
            ports: Ports::new(&[4791]).unwrap_or_else(|| unreachable!("one port")),
        };
        match (stage, heard) {
            (0, _) => Ok(Next::Kernel(None)),
            (1, _) => {
                let near = self.local.reserve_channel().map_err(text)?;
                remote.near = Some(near);
                let versions = Versions::new(PROTOCOL_VERSION, PROTOCOL_VERSION);
                let hello = Hello {
                    versions: versions.ok_or("a version")?,
                    nonce: mix(number as u64),
                    client: endpoint(near.tpn()),
                    wish,
                    joins: None,
                };
                Ok(Self::say(number, true, SetupMessage::Hello(hello)))
            }
            (2, Some(SetupMessage::Hello(hello))) => {
                let cookie = [hello.nonce as u8; 16];
                let welcome = Welcome {
                    version: PROTOCOL_VERSION,
                    nonce: hello.nonce,
                    cookie,
                    offer: hello.wish.agree(&wish),
                };
                remote.said = Some((hello, welcome));
                Ok(Self::say(number, false, SetupMessage::Welcome(welcome)))
            }
            (3, Some(SetupMessage::Welcome(welcome))) => {
                let (hello, _) = remote.said.ok_or("WELCOME before HELLO")?;
                let confirm = Confirm {
                    hello,
                    version: welcome.version,
                    cookie: welcome.cookie,
                    agreed: welcome.offer,
                    key: [0; KEY_LEN],
                };
                Ok(Self::say(number, true, SetupMessage::Confirm(confirm)))
            }
            (4, Some(SetupMessage::Confirm(confirm))) => {
                let said = remote.said.ok_or("CONFIRM before HELLO")?;
                if (confirm.hello, confirm.cookie) != (said.0, said.1.cookie) {
                    return Err("a CONFIRM of another HELLO".into());
                }
                Ok(Next::Kernel(Some(number)))
            }
            (5, _) => {
                let (hello, welcome) = remote.said.ok_or("nothing was said")?;
                let far = remote.nic.reserve_channel().map_err(text)?;
                remote.far = Some(far);
                let ends = (far, Cna::new(1), hello.client.tpn);
                open(&mut remote.nic, now, ends, &welcome.offer, &self.spec)?;
                let accept = Accept {
                    version: welcome.version,
                    nonce: hello.nonce,
                    server: endpoint(far.tpn()),
                    agreed: welcome.offer,
                    key: [0; KEY_LEN],
                };
                Ok(Self::say(number, false, SetupMessage::Accept(accept)))
            }
            (6, Some(SetupMessage::Accept(accept))) => {
                let near = remote.near.ok_or("an ACCEPT of nothing")?;
                let ends = (near, Cna::new(number as u32 + 2), accept.server.tpn);
                open(&mut self.local, now, ends, &accept.agreed, &self.spec)?;
                Ok(Next::Kernel(None))
            }
            (7, _) => {
                remote.is_open = true;
                Ok(Next::Done)
            }
            (stage, heard) => Err(format!("{heard:?} at stage {stage} of a channel")),
        }
    }

    /// Handles are asked for once for each group of applications; then Jetty and segment are
    /// imported.
    fn pair(
        &mut self,
        app: usize,
        number: usize,
        stage: u32,
        bytes: &[u8],
    ) -> Result<Next, String> {
        let key = (app / self.batch, number);
        let remote = &self.remotes[number];
        if stage == 0 && !remote.is_open {
            return Ok(Next::After(Work::Host { remote: number }));
        }
        let (asker, learned) = *self.handles.entry(key).or_insert((app, None));
        if app == asker {
            match stage {
                0 => {
                    let bytes = vec![app as u8; ASK_BYTES];
                    return Ok(Next::Send { remote: number, outward: true, bytes });
                }
                1 => {
                    let mut handle = [0; HANDLE_BYTES];
                    handle[..4].copy_from_slice(&remote.jetty.value().to_le_bytes());
                    handle[12..16].copy_from_slice(&remote.token.to_le_bytes());
                    let segment = remote.segment.token_id().value();
                    handle[16..20].copy_from_slice(&segment.to_le_bytes());
                    return Ok(Next::Send { remote: number, outward: false, bytes: handle.into() });
                }
                2 => {
                    let handle = bytes.try_into().map_err(|_| "a handle of another length")?;
                    self.handles.insert(key, (app, Some(handle)));
                }
                _ => {}
            }
        } else if stage == 0 && learned.is_none() {
            return Ok(Next::After(Work::Pair { app: asker, remote: number }));
        }
        let calls = stage - if app == asker { 2 } else { 0 };
        if calls < self.calls {
            return Ok(Next::Kernel(None));
        }
        self.import(key, number)?;
        Ok(Next::Done)
    }

    /// What was learned names the remote Jetty and segment.
    fn import(&mut self, key: (usize, usize), number: usize) -> Result<(), String> {
        let handle = self.handles.get(&key).and_then(|known| known.1).ok_or("no handle")?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| handle[at + byte]));
        let remote = &self.remotes[number];
        let known = (word(0), word(12), word(16));
        let right = (remote.jetty.value(), remote.token, remote.segment.token_id().value());
        if known != right {
            return Err(format!("imported {known:?}, which is {right:?}"));
        }
        self.imported += 1;
        Ok(())
    }
}

fn open(
    nic: &mut Nic,
    now: u64,
    (own, remote, remote_tpn): (ChannelId, Cna, Tpn),
    agreed: &Parameters,
    spec: &PolicySpec,
) -> Result<(), String> {
    let setup = ChannelConfig {
        leader: None,
        engine: 0,
        remote,
        remote_tpn,
        first_psn: Psn::new(1),
        remote_first_psn: Psn::new(1),
        first_message: Msn::new(0),
        unreliable: true,
        bypass: true,
        mtu: u32::from(agreed.mtu_bytes),
        paths: u32::from(agreed.paths),
        remote_window: u32::from(agreed.window_packets),
        remote_message_slots: u32::from(agreed.message_slots),
        remote_read_slots: u32::from(agreed.read_slots),
        policy: spec.build(u32::from(agreed.mtu_bytes)),
    };
    nic.open_channel(Instant::from_ps(now), own, setup).map_err(text)
}

impl Plane for UbPlane {
    fn advance(&mut self, now: u64, job: &Job, bytes: &[u8]) -> Result<Next, String> {
        match job.work {
            Work::Own { app } => self.own(app, job.stage),
            Work::Host { remote } => self.channel(now, remote, job.stage, bytes),
            Work::Pair { app, remote } => self.pair(app, remote, job.stage, bytes),
        }
    }

    fn check(&self) -> Result<(), String> {
        let open = self.remotes.iter().all(|remote| remote.is_open && remote.far.is_some());
        let pairs = (self.jetties.len() * self.remotes.len()) as u64;
        let complete = open && self.jetties.iter().all(Option::is_some) && self.imported == pairs;
        complete.then_some(()).ok_or_else(|| "a channel, a Jetty or an import is missing".into())
    }

    fn has_channels(&self) -> bool {
        true
    }
}
