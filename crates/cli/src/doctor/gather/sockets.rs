//! Tests a pair of sockets that Fairway's own code opens, by a train of packets from one to the
//! other.

use std::io;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use fairway::Memory;
use fairway_port::{Address, RawSlice, ReceiveBuffer, Train, UdpConfig, UdpPort, Waiter};

use super::system;
use crate::doctor::readings::{Buffers, Udp};
use crate::process;

/// Socket buffer size that a context requests, in bytes.
const BUFFER_BYTES: usize = 4 << 20;
/// Number of packets of the train, and the length of each in bytes.
const PACKETS: usize = 32;
const PACKET_BYTES: usize = 64;
/// Longest wait for packets on the loopback interface.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Sends a train of packets from one socket to another, and compares what arrives.
pub(super) fn udp() -> io::Result<Udp> {
    let bind = Ipv4Addr::LOCALHOST.into();
    let config = UdpConfig { bind, first_port: 0, sockets: 1, buffer_bytes: BUFFER_BYTES };
    let (mut from, mut to) = (UdpPort::bind(&config)?, UdpPort::bind(&config)?);
    let address: Address = to.local_addrs()[0].into();
    let mut train = from.new_train();
    fill(&mut train);
    from.send(0, &address, &train)?;
    let (arrived, received_at_once) = receive(&mut to)?;
    if arrived != PACKETS {
        return Err(io::Error::other(format!(
            "{arrived} of {PACKETS} packets arrived over the loopback interface"
        )));
    }
    let (features, granted) = (from.features(), to.granted());
    let setting = |name: &str| system::number(&format!("/proc/sys/net/core/{name}"));
    Ok(Udp {
        sent: PACKETS,
        segmentation: features.segmentation && from.counters().send_calls == 1,
        received_at_once: if features.coalescing { received_at_once } else { 1 },
        segments_max: features.segments_max,
        unfragmented: features.unfragmented,
        buffers: Buffers {
            requested: BUFFER_BYTES,
            send: granted.send_bytes,
            receive: granted.receive_bytes,
            receive_max: setting("rmem_max"),
            send_max: setting("wmem_max"),
        },
    })
}

fn packet(index: usize) -> [u8; PACKET_BYTES] {
    std::array::from_fn(|at| (index * 31 + at) as u8)
}

fn fill(train: &mut Train) {
    // SAFETY: no bytes, so none is ever read.
    let nothing = unsafe { RawSlice::new(std::ptr::NonNull::dangling().as_ptr(), 0) };
    for index in 0..PACKETS {
        let pushed = train.push(&packet(index), nothing);
        debug_assert!(pushed.is_ok(), "32 packets of 64 bytes fit every train");
    }
}

/// How many packets arrived, and the largest number in one call. Damaged packets are an error.
fn receive(port: &mut UdpPort) -> io::Result<(usize, usize)> {
    let waiter: Waiter = port.waiter()?;
    let (mut buffer, mut ready) = (ReceiveBuffer::new(), Vec::new());
    let (mut arrived, mut most) = (0, 0);
    let since = Instant::now();
    while arrived < PACKETS {
        let Some(arrival) = port.receive(0, &mut buffer)? else {
            let left = TIMEOUT.saturating_sub(since.elapsed());
            if left.is_zero() {
                break;
            }
            waiter.wait(Some(left), &mut ready)?;
            continue;
        };
        for index in 0..arrival.segments() {
            if arrival.segment(index) != packet(arrived + index) {
                return Err(io::Error::other("packets arrived in another order or changed"));
            }
        }
        arrived += arrival.segments();
        most = most.max(arrival.segments());
    }
    Ok((arrived, most))
}

/// Allocates memory that processes can share, and connects to this process by an abstract socket,
/// as the owner and the user of such memory do.
pub(super) fn shared_memory() -> io::Result<()> {
    Memory::shared(4096).map_err(|error| io::Error::other(error.to_string()))?;
    let name = format!("fairway-doctor-{:016x}", process::random()?);
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)?;
    let _one = UnixStream::connect_addr(&address)?;
    listener.accept().map(drop)
}
