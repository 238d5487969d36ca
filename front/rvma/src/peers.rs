//! Connections to other processes, which are established on first use, and again after they have
//! ended.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairway::{Context, Error, Peer};

use crate::guard::lock;
use crate::status::{Failure, Result, Status};

/// The connection to each address. Each address has a lock that is held while connecting, so that
/// threads with other peers are not blocked.
pub(crate) struct Peers {
    context: Context,
    timeout: Duration,
    known: Mutex<BTreeMap<SocketAddr, Arc<Mutex<Option<Peer>>>>>,
}

impl Peers {
    pub(crate) fn new(context: Context, timeout: Duration) -> Peers {
        Peers { context, timeout, known: Mutex::new(BTreeMap::new()) }
    }

    /// The open connection to this address.
    pub(crate) fn get(&self, address: SocketAddr) -> Result<Peer> {
        let entry = lock(&self.known).entry(address).or_default().clone();
        let mut connection = lock(&entry);
        if let Some(peer) = connection.as_ref().filter(|peer| peer.is_alive()) {
            return Ok(peer.clone());
        }
        // A connection that the peer has opened is used, too.
        let theirs = self.context.peers().into_iter().find(|peer| peer.address() == address);
        let peer = match theirs {
            Some(peer) => peer,
            None => self.context.connect_when_up(address, self.timeout).map_err(explain)?,
        };
        *connection = Some(peer.clone());
        Ok(peer)
    }
}

fn explain(error: Error) -> Failure {
    match error {
        Error::Io { .. } | Error::Timeout { .. } => {
            Failure::new(Status::Unreachable, error.to_string())
        }
        other => other.into(),
    }
}
