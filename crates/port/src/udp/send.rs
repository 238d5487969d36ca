//! Sends a train: in one call, or packet by packet if the kernel cannot segment it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use crate::limits::SEGMENTS_MAX;
use crate::udp::address::Address;
use crate::udp::control::Control;
use crate::udp::port::UdpPort;
use crate::udp::route::is_local;
use crate::udp::sys::{empty_message, route_mtu, send_message};
use crate::udp::train::Train;

/// The result of sending a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All packets were passed to the kernel. Like any datagram they may get lost after that.
    All,
    /// The kernel's buffers are full. The first `sent` packets went out (none, if the kernel does
    /// the segmentation): [`Train::skip`] them, and send the others later.
    Blocked {
        /// Number of packets that went out.
        sent: usize,
    },
}

/// A packet is longer than the link accepts. Contained in an [`io::Error`] of kind `InvalidInput`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTooLong {
    /// Length of the packet, without IP and UDP headers.
    pub packet_bytes: usize,
    /// Length of the IP and UDP headers.
    pub overhead_bytes: usize,
    /// Maximum length on the link, including all headers. Zero if it could not be determined.
    pub mtu_bytes: usize,
}

impl fmt::Display for PacketTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PacketTooLong { packet_bytes, overhead_bytes, mtu_bytes } = self;
        write!(
            f,
            "a packet of {packet_bytes} bytes and {overhead_bytes} bytes of IP and UDP headers do \
             not fit the link's MTU of {mtu_bytes} bytes: use smaller packets or raise the MTU"
        )
    }
}

impl std::error::Error for PacketTooLong {}

/// Message headers for packets that are sent one by one.
pub(super) struct SingleFile {
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the addresses in `messages` are only used during the call that sets them.
unsafe impl Send for SingleFile {}

impl SingleFile {
    pub(super) fn new() -> Self {
        SingleFile { messages: Vec::with_capacity(SEGMENTS_MAX) }
    }
}

impl fmt::Debug for SingleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SingleFile")
    }
}

/// The meaning of an error of a send call.
enum Trouble {
    /// The buffers are full.
    Blocked,
    /// The same call is to be repeated.
    Again,
    /// A report of the network on this packet or an earlier one.
    Network,
    /// The packet is longer than the link accepts.
    TooLong,
    /// A report of the network on an earlier packet; or, if repeated calls return it, too, a
    /// refusal of the kernel.
    Unclear,
    /// The kernel possibly refuses to segment.
    Refused,
    Other,
}

impl Trouble {
    fn of(error: &io::Error) -> Trouble {
        match error.raw_os_error().unwrap_or(0) {
            libc::EAGAIN | libc::ENOBUFS => Trouble::Blocked,
            libc::EINTR => Trouble::Again,
            libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::EHOSTUNREACH
            | libc::EHOSTDOWN
            | libc::ENETUNREACH
            | libc::ENETDOWN
            | libc::ENONET
            | libc::EPERM => Trouble::Network,
            libc::EMSGSIZE => Trouble::TooLong,
            libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EPROTO | libc::EACCES => Trouble::Unclear,
            libc::EIO | libc::EINVAL => Trouble::Refused,
            _ => Trouble::Other,
        }
    }
}

/// Number of attempts for a call that fails for reasons unrelated to its packets.
const ATTEMPTS: usize = 3;

/// Number of trains in a row that the kernel has to refuse, while it accepts their packets one by
/// one, before trains are given up. A route may have become usable between the two.
const REFUSED_TRAINS: u8 = 4;

impl UdpPort {
    /// Sends the packets of `train` from `socket` to `to`.
    ///
    /// Reports of the network about earlier packets (unreachable, refused) are counted, not
    /// returned: for a datagram transport they are lost packets.
    ///
    /// # Errors
    /// [`PacketTooLong`], inside the error, if the packets exceed the MTU; else what the kernel
    /// says.
    pub fn send(&mut self, socket: usize, to: &Address, train: &Train) -> io::Result<Sent> {
        if train.is_empty() {
            return Ok(Sent::All);
        }
        if train.len() > 1 && !self.features.segmentation {
            return self.send_single_file(socket, to, train);
        }
        let mut failed = None;
        for attempt in 1..=ATTEMPTS {
            self.counters.send_calls += 1;
            let Err(error) = self.send_once(socket, to, train) else {
                if train.len() > 1 {
                    self.refused_trains = 0;
                }
                self.count_sent(train.len(), train.bytes());
                return Ok(Sent::All);
            };
            match Trouble::of(&error) {
                Trouble::Blocked => {
                    self.counters.blocked += 1;
                    return Ok(Sent::Blocked { sent: 0 });
                }
                Trouble::Again => {}
                // The error may be an old one that was returned instead of sending, so the call is
                // repeated.
                Trouble::Network => self.counters.icmp_errors += 1,
                Trouble::Unclear if attempt < ATTEMPTS => self.counters.icmp_errors += 1,
                Trouble::TooLong => return Err(self.too_long(socket, to, train.segment_size())),
                Trouble::Refused if has_lost_source(to) => self.counters.icmp_errors += 1,
                Trouble::Unclear | Trouble::Refused if train.len() > 1 => {
                    return self.fall_back(socket, to, train);
                }
                Trouble::Unclear | Trouble::Refused | Trouble::Other => return Err(error),
            }
            failed = Some(error);
        }
        match failed {
            Some(error) if matches!(Trouble::of(&error), Trouble::Again) => Err(error),
            _ => Ok(Sent::All),
        }
    }

    /// Sends one packet from a byte slice.
    ///
    /// # Errors
    /// What the kernel says, also if its buffers are full.
    pub fn send_one(&self, socket: usize, to: &Address, packet: &[u8]) -> io::Result<()> {
        let piece =
            libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let to = self.for_socket(socket, to);
        let mut message = message_to(&to, std::slice::from_ref(&piece));
        let mut control = Control::new();
        control.push_source(&to);
        control.attach(&mut message);
        // SAFETY: address, piece and control outlive the call, and so do the bytes, which are only
        // read.
        unsafe { send_message(self.sockets[socket].as_fd(), &message) }.map(|_| ())
    }

    /// Makes one call for the whole train.
    #[inline]
    fn send_once(&self, socket: usize, to: &Address, train: &Train) -> io::Result<usize> {
        let pieces = train.pieces();
        let address = self.for_socket(socket, to);
        let mut message = message_to(&address, pieces);
        let mut control = Control::new();
        if train.len() > 1 {
            // A train is at most 65,000 bytes long, so its segment size fits 16 bits.
            control.push_segment_size(train.segment_size() as u16);
        }
        control.push_traffic_class(to.is_ipv6(), train);
        control.push_source(&address);
        control.attach(&mut message);
        // SAFETY: address, pieces and control outlive the call. The pieces point into the train,
        // and at payload that is readable until the send returns, by the promise of
        // `RawSlice::new`.
        unsafe { send_message(self.sockets[socket].as_fd(), &message) }
    }

    /// Handles the kernel's refusal of a train that it might have had to segment.
    fn fall_back(&mut self, socket: usize, to: &Address, train: &Train) -> io::Result<Sent> {
        let packet = train.segment_size();
        // Kernels before 6.14 return EINVAL also for segments longer than the MTU.
        let mtu = route_mtu(self.local_addrs()[socket], to).unwrap_or(usize::MAX);
        if packet + to.header_overhead() > mtu {
            return Err(self.too_long(socket, to, packet));
        }
        let before = self.counters.packets_sent;
        let sent = self.send_single_file(socket, to, train);
        // A route that forbids packets refuses single ones, too.
        if self.counters.packets_sent > before {
            self.counters.gso_fallbacks += 1;
            self.refused_trains += 1;
            self.features.segmentation = self.refused_trains < REFUSED_TRAINS;
        }
        sent
    }

    /// Sends packet by packet, with one call for as many as the kernel accepts.
    fn send_single_file(&mut self, socket: usize, to: &Address, train: &Train) -> io::Result<Sent> {
        let mut control = Control::new();
        control.push_traffic_class(to.is_ipv6(), train);
        let address = self.for_socket(socket, to);
        control.push_source(&address);
        self.send_unsegmented.messages.clear();
        for index in 0..train.len() {
            let mut message = message_to(&address, train.pieces_of(index));
            control.attach(&mut message);
            self.send_unsegmented.messages.push(libc::mmsghdr { msg_hdr: message, msg_len: 0 });
        }
        let mut sent = 0;
        let mut attempts = 0;
        while sent < train.len() {
            self.counters.send_calls += 1;
            match self.send_many(socket, sent) {
                Ok(count) => {
                    let bytes = (sent..sent + count).map(|index| train.datagram_len(index)).sum();
                    self.count_sent(count, bytes);
                    sent += count;
                    continue;
                }
                Err(error) => match Trouble::of(&error) {
                    Trouble::Blocked => {
                        self.counters.blocked += 1;
                        return Ok(Sent::Blocked { sent });
                    }
                    Trouble::Again => {}
                    Trouble::Network => self.counters.icmp_errors += 1,
                    Trouble::Unclear if attempts + 1 < ATTEMPTS => self.counters.icmp_errors += 1,
                    Trouble::TooLong => {
                        return Err(self.too_long(socket, to, train.datagram_len(sent)));
                    }
                    Trouble::Refused if has_lost_source(to) => self.counters.icmp_errors += 1,
                    Trouble::Unclear | Trouble::Refused | Trouble::Other => return Err(error),
                },
            }
            attempts += 1;
            if attempts == ATTEMPTS {
                // This packet is lost, like any that the network drops.
                sent += 1;
                attempts = 0;
            }
        }
        Ok(Sent::All)
    }

    /// Makes one `sendmmsg` call for the prepared messages from `first` on. Returns the number
    /// accepted.
    fn send_many(&mut self, socket: usize, first: usize) -> io::Result<usize> {
        let messages = &mut self.send_unsegmented.messages[first..];
        let count = messages.len() as libc::c_uint;
        let fd = self.sockets[socket].as_raw_fd();
        // SAFETY: the messages were prepared by the caller from an address, pieces and control data
        // that outlive this call; the kernel writes only their `msg_len`.
        let sent =
            unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_NOSIGNAL as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn count_sent(&mut self, packets: usize, bytes: usize) {
        self.counters.packets_sent += packets as u64;
        self.counters.bytes_sent += bytes as u64;
    }

    #[cold]
    fn too_long(&self, socket: usize, to: &Address, packet_bytes: usize) -> io::Error {
        let local = self.local_addrs()[socket];
        let mtu_bytes = route_mtu(local, to).unwrap_or(0);
        let overhead_bytes = to.header_overhead();
        let detail = PacketTooLong { packet_bytes, overhead_bytes, mtu_bytes };
        io::Error::new(io::ErrorKind::InvalidInput, detail)
    }
}

/// True if packets to an address are to leave from one that this host has no more. They are lost.
#[cold]
fn has_lost_source(to: &Address) -> bool {
    let is_gone = |local| is_local(SocketAddr::new(local, 0)).is_ok_and(|is_local| !is_local);
    to.local().is_some_and(is_gone)
}

fn message_to(to: &Address, pieces: &[libc::iovec]) -> libc::msghdr {
    let mut message = empty_message();
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    message
}
