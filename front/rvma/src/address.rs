//! Addresses of processes, as text and as this process's own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use fairway::ServerAddress;

use crate::status::{Failure, Result, Status};

/// Looks up `host:port`. `v6` is the required address family, if any: true for IPv6.
pub(crate) fn resolve(text: &str, v6: Option<bool>) -> Result<SocketAddr> {
    let found = ServerAddress::from(text).resolve().map_err(|error| match error {
        fairway::Error::Parameter { .. } => Failure::argument(
            "an address",
            format!("{text:?}"),
            "write host:port or [IPv6]:port, with a port from 1 to 65535",
        ),
        error => Failure::new(Status::System, format!("could not look up {text}: {error}")),
    })?;
    let mut fitting = found.into_iter().filter(|found| v6.is_none_or(|v6| found.is_ipv6() == v6));
    let address = fitting.next().ok_or_else(|| {
        Failure::new(
            Status::System,
            format!("{text} has no address of the family that RVMA_Init bound to"),
        )
    })?;
    Ok(address)
}

/// The address at which other hosts reach a socket that is bound to `local`.
pub(crate) fn reachable(local: SocketAddr) -> SocketAddr {
    if !local.ip().is_unspecified() {
        return local;
    }
    // A socket at `[::]` serves both families.
    let v6 = if local.is_ipv6() { outward(true) } else { None };
    let ip = outward(false).or(v6).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    SocketAddr::new(ip, local.port())
}

/// The source address of packets to distant hosts. Connecting a UDP socket sends nothing: the
/// kernel only looks up the route. The destinations are addresses reserved for documentation.
fn outward(v6: bool) -> Option<IpAddr> {
    let (any, far) = match v6 {
        false => ("0.0.0.0:0", "192.0.2.1:9"),
        true => ("[::]:0", "[2001:db8::1]:9"),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_an_address_or_a_reason() {
        assert_eq!(resolve("127.0.0.1:80", None).unwrap(), ([127, 0, 0, 1], 80).into());
        assert!(resolve("[::1]:80", Some(true)).unwrap().is_ipv6());
        for text in ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:99999"] {
            assert_eq!(resolve(text, None).unwrap_err().status, Status::Argument, "{text:?}");
        }
        assert_eq!(resolve("[::1]:80", Some(false)).unwrap_err().status, Status::System);
    }

    #[test]
    fn a_wildcard_becomes_something_that_can_be_reached() {
        let bound: SocketAddr = ([127, 0, 0, 1], 7).into();
        assert_eq!(reachable(bound), bound);
        let reached = reachable(([0, 0, 0, 0], 7).into());
        assert!(!reached.ip().is_unspecified() && reached.port() == 7);
    }
}
