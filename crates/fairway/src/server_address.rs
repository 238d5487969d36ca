//! The address of a context to connect to, in the forms that programs use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

use fairway_runtime::without_signals;

use crate::error::Error;

/// The address of a context to connect to: a socket address, or the name of a host with a port.
///
/// ```
/// use fairway::ServerAddress;
/// use std::net::Ipv4Addr;
///
/// let by_address = ServerAddress::from((Ipv4Addr::LOCALHOST, 4810));
/// let by_text = ServerAddress::from("127.0.0.1:4810");
/// assert_eq!(by_address.resolve()?, by_text.resolve()?);
/// # Ok::<(), fairway::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress(Given);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    Address(SocketAddr),
    /// The name of a host, and a port.
    Name(String, u16),
    /// Text of the form `HOST:PORT`, not yet parsed.
    Text(String),
}

impl ServerAddress {
    /// True if the system's resolver is needed to find the address.
    pub(crate) fn is_name(&self) -> bool {
        match &self.0 {
            Given::Address(_) => false,
            Given::Text(text) => text.parse::<SocketAddr>().is_err(),
            Given::Name(host, _) => host.parse::<IpAddr>().is_err(),
        }
    }

    /// As [`ServerAddress::resolve`], for as long as `limit`. A name is resolved by a thread, which
    /// goes on after that.
    pub(crate) fn resolve_within(&self, limit: Duration) -> Result<Vec<SocketAddr>, Error> {
        if !self.is_name() {
            return self.resolve();
        }
        let name = match &self.0 {
            Given::Text(text) => text.rsplit_once(':').map_or(text.as_str(), |(host, _)| host),
            Given::Name(host, _) => host,
            Given::Address(_) => "",
        };
        let (done, resolved) = mpsc::sync_channel(1);
        let server = self.clone();
        let resolve = move || drop(done.send(server.resolve()));
        let resolver = std::thread::Builder::new().name("fairway-names".to_owned());
        let doing = "start a thread that resolves a name".to_owned();
        without_signals(|| resolver.spawn(resolve))
            .map_err(|source| Error::Io { doing, source })?;
        resolved.recv_timeout(limit).unwrap_or_else(|_| {
            let source = io::Error::from(io::ErrorKind::TimedOut);
            Err(Error::UnknownHost { name: name.to_owned(), source })
        })
    }

    /// Resolves the address. Returns at least one address, IPv4 before IPv6, because a name such as
    /// localhost has both and a server may be bound to IPv4 alone. This calls the system's resolver
    /// and may block for as long as that does.
    ///
    /// An address that names no host (`0.0.0.0` or `::`) stands for this host, as it does for TCP.
    /// A context that is bound to all addresses has it in [`Context::local_addrs`].
    ///
    /// [`Context::local_addrs`]: crate::Context::local_addrs
    ///
    /// # Errors
    /// [`Error::Parameter`] if the text is not `HOST:PORT` or `[IPV6]:PORT`, or the port is 0;
    /// [`Error::UnknownHost`] if the name has no address.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Error> {
        let wrong = |text: &dyn std::fmt::Display| Error::Parameter {
            name: "server",
            value: text.to_string(),
            remedy: "write HOST:PORT or [IPV6]:PORT with a port from 1 to 65535, as storage1:4800",
        };
        let (host, port) = match &self.0 {
            Given::Address(address) if address.port() == 0 => return Err(wrong(address)),
            Given::Address(address) => return Ok(vec![of_this_host(*address)]),
            Given::Name(host, port) => (host.clone(), *port),
            Given::Text(text) => match text.parse::<SocketAddr>() {
                Ok(address) => return ServerAddress::from(address).resolve(),
                Err(_) => {
                    let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong(text))?;
                    (host.to_owned(), port.parse().map_err(|_| wrong(text))?)
                }
            },
        };
        // A name has no colon. An IPv6 address in text has brackets, and was parsed above.
        if host.is_empty() || port == 0 || host.contains(':') {
            return Err(wrong(&format_args!("{host}:{port}")));
        }
        let unknown = |source| Error::UnknownHost { name: host.clone(), source };
        let mut found: Vec<SocketAddr> =
            (host.as_str(), port).to_socket_addrs().map_err(&unknown)?.map(of_this_host).collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found.dedup();
        match found.is_empty() {
            true => Err(unknown(io::Error::from(io::ErrorKind::NotFound))),
            false => Ok(found),
        }
    }
}

/// The address itself, or, if it names no host, that of the loopback interface.
fn of_this_host(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if !ip.is_unspecified() => address,
        _ if address.ip() == Ipv6Addr::UNSPECIFIED => (Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => (Ipv4Addr::LOCALHOST, address.port()).into(),
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        ServerAddress(Given::Address(address))
    }
}

impl From<SocketAddrV4> for ServerAddress {
    fn from(address: SocketAddrV4) -> Self {
        SocketAddr::from(address).into()
    }
}

impl From<SocketAddrV6> for ServerAddress {
    fn from(address: SocketAddrV6) -> Self {
        SocketAddr::from(address).into()
    }
}

impl From<(IpAddr, u16)> for ServerAddress {
    fn from(address: (IpAddr, u16)) -> Self {
        SocketAddr::from(address).into()
    }
}

impl From<(Ipv4Addr, u16)> for ServerAddress {
    fn from(address: (Ipv4Addr, u16)) -> Self {
        SocketAddr::from(address).into()
    }
}

impl From<(Ipv6Addr, u16)> for ServerAddress {
    fn from(address: (Ipv6Addr, u16)) -> Self {
        SocketAddr::from(address).into()
    }
}

/// The name of a host, or its address as text, and a port.
impl From<(&str, u16)> for ServerAddress {
    fn from((host, port): (&str, u16)) -> Self {
        match host.parse::<IpAddr>() {
            Ok(address) => (address, port).into(),
            Err(_) => ServerAddress(Given::Name(host.to_owned(), port)),
        }
    }
}

/// Text of the form `HOST:PORT` or `[IPV6]:PORT`.
impl From<&str> for ServerAddress {
    fn from(text: &str) -> Self {
        ServerAddress(Given::Text(text.to_owned()))
    }
}

/// Text of the form `HOST:PORT` or `[IPV6]:PORT`.
impl From<&String> for ServerAddress {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

/// Text of the form `HOST:PORT` or `[IPV6]:PORT`.
impl From<String> for ServerAddress {
    fn from(text: String) -> Self {
        ServerAddress(Given::Text(text))
    }
}

#[cfg(test)]
mod tests;
