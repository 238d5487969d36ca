//! Packets that are sent after the socket was full.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fairway_port::{Address, Arrival, Datapath, ReceiveBuffer, Sent, Train, UdpPort};
use fairway_roce::{
    Change, Completion, Limits, MemoryRequest, Peer, Profile, QueuePairConfig, Reliability,
    RoceDevice, Transport, Work, WorkRequest,
};
use fairway_runtime::{Memory, clock, transmit};
use fairway_ub::wire::roce::{DEFAULT_P_KEY, RnrTimer};
use fairway_ub::wire::{Duration, Psn, Qpn};
use fairway_ub::{LocalRange, Rights};

use super::super::core::RoceCore;
use super::super::sockets;
use super::super::{Parts, assemble};
use crate::ProviderOptions;

/// Sockets that are full when a test requests that, and record the packets they send otherwise.
struct Sluice {
    port: Box<dyn Datapath>,
    closed: Arc<AtomicBool>,
    packets: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Datapath for Sluice {
    fn port(&self) -> &UdpPort {
        self.port.port()
    }

    fn port_mut(&mut self) -> &mut UdpPort {
        self.port.port_mut()
    }

    fn transmit(
        &mut self,
        _now_ns: u64,
        _path: usize,
        _socket: usize,
        _to: &Address,
        train: &Train,
    ) -> io::Result<Sent> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(Sent::Blocked { sent: 0 });
        }
        for index in 0..train.len() {
            let payload = train.payload(index);
            // SAFETY: the caller of `push` promised that the payload stays in place, and is not
            // written to, until the train is cleared.
            let bytes = unsafe { std::slice::from_raw_parts(payload.as_ptr(), payload.len()) };
            self.packets.lock().unwrap().push(bytes.to_vec());
        }
        Ok(Sent::All)
    }

    fn receive<'b>(
        &mut self,
        _socket: usize,
        _buffer: &'b mut ReceiveBuffer,
    ) -> io::Result<Option<Arrival<'b>>> {
        Ok(None)
    }
}

/// A datagram completes when it is passed to the network. Its memory belongs to the application
/// again even if the network had no room for it.
#[test]
fn waiting_packet_keeps_the_payload_of_its_completed_operation() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let ip = std::net::Ipv4Addr::new(127, 77, high, low);
    let mut opened = sockets::open(&ProviderOptions::new(vec![ip.into()], 1024)).unwrap();
    let (closed, packets) = (Arc::new(AtomicBool::new(true)), Arc::<Mutex<Vec<_>>>::default());
    let (port, full, kept) = (opened.datapath, Arc::clone(&closed), Arc::clone(&packets));
    opened.datapath = Box::new(Sluice { port, closed: full, packets: kept });
    let host = RoceDevice::new(&Limits::default(), &Profile::default(), 1);
    let Parts { network, mut io, .. } = assemble(opened).unwrap();
    let mut core = RoceCore::new(host, network);

    let memory: [AtomicU64; 16] = [const { AtomicU64::new(0x1111_1111_1111_1111) }; 16];
    let request = MemoryRequest { domain: 1, address: 0, length: 128, rights: Rights::NONE };
    let region = core.host.register(&request).unwrap();
    // SAFETY: it consists of atomics, and lives longer than the device uses it.
    let foreign = unsafe { Memory::from_raw(NonNull::from(&memory).cast(), 128) };
    core.memories.insert(region.segment, Arc::new(foreign));
    let queue = core.host.create_completion_queue(8).unwrap();
    let config = QueuePairConfig {
        transport: Transport::Ud,
        domain: 1,
        send_queue: queue,
        receive_queue: queue,
        shared_receives: None,
        send_depth: 8,
        receive_depth: 8,
    };
    let number = core.host.create_queue_pair(&config).unwrap();
    let to = Peer { address: u64::from(u32::from(ip)), queue_pair: Qpn::new(9) };
    let (mtu, expected, read_depth) = (1024, Psn::new(0), 1);
    let rnr_timer = RnrTimer::from_code(1);
    let reliability = Reliability::default();
    for change in [
        Change::Init { rights: Rights::NONE, p_key: DEFAULT_P_KEY, q_key: 1 },
        Change::ReadyToReceive { peer: to, mtu, expected, read_depth, rnr_timer },
        Change::ReadyToSend { first: Psn::new(0), reliability },
    ] {
        core.host.modify(number, &change).unwrap();
    }
    let now = clock::now();
    // The second datagram is longer, so it begins a new run, for which there is no room.
    for length in [8, 64] {
        let request = WorkRequest {
            id: u64::from(length),
            work: Work::Datagram { to, q_key: 1, immediate: None },
            local: LocalRange { segment: region.segment, offset: 0, length }.into(),
            signaled: true,
            solicited: false,
            fence: false,
        };
        core.host.post_send(now, number, &request).unwrap();
    }
    transmit(&mut core, &mut io, now);
    let done: Vec<Completion> = std::iter::from_fn(|| core.host.poll_completion(queue)).collect();
    assert_eq!(done.len(), 2);
    memory.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
    core.host.deregister(region.segment).unwrap();
    core.memories.remove(region.segment);
    closed.store(false, Ordering::Relaxed);
    transmit(&mut core, &mut io, now + Duration::from_ms(1));
    let packets = packets.lock().unwrap();
    // BTH and DETH together have 20 bytes.
    let payloads: Vec<&[u8]> = packets.iter().map(|packet| &packet[20..packet.len() - 4]).collect();
    assert_eq!(payloads, [&[0x11; 8][..], &[0x11; 64]]);
}
