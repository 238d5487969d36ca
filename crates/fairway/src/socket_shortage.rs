//! Sockets that a context lacks for its paths.

use std::fmt;
use std::io::ErrorKind;

/// A context has fewer sockets than its paths need, so some paths use the same pair of UDP ports as
/// others and take the same way through the network ([`Context::socket_shortage`]). The text form
/// says what limits the number, and what to do.
///
/// [`Context::socket_shortage`]: crate::Context::socket_shortage
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketShortage {
    /// Number of paths that was requested ([`Builder::paths`](crate::Builder::paths)).
    pub paths: u32,
    /// Number of sockets that so many paths need, for each engine.
    pub needed: usize,
    /// Number of sockets of the engine that has the fewest.
    pub opened: usize,
    /// The reason.
    pub limit: SocketLimit,
}

/// The reason why no more sockets were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketLimit {
    /// The process has too few file descriptors left.
    Descriptors {
        /// Maximum number of open descriptors (`RLIMIT_NOFILE`).
        limit: u64,
        /// Number of descriptors that were open before.
        in_use: u64,
    },
    /// The port numbers from the requested one on are too few.
    PortNumbers {
        /// The requested number ([`Builder::port`](crate::Builder::port)).
        first: u16,
    },
    /// The context has sockets at several addresses, and at most 64 in all.
    Addresses {
        /// Number of addresses.
        count: usize,
    },
    /// The system refused to open a socket.
    Refused {
        /// Port of the socket; 0: any.
        port: u16,
        /// Kind of the system's error.
        kind: ErrorKind,
    },
}

impl fmt::Display for SocketShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SocketShortage { paths, needed, opened, limit } = self;
        let (pairs, fewer) = (opened * needed, opened * opened);
        write!(
            f,
            "{paths} paths need {needed} UDP sockets on each side, and this one has {opened}, so \
             at most {pairs} paths take different ways through the network: "
        )?;
        match limit {
            SocketLimit::Descriptors { limit, in_use } => write!(
                f,
                "the process may have {limit} file descriptors, and {in_use} were open: raise the \
                 limit (ulimit -n), or use at most {fewer} paths"
            ),
            SocketLimit::PortNumbers { first } => write!(
                f,
                "there are {} port numbers from {first} on: use a lower first port, or at most \
                 {fewer} paths",
                65_536 - u32::from(*first)
            ),
            SocketLimit::Addresses { count } => write!(
                f,
                "it has {count} addresses, and at most 64 sockets: use fewer addresses, or at most \
                 {fewer} paths"
            ),
            SocketLimit::Refused { port: 0, kind } => write!(
                f,
                "the system refuses another socket ({kind}): remove the cause, or use at most \
                 {fewer} paths"
            ),
            SocketLimit::Refused { port, kind } => write!(
                f,
                "the socket on UDP port {port} cannot be opened ({kind}): use another first port, \
                 or at most {fewer} paths"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_the_value_the_limit_and_the_remedy() {
        let text = |limit| SocketShortage { paths: 256, needed: 16, opened: 5, limit }.to_string();
        let cases = [
            (SocketLimit::Descriptors { limit: 64, in_use: 21 }, ["64 file", "21", "ulimit -n"]),
            (SocketLimit::PortNumbers { first: 65_530 }, ["6 port", "65530", "lower first port"]),
            (SocketLimit::Addresses { count: 7 }, ["7 addresses", "64", "fewer addresses"]),
            (
                SocketLimit::Refused { port: 4805, kind: ErrorKind::AddrInUse },
                ["UDP port 4805", "in use", "another first port"],
            ),
            (
                SocketLimit::Refused { port: 0, kind: ErrorKind::OutOfMemory },
                ["another socket", "out of memory", "remove the cause"],
            ),
        ];
        for (limit, words) in cases {
            let text = text(limit);
            let all = ["256 paths", "16 UDP sockets", "has 5", "80 paths", "at most 25 paths"];
            for word in words.into_iter().chain(all) {
                assert!(text.contains(word), "no '{word}' in: {text}");
            }
        }
    }
}
