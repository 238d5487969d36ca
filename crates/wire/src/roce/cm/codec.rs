//! Encodes and decodes connection manager messages. Sections are those of IBTA vol 1.

use core::fmt;

use super::MAD_LEN;
use super::message::{
    Acknowledgement, CommunicationId, Datagram, Disconnect, Disconnected, Message, Names, Path,
    PathRequest, ReadyToUse, Reason, Refused, Reject, Reply, Request, Service, ServiceReply,
    ServiceRequest, ServiceStatus,
};
use crate::{Psn, Qpn};

/// Attribute ids (16.7.3, table 403).
mod attribute {
    pub const REQUEST: u16 = 0x10;
    pub const ACKNOWLEDGEMENT: u16 = 0x11;
    pub const REJECT: u16 = 0x12;
    pub const REPLY: u16 = 0x13;
    pub const READY_TO_USE: u16 = 0x14;
    pub const DISCONNECT: u16 = 0x15;
    pub const DISCONNECTED: u16 = 0x16;
    pub const SERVICE_REQUEST: u16 = 0x17;
    pub const SERVICE_REPLY: u16 = 0x18;
    pub const LOAD_PATH: u16 = 0x19;
    pub const PATH_RESPONSE: u16 = 0x1a;
}

/// The header's first four bytes (13.4.2): base version 1, class CommMgt, class version 2, Send.
const BASE_VERSION: u8 = 1;
const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

/// Why a datagram is not a message of a connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadError {
    /// The datagram does not have [`MAD_LEN`] bytes but this many.
    Length(usize),
    /// The base version, class, class version and method, which are those of another management
    /// service or of another version.
    Kind([u8; 4]),
    /// The attribute id, which is not one of those that Fairway implements.
    Attribute(u16),
}

impl fmt::Display for MadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MadError::Length(length) => {
                write!(f, "{length} bytes where a management datagram has {MAD_LEN}")
            }
            MadError::Kind([base, class, version, method]) => write!(
                f,
                "base version {base}, class {class:#04x}, class version {version}, method \
                 {method:#04x}: not the connection manager's"
            ),
            MadError::Attribute(id) => write!(f, "unknown attribute {id:#06x}"),
        }
    }
}

impl core::error::Error for MadError {}

/// Reads a management datagram, the payload of a packet to queue pair 1.
pub fn parse(bytes: &[u8]) -> Result<Datagram, MadError> {
    let length = MadError::Length(bytes.len());
    let bytes: &[u8; MAD_LEN] = bytes.try_into().map_err(|_| length)?;
    let mut reader = Reader { rest: bytes };
    let kind = reader.take().ok_or(length)?;
    if kind != [BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND] {
        return Err(MadError::Kind(kind));
    }
    // The status and a field specific to the class.
    reader.skip(4);
    let transaction = reader.long().ok_or(length)?;
    let id = reader.half().ok_or(length)?;
    // A reserved field, and the attribute modifier.
    reader.skip(6);
    let message = match id {
        attribute::REQUEST => reader.request().map(Message::Request),
        attribute::ACKNOWLEDGEMENT => reader.acknowledgement().map(Message::Acknowledgement),
        attribute::REJECT => reader.reject().map(Message::Reject),
        attribute::REPLY => reader.reply().map(Message::Reply),
        attribute::READY_TO_USE => reader.ready_to_use().map(Message::ReadyToUse),
        attribute::DISCONNECT => reader.disconnect().map(Message::Disconnect),
        attribute::DISCONNECTED => reader.disconnected().map(Message::Disconnected),
        attribute::SERVICE_REQUEST => reader.service_request().map(Message::ServiceRequest),
        attribute::SERVICE_REPLY => reader.service_reply().map(Message::ServiceReply),
        attribute::LOAD_PATH | attribute::PATH_RESPONSE => {
            let is_answer = id == attribute::PATH_RESPONSE;
            reader.names().map(|names| Message::Path(PathRequest { names, is_answer }))
        }
        other => return Err(MadError::Attribute(other)),
    };
    Ok(Datagram { transaction, message: message.ok_or(length)? })
}

/// Writes a management datagram. A field that is narrower on the wire gets the low bits of its
/// value.
pub fn emit(datagram: &Datagram) -> [u8; MAD_LEN] {
    let mut writer = Writer { out: [0; MAD_LEN], length: 0 };
    writer.put([BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
    writer.skip(4);
    writer.put(datagram.transaction.to_be_bytes());
    let id = match &datagram.message {
        Message::Request(_) => attribute::REQUEST,
        Message::Acknowledgement(_) => attribute::ACKNOWLEDGEMENT,
        Message::Reject(_) => attribute::REJECT,
        Message::Reply(_) => attribute::REPLY,
        Message::ReadyToUse(_) => attribute::READY_TO_USE,
        Message::Disconnect(_) => attribute::DISCONNECT,
        Message::Disconnected(_) => attribute::DISCONNECTED,
        Message::ServiceRequest(_) => attribute::SERVICE_REQUEST,
        Message::ServiceReply(_) => attribute::SERVICE_REPLY,
        Message::Path(PathRequest { is_answer: false, .. }) => attribute::LOAD_PATH,
        Message::Path(PathRequest { is_answer: true, .. }) => attribute::PATH_RESPONSE,
    };
    writer.put(id.to_be_bytes());
    writer.skip(6);
    match &datagram.message {
        Message::Request(request) => writer.put_request(request),
        Message::Acknowledgement(acknowledgement) => writer.put_acknowledgement(acknowledgement),
        Message::Reject(reject) => writer.put_reject(reject),
        Message::Reply(reply) => writer.put_reply(reply),
        Message::ReadyToUse(ReadyToUse { names, private }) => {
            writer.put_names(names);
            writer.put(*private);
        }
        Message::Disconnect(Disconnect { names, queue_pair, private }) => {
            writer.put_names(names);
            writer.put_qpn(*queue_pair, 0);
            writer.put(*private);
        }
        Message::Disconnected(Disconnected { names, private }) => {
            writer.put_names(names);
            writer.put(*private);
        }
        Message::ServiceRequest(request) => writer.put_service_request(request),
        Message::ServiceReply(reply) => writer.put_service_reply(reply),
        Message::Path(path) => writer.put_names(&path.names),
    }
    writer.out
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// Reads a word as its upper 24 bits and its lowest 8.
    fn split(&mut self) -> Option<(u32, u8)> {
        self.word().map(|word| (word >> 8, word as u8))
    }

    fn id(&mut self) -> Option<CommunicationId> {
        self.word().map(CommunicationId)
    }

    fn names(&mut self) -> Option<Names> {
        Some(Names { local: self.id()?, remote: self.id()? })
    }

    fn request(&mut self) -> Option<Request> {
        let local = self.id()?;
        self.skip(4);
        let (service, ca_guid) = (self.long()?, self.long()?);
        self.skip(4);
        let q_key = self.word()?;
        let (queue_pair, responder_resources) = self.split()?;
        let (_, initiator_depth) = self.split()?;
        let (_, remote) = self.split()?;
        let (psn, timing) = self.split()?;
        let p_key = self.half()?;
        let (mtu, retries) = (self.byte()?, self.byte()?);
        Some(Request {
            local,
            service,
            ca_guid,
            q_key,
            queue_pair: Qpn::new(queue_pair),
            responder_resources,
            initiator_depth,
            remote_response_timeout: remote >> 3,
            transport: service_of(remote >> 1),
            flow_control: remote & 1 != 0,
            psn: Psn::new(psn),
            local_response_timeout: timing >> 3,
            retries: timing & 7,
            p_key,
            mtu: mtu >> 4,
            rnr_retries: mtu & 7,
            cm_retries: retries >> 4,
            shared_receives: retries & 8 != 0,
            extended_transport: retries & 7,
            primary: self.path()?,
            alternate: self.path()?,
            private: self.take()?,
        })
    }

    fn path(&mut self) -> Option<Path> {
        let (local_lid, remote_lid) = (self.half()?, self.half()?);
        let (local_gid, remote_gid) = (self.take()?, self.take()?);
        let flow_and_rate = self.word()?;
        let [traffic_class, hop_limit, level, timeout] = self.take()?;
        Some(Path {
            local_lid,
            remote_lid,
            local_gid,
            remote_gid,
            flow_and_rate,
            traffic_class,
            hop_limit,
            service_level: level >> 4,
            subnet_local: level & 8 != 0,
            ack_timeout: timeout >> 3,
        })
    }

    fn acknowledgement(&mut self) -> Option<Acknowledgement> {
        Some(Acknowledgement {
            names: self.names()?,
            received: refused_of(self.byte()? >> 6),
            service_timeout: self.byte()? >> 3,
            private: self.take()?,
        })
    }

    fn reject(&mut self) -> Option<Reject> {
        Some(Reject {
            names: self.names()?,
            refused: refused_of(self.byte()? >> 6),
            information_len: self.byte()? >> 1,
            reason: Reason(self.half()?),
            information: self.take()?,
            private: self.take()?,
        })
    }

    fn reply(&mut self) -> Option<Reply> {
        let (names, q_key) = (self.names()?, self.word()?);
        let (queue_pair, _) = self.split()?;
        self.skip(4);
        let (psn, _) = self.split()?;
        let [responder_resources, initiator_depth, delay, retries] = self.take()?;
        Some(Reply {
            names,
            q_key,
            queue_pair: Qpn::new(queue_pair),
            psn: Psn::new(psn),
            responder_resources,
            initiator_depth,
            ack_delay: delay >> 3,
            failover: delay >> 1 & 3,
            flow_control: delay & 1 != 0,
            rnr_retries: retries >> 5,
            shared_receives: retries & 0x10 != 0,
            ca_guid: self.long()?,
            private: self.take()?,
        })
    }

    fn ready_to_use(&mut self) -> Option<ReadyToUse> {
        Some(ReadyToUse { names: self.names()?, private: self.take()? })
    }

    fn disconnect(&mut self) -> Option<Disconnect> {
        let (names, queue_pair) = (self.names()?, Qpn::new(self.split()?.0));
        Some(Disconnect { names, queue_pair, private: self.take()? })
    }

    fn disconnected(&mut self) -> Option<Disconnected> {
        Some(Disconnected { names: self.names()?, private: self.take()? })
    }

    fn service_request(&mut self) -> Option<ServiceRequest> {
        let (id, p_key) = (self.id()?, self.half()?);
        self.skip(2);
        Some(ServiceRequest { id, p_key, service: self.long()?, private: self.take()? })
    }

    fn service_reply(&mut self) -> Option<ServiceReply> {
        let id = self.id()?;
        let [status, information_len, _, _] = self.take()?;
        Some(ServiceReply {
            id,
            status: ServiceStatus(status),
            information_len,
            queue_pair: Qpn::new(self.split()?.0),
            service: self.long()?,
            q_key: self.word()?,
            information: self.take()?,
            private: self.take()?,
        })
    }
}

struct Writer {
    out: [u8; MAD_LEN],
    length: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.out[self.length..self.length + N].copy_from_slice(&bytes);
        self.length += N;
    }

    fn skip(&mut self, count: usize) {
        self.length += count;
    }

    fn put_qpn(&mut self, number: Qpn, behind: u8) {
        self.put((number.value() << 8 | u32::from(behind)).to_be_bytes());
    }

    fn put_names(&mut self, names: &Names) {
        self.put(names.local.0.to_be_bytes());
        self.put(names.remote.0.to_be_bytes());
    }

    fn put_request(&mut self, request: &Request) {
        self.put(request.local.0.to_be_bytes());
        self.skip(4);
        self.put(request.service.to_be_bytes());
        self.put(request.ca_guid.to_be_bytes());
        self.skip(4);
        self.put(request.q_key.to_be_bytes());
        self.put_qpn(request.queue_pair, request.responder_resources);
        self.put([0, 0, 0, request.initiator_depth]);
        let remote = request.remote_response_timeout << 3 | service_code(request.transport) << 1;
        self.put([0, 0, 0, remote | u8::from(request.flow_control)]);
        let timing = request.local_response_timeout << 3 | request.retries & 7;
        self.put((request.psn.value() << 8 | u32::from(timing)).to_be_bytes());
        self.put(request.p_key.to_be_bytes());
        let shared = u8::from(request.shared_receives) << 3;
        self.put([
            request.mtu << 4 | request.rnr_retries & 7,
            request.cm_retries << 4 | shared | request.extended_transport & 7,
        ]);
        self.put_path(&request.primary);
        self.put_path(&request.alternate);
        self.put(request.private);
    }

    fn put_path(&mut self, path: &Path) {
        self.put(path.local_lid.to_be_bytes());
        self.put(path.remote_lid.to_be_bytes());
        self.put(path.local_gid);
        self.put(path.remote_gid);
        self.put(path.flow_and_rate.to_be_bytes());
        let level = path.service_level << 4 | u8::from(path.subnet_local) << 3;
        self.put([path.traffic_class, path.hop_limit, level, path.ack_timeout << 3]);
    }

    fn put_acknowledgement(&mut self, acknowledgement: &Acknowledgement) {
        self.put_names(&acknowledgement.names);
        let received = refused_code(acknowledgement.received) << 6;
        self.put([received, acknowledgement.service_timeout << 3]);
        self.put(acknowledgement.private);
    }

    fn put_reject(&mut self, reject: &Reject) {
        self.put_names(&reject.names);
        self.put([refused_code(reject.refused) << 6, reject.information_len << 1]);
        self.put(reject.reason.0.to_be_bytes());
        self.put(reject.information);
        self.put(reject.private);
    }

    fn put_reply(&mut self, reply: &Reply) {
        self.put_names(&reply.names);
        self.put(reply.q_key.to_be_bytes());
        self.put_qpn(reply.queue_pair, 0);
        self.skip(4);
        self.put((reply.psn.value() << 8).to_be_bytes());
        let delay = reply.ack_delay << 3 | (reply.failover & 3) << 1;
        let shared = u8::from(reply.shared_receives) << 4;
        self.put([
            reply.responder_resources,
            reply.initiator_depth,
            delay | u8::from(reply.flow_control),
            reply.rnr_retries << 5 | shared,
        ]);
        self.put(reply.ca_guid.to_be_bytes());
        self.put(reply.private);
    }

    fn put_service_request(&mut self, request: &ServiceRequest) {
        self.put(request.id.0.to_be_bytes());
        self.put(request.p_key.to_be_bytes());
        self.skip(2);
        self.put(request.service.to_be_bytes());
        self.put(request.private);
    }

    fn put_service_reply(&mut self, reply: &ServiceReply) {
        self.put(reply.id.0.to_be_bytes());
        self.put([reply.status.0, reply.information_len, 0, 0]);
        self.put_qpn(reply.queue_pair, 0);
        self.put(reply.service.to_be_bytes());
        self.put(reply.q_key.to_be_bytes());
        self.put(reply.information);
        self.put(reply.private);
    }
}

fn service_of(code: u8) -> Service {
    match code & 3 {
        0 => Service::Rc,
        1 => Service::Uc,
        2 => Service::Rd,
        _ => Service::Extended,
    }
}

fn service_code(service: Service) -> u8 {
    match service {
        Service::Rc => 0,
        Service::Uc => 1,
        Service::Rd => 2,
        Service::Extended => 3,
    }
}

fn refused_of(code: u8) -> Refused {
    match code & 3 {
        0 => Refused::Request,
        1 => Refused::Reply,
        2 => Refused::Other,
        _ => Refused::Undefined,
    }
}

fn refused_code(refused: Refused) -> u8 {
    match refused {
        Refused::Request => 0,
        Refused::Reply => 1,
        Refused::Other => 2,
        Refused::Undefined => 3,
    }
}
