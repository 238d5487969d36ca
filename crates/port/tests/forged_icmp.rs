//! ICMP messages, which any host can send, must not shorten packets, and fail no socket.
//!
//! The tests require the superuser: they run in a separate network namespace, because the kernel
//! remembers the message "fragmentation needed" for ten minutes.

#[path = "../../fairway/tests/common/superuser.rs"]
mod superuser;

use std::io;
use std::mem::zeroed;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use fairway_port::{RawSlice, ReceiveBuffer, Sent, UdpConfig, UdpPort, mtu_towards};

const LONG: usize = 9000;
const CLAIMED: u16 = 576;

/// Moves this thread to a new network namespace with a loopback interface. Returns false if that is
/// not permitted.
fn enter_namespace() -> bool {
    // SAFETY: the calls read and write the structures that they are given.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNET) != 0 {
            return false;
        }
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = zeroed();
        request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) == 0
    }
}

/// The checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Code of "fragmentation needed".
const TOO_LONG: u8 = 4;
/// Codes that Linux reports to a connected socket at once; the others mean failures that may pass.
const REPORTED: [u8; 10] = [2, 3, 6, 7, 8, 9, 10, 13, 14, 15];

/// Reports, with this code, that a packet between two ports did not reach its destination.
fn forge(code: u8, from: u16, to: u16) -> io::Result<()> {
    let here = Ipv4Addr::LOCALHOST.octets();
    let mut quoted = vec![0x45, 0, 0x23, 0x28, 0, 0, 0x40, 0, 64, 17, 0, 0];
    quoted.extend(here);
    quoted.extend(here);
    let sum = checksum(&quoted);
    quoted[10..12].copy_from_slice(&sum.to_be_bytes());
    quoted.extend(from.to_be_bytes());
    quoted.extend(to.to_be_bytes());
    quoted.extend([0x23, 0x14, 0, 0]);
    let mut message = vec![3, code, 0, 0, 0, 0];
    message.extend(CLAIMED.to_be_bytes());
    message.extend(quoted);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    // SAFETY: the address and the bytes are valid for their lengths.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_in = zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_addr.s_addr = u32::from_ne_bytes(here);
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let bytes = message.as_ptr().cast();
        let to = (&raw const address).cast();
        match libc::sendto(socket.as_raw_fd(), bytes, message.len(), 0, to, length) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// The MTU that the kernel has recorded for the path to an address.
fn believed(to: SocketAddr) -> libc::c_int {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(to).expect("a route");
    let mut mtu: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value and its length are valid.
    let got = unsafe {
        let (value, length) = ((&raw mut mtu).cast(), &raw mut length);
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU, value, length)
    };
    assert_eq!(got, 0);
    mtu
}

fn demand_that_packets_stay_long() {
    let bind = || {
        let config = UdpConfig {
            bind: Ipv4Addr::LOCALHOST.into(),
            sockets: 1,
            first_port: 0,
            buffer_bytes: 1 << 20,
        };
        UdpPort::bind(&config).expect("a port")
    };
    let (mut one, mut other) = (bind(), bind());
    let (from, to) = (one.local_addrs()[0], other.local_addrs()[0]);
    forge(TOO_LONG, from.port(), to.port()).expect("the superuser may send ICMP");
    assert_eq!(believed(to), CLAIMED.into(), "the kernel does not believe it: nothing is tested");
    let link = mtu_towards(from, &to).expect("a route");
    assert!(link > LONG, "{link} bytes");
    let payload = vec![7; LONG];
    let mut train = one.new_train();
    // SAFETY: the payload outlives the train's use.
    let piece = unsafe { RawSlice::new(payload.as_ptr(), payload.len()) };
    train.push(&[1, 2, 3, 4], piece).expect("one packet fits");
    assert_eq!(one.send(0, &to.into(), &train).expect("it leaves"), Sent::All);
    let mut buffer = ReceiveBuffer::new();
    let arrival = other.receive(0, &mut buffer).expect("no error").expect("it is there");
    assert_eq!((arrival.segments(), arrival.segment(0).len()), (1, LONG + 4));
}

/// Receives after one report with each code, and sends a train of two packets after another.
fn demand_that_reports_are_counted() {
    let mut port = UdpPort::bind_one((Ipv4Addr::LOCALHOST, 0).into(), 1 << 20).expect("a port");
    let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = other.local_addr().expect("its address");
    let socket = port.add_socket_towards((Ipv4Addr::LOCALHOST, 0).into(), to).expect("a socket");
    let from = port.local_addrs()[socket];
    let mut train = port.new_train();
    for header in [&[1, 2, 3, 4], &[5, 6, 7, 8]] {
        // SAFETY: no bytes.
        train.push(header, unsafe { RawSlice::new(header.as_ptr(), 0) }).expect("it fits");
    }
    let segments = port.features().segmentation;
    let mut buffer = ReceiveBuffer::new();
    let mut received = [0; 16];
    for code in REPORTED {
        let report = || forge(code, from.port(), to.port()).expect("the superuser may send ICMP");
        let before = port.counters().icmp_errors;
        report();
        assert!(port.receive(socket, &mut buffer).expect("a report is no failure").is_none());
        report();
        let sent = port.send(socket, &to.into(), &train).expect("a report is no failure");
        assert_eq!((sent, port.features().segmentation), (Sent::All, segments), "code {code}");
        assert_eq!(port.counters().icmp_errors, before + 2, "code {code}");
        for packet in [[1, 2, 3, 4], [5, 6, 7, 8]] {
            let length = other.recv(&mut received).expect("it arrives");
            assert_eq!(received[..length], packet, "code {code}");
        }
    }
    assert_eq!(port.counters().gso_fallbacks, 0);
}

/// Runs a test on a separate thread, because it leaves the namespace of the others.
fn in_namespace(test: fn()) {
    let ended = std::thread::spawn(move || match enter_namespace() {
        true => test(),
        false => superuser::skip("loopback in a network namespace"),
    });
    ended.join().expect("the test in the namespace");
}

#[test]
fn forged_report_of_a_short_path_changes_no_length() {
    in_namespace(demand_that_packets_stay_long);
}

/// Regression test: such a report ended a relay, or made it send packets one by one for good.
#[test]
fn reports_of_the_network_are_counted_whatever_their_code() {
    in_namespace(demand_that_reports_are_counted);
}
