//! Proptest strategies for every message of a connection manager.

use proptest::prelude::*;
use std::vec::Vec;

use crate::roce::cm::*;
use crate::{Psn, Qpn};

/// Random private data of `N` bytes.
fn filled<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    proptest::collection::vec(any::<u8>(), N)
        .prop_map(|bytes: Vec<u8>| bytes.try_into().expect("as many as were requested"))
}

fn names() -> impl Strategy<Value = Names> {
    any::<[u32; 2]>().prop_map(|[local, remote]| Names {
        local: CommunicationId(local),
        remote: CommunicationId(remote),
    })
}

fn path() -> impl Strategy<Value = Path> {
    let narrow = (0u8..16, any::<bool>(), 0u8..32);
    (any::<[u16; 2]>(), any::<[[u8; 16]; 2]>(), any::<u32>(), any::<[u8; 2]>(), narrow).prop_map(
        |(lids, gids, flow_and_rate, [traffic_class, hop_limit], narrow)| Path {
            local_lid: lids[0],
            remote_lid: lids[1],
            local_gid: gids[0],
            remote_gid: gids[1],
            flow_and_rate,
            traffic_class,
            hop_limit,
            service_level: narrow.0,
            subnet_local: narrow.1,
            ack_timeout: narrow.2,
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let service = prop_oneof![
        Just(Service::Rc),
        Just(Service::Uc),
        Just(Service::Rd),
        Just(Service::Extended)
    ];
    let wide = (any::<[u32; 4]>(), any::<[u64; 2]>(), any::<[u8; 2]>(), any::<u16>());
    let narrow = ([0u8..32, 0u8..32], [0u8..8, 0u8..8, 0u8..8], [0u8..16, 0u8..16]);
    let rest = (service, any::<[bool; 2]>(), path(), path(), filled());
    (wide, narrow, rest).prop_map(|(wide, narrow, rest)| {
        let ([local, q_key, queue_pair, psn], [service, ca_guid], depths, p_key) = wide;
        let (timeouts, [retries, rnr_retries, extended_transport], [mtu, cm_retries]) = narrow;
        let (transport, [flow_control, shared_receives], primary, alternate, private) = rest;
        Request {
            local: CommunicationId(local),
            service,
            ca_guid,
            q_key,
            queue_pair: Qpn::new(queue_pair),
            responder_resources: depths[0],
            initiator_depth: depths[1],
            remote_response_timeout: timeouts[0],
            transport,
            flow_control,
            psn: Psn::new(psn),
            local_response_timeout: timeouts[1],
            retries,
            p_key,
            mtu,
            rnr_retries,
            cm_retries,
            shared_receives,
            extended_transport,
            primary,
            alternate,
            private,
        }
    })
}

fn refused() -> impl Strategy<Value = Refused> {
    prop_oneof![
        Just(Refused::Request),
        Just(Refused::Reply),
        Just(Refused::Other),
        Just(Refused::Undefined)
    ]
}

fn reject() -> impl Strategy<Value = Reject> {
    (names(), refused(), any::<u16>(), 0u8..128, filled(), filled()).prop_map(
        |(names, refused, reason, information_len, information, private)| Reject {
            names,
            refused,
            reason: Reason(reason),
            information_len,
            information,
            private,
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    let wide = (any::<[u32; 3]>(), any::<[u8; 2]>(), any::<u64>());
    (names(), wide, (0u8..32, 0u8..4, 0u8..8), any::<[bool; 2]>(), filled()).prop_map(
        |(names, ([q_key, queue_pair, psn], depths, ca_guid), narrow, flags, private)| Reply {
            names,
            q_key,
            queue_pair: Qpn::new(queue_pair),
            psn: Psn::new(psn),
            responder_resources: depths[0],
            initiator_depth: depths[1],
            ack_delay: narrow.0,
            failover: narrow.1,
            flow_control: flags[0],
            rnr_retries: narrow.2,
            shared_receives: flags[1],
            ca_guid,
            private,
        },
    )
}

fn service_reply() -> impl Strategy<Value = ServiceReply> {
    (any::<[u32; 3]>(), any::<[u8; 2]>(), any::<u64>(), filled(), filled()).prop_map(
        |([id, queue_pair, q_key], [status, information_len], service, information, private)| {
            ServiceReply {
                id: CommunicationId(id),
                status: ServiceStatus(status),
                queue_pair: Qpn::new(queue_pair),
                service,
                q_key,
                information_len,
                information,
                private,
            }
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    let acknowledgement = (names(), refused(), 0u8..32, filled()).prop_map(
        |(names, received, service_timeout, private)| Acknowledgement {
            names,
            received,
            service_timeout,
            private,
        },
    );
    let disconnect = (names(), any::<u32>(), filled()).prop_map(|(names, queue_pair, private)| {
        Disconnect { names, queue_pair: Qpn::new(queue_pair), private }
    });
    let service_request = (any::<u32>(), any::<u16>(), any::<u64>(), filled()).prop_map(
        |(id, p_key, service, private)| ServiceRequest {
            id: CommunicationId(id),
            p_key,
            service,
            private,
        },
    );
    prop_oneof![
        request().prop_map(Message::Request),
        acknowledgement.prop_map(Message::Acknowledgement),
        reject().prop_map(Message::Reject),
        reply().prop_map(Message::Reply),
        (names(), filled())
            .prop_map(|(names, private)| Message::ReadyToUse(ReadyToUse { names, private })),
        disconnect.prop_map(Message::Disconnect),
        (names(), filled())
            .prop_map(|(names, private)| Message::Disconnected(Disconnected { names, private })),
        service_request.prop_map(Message::ServiceRequest),
        service_reply().prop_map(Message::ServiceReply),
        (names(), any::<bool>())
            .prop_map(|(names, is_answer)| Message::Path(PathRequest { names, is_answer })),
    ]
}

pub fn datagram() -> impl Strategy<Value = Datagram> {
    (any::<u64>(), message()).prop_map(|(transaction, message)| Datagram { transaction, message })
}
