//! The tool's servers, and why a client has no connection to one.

use fairway::{Error, Refusal};

use crate::failure::Failure;

/// One of the tool's servers: the command that starts it, and its default port.
pub(crate) struct Service {
    pub(crate) command: &'static str,
    /// Number of contexts that the client needs of the server.
    contexts: u32,
    /// First of the server's ports.
    pub(crate) port: u16,
    /// What to do if the server has no room for a further connection.
    no_room: &'static str,
}

pub(crate) const SERVE: Service = Service {
    command: "fairway serve",
    contexts: 1,
    port: 4800,
    no_room: "try again later, or have it started with a larger --max-files",
};
pub(crate) const PERF: Service = Service {
    command: "fairway perf --server",
    contexts: 1,
    port: 4820,
    no_room: "try again when others have ended, or use another server",
};
/// Number of consecutive ports of each server with the default number of paths.
pub(crate) const SOCKETS: u16 = 4;

impl Service {
    /// This server with several contexts, each of which has ports of its own.
    pub(crate) fn with_contexts(self, contexts: u32) -> Service {
        Service { contexts, ..self }
    }

    /// Explains why there is no connection, and what to do about it.
    pub(crate) fn explain(&self, error: Error) -> Failure {
        let Service { port, no_room, .. } = self;
        let (command, fewer) = match self.contexts {
            1 => (self.command.to_owned(), ""),
            contexts => (
                format!("{} --contexts {contexts}", self.command),
                ". A server with fewer contexts has none at this port",
            ),
        };
        match error {
            Error::NoListener { peer } => Failure::failed(format!(
                "no program listens at UDP port {} of {} (its host, or a firewall, answers: port \
                 unreachable): start `{command}` there first, or write its port, as \
                 HOST:{port}{fewer}",
                peer.port(),
                peer.ip()
            )),
            Error::Unanswered { peer, waited, report } => {
                let report = report.map_or_else(String::new, |report| format!(" ({report})"));
                let first = peer.port();
                let last = first.saturating_add(SOCKETS - 1);
                Failure::failed(format!(
                    "no answer from {} at UDP port {first} within {waited:?}{report}: check the \
                     address, that `{command}` runs there, and that firewalls on both sides let its \
                     UDP ports through ({first} to {last}, if it was started without --sockets, \
                     --paths and --engines), or wait longer with --connect-timeout",
                    peer.ip(),
                ))
            }
            Error::Refused { peer, reason: Refusal::NoResources } => Failure::failed(format!(
                "{peer} has no room for one more connection from this address or network: {no_room}"
            )),
            other => other.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;

    #[test]
    fn server_without_an_answer_or_room_is_explained_by_its_own_ports_and_options() {
        let peer = SocketAddr::from(([192, 0, 2, 1], 5600));
        let waited = Duration::from_secs(5);
        let text = PERF.explain(Error::Unanswered { peer, waited, report: None }).to_string();
        assert!(text.contains("(5600 to 5603, if") && !text.contains("4820"), "{text}");
        let refused = |service: &Service| {
            let reason = Refusal::NoResources;
            service.explain(Error::Refused { peer, reason }).to_string()
        };
        assert!(refused(&SERVE).contains("--max-files"), "{}", refused(&SERVE));
        for text in [refused(&SERVE), refused(&PERF)] {
            assert!(text.contains("192.0.2.1:5600") && !text.contains("Limits"), "{text}");
        }
    }

    #[test]
    fn server_with_fewer_contexts_is_explained_by_their_number() {
        let peer = SocketAddr::from(([192, 0, 2, 1], 4836));
        let refused = |service: Service| service.explain(Error::NoListener { peer }).to_string();
        let several = refused(PERF.with_contexts(2));
        for words in ["port 4836", "`fairway perf --server --contexts 2`", "fewer contexts"] {
            assert!(several.contains(words), "no '{words}' in: {several}");
        }
        assert!(!refused(PERF).contains("contexts"), "{}", refused(PERF));
    }
}
