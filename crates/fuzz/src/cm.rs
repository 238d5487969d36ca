//! The connection manager: a peer sends arbitrary management datagrams, mostly with valid
//! identifiers.

use fairway_roce::cm::{
    CommandError, ConnectionId, Event, Limits, Manager, Profile, Refuser, Sender, State,
    destination, route, source,
};
use fairway_ub::wire::roce::cm::{
    self, CommunicationId, IpHeader, MAD_LEN, Path, Reason, Reject, Reply, Request, Service,
    ServiceReply, ServiceRequest, ServiceStatus,
};
use fairway_ub::wire::{Duration, Instant, Psn, Qpn};

use crate::script::Script;

const SERVICE: u64 = 0x0106_1c06;
const CONNECTIONS: u32 = 6;
const STEPS_MAX: u32 = 128;

/// A manager that listens, connects and queries, and a peer that sends it the datagrams of the
/// input.
///
/// Checked: nothing panics, at most the allowed number of connections is kept, answers go to the
/// peer, and when the program has closed everything and time has passed, no record is in use.
pub fn cm(input: &[u8]) {
    read_only(input);
    let mut desk = Desk::new(input);
    for _ in 0..STEPS_MAX {
        if desk.script.is_over() {
            break;
        }
        desk.step();
    }
    desk.finish();
}

/// Runs the parsers that keep no state.
fn read_only(input: &[u8]) {
    let _ = (route(input), destination(input), source(input));
    if let Some(header) = IpHeader::parse(input) {
        assert_eq!(IpHeader::parse(&header.emit()), Some(header));
    }
    if let Some(answer) = Refuser::new().handle_datagram(0, false, input) {
        assert!(cm::parse(&answer).is_ok(), "it sends what it would not take");
    }
}

struct Desk<'a> {
    script: Script<'a>,
    now: Instant,
    manager: Manager,
    /// Identifiers in use: those of connections here, and those that the manager has sent.
    names: Vec<u32>,
    /// Connections that are not closed.
    open: Vec<ConnectionId>,
    /// The last datagram from the manager.
    sent: [u8; MAD_LEN],
}

impl<'a> Desk<'a> {
    fn new(input: &'a [u8]) -> Desk<'a> {
        let limits = Limits { connections: CONNECTIONS, half_open: 4, listeners: 2, transmits: 8 };
        let mut manager = Manager::new(&limits, &Profile::default(), 7, 1);
        let now = Instant::from_ps(u64::MAX - 1_000_000);
        let listening = manager.listen(now, SERVICE, 3);
        assert!(listening.is_ok());
        let (names, open) = (vec![0x0700_0000, 5], Vec::new());
        Desk { script: Script::new(input), now, manager, names, open, sent: [0; MAD_LEN] }
    }

    fn step(&mut self) {
        match self.script.below(10) {
            0 => {
                let made = self.manager.connect(self.now, 0, &request());
                self.note_made(made);
            }
            1 => {
                let made = self.manager.query(self.now, 0, 2, &query());
                self.note_made(made);
            }
            2 | 3 => self.act(),
            4 => self.pass(),
            5 => {
                // A changed copy of the manager's own last datagram.
                let mut bytes = self.sent;
                self.turn_names(&mut bytes);
                self.change(&mut bytes);
                self.deliver(&bytes);
            }
            _ => {
                let bytes = self.datagram();
                self.deliver(&bytes);
            }
        }
        self.collect();
        assert!(self.manager.in_use() <= CONNECTIONS);
    }

    fn note_made(&mut self, made: Result<ConnectionId, CommandError>) {
        if let Ok(id) = made {
            self.open.push(id);
            self.note_name(id);
        }
    }

    fn note_name(&mut self, id: ConnectionId) {
        self.names.truncate(12);
        self.names.insert(0, id.0);
    }

    /// Returns a datagram of the peer: a kind, two identifiers, a service, and changes.
    fn datagram(&mut self) -> [u8; MAD_LEN] {
        let mut bytes = [0; MAD_LEN];
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[17] = 0x0e + self.script.below(15) as u8;
        for at in [24, 28] {
            let name = match self.script.byte() {
                255 => self.script.number(),
                254 => 0,
                known => self.names[usize::from(known) % self.names.len()],
            };
            bytes[at..at + 4].copy_from_slice(&name.to_be_bytes());
        }
        if self.script.flag() {
            bytes[32..40].copy_from_slice(&SERVICE.to_be_bytes());
        }
        self.change(&mut bytes);
        bytes
    }

    fn change(&mut self, bytes: &mut [u8; MAD_LEN]) {
        for _ in 0..self.script.below(8) {
            let at = usize::from(self.script.byte());
            bytes[at] ^= self.script.byte();
        }
    }

    /// Swaps the identifiers of the two ends, as in a response.
    fn turn_names(&self, bytes: &mut [u8; MAD_LEN]) {
        for at in 24..28 {
            bytes.swap(at, at + 4);
        }
    }

    fn deliver(&mut self, bytes: &[u8; MAD_LEN]) {
        let from = Sender { number: 0, ip: [10, 0, 0, 1].into(), is_local: false };
        self.manager.handle_datagram(self.now, &from, bytes);
    }

    /// Applies a command of the program to one of its connections.
    fn act(&mut self) {
        let dice = self.script.byte();
        let Some(at) = self.script.below(256).checked_rem(self.open.len() as u32) else { return };
        let (id, now) = (self.open[at as usize], self.now);
        let manager = &mut self.manager;
        let before = manager.state(id);
        let done = match dice % 8 {
            0 => manager.accept(now, id, &reply()),
            1 => manager.reject(now, id, Reason::CONSUMER, &[0; Reject::PRIVATE_LEN]),
            2 => manager.confirm(now, id, &[0; 224]),
            3 => manager.establish(now, id),
            4 => manager.disconnect(now, id),
            5 => manager.answer(now, id, &answer()),
            _ => {
                self.open.swap_remove(at as usize);
                self.manager.close(now, id)
            }
        };
        if let Err(CommandError::State(state)) = done {
            assert_eq!(Some(state), before);
        }
    }

    fn pass(&mut self) {
        let long = self.script.flag();
        let span = Duration::from_ms(u64::from(self.script.byte()) * if long { 100 } else { 1 });
        self.now = self.now + span;
        self.manager.handle_timeout(self.now);
    }

    fn collect(&mut self) {
        while let Some(transmit) = self.manager.poll_transmit() {
            assert_eq!(transmit.to, 0, "it answers an address that sent nothing");
            assert!(cm::parse(&transmit.bytes).is_ok());
            self.sent = transmit.bytes;
        }
        while let Some(event) = self.manager.poll_event() {
            let id = event.connection();
            if matches!(event, Event::Requested { .. } | Event::Queried { .. }) {
                self.open.push(id);
                self.note_name(id);
            }
        }
    }

    /// Closes everything, and advances time.
    fn finish(&mut self) {
        for id in std::mem::take(&mut self.open) {
            let _ = self.manager.close(self.now, id);
        }
        self.collect();
        for _ in 0..400 {
            let Some(due) = self.manager.poll_timeout() else { break };
            self.now = self.now.max(due);
            self.manager.handle_timeout(self.now);
            self.collect();
        }
        let states: Vec<Option<State>> =
            self.names.iter().map(|&name| self.manager.state(CommunicationId(name))).collect();
        assert_eq!(self.manager.in_use(), 0, "{states:?}");
    }
}

fn request() -> Request {
    let path = Path { ack_timeout: 19, ..Path::default() };
    Request {
        local: CommunicationId(0),
        service: SERVICE,
        ca_guid: 0x1234,
        q_key: 0,
        queue_pair: Qpn::new(3),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: 20,
        transport: Service::Rc,
        flow_control: false,
        psn: Psn::new(77),
        local_response_timeout: 20,
        retries: 7,
        p_key: 0xffff,
        mtu: 3,
        rnr_retries: 7,
        cm_retries: 2,
        shared_receives: false,
        extended_transport: 0,
        primary: path,
        alternate: Path::default(),
        private: [1; Request::PRIVATE_LEN],
    }
}

fn reply() -> Reply {
    Reply {
        names: cm::Names::default(),
        q_key: 0,
        queue_pair: Qpn::new(9),
        psn: Psn::new(99),
        responder_resources: 1,
        initiator_depth: 1,
        ack_delay: 0,
        failover: 0,
        flow_control: false,
        rnr_retries: 7,
        shared_receives: false,
        ca_guid: 0x5678,
        private: [2; Reply::PRIVATE_LEN],
    }
}

fn query() -> ServiceRequest {
    ServiceRequest {
        id: CommunicationId(0),
        p_key: 0xffff,
        service: SERVICE,
        private: [3; ServiceRequest::PRIVATE_LEN],
    }
}

fn answer() -> ServiceReply {
    ServiceReply {
        id: CommunicationId(0),
        status: ServiceStatus::SUCCESS,
        queue_pair: Qpn::new(9),
        service: SERVICE,
        q_key: 1,
        information_len: 0,
        information: [0; ServiceReply::INFORMATION_LEN],
        private: [4; ServiceReply::PRIVATE_LEN],
    }
}
