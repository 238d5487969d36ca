//! Maximum length of packets towards an address, according to the routing table.
//!
//! The kernel also remembers the path MTUs of ICMP messages, which any sender can forge: a
//! connected socket reports such a value for ten minutes. Therefore the table itself is queried, by
//! rtnetlink with `RTM_F_FIB_MATCH` (Linux 4.13).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::sys::check;

/// Maximum packet length of IP: 65,535 bytes, which IPv6 counts from behind its header.
const MTU_MAX_V4: usize = 0xffff;
const MTU_MAX_V6: usize = 0xffff + 40;

/// `RTM_F_FIB_MATCH` of `linux/rtnetlink.h`: requests the entry itself, not a route derived from
/// it.
const FIB_MATCH: u32 = 0x2000;
/// `RTAX_MTU`.
const METRIC_MTU: u16 = 2;
const NLMSG_HEADER: usize = 16;
pub(crate) const ROUTE_HEADER: usize = 12;
const ATTRIBUTE_HEADER: usize = 4;

/// Index of the loopback interface of every network namespace (`LOOPBACK_IFINDEX` of Linux).
const LOOPBACK: libc::c_uint = 1;
/// Place of the kind of route (`rtm_type`) in the header of an entry.
const ROUTE_KIND: usize = 7;

/// The entry of the routing table for a destination.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    interface: libc::c_uint,
    mtu: Option<usize>,
}

/// Returns the MTU of the route from `local` to `remote`: the route's own, if it has one, or its
/// interface's. `None` if the table has no single entry with it, as with several next hops.
pub(super) fn table_mtu(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<usize>> {
    let socket = netlink()?;
    let answer = ask(&socket, &question(local, remote, FIB_MATCH))?;
    let Some(entry) = entry(&answer)? else { return Ok(None) };
    let mtu = match entry.mtu {
        Some(mtu) => mtu,
        None => interface_mtu(&socket, entry.interface, remote.is_ipv6())?,
    };
    Ok(Some(mtu.min(if remote.is_ipv6() { MTU_MAX_V6 } else { MTU_MAX_V4 })))
}

/// True if the address belongs to this host: the table has a local entry for it.
///
/// # Errors
/// The kernel refuses a descriptor, or does not answer.
pub fn is_local(address: SocketAddr) -> io::Result<bool> {
    let address = match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(_), ip @ IpAddr::V4(_)) => SocketAddr::new(ip, 0),
        _ => address,
    };
    let socket = netlink()?;
    let any = SocketAddr::from(([0; 4], 0));
    match body(&ask(&socket, &question(any, address, 0))?) {
        Ok(entry) => Ok(entry.get(ROUTE_KIND) == Some(&libc::RTN_LOCAL)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => Ok(false),
            _ => Err(error),
        },
    }
}

/// Opens a socket for questions to the kernel's tables.
pub(crate) fn netlink() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: a plain call; the descriptor, if there is one, is ours alone.
    unsafe {
        let number = check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Sends a question, and returns the kernel's answer: an entry of a table, or an error message.
pub(crate) fn ask(socket: &OwnedFd, question: &[u8]) -> io::Result<Vec<u8>> {
    // SAFETY: the bytes are valid for their length.
    let sent =
        unsafe { libc::send(socket.as_raw_fd(), question.as_ptr().cast(), question.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = vec![0_u8; 4096];
    // The kernel has answered when `send` returns, so this call does not wait.
    // SAFETY: the room is valid for its length.
    let length = unsafe {
        let room = answer.as_mut_ptr().cast();
        libc::recv(socket.as_raw_fd(), room, answer.len(), libc::MSG_DONTWAIT)
    };
    answer.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(answer)
}

/// The bytes of an IP address.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Returns the question for the route from `local` to `remote`.
pub(crate) fn question(local: SocketAddr, remote: SocketAddr, flags: u32) -> Vec<u8> {
    let family = if remote.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    let to = octets(remote.ip());
    let same_family = local.is_ipv6() == remote.is_ipv6() && !local.ip().is_unspecified();
    let from = same_family.then(|| octets(local.ip()));
    let bits = |bytes: Option<&Vec<u8>>| bytes.map_or(0, |bytes| 8 * bytes.len() as u8);
    let mut message = Vec::new();
    message.extend([family as u8, bits(Some(&to)), bits(from.as_ref()), 0, 0, 0, 0, 0]);
    message.extend(flags.to_ne_bytes());
    put(&mut message, libc::RTA_DST, &to);
    if let Some(from) = &from {
        put(&mut message, libc::RTA_SRC, from);
    }
    if let SocketAddr::V6(remote) = remote
        && remote.scope_id() != 0
    {
        put(&mut message, libc::RTA_OIF, &remote.scope_id().to_ne_bytes());
    }
    request(libc::RTM_GETROUTE, &message)
}

/// Returns a request with its header.
pub(crate) fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = ((NLMSG_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.resize(NLMSG_HEADER, 0);
    message.extend(body);
    message
}

/// Adds an attribute.
pub(crate) fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (ATTRIBUTE_HEADER + value.len()) as u16;
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
}

fn entry(answer: &[u8]) -> io::Result<Option<Entry>> {
    let entry = body(answer)?;
    let attributes = entry.get(ROUTE_HEADER..).unwrap_or_default();
    let Some(interface) = find(attributes, libc::RTA_OIF).and_then(number) else {
        return Ok(None);
    };
    // The entry of an own address names the interface that has the address, but packets to it take
    // the loopback interface.
    let is_own = entry.get(ROUTE_KIND) == Some(&libc::RTN_LOCAL);
    let interface = if is_own { LOOPBACK } else { interface };
    let metrics = find(attributes, libc::RTA_METRICS).unwrap_or_default();
    let mtu = find(metrics, METRIC_MTU).and_then(number).map(|mtu| mtu as usize);
    Ok(Some(Entry { interface, mtu }))
}

/// Returns what follows the header of an answer.
///
/// # Errors
/// The answer is an error message.
pub(crate) fn body(answer: &[u8]) -> io::Result<&[u8]> {
    let kind = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    let body = answer.get(NLMSG_HEADER..).unwrap_or_default();
    if kind == Some(libc::NLMSG_ERROR as u16) {
        let error = number(body).unwrap_or_default();
        return Err(io::Error::from_raw_os_error((error as i32).wrapping_neg()));
    }
    Ok(body)
}

/// The number in the first four bytes.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Returns the value of the first attribute of a kind.
pub(crate) fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let header: &[u8; ATTRIBUTE_HEADER] = attributes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = attributes.get(ATTRIBUTE_HEADER..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Returns the MTU of an interface; for IPv6 it may be a smaller value that a router has
/// advertised.
fn interface_mtu(socket: &OwnedFd, index: libc::c_uint, ipv6: bool) -> io::Result<usize> {
    // SAFETY: all zeros are a value of this structure of numbers and bytes.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the room is as long as the call wants.
    let named = unsafe { libc::if_indextoname(index, request.ifr_name.as_mut_ptr()) };
    if named.is_null() {
        return Err(io::Error::last_os_error());
    }
    if ipv6 {
        // SAFETY: the call has written a string that ends with zero.
        let name = unsafe { CStr::from_ptr(request.ifr_name.as_ptr()) }.to_string_lossy();
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/mtu"))?;
        return text.trim().parse().map_err(|_| io::Error::other("an MTU that is no number"));
    }
    // SAFETY: the kernel reads the name and writes the MTU, both in the structure.
    let mtu = unsafe {
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request))?;
        request.ifr_ifru.ifru_mtu
    };
    usize::try_from(mtu).map_err(|_| io::Error::other("the kernel reports a negative MTU"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_carries_the_longest_packets() {
        let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
        assert_eq!(table_mtu(here, here).unwrap(), Some(MTU_MAX_V4));
        let here: SocketAddr = "[::1]:0".parse().unwrap();
        assert_eq!(table_mtu(here, here).unwrap(), Some(65_536));
    }

    #[test]
    fn addresses_of_this_host_are_local_and_others_are_not() {
        for own in ["127.0.0.1:1", "127.0.0.2:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_local(own.parse().unwrap()).unwrap(), "{own}");
        }
        for other in ["198.51.100.1:1", "[2001:db8::1]:1"] {
            assert!(!is_local(other.parse().unwrap()).unwrap(), "{other}");
        }
    }

    /// Returns an answer with an entry of a kind for interface number 7.
    fn answer(kind: u8) -> Vec<u8> {
        let mut body = vec![0; ROUTE_HEADER];
        body[ROUTE_KIND] = kind;
        put(&mut body, libc::RTA_OIF, &7_u32.to_ne_bytes());
        request(libc::RTM_NEWROUTE, &body)
    }

    #[test]
    fn packets_to_an_own_address_take_the_loopback_interface() {
        let entry_of = |kind| entry(&answer(kind)).unwrap();
        let through = |interface| Some(Entry { interface, mtu: None });
        assert_eq!(entry_of(libc::RTN_UNICAST), through(7));
        assert_eq!(entry_of(libc::RTN_LOCAL), through(LOOPBACK));
        // The kernel's own answer, on a host that has another address than that of loopback.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("198.51.100.1:9").is_ok() {
            let own = socket.local_addr().unwrap();
            assert_eq!(table_mtu(own, own).unwrap(), Some(MTU_MAX_V4), "{own}");
        }
    }

    #[test]
    fn cut_or_senseless_answers_name_no_route() {
        for length in 0..64 {
            let mut answer = vec![0xff; length];
            if let Some(kind) = answer.get_mut(4..6) {
                kind.fill(0);
            }
            assert!(entry(&answer).is_ok_and(|entry| entry.is_none()), "{length}");
        }
    }
}
