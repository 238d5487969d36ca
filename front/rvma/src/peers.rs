//! Connections to other processes: made on first use, and made again when they have ended.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairway::{Context, Error, Peer};

use crate::guard::lock;
use crate::status::{Failure, Result, Status};

/// The connection to each address. An address has a lock of its own, held while connecting, so that
/// threads that put to others go on meanwhile.
pub(crate) struct Peers {
    context: Context,
    timeout: Duration,
    known: Mutex<BTreeMap<SocketAddr, Arc<Mutex<Option<Peer>>>>>,
}

impl Peers {
    pub(crate) fn new(context: Context, timeout: Duration) -> Peers {
        Peers { context, timeout, known: Mutex::new(BTreeMap::new()) }
    }

    /// The living connection to this address.
    pub(crate) fn get(&self, address: SocketAddr) -> Result<Peer> {
        let entry = lock(&self.known).entry(address).or_default().clone();
        let mut connection = lock(&entry);
        if let Some(peer) = connection.as_ref().filter(|peer| peer.is_alive()) {
            return Ok(peer.clone());
        }
        // One that the other side has opened is as good.
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
