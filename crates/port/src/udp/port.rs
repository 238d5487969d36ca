//! The port: a set of UDP sockets, and the features and buffers that the kernel granted.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fairway_wire::Ecn;

use crate::limits::{SEGMENTS_MAX, SEGMENTS_MAX_OLD};
use crate::memory::RawSlice;
use crate::udp::address::Address;
use crate::udp::control::{Control, ecn_bits};
use crate::udp::counters::PortCounters;
use crate::udp::route::table_mtu;
use crate::udp::send::SingleFile;
use crate::udp::sys::{
    bound_socket, common_socket, empty_message, get, keep_to_this_host, local_address, open_socket,
    route_mtu, send_message, set, shared_socket,
};
use crate::udp::train::Train;
use crate::udp::waiter::Waiter;

/// Configuration of a port.
#[derive(Clone, Copy, Debug)]
pub struct UdpConfig {
    /// The local address; its family is the port's family. May be unspecified: `0.0.0.0` for all
    /// of IPv4, `::` for all of IPv6 and of IPv4.
    pub bind: IpAddr,
    /// Port number of the first socket; the others have the following numbers. Zero: any numbers.
    pub first_port: u16,
    /// Number of sockets; at least one.
    pub sockets: usize,
    /// Size of the send and receive buffers to request, in bytes per socket.
    pub buffer_bytes: usize,
}

/// Features that the kernel supports on these sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// True if one call can send many packets. Set to false when the kernel refuses that.
    pub segmentation: bool,
    /// True if one call can receive many packets.
    pub coalescing: bool,
    /// Maximum number of packets in one train.
    pub segments_max: usize,
    /// True if packets are never fragmented on the way: packets that are too long are refused.
    pub unfragmented: bool,
}

/// Socket buffers as the kernel counts them (it doubles the requested size, up to its limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Send buffer, in bytes.
    pub send_bytes: usize,
    /// Receive buffer, in bytes.
    pub receive_bytes: usize,
}

/// A set of UDP sockets. It sends and receives datagrams, and does not interpret them.
///
/// Sockets are named by their index; using one that does not exist panics.
#[derive(Debug)]
pub struct UdpPort {
    pub(super) sockets: Vec<OwnedFd>,
    addresses: Vec<SocketAddr>,
    /// Sockets of both families, one bit each by index.
    both_families: u64,
    buffer_bytes: usize,
    granted: Granted,
    pub(super) features: Features,
    pub(super) counters: PortCounters,
    pub(super) send_unsegmented: SingleFile,
    /// Number of trains in a row that the kernel has refused although it sends their packets.
    pub(super) refused_trains: u8,
    /// True if the kernel is to timestamp packets.
    stamps: bool,
}

/// Returns the MTU, in bytes, of the link from the address `local` towards `remote`, including IP
/// and UDP headers. It is that of the routing table: MTUs that ICMP messages report for the path
/// are ignored, because any host can send those.
///
/// # Errors
/// There is no route.
pub fn mtu_towards(local: SocketAddr, remote: &SocketAddr) -> io::Result<usize> {
    match table_mtu(local, *remote) {
        Ok(Some(mtu)) => Ok(mtu),
        _ => route_mtu(local, &(*remote).into()),
    }
}

impl UdpPort {
    /// Opens the sockets.
    ///
    /// # Errors
    /// The address is not ours, a port number is taken or past 65,535, no socket was requested, or
    /// the kernel refuses. The error names the address.
    pub fn bind(config: &UdpConfig) -> io::Result<Self> {
        let last = config
            .sockets
            .checked_sub(1)
            .ok_or_else(|| invalid("0 sockets: request at least one"))?;
        if config.first_port != 0 && usize::from(config.first_port) + last > 65_535 {
            return Err(invalid("port numbers past 65535"));
        }
        let mut port = UdpPort::without_sockets(config.buffer_bytes);
        for index in 0..config.sockets {
            let number = match config.first_port {
                0 => 0,
                first => first + index as u16,
            };
            match config.bind {
                IpAddr::V6(ip) if ip.is_unspecified() => port.add_open_socket(number)?,
                ip => port.add_socket(SocketAddr::new(ip, number))?,
            };
        }
        port.probe_segmentation();
        Ok(port)
    }

    /// Opens one socket; more can be added, of either family. `buffer_bytes` is as in
    /// [`UdpConfig`].
    ///
    /// # Errors
    /// As [`UdpPort::bind`].
    pub fn bind_one(address: SocketAddr, buffer_bytes: usize) -> io::Result<Self> {
        let mut port = UdpPort::without_sockets(buffer_bytes);
        port.add_socket(address)?;
        port.probe_segmentation();
        Ok(port)
    }

    fn without_sockets(buffer_bytes: usize) -> Self {
        UdpPort {
            sockets: Vec::new(),
            addresses: Vec::new(),
            both_families: 0,
            buffer_bytes,
            granted: Granted { send_bytes: 0, receive_bytes: 0 },
            features: Features {
                segmentation: true,
                coalescing: true,
                segments_max: SEGMENTS_MAX,
                unfragmented: true,
            },
            counters: PortCounters::default(),
            send_unsegmented: SingleFile::new(),
            refused_trains: 0,
            stamps: false,
        }
    }

    /// Opens one more socket, at any address. Returns its index.
    ///
    /// # Errors
    /// As [`UdpPort::bind`].
    pub fn add_socket(&mut self, address: SocketAddr) -> io::Result<usize> {
        let (socket, bound) = self.open(address)?;
        self.sockets.push(socket);
        self.addresses.push(bound);
        Ok(self.sockets.len() - 1)
    }

    /// Opens one more socket, on a port of all addresses of this host, IPv6 and IPv4. Returns its
    /// index. Its address reads `[::]`; packets over IPv4 go to, and come from, plain IPv4
    /// addresses.
    ///
    /// # Errors
    /// As [`UdpPort::bind`]; or this host has no IPv6 at all.
    pub fn add_open_socket(&mut self, number: u16) -> io::Result<usize> {
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, number));
        let (socket, bound) = self.open_with(address, open_socket)?;
        // The options of IPv6 are already set; packets over IPv4 obey those of IPv4.
        self.configure_family(&socket, false)?;
        let index = self.sockets.len();
        assert!(index < 64, "a port has at most 64 sockets of both families");
        self.sockets.push(socket);
        self.addresses.push(bound);
        self.both_families |= 1 << index;
        Ok(index)
    }

    /// Opens one more socket, which receives from and sends to `remote` only. Such sockets may
    /// share a local address. Returns its index.
    ///
    /// # Errors
    /// As [`UdpPort::bind`].
    pub fn add_socket_towards(
        &mut self,
        address: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<usize> {
        let (socket, bound) = self.open_with(address, |address| shared_socket(address, remote))?;
        self.sockets.push(socket);
        self.addresses.push(bound);
        Ok(self.sockets.len() - 1)
    }

    /// Opens one more socket, on an address and port that other processes of this user may use,
    /// too, if they open theirs likewise. The kernel delivers each packet to one of them. Returns
    /// its index.
    ///
    /// # Errors
    /// As [`UdpPort::bind`].
    pub fn add_common_socket(&mut self, address: SocketAddr) -> io::Result<usize> {
        let (socket, bound) = self.open_with(address, common_socket)?;
        self.sockets.push(socket);
        self.addresses.push(bound);
        Ok(self.sockets.len() - 1)
    }

    /// Makes socket `index` receive only packets that this host sends. The source address of a
    /// packet is no proof: for IPv6, Linux accepts packets from other hosts that claim an address
    /// of this one.
    ///
    /// # Errors
    /// If the kernel accepts no filter.
    pub fn keep_to_this_host(&self, index: usize) -> io::Result<()> {
        keep_to_this_host(&self.sockets[index])
    }

    /// Closes socket `index` and opens another one in its place.
    ///
    /// # Errors
    /// As [`UdpPort::bind`]; the old socket is then still there.
    pub fn replace_socket(&mut self, index: usize, address: SocketAddr) -> io::Result<()> {
        let (socket, bound) = self.open(address)?;
        self.sockets[index] = socket;
        self.addresses[index] = bound;
        self.both_families &= !(1_u64.checked_shl(index as u32).unwrap_or(0));
        Ok(())
    }

    /// As [`UdpPort::replace_socket`], with a socket like that of [`UdpPort::add_socket_towards`].
    ///
    /// # Errors
    /// As [`UdpPort::bind`]; the old socket is then still there.
    pub fn replace_socket_towards(
        &mut self,
        index: usize,
        address: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<()> {
        let (socket, bound) = self.open_with(address, |address| shared_socket(address, remote))?;
        self.sockets[index] = socket;
        self.addresses[index] = bound;
        self.both_families &= !(1_u64.checked_shl(index as u32).unwrap_or(0));
        Ok(())
    }

    /// The addresses of the sockets, by index.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the descriptor of socket `index`, to be watched together with others.
    pub fn socket_fd(&self, index: usize) -> BorrowedFd<'_> {
        self.sockets[index].as_fd()
    }

    /// Returns the address `to` in the form that socket `index` requires.
    pub(super) fn for_socket(&self, index: usize, to: &Address) -> Address {
        if index < 64 && self.both_families & 1 << index != 0 {
            return to.for_both_families();
        }
        *to
    }

    /// Number of sockets.
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// Features that the kernel supports.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Sizes of the first socket's buffers, as granted.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// Counters since the port was opened.
    pub fn counters(&self) -> &PortCounters {
        &self.counters
    }

    /// The same counters, for a datapath that carries packets past the sockets.
    pub fn counters_mut(&mut self) -> &mut PortCounters {
        &mut self.counters
    }

    /// Returns an empty train of the size that this port can send.
    pub fn new_train(&self) -> Train {
        Train::new(self.features.segments_max)
    }

    /// Returns the MTU, in bytes, of the link towards `remote`, including IP and UDP headers.
    ///
    /// # Errors
    /// There is no route.
    pub fn mtu_towards(&self, remote: &SocketAddr) -> io::Result<usize> {
        mtu_towards(self.addresses[0], remote)
    }

    /// Returns a waiter that watches all sockets, by index. It must not be used any more once one
    /// of them has been replaced.
    ///
    /// # Errors
    /// The kernel refuses another descriptor.
    pub fn waiter(&self) -> io::Result<Waiter> {
        let waiter = Waiter::new()?;
        for (index, socket) in self.sockets.iter().enumerate() {
            waiter.watch_pausable(socket.as_fd(), index)?;
        }
        Ok(waiter)
    }

    /// Makes the port send every packet separately from now on, as if the kernel did not support
    /// segmentation.
    pub fn disable_segmentation(&mut self) {
        self.features.segmentation = false;
    }

    /// Makes the kernel timestamp every packet ([`crate::Arrival::stamped_ns`]), on all existing
    /// sockets and on those that are opened later.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stamp_arrivals(&mut self) -> io::Result<()> {
        self.stamps = true;
        self.sockets.iter().try_for_each(stamp)
    }

    fn open(&mut self, address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
        self.open_with(address, bound_socket)
    }

    fn open_with(
        &mut self,
        address: SocketAddr,
        open: impl FnOnce(&Address) -> io::Result<OwnedFd>,
    ) -> io::Result<(OwnedFd, SocketAddr)> {
        let socket = open(&address.into()).map_err(|error| {
            io::Error::new(error.kind(), format!("can't open a UDP socket on {address}: {error}"))
        })?;
        self.configure(&socket, address.is_ipv6())?;
        if address.ip().is_unspecified() {
            report_local_addresses(&socket, address.is_ipv6())?;
        }
        let bound = local_address(&socket)?.into();
        Ok((socket, bound))
    }

    fn configure(&mut self, socket: &OwnedFd, ipv6: bool) -> io::Result<()> {
        let wanted = libc::c_int::try_from(self.buffer_bytes).unwrap_or(libc::c_int::MAX);
        for (plain, force) in
            [(libc::SO_SNDBUF, libc::SO_SNDBUFFORCE), (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE)]
        {
            set(socket, libc::SOL_SOCKET, plain, wanted)?;
            // This exceeds the system's limit for users with the privilege; for others the limit
            // applies.
            let _ = set(socket, libc::SOL_SOCKET, force, wanted);
        }
        if self.sockets.is_empty() {
            let granted = |option| get(socket, libc::SOL_SOCKET, option).map(|n| n.max(0) as usize);
            let send_bytes = granted(libc::SO_SNDBUF)?;
            let receive_bytes = granted(libc::SO_RCVBUF)?;
            self.granted = Granted { send_bytes, receive_bytes };
        }
        self.features.coalescing &= set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        if self.stamps {
            stamp(socket)?;
        }
        self.configure_family(socket, ipv6)
    }

    /// Configures a socket so that packets are never fragmented, and may be as long as the
    /// interface accepts: a smaller path MTU that an ICMP message claims is ignored.
    fn configure_family(&mut self, socket: &OwnedFd, ipv6: bool) -> io::Result<()> {
        let ecn = ecn_bits(Ecn::Capable);
        if ipv6 {
            set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, ecn)?;
            let (option, probe) = (libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
            self.features.unfragmented &= set(socket, libc::IPPROTO_IPV6, option, probe).is_ok();
        } else {
            set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
            set(socket, libc::IPPROTO_IP, libc::IP_TOS, ecn)?;
            let (option, probe) = (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
            self.features.unfragmented &= set(socket, libc::IPPROTO_IP, option, probe).is_ok();
        }
        Ok(())
    }

    /// Finds out how many segments the kernel accepts, by sending a train of one-byte packets to
    /// another socket of this process on the loopback interface.
    fn probe_segmentation(&mut self) {
        self.features.segmentation =
            get(&self.sockets[0], libc::SOL_UDP, libc::UDP_SEGMENT).is_ok();
        if self.features.segmentation && !takes_long_trains(self.addresses[0].is_ipv6()) {
            self.features.segments_max = SEGMENTS_MAX_OLD;
        }
    }
}

/// Makes the kernel report the local address to which each packet was sent. A socket of both
/// families reports that of IPv4 inside IPv6.
fn report_local_addresses(socket: &OwnedFd, ipv6: bool) -> io::Result<()> {
    match ipv6 {
        true => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
        false => set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
    }
}

/// True if a train of [`SEGMENTS_MAX`] packets was accepted. Also false if nothing can be sent on
/// loopback, because the lower limit is right on every kernel.
fn takes_long_trains(ipv6: bool) -> bool {
    let loopback: IpAddr = if ipv6 {
        std::net::Ipv6Addr::LOCALHOST.into()
    } else {
        std::net::Ipv4Addr::LOCALHOST.into()
    };
    let Ok(socket) = bound_socket(&(loopback, 0).into()) else {
        return false;
    };
    let Ok(own) = local_address(&socket) else {
        return false;
    };
    let bytes = [0u8; SEGMENTS_MAX];
    // SAFETY: `bytes` outlives the call below.
    let slice = unsafe { RawSlice::new(bytes.as_ptr(), bytes.len()) };
    let mut piece =
        libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
    let mut control = Control::new();
    control.push_segment_size(1);
    let mut message = empty_message();
    message.msg_name = own.as_ptr().cast_mut().cast();
    message.msg_namelen = own.len();
    message.msg_iov = &mut piece;
    message.msg_iovlen = 1;
    control.attach(&mut message);
    // SAFETY: name, piece and control all outlive the call.
    unsafe { send_message(socket.as_fd(), &message) }.is_ok()
}

/// Makes the kernel timestamp the packets that a socket receives.
fn stamp(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
