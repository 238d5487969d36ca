//! Packets that no honest peer sends: random bytes, unknown senders, old packets, and packets of a
//! faulty peer that must have no effect.

use crate::adversary::Fault;
use crate::plan::Plan;
use crate::workload::Workload;
use crate::world::World;
use fairway_device::random::Random;
use fairway_ub::ChannelId;
use fairway_ub::wire::{
    self, Access, Ack, AckFlags, AtomicOperator, Bypass, BypassOperation, CREDIT_MAX, CarriedAck,
    Cci, Close, Cna, Credit, CreditRequest, Data, Datagram, Executed, Get, JettyId, MAX_HEADER,
    Msn, Nak, Operation, Order, Packet, PathReport, PathReports, Priority, Probe, Psn, Put,
    Refusal, Retire, Route, Sack, ServiceMode, Tag, Target, TokenId, Tpn, Void,
};

/// Sends a random hostile packet to a node.
pub(crate) fn send(world: &mut World, workload: &Workload, plan: &Plan, random: &mut Random) {
    let node = random.below(world.nodes.len() as u64) as usize;
    match random.below(4) {
        0 => {
            let mut bytes = vec![0; random.below(200) as usize];
            random.fill(&mut bytes);
            world.adversary.count(Fault::RandomBytes);
            world.inject(node, bytes);
        }
        1 => {
            if let Some((to, bytes)) = world.remembered() {
                world.adversary.count(Fault::Replay);
                world.inject(to, bytes);
            }
        }
        2 => stranger(world, node, random),
        _ => forged(world, workload, plan, random),
    }
}

/// Sends a random packet with a route that is correct except for some fields: from an unknown
/// sender, for another node, or of an earlier channel.
fn stranger(world: &mut World, node: usize, random: &mut Random) {
    let Some(mut route) = right_route(world, node, random) else { return };
    let wrong = random.range(1, 15);
    if wrong & 1 != 0 {
        route.source = Cna::new(random.number() as u32);
    }
    if wrong & 2 != 0 {
        route.destination = Cna::new(random.number() as u32);
    }
    if wrong & 4 != 0 {
        // The same channel index at another opening.
        let bit = 1 << random.range(16, 23);
        route.source_tpn = Tpn::new(route.source_tpn.value() ^ bit);
    }
    if wrong & 8 != 0 {
        let bit = 1 << random.range(16, 23);
        route.destination_tpn = Tpn::new(route.destination_tpn.value() ^ bit);
    }
    let packet = any_packet(random);
    world.adversary.count(Fault::Stranger);
    inject(world, node, &route, &packet, random.below(100) as usize);
}

/// Returns the route of the last data packet received on some channel of `node`.
fn right_route(world: &World, node: usize, random: &mut Random) -> Option<Route> {
    let received = world.nodes[node].channels.iter().flatten().filter_map(|note| note.last_data);
    let routes: Vec<Route> = received.map(|received| received.route).collect();
    if routes.is_empty() { None } else { Some(random.pick(&routes)) }
}

/// Sends a packet of a peer that must always be ignored because its content is impossible.
fn forged(world: &mut World, workload: &Workload, plan: &Plan, random: &mut Random) {
    let index = random.below(plan.links.len() as u64) as usize;
    let side = random.below(2) as usize;
    let link = &plan.links[index];
    let (node, peer) = (link.nodes[side], link.nodes[1 - side]);
    let ends = workload.connections[index].ends;
    let (Some(own), Some(theirs)) = (ends[side], ends[1 - side]) else { return };
    let nics = (world.nodes[node].nic(), world.nodes[peer].nic());
    let (Some(here), Some(there)) = nics else { return };
    let mut route = Route {
        source: there.address(),
        destination: here.address(),
        source_tpn: theirs.tpn(),
        destination_tpn: own.tpn(),
        path: 0,
        priority: Priority::DATA,
        cci: Default::default(),
    };
    // The last data packet from the peer shows its current sequence numbers.
    let Some(last) = world.last_psn(node, own) else { return };
    let far = last.plus(100_000);
    let packet = match random.below(6) {
        0 if link.paths < 256 => {
            let path = random.range(u64::from(link.paths), 255) as u8;
            match any_packet(random) {
                // The path exists, but the peer cannot have ended there.
                Packet::Close(close) => Packet::Close(far_close(last, close)),
                packet => {
                    route.path = path;
                    packet
                }
            }
        }
        1 => Packet::Data(Data { psn: far, ..any_data(random) }),
        2 => {
            let mut ack = any_ack(random);
            ack.cumulative = Psn::new(random.number() as u32);
            // The test does not track the node's own sequence numbers; only one far ahead is surely
            // wrong.
            let Some(own_last) = world.last_psn(peer, theirs) else { return };
            ack.cumulative = own_last.plus(100_000);
            ack.flags = AckFlags::none();
            Packet::Ack(ack)
        }
        3 => {
            let Some(own_last) = world.last_psn(peer, theirs) else { return };
            let (message, reason) = (Msn::new(0), any_reason(random));
            Packet::Nak(Nak { psn: own_last.plus(100_000), message, reason, retry_after_us: 1 })
        }
        4 => Packet::Data(lone_continuation(last, random)),
        _ => Packet::Data(Data {
            psn: last.plus(random.below(20) as u32),
            index: 1 + random.below(5) as u32,
            operation: Operation::Read { access: any_access(random) },
            ..any_data(random)
        }),
    };
    let retires = plan.retirement.agreed && random.chance(200);
    let packet = if retires { forged_retire(own, random) } else { packet };
    let packet = match (packet, world.last_psn(peer, theirs)) {
        (Packet::Data(data), Some(own_last)) if plan.carried_acks && random.chance(500) => {
            // Without the acknowledgement it would be the next packet, and be accepted.
            carrying(Data { psn: last.next(), ..data }, own_last, random)
        }
        (packet, _) => packet,
    };
    world.adversary.count(Fault::Forged);
    inject(world, node, &route, &packet, 0);
}

/// Returns a continuation of a message of one packet.
fn lone_continuation(last: Psn, random: &mut Random) -> Data {
    Data {
        psn: last.plus(random.below(20) as u32),
        index: 0,
        last: true,
        operation: Operation::Continuation,
        ..any_data(random)
    }
}

/// Returns a notice that ends the channel by which it comes, or one that does not exist.
fn forged_retire(own: ChannelId, random: &mut Random) -> Packet {
    let channel = match random.chance(500) {
        true => own.tpn(),
        false => Tpn::new(0x00F0_0000 | random.number() as u32),
    };
    Packet::Retire(Retire { channel, answer: random.chance(500) })
}

/// Returns the packet with an acknowledgement of packets that its receiver has not sent.
fn carrying(data: Data, own_last: Psn, random: &mut Random) -> Packet {
    let cumulative = own_last.plus(100_000);
    let (delay, window) = (random.number() as u16, random.number() as u16);
    let carried = CarriedAck::new(cumulative, AckFlags::ECHO, delay, window);
    Packet::Data(Data { carried: Some(carried), ..data })
}

/// Returns a close whose sequence number lies far ahead of the window, or far behind it.
fn far_close(last: Psn, close: Close) -> Close {
    let far = 1 << 22;
    let is_ahead = close.next.value() & 1 == 0;
    Close { next: if is_ahead { last.plus(far) } else { last.minus(far) }, ..close }
}

fn inject(world: &mut World, node: usize, route: &Route, packet: &Packet, payload: usize) {
    let carries = match packet {
        Packet::Data(data) => carries_payload(&data.operation),
        Packet::Datagram(_) => true,
        _ => false,
    };
    let payload = if carries { payload } else { 0 };
    let mut bytes = vec![0; MAX_HEADER];
    let header = wire::encode(route, packet, payload, &mut bytes);
    bytes.truncate(header);
    bytes.resize(header + payload, 0xEE);
    world.inject(node, bytes);
}

fn carries_payload(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Write { .. }
            | Operation::WritePart(_)
            | Operation::WriteImmediate { .. }
            | Operation::Send { .. }
            | Operation::SendImmediate { .. }
            | Operation::Continuation
            | Operation::ReadResponse
            | Operation::Put(_)
    )
}

fn any_access(random: &mut Random) -> Access {
    Access {
        address: random.number(),
        length: random.below(10_000) as u32,
        token_id: TokenId::new(random.below(8) as u32),
        token_value: random.number() as u32,
    }
}

fn any_data(random: &mut Random) -> Data {
    let access = any_access(random);
    let target = Target {
        jetty: JettyId::new(random.below(4) as u32),
        token_value: 0,
        hint: random.number() as u8,
    };
    let (length, immediate) = (random.below(5000) as u32, random.number());
    Data {
        psn: Psn::new(random.number() as u32),
        message: Msn::new(random.number() as u32),
        index: random.below(300) as u32,
        jetty: JettyId::new(random.below(4) as u32),
        transaction: random.number() as u16,
        slot: random.number() as u8,
        ack_request: random.chance(500),
        retry: random.chance(500),
        last: random.chance(500),
        carried: None,
        order: Order::NONE,
        operation: match random.below(16) {
            0 => Operation::Write { access },
            1 => Operation::WriteImmediate { access, target, immediate },
            2 => Operation::Send { target, length },
            3 => Operation::SendImmediate { target, length, immediate },
            4 => Operation::Continuation,
            5 => Operation::Read { access },
            6 => Operation::ReadResponse,
            7 => Operation::Atomic {
                access: Access { length: random.pick(&[4, 8]), ..access },
                operator: random.pick(&AtomicOperator::ALL),
                operand: random.number(),
                compare: random.number(),
            },
            8 => Operation::AtomicResponse { value: random.number() },
            9 => Operation::Done { refusal: None, retry_after_us: 0, others: executed(random) },
            10 => Operation::Done {
                refusal: Some(random.pick(&[Refusal::ReceiverNotReady, Refusal::Length])),
                retry_after_us: random.number() as u16,
                others: Executed::NONE,
            },
            11 | 12 => Operation::Put(Put {
                mailbox: random.range(10, 13),
                offset: random.pick(&[0, 1, u64::MAX]),
                sequence: random.number() as u32,
                before: random.number() as u32,
                length,
                key: 0,
                epoch: random.below(4) as u32,
                named: random.chance(300),
                oldest: random.chance(300),
                follows: random.chance(300),
            }),
            13 => Operation::Get(Get {
                mailbox: random.range(10, 13),
                offset: random.number(),
                length,
                key: 0,
                epoch: 0,
                named: false,
            }),
            14 => Operation::AbandonPut {
                mailbox: random.range(10, 13),
                sequence: random.number() as u32,
            },
            _ => Operation::Abandon,
        },
    }
}

/// Returns a reason for refusing a packet: a permanent one, or that a switch has trimmed it.
fn executed(random: &mut Random) -> Executed {
    let mut others = Executed::NONE;
    for _ in 0..random.below(12) {
        // Beyond what fits nothing is added.
        let _ = others.push(random.below(8) as u8, random.below(64) as u16);
    }
    others
}

fn any_reason(random: &mut Random) -> Refusal {
    let retry = random.chance(500);
    random.pick(&[Refusal::Access, Refusal::Trimmed { retry }])
}

fn any_order(random: &mut Random) -> Order {
    if random.chance(500) {
        return Order::NONE;
    }
    Order {
        mode: random.pick(&[ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol]),
        tag: random.pick(&[Tag::No, Tag::Ro, Tag::So]),
        in_order: random.chance(500),
        sequence: random.number() as u16,
        receive_sequence: random.number() as u16,
        request_slot: random.number() as u8,
    }
}

fn any_ack(random: &mut Random) -> Ack {
    Ack {
        cumulative: Psn::new(random.number() as u32),
        echo: Psn::new(random.number() as u32),
        start_known: Msn::new(random.number() as u32),
        echo_delay: random.number() as u16,
        window: random.number() as u16,
        marks: random.number() as u8,
        duplicates: random.number() as u8,
        cci: Cci::from_bits(random.number() as u16),
        flags: AckFlags::from_bits(random.number() as u8),
        sack: Sack {
            base: Psn::new(random.number() as u32),
            highest: Psn::new(random.number() as u32),
            bitmap: std::array::from_fn(|_| random.number() as u32),
        },
        paths: any_path_reports(random),
    }
}

fn any_path_reports(random: &mut Random) -> PathReports {
    let mut paths = PathReports::NONE;
    for _ in 0..random.below(wire::PATH_REPORTS_MAX as u64 + 1) {
        let report = PathReport {
            offset: random.below(4096) as i16 - 2048,
            retry: random.chance(500),
            marks: random.below(u64::from(PathReport::MARKS_MAX) + 1) as u8,
            delay: random.number() as u16,
        };
        assert!(paths.push(report));
    }
    paths
}

fn any_packet(random: &mut Random) -> Packet {
    let psn = Psn::new(random.number() as u32);
    let message = Msn::new(random.number() as u32);
    match random.below(8) {
        6 => Packet::Datagram(Datagram {
            number: u64::from(psn.value()),
            jetty: JettyId::new(random.below(4) as u32),
            transaction: random.number() as u16,
            operation: Operation::Write { access: any_access(random) },
        }),
        7 => Packet::Bypass(Bypass {
            number: random.number() as u32,
            oldest: random.number() as u32,
            jetty: JettyId::new(random.below(4) as u32),
            operation: random.pick(&[
                BypassOperation::StoreDone { refusal: None },
                BypassOperation::LoadResponse { refusal: None },
            ]),
        }),
        0 => Packet::Ack(any_ack(random)),
        1 => Packet::Nak(Nak { psn, message, reason: any_reason(random), retry_after_us: 0 }),
        2 => Packet::Void(Void { psn, message, ack_request: true }),
        3 if random.chance(300) => Packet::CreditRequest(CreditRequest {
            total_bytes: random.number() & CREDIT_MAX,
            resend: random.chance(500),
            blocked: random.chance(500),
        }),
        3 if random.chance(300) => {
            let total_bytes = random.number() & CREDIT_MAX;
            Packet::Credit(Credit { total_bytes, class: Priority::of_data(total_bytes as u8) })
        }
        3 if random.chance(300) => Packet::Probe(Probe {
            number: random.number() as u32 & Probe::NUMBER_MAX,
            turn_ns: random.chance(700).then(|| random.number() as u32),
        }),
        3 => Packet::Close(Close { next: psn, answer: random.chance(500) }),
        _ => {
            let mut data = any_data(random);
            let plain = matches!(
                data.operation,
                Operation::Continuation
                    | Operation::ReadResponse
                    | Operation::AtomicResponse { .. }
                    | Operation::Done { .. }
            );
            if !plain {
                data.order = any_order(random);
            }
            Packet::Data(data)
        }
    }
}
