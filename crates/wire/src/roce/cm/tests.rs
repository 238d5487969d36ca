use core::net::IpAddr;
use proptest::prelude::*;
use std::vec::Vec;

use super::*;
use crate::{Psn, Qpn};

mod strategies;

/// A datagram with this attribute whose content is the bytes 1, 2, 3 and so on.
fn counted(attribute: u16) -> [u8; MAD_LEN] {
    let mut bytes: [u8; MAD_LEN] = core::array::from_fn(|at| (at as u8).wrapping_sub(23));
    bytes[..24].fill(0);
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[4..16].copy_from_slice(&[0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
    bytes
}

fn message(attribute: u16) -> Message {
    let datagram = parse(&counted(attribute)).unwrap();
    assert_eq!(datagram.transaction, 0x0102_0304_0506_0708);
    datagram.message
}

#[test]
fn fields_stand_where_the_specification_puts_them() {
    let Message::Request(request) = message(0x10) else { panic!("no REQ") };
    assert_eq!(request.local, CommunicationId(0x0102_0304));
    assert_eq!(request.service, 0x090a_0b0c_0d0e_0f10);
    assert_eq!(request.ca_guid, 0x1112_1314_1516_1718);
    assert_eq!((request.q_key, request.queue_pair), (0x1d1e_1f20, Qpn::new(0x21_2223)));
    assert_eq!((request.responder_resources, request.initiator_depth), (0x24, 0x28));
    // Byte 43 is 0x2c: 5, RD, no flow control.
    assert_eq!((request.remote_response_timeout, request.transport), (5, Service::Rd));
    assert_eq!((request.psn, request.p_key), (Psn::new(0x2d_2e2f), 0x3132));
    assert_eq!((request.local_response_timeout, request.retries), (6, 0));
    assert_eq!((request.mtu, request.rnr_retries, request.cm_retries), (3, 3, 3));
    assert_eq!((request.shared_receives, request.extended_transport), (false, 4));
    assert_eq!((request.primary.local_lid, request.primary.remote_lid), (0x3536, 0x3738));
    assert_eq!((request.primary.local_gid[0], request.primary.remote_gid[15]), (0x39, 0x58));
    assert_eq!(request.primary.flow_and_rate, 0x595a_5b5c);
    assert_eq!((request.primary.traffic_class, request.primary.hop_limit), (0x5d, 0x5e));
    assert_eq!((request.primary.service_level, request.primary.ack_timeout), (5, 12));
    assert_eq!((request.alternate.local_lid, request.private[0]), (0x6162, 0x8d));

    let Message::Reply(reply) = message(0x13) else { panic!("no REP") };
    assert_eq!(reply.names.remote, CommunicationId(0x0506_0708));
    assert_eq!((reply.q_key, reply.queue_pair), (0x090a_0b0c, Qpn::new(0x0d_0e0f)));
    assert_eq!(reply.psn, Psn::new(0x15_1617));
    assert_eq!((reply.responder_resources, reply.initiator_depth), (0x19, 0x1a));
    assert_eq!((reply.ack_delay, reply.failover, reply.flow_control), (3, 1, true));
    assert_eq!((reply.rnr_retries, reply.shared_receives), (0, true));
    assert_eq!((reply.ca_guid, reply.private[0]), (0x1d1e_1f20_2122_2324, 0x25));

    let Message::Reject(reject) = message(0x12) else { panic!("no REJ") };
    assert_eq!((reject.refused, reject.information_len), (Refused::Request, 5));
    assert_eq!((reject.reason, reject.information[0]), (Reason(0x0b0c), 0x0d));
    assert_eq!(reject.private[0], 0x55);

    let Message::Disconnect(disconnect) = message(0x15) else { panic!("no DREQ") };
    assert_eq!((disconnect.queue_pair, disconnect.private[0]), (Qpn::new(0x09_0a0b), 13));

    let Message::ServiceReply(reply) = message(0x18) else { panic!("no SIDR_REP") };
    assert_eq!((reply.id, reply.status), (CommunicationId(0x0102_0304), ServiceStatus(5)));
    assert_eq!((reply.queue_pair, reply.service), (Qpn::new(0x09_0a0b), 0x0d0e_0f10_1112_1314));
    assert_eq!((reply.q_key, reply.information[0], reply.private[0]), (0x1516_1718, 0x19, 0x61));
}

#[test]
fn datagram_that_is_no_message_is_refused_by_name() {
    assert_eq!(parse(&[0; 255]), Err(MadError::Length(255)));
    assert_eq!(parse(&[0; 257]), Err(MadError::Length(257)));
    for known in 0x10..=0x1a {
        assert!(parse(&counted(known)).is_ok());
    }
    for unknown in [0, 1, 0xf, 0x1b, 0x110] {
        assert_eq!(parse(&counted(unknown)), Err(MadError::Attribute(unknown)));
    }
    for at in 0..4 {
        let mut bytes = counted(0x10);
        bytes[at] ^= 0x80;
        let kind = *bytes.first_chunk().unwrap();
        assert_eq!(parse(&bytes), Err(MadError::Kind(kind)));
    }
}

#[test]
fn services_are_ports() {
    assert_eq!(service_id(PortSpace::Tcp, 7174), 0x0106_1c06);
    assert_eq!(port_of_service(0x0106_1c06), Some((PortSpace::Tcp, 7174)));
    assert_eq!(port_of_service(service_id(PortSpace::Udp, 1)), Some((PortSpace::Udp, 1)));
    assert_eq!(port_of_service(0x1_0106_1c06), None);
    assert_eq!(port_of_service(0x013f_1c06), None);
}

#[test]
fn private_data_may_have_no_address() {
    assert_eq!(IpHeader::parse(&[0x40; 35]), None);
    assert_eq!(IpHeader::parse(&[0; 56]), None);
    let [source, destination] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
    let mut bytes = IpHeader { source_port: 1, source, destination }.emit();
    assert!(IpHeader::parse(&bytes).is_some());
    bytes[0] = 0x10;
    assert_eq!(IpHeader::parse(&bytes), None);
}

fn ip_header() -> impl Strategy<Value = IpHeader> {
    let pair = prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
        any::<[[u8; 16]; 2]>().prop_map(|pair| pair.map(IpAddr::from)),
    ];
    (any::<u16>(), pair).prop_map(|(source_port, [source, destination])| IpHeader {
        source_port,
        source,
        destination,
    })
}

proptest! {
    #[test]
    fn every_message_comes_back(datagram in strategies::datagram()) {
        prop_assert_eq!(parse(&emit(&datagram)), Ok(datagram));
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..=300),
        content in proptest::collection::vec(any::<u8>(), 232),
        attribute in 0x0eu16..0x1d,
    ) {
        let _ = parse(&bytes);
        let mut plausible: Vec<u8> = counted(attribute)[..24].to_vec();
        plausible.extend(content);
        if let Ok(datagram) = parse(&plausible) {
            prop_assert_eq!(parse(&emit(&datagram)), Ok(datagram));
        }
    }

    #[test]
    fn addresses_come_back(header in ip_header()) {
        prop_assert_eq!(IpHeader::parse(&header.emit()), Some(header));
    }
}
