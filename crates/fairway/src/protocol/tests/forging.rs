//! Forged packets of an attacker that has everything of a channel except its key: addresses, ports,
//! node addresses and channel numbers. They are sent from the client's own sockets, so that nothing
//! else distinguishes them from the client's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairway_port::{Address, Datapath, RawSlice, Sent, Train, UdpPort};
use fairway_ub::wire::{
    Access, Ack, AckFlags, Bypass, BypassOperation, Cci, Close, Cna, Credit, CreditRequest, Data,
    Datagram, JettyId, MAX_HEADER, Msn, Nak, Operation, Order, Packet, PathReports, Priority,
    Probe, Psn, Refusal, Retire, Route, Sack, Target, TokenId, Tpn, Void, encode,
};

use super::{TIMEOUT, pattern};
use crate::{Context, Event, JettyOptions, Memory, Rights, SegmentKey, Status};

/// The Jetty to which forged messages are sent.
const JETTY: u32 = 1001;
/// Payload of forged messages, WRITEs and stores.
const PAYLOAD: [u8; 8] = *b"forged!!";

/// A port that sends forged packets behind every train.
struct Forger {
    port: UdpPort,
    /// The key that forged WRITEs and stores name; the attacker has all of it.
    victim: Arc<std::sync::Mutex<Option<SegmentKey>>>,
    sent: Arc<AtomicU64>,
    turn: u32,
}

/// The route of a packet of a channel, decoded from its bytes.
fn route_of(header: &[u8]) -> Option<Route> {
    let word = |at: usize| {
        let bytes = header.get(4 * at..4 * at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    // Only packets with an RTPH name both channels.
    (word(3)? >> 9 & 0b111 == 0b010).then_some(Route {
        source: Cna::new(word(1)?),
        destination: Cna::new(word(2)? >> 8),
        source_tpn: Tpn::new(word(4)? << 8 | word(5)? >> 24),
        destination_tpn: Tpn::new(word(5)?),
        path: header[13],
        priority: Priority::new(header[14] >> 4),
        cci: Default::default(),
    })
}

fn forgeries(turn: u32, victim: Option<&SegmentKey>) -> Vec<(Packet, &'static [u8])> {
    let (psn, message) = (Psn::new(turn.wrapping_mul(0x9e37)), Msn::new(turn));
    let target = Target { jetty: JettyId::new(JETTY), token_value: 0, hint: 0 };
    let (jetty, send) = (JettyId::new(1), Operation::Send { target, length: 8 });
    let ack = Ack {
        cumulative: psn,
        echo: psn,
        start_known: message,
        echo_delay: 0,
        window: 1,
        marks: 0,
        duplicates: 0,
        cci: Cci::NONE,
        flags: AckFlags::none(),
        sack: Sack::default(),
        paths: PathReports::NONE,
    };
    let data = |operation| {
        Packet::Data(Data {
            psn,
            message,
            index: 0,
            jetty,
            transaction: 0,
            slot: 0,
            ack_request: true,
            retry: false,
            last: true,
            carried: None,
            order: Order::NONE,
            operation,
        })
    };
    let datagram = |operation| {
        Packet::Datagram(Datagram { number: 1 << 20, jetty, transaction: 0, operation })
    };
    let mut packets: Vec<(Packet, &'static [u8])> = vec![
        (Packet::Close(Close { next: psn, answer: false }), b""),
        (datagram(send), &PAYLOAD),
        (data(send), &PAYLOAD),
        (Packet::Void(Void { psn, message, ack_request: true }), b""),
        (Packet::Ack(ack), b""),
        (Packet::Nak(Nak { psn, message, reason: Refusal::Access, retry_after_us: 0 }), b""),
        (
            Packet::CreditRequest(CreditRequest {
                total_bytes: 1 << 40,
                resend: false,
                blocked: false,
            }),
            b"",
        ),
        (Packet::Credit(Credit { total_bytes: 0, class: Priority::DATA }), b""),
        (Packet::Probe(Probe { number: turn, turn_ns: None }), b""),
        (Packet::Retire(Retire { channel: Tpn::new(turn), answer: false }), b""),
    ];
    if let Some(key) = victim {
        let access = Access {
            address: 0,
            length: 8,
            token_id: TokenId::new(key.token_id),
            token_value: key.token_value,
        };
        let operation = BypassOperation::Store { access };
        let bypass = Bypass { number: turn, oldest: turn, jetty, operation };
        packets.push((Packet::Bypass(bypass), &PAYLOAD));
        packets.push((datagram(Operation::Write { access }), &PAYLOAD));
        packets.push((data(Operation::Write { access }), &PAYLOAD));
    }
    packets
}

impl Datapath for Forger {
    fn port(&self) -> &UdpPort {
        &self.port
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        &mut self.port
    }

    fn transmit(
        &mut self,
        _now_ns: u64,
        _path: usize,
        socket: usize,
        to: &Address,
        train: &Train,
    ) -> io::Result<Sent> {
        let route = (0..train.len()).find_map(|index| route_of(train.header(index)));
        if let Some(route) = route {
            self.turn += 1;
            let victim = *self.victim.lock().expect("no thread panics with it");
            for (packet, payload) in forgeries(self.turn, victim.as_ref()) {
                let mut header = [0; MAX_HEADER];
                let length = encode(&route, &packet, payload.len(), &mut header);
                let mut forged = self.port.new_train();
                // SAFETY: the payload is a constant.
                let payload = unsafe { RawSlice::new(payload.as_ptr(), payload.len()) };
                forged.push(&header[..length], payload).expect("one packet fits");
                if self.port.send(socket, to, &forged)? == Sent::All {
                    self.sent.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.port.send(socket, to, train)
    }
}

/// Reviewers forged unreliable messages, CLOSE, VOID and acknowledgements with guessed numbers, and
/// reached Jetties, ended connections and stalled them.
#[test]
fn packets_that_are_forged_without_the_key_change_nothing() {
    let (victim, sent) = (Arc::default(), Arc::new(AtomicU64::new(0)));
    let builder = || Context::builder().bind([127, 0, 0, 1].into());
    let forge = |port| -> io::Result<Box<dyn Datapath>> {
        let (victim, sent) = (Arc::clone(&victim), sent.clone());
        Ok(Box::new(Forger { port, victim, sent, turn: 0 }))
    };
    let (client, server) = (builder().build_on(forge).unwrap(), builder().build().unwrap());
    let mail = server.create_jetty(JettyOptions::default().number(JETTY)).unwrap();
    let inbox = server.register(Memory::zeroed(64).unwrap(), Rights::NONE).unwrap();
    mail.post_receive(&inbox, 0).unwrap();
    let secret = server.register(Memory::zeroed(64).unwrap(), Rights::READ_WRITE).unwrap();
    *victim.lock().unwrap() = Some(secret.key());
    let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
    assert!(matches!(server.wait_event(TIMEOUT).unwrap(), Event::Connected(_)));
    let jetty = client.create_jetty(Default::default()).unwrap();
    let local = client.register(Memory::from_vec(pattern(1 << 20)), Rights::NONE).unwrap();
    let remote = server.register(Memory::zeroed(1 << 20).unwrap(), Rights::READ_WRITE).unwrap();
    let back = client.register(Memory::zeroed(1 << 20).unwrap(), Rights::NONE).unwrap();
    for id in 0..8 {
        jetty.write(&peer, &local, remote.key(), id).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
        jetty.read(&peer, &back, remote.key(), id).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
        assert!(back.compare(0, &pattern(1 << 20)).unwrap());
    }
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent > 100, "{sent} packets were forged");
    assert!(secret.compare(0, &[0; 64]).unwrap(), "a forged WRITE or store has arrived");
    assert!(inbox.compare(0, &[0; 64]).unwrap(), "a forged message has arrived");
    assert_eq!(server.peers().len(), 1, "a forged CLOSE was taken");
    let counters = server.counters();
    // Packets that a full socket drops never arrive.
    assert!(counters.nic.undecodable > 100, "{counters:?}");
}
