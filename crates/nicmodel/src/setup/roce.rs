//! RoCE: a segment per application, and a queue pair per application and remote host, connected by
//! the protocol's connection manager.

use super::{Input, Job, Next, Plane, Work};
use crate::config::Config;
use crate::error::{ConfigError, ConnectError, ModelError};
use std::net::Ipv4Addr;

use fairway_roce::cm::{self, ConnectionId, Event, Manager, Sender};
use fairway_roce::{
    Change, Limits, MemoryRequest, Peer, Profile, QueuePairConfig, Reliability, RoceDevice,
    Transport,
};
use fairway_ub::wire::roce::cm::{
    CommunicationId, Names, Path, ReadyToUse, Reply, Request, Service,
};
use fairway_ub::wire::roce::{self, RnrTimer};
use fairway_ub::wire::{Instant, Psn, Qpn};
use fairway_ub::{CompletionQueueId, Rights};

const DOMAIN: u32 = 1;
const SERVICE: u64 = 0x0106_12B7;
const READ_DEPTH: u8 = 16;

pub(super) struct RocePlane {
    host: RoceDevice,
    queue: CompletionQueueId,
    /// The connection manager of each application.
    managers: Vec<Manager>,
    remotes: Vec<Remote>,
    /// Pairs by application and remote host.
    pairs: Vec<Pair>,
    mtu: u32,
}

struct Remote {
    host: RoceDevice,
    queue: CompletionQueueId,
    manager: Manager,
    r_key: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    near: Option<Qpn>,
    far: Option<Qpn>,
    near_id: Option<ConnectionId>,
    far_id: Option<ConnectionId>,
    /// Key of the remote segment, which the REP contained.
    r_key: Option<u32>,
    is_usable: bool,
}

fn host(config: &Config, pairs: u32, segments: u32, seed: u64) -> RoceDevice {
    let limits = Limits {
        queue_pairs: pairs,
        segments,
        completion_queues: 1,
        completions: 64,
        receive_queues: pairs,
        receives: 1,
        sends: 64,
        read_depth: READ_DEPTH,
        ..Limits::default()
    };
    RoceDevice::new(&limits, &Profile::default(), config.seed << 20 | seed)
}

fn register(host: &mut RoceDevice, index: u64) -> Result<u32, ConnectError> {
    let (address, length, rights) = (index << 32, 1 << 20, Rights::ALL);
    let request = MemoryRequest { domain: DOMAIN, address, length, rights };
    Ok(host.register(&request)?.r_key)
}

fn manager(connections: u32, slot: u8, seed: u64) -> Manager {
    let limits = cm::Limits {
        connections,
        half_open: connections,
        listeners: 1,
        transmits: connections + 8,
    };
    Manager::new(&limits, &cm::Profile::default(), slot, seed)
}

/// Returns the sender identity of an application or host. Quotas do not apply to it, because the
/// model assumes that all requests are granted.
fn sender(number: usize) -> Sender {
    let ip = Ipv4Addr::from(0x0a00_0000 | number as u32).into();
    Sender { number: number as u64, ip, is_local: true }
}

fn no_path() -> Path {
    Path {
        local_lid: 0xFFFF,
        remote_lid: 0xFFFF,
        local_gid: [0; 16],
        remote_gid: [0; 16],
        flow_and_rate: 0,
        traffic_class: 0,
        hop_limit: 64,
        service_level: 0,
        subnet_local: false,
        ack_timeout: 14,
    }
}

impl RocePlane {
    pub(super) fn new(config: &Config) -> Result<RocePlane, ModelError> {
        let (apps, hosts) = (config.jetties, config.connections);
        if apps > 4096 || hosts > 4096 {
            return Err(ConfigError::ManagerLimit { apps, hosts }.into());
        }
        let mut near = host(config, apps * hosts, apps + 1, 1);
        let queue = near.create_completion_queue(64).map_err(ConnectError::from)?;
        let mut remotes = Vec::new();
        for number in 0..u64::from(hosts) {
            let mut far = host(config, apps, 2, number + 2);
            let queue = far.create_completion_queue(64).map_err(ConnectError::from)?;
            let r_key = register(&mut far, number + 1)?;
            let mut manager = manager(apps, 0, number);
            manager.listen(Instant::ZERO, SERVICE, apps).map_err(ConnectError::from)?;
            remotes.push(Remote { host: far, queue, manager, r_key });
        }
        Ok(RocePlane {
            host: near,
            queue,
            managers: (0..apps).map(|app| manager(hosts, app as u8, u64::from(app))).collect(),
            remotes,
            pairs: vec![Pair::default(); (apps * hosts) as usize],
            mtu: config.mtu,
        })
    }

    fn create(host: &mut RoceDevice, queue: CompletionQueueId) -> Result<Qpn, ConnectError> {
        let config = QueuePairConfig {
            transport: Transport::Rc,
            domain: DOMAIN,
            send_queue: queue,
            receive_queue: queue,
            shared_receives: None,
            send_depth: 16,
            receive_depth: 1,
        };
        Ok(host.create_queue_pair(&config)?)
    }

    fn ready(&self, peer: Peer) -> [Change; 3] {
        [
            Change::Init { rights: Rights::ALL, p_key: roce::DEFAULT_P_KEY, q_key: 0 },
            Change::ReadyToReceive {
                peer,
                mtu: self.mtu,
                expected: Psn::new(1),
                read_depth: READ_DEPTH,
                rnr_timer: RnrTimer::from_code(1),
            },
            Change::ReadyToSend { first: Psn::new(1), reliability: Reliability::default() },
        ]
    }

    fn request(&self, queue_pair: Qpn) -> Request {
        Request {
            local: CommunicationId(0),
            service: SERVICE,
            ca_guid: 1,
            q_key: 0,
            queue_pair,
            responder_resources: READ_DEPTH,
            initiator_depth: READ_DEPTH,
            remote_response_timeout: 20,
            transport: Service::Rc,
            flow_control: true,
            psn: Psn::new(1),
            local_response_timeout: 20,
            retries: 7,
            p_key: roce::DEFAULT_P_KEY,
            mtu: 5,
            rnr_retries: 7,
            cm_retries: 15,
            shared_receives: false,
            extended_transport: 0,
            primary: no_path(),
            alternate: Path {
                ack_timeout: 0,
                hop_limit: 0,
                local_lid: 0,
                remote_lid: 0,
                ..no_path()
            },
            private: [0; Request::PRIVATE_LEN],
        }
    }

    fn reply(queue_pair: Qpn, r_key: u32) -> Reply {
        let mut private = [0; Reply::PRIVATE_LEN];
        private[..4].copy_from_slice(&r_key.to_le_bytes());
        Reply {
            names: Names { local: CommunicationId(0), remote: CommunicationId(0) },
            q_key: 0,
            queue_pair,
            psn: Psn::new(1),
            responder_resources: READ_DEPTH,
            initiator_depth: READ_DEPTH,
            ack_delay: 0,
            failover: 0,
            flow_control: true,
            rnr_retries: 7,
            shared_receives: false,
            ca_guid: 2,
            private,
        }
    }

    /// Steps of the initiator's queue pair, up to its REQ.
    fn connect(
        &mut self,
        now: Instant,
        app: usize,
        number: usize,
        stage: u32,
    ) -> Result<Next, ConnectError> {
        let index = app * self.remotes.len() + number;
        let no_peer = Peer { address: 0, queue_pair: Qpn::new(0) };
        let [init, ..] = self.ready(no_peer);
        match stage {
            1 => self.pairs[index].near = Some(Self::create(&mut self.host, self.queue)?),
            2 => {
                let own =
                    self.pairs[index].near.ok_or(ConnectError::Unexpected("no queue pair"))?;
                self.host.modify(own, &init)?;
                let request = self.request(own);
                let id = self.managers[app].connect(now, number as u64, &request)?;
                self.pairs[index].near_id = Some(id);
                return self.send(app, number, true);
            }
            _ => {}
        }
        Ok(Next::Kernel(None))
    }

    /// Sends the pending messages of a connection manager.
    fn send(&mut self, app: usize, remote: usize, outward: bool) -> Result<Next, ConnectError> {
        let manager = match outward {
            true => &mut self.managers[app],
            false => &mut self.remotes[remote].manager,
        };
        let message = manager
            .poll_transmit()
            .ok_or(ConnectError::Unexpected("a connection manager says nothing"))?;
        Ok(Next::Send { remote, outward, messages: vec![message.bytes.to_vec()] })
    }

    /// Steps of the target's queue pair, from the REQ to its REP.
    fn grant(
        &mut self,
        now: Instant,
        app: usize,
        number: usize,
        stage: u32,
        bytes: &[u8],
    ) -> Result<Next, ConnectError> {
        let index = app * self.remotes.len() + number;
        let near = self.pairs[index].near.ok_or(ConnectError::Unexpected("no queue pair"))?;
        let [init, receive, _] = self.ready(Peer { address: 1, queue_pair: near });
        let remote = &mut self.remotes[number];
        let own = || self.pairs[index].far.ok_or(ConnectError::Unexpected("no queue pair"));
        match stage {
            3 => {
                if let Some(why) = remote.manager.handle_datagram(now, &sender(app), bytes) {
                    return Err(ConnectError::Dropped { message: "REQ", reason: why });
                }
                let Some(Event::Requested { connection, request, .. }) =
                    remote.manager.poll_event()
                else {
                    return Err(ConnectError::Unexpected("a REQ without a request"));
                };
                if request.queue_pair != near {
                    return Err(ConnectError::Unexpected("a REQ of another queue pair"));
                }
                self.pairs[index].far_id = Some(connection);
            }
            4 => self.pairs[index].far = Some(Self::create(&mut remote.host, remote.queue)?),
            5 => drop(remote.host.modify(own()?, &init)?),
            _ => {
                remote.host.modify(own()?, &receive)?;
                let reply = Self::reply(own()?, remote.r_key);
                let id =
                    self.pairs[index].far_id.ok_or(ConnectError::Unexpected("no connection"))?;
                remote.manager.accept(now, id, &reply)?;
                return self.send(app, number, false);
            }
        }
        Ok(Next::Kernel(Some(number)))
    }

    /// Handles the REP at the initiator, which makes its queue pair ready, and the RTU at the
    /// target.
    fn settle(
        &mut self,
        now: Instant,
        app: usize,
        number: usize,
        stage: u32,
        bytes: &[u8],
    ) -> Result<Next, ConnectError> {
        let index = app * self.remotes.len() + number;
        let pair = self.pairs[index];
        let far = Peer {
            address: number as u64,
            queue_pair: pair.far.ok_or(ConnectError::Unexpected("no queue pair"))?,
        };
        let [_, receive, send] = self.ready(far);
        let near = pair.near.ok_or(ConnectError::Unexpected("no queue pair"))?;
        match stage {
            7 => {
                if let Some(why) = self.managers[app].handle_datagram(now, &sender(number), bytes) {
                    return Err(ConnectError::Dropped { message: "REP", reason: why });
                }
                let Some(Event::Replied { reply, .. }) = self.managers[app].poll_event() else {
                    return Err(ConnectError::Unexpected("a REP that says nothing"));
                };
                let key = [0, 1, 2, 3].map(|byte| reply.private[byte]);
                self.pairs[index].r_key = Some(u32::from_le_bytes(key));
            }
            8 => drop(self.host.modify(near, &receive)?),
            9 => {
                self.host.modify(near, &send)?;
                let id = pair.near_id.ok_or(ConnectError::Unexpected("no connection"))?;
                let nothing = [0; ReadyToUse::PRIVATE_LEN];
                self.managers[app].confirm(now, id, &nothing)?;
                return self.send(app, number, true);
            }
            10 => {
                let manager = &mut self.remotes[number].manager;
                if let Some(why) = manager.handle_datagram(now, &sender(app), bytes) {
                    return Err(ConnectError::Dropped { message: "RTU", reason: why });
                }
                let said = manager.poll_event();
                if !matches!(said, Some(Event::Established { .. })) {
                    return Err(ConnectError::Unexpected("an RTU that establishes nothing"));
                }
                return Ok(Next::Kernel(Some(number)));
            }
            _ => {
                self.remotes[number].host.modify(far.queue_pair, &send)?;
                self.pairs[index].is_usable = true;
                return Ok(Next::Done);
            }
        }
        Ok(Next::Kernel(None))
    }
}

impl Plane for RocePlane {
    fn advance(&mut self, now: u64, job: &Job, input: Input<'_>) -> Result<Next, ConnectError> {
        let (now, bytes) = (Instant::from_ps(now), input.bytes());
        match (job.work, job.stage) {
            (Work::Own { .. }, 0) => Ok(Next::Kernel(None)),
            (Work::Own { app }, _) => {
                register(&mut self.host, app as u64 + 1)?;
                Ok(Next::Done)
            }
            (Work::Pair { app, remote }, stage @ 0..=2) => self.connect(now, app, remote, stage),
            (Work::Pair { app, remote }, stage @ 3..=6) => {
                self.grant(now, app, remote, stage, bytes)
            }
            (Work::Pair { app, remote }, stage) => self.settle(now, app, remote, stage, bytes),
            (Work::Host { .. }, _) => {
                Err(ConnectError::Unexpected("RoCE shares nothing between hosts"))
            }
        }
    }

    /// No datagram is lost in the model, so the connection managers' timers never fire.
    fn poll_timeout(&self, _work: Work) -> Option<u64> {
        None
    }

    fn check(&self) -> Result<(), ConnectError> {
        let hosts = self.remotes.len();
        for (index, pair) in self.pairs.iter().enumerate() {
            let key = self.remotes[index % hosts].r_key;
            if !pair.is_usable || pair.r_key != Some(key) {
                return Err(ConnectError::Unexpected("a pair cannot be used, or has another key"));
            }
        }
        Ok(())
    }

    fn has_channels(&self) -> bool {
        false
    }
}
