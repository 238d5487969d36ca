//! Choice of the way that packets take.

use std::fmt;
use std::io;
use std::str::FromStr;

use fairway_port::rnic::RnicChoice;
use fairway_port::{FallenBack, UdpPort};
use fairway_runtime::{Frames, QueuePairs, RnicService, SharedMemory};

use crate::error::Error;

/// The environment variable that chooses the datapath of contexts whose builder does not.
const VARIABLE: &str = "FAIRWAY_DATAPATH";
/// The name of the datapath over an RDMA NIC, which a device may follow.
const RDMA: &str = "rdma";
const RDMA_UC: &str = "rdma-uc";
const RDMA_OR_UDP: &str = "rdma-or-udp";
const REMEDY: &str = "use auto, udp, shm, xdp, rdma[:DEVICE[:PORT]], rdma-uc[:DEVICE[:PORT]] or \
                      rdma-or-udp[:DEVICE[:PORT]]";

/// The way that packets take ([`crate::Builder::datapath`]). The operations, their order and their
/// guarantees are the same for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatapathKind {
    /// Shared memory to peers on this host whose programs the same user runs, UDP to all others.
    /// UDP to all peers where the process may not have files of a few MiB (`RLIMIT_FSIZE`):
    /// [`Context::datapath_fallback`](crate::Context::datapath_fallback) tells that.
    #[default]
    Auto,
    /// UDP to all peers.
    Udp,
    /// Shared memory only. Packets to peers that it does not reach are dropped, so connecting to
    /// them fails. Building a context fails where the process may not have files of a few MiB
    /// (`RLIMIT_FSIZE`).
    Shm,
    /// Whole frames past the kernel's network stack (AF_XDP) to peers on the network of the
    /// interface to whose address the context is bound, and UDP where that is not possible. Needs
    /// the capabilities `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`, and attaches a program to the
    /// interface, so that only one context can use it; the context has one engine.
    Xdp,
    /// Datagrams of an RDMA NIC's queue pairs to peers that have this datapath, too, and UDP to
    /// all others. The NIC is the chosen one or, by default, the one that has the address to which
    /// the context is bound. Building a context fails where there is no verbs library or no such
    /// NIC.
    Rdma(RnicChoice),
    /// As [`DatapathKind::Rdma`], but UDP where there is no verbs library or no such NIC:
    /// [`Context::datapath_fallback`](crate::Context::datapath_fallback) tells the reason.
    RdmaOrUdp(RnicChoice),
    /// As [`DatapathKind::Rdma`], with a connection (UC) for each path to peers that have this
    /// datapath, too. Building a context also fails where the NIC has no connected queue pairs.
    RdmaUc(RnicChoice),
}

impl DatapathKind {
    /// True if bytes may pass between processes of this host through memory, without packets.
    pub fn shares_memory(self) -> bool {
        matches!(self, DatapathKind::Auto | DatapathKind::Shm)
    }

    /// True if packets take an RDMA NIC, where that is possible.
    pub fn is_over_rnic(self) -> bool {
        use DatapathKind::{Rdma, RdmaOrUdp, RdmaUc};
        matches!(self, Rdma(_) | RdmaOrUdp(_) | RdmaUc(_))
    }

    /// The datapath that the environment names, or the default.
    ///
    /// # Errors
    /// The variable has another value.
    pub(crate) fn of_environment() -> Result<DatapathKind, Error> {
        let set = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
        let Some(text) = set else { return Ok(DatapathKind::default()) };
        let text = text.to_string_lossy();
        text.parse().map_err(|_| Error::Parameter {
            name: VARIABLE,
            value: format!("{text:?}"),
            remedy: REMEDY,
        })
    }

    /// Puts sockets to use.
    ///
    /// # Errors
    /// Memory is demanded, and the kernel refuses a descriptor or files of that length; or frames
    /// are, and the interface or the RDMA NIC cannot be used so.
    pub(crate) fn open(self, port: UdpPort) -> io::Result<Box<dyn fairway_port::Datapath>> {
        match self {
            DatapathKind::Udp => Ok(Box::new(port)),
            DatapathKind::Auto => Ok(SharedMemory::with_sockets(port)),
            DatapathKind::Shm => Ok(Box::new(SharedMemory::alone(port)?)),
            DatapathKind::Xdp => Ok(Box::new(Frames::open(port)?)),
            DatapathKind::Rdma(choice) => required(port, &choice, RnicService::Datagrams),
            DatapathKind::RdmaUc(choice) => required(port, &choice, RnicService::Connections),
            DatapathKind::RdmaOrUdp(choice) => {
                match QueuePairs::open(port, &choice, RnicService::Datagrams) {
                    Ok(pairs) => Ok(Box::new(pairs)),
                    Err((error, port)) => Ok(Box::new(FallenBack::new(*port, error.to_string()))),
                }
            }
        }
    }
}

/// Opens an RDMA NIC, which there has to be.
fn required(
    port: UdpPort,
    choice: &RnicChoice,
    service: RnicService,
) -> io::Result<Box<dyn fairway_port::Datapath>> {
    match QueuePairs::open(port, choice, service) {
        Ok(pairs) => Ok(Box::new(pairs)),
        Err((error, _)) => Err(error),
    }
}

impl fmt::Display for DatapathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            DatapathKind::Auto => "auto",
            DatapathKind::Udp => "udp",
            DatapathKind::Shm => "shm",
            DatapathKind::Xdp => "xdp",
            DatapathKind::Rdma(_) => RDMA,
            DatapathKind::RdmaOrUdp(_) => RDMA_OR_UDP,
            DatapathKind::RdmaUc(_) => RDMA_UC,
        };
        match self {
            DatapathKind::Rdma(choice)
            | DatapathKind::RdmaOrUdp(choice)
            | DatapathKind::RdmaUc(choice)
                if choice.name().is_some() =>
            {
                f.pad(&format!("{name}:{choice}"))
            }
            _ => f.pad(name),
        }
    }
}

/// Error for a text that names no datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDatapath {
    text: String,
}

impl fmt::Display for UnknownDatapath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no datapath '{}': {REMEDY}", self.text)
    }
}

impl std::error::Error for UnknownDatapath {}

impl FromStr for DatapathKind {
    type Err = UnknownDatapath;

    fn from_str(text: &str) -> Result<DatapathKind, UnknownDatapath> {
        match text {
            "auto" => Ok(DatapathKind::Auto),
            "udp" => Ok(DatapathKind::Udp),
            "shm" => Ok(DatapathKind::Shm),
            "xdp" => Ok(DatapathKind::Xdp),
            _ => over_rnic(text).ok_or_else(|| UnknownDatapath { text: text.to_owned() }),
        }
    }
}

/// Reads the name of a datapath over an RDMA NIC.
fn over_rnic(text: &str) -> Option<DatapathKind> {
    let (name, choice) = match text.split_once(':') {
        None => (text, RnicChoice::ANY),
        Some((name, device)) => (name, device.parse().ok()?),
    };
    match name {
        RDMA => Some(DatapathKind::Rdma(choice)),
        RDMA_OR_UDP => Some(DatapathKind::RdmaOrUdp(choice)),
        RDMA_UC => Some(DatapathKind::RdmaUc(choice)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        for name in
            ["auto", "udp", "shm", "xdp", "rdma", "rdma:mlx5_0", "rdma-or-udp:rxe0:1", "rdma-uc:a"]
        {
            assert_eq!(name.parse::<DatapathKind>().unwrap().to_string(), name);
        }
        for name in ["", "rdma:", "rdma:a:0", "rdmamlx5_0", "roce", "UDP"] {
            let error = name.parse::<DatapathKind>().unwrap_err().to_string();
            assert!(error.contains("rdma[:DEVICE[:PORT]]"), "{error}");
        }
    }
}
