//! Listeners: they receive the hellos of senders.

use std::sync::Mutex;

use fairway::{Completion, CompletionKind, Jetty, Peer, Segment, To};

use crate::guard::lock;
use crate::limits::BACKLOG;
use crate::message::{HANDLE_BYTES, HELLO_BYTES, Handle, Hello};
use crate::nic::random;
use crate::nics::Lease;
use crate::object::Object;
use crate::status::Result;

/// The receiving side's object before a connection exists.
pub(crate) struct Listener {
    jetty: Jetty,
    inbox: Segment,
    secret: [u8; 16],
    completions: Mutex<Vec<Completion>>,
    lease: Lease,
}

impl Object for Listener {
    const NAME: &'static str = "listener";
    const TAG: u64 = 0x6661_6972_6e63_6304;
}

impl Listener {
    /// Listens, and returns the handle by which senders connect.
    pub(crate) fn new(lease: Lease) -> Result<(Listener, [u8; HANDLE_BYTES])> {
        let (jetty, token) = lease.endpoint()?;
        let inbox = lease.scratch(BACKLOG as usize * HELLO_BYTES)?;
        let secret = random()?;
        let to = To::new(jetty.number()).token(token);
        let handle = Handle { address: lease.address()?, to, secret, attempt: 0 };
        let completions = Mutex::default();
        let listener = Listener { jetty, inbox, secret, completions, lease };
        for place in 0..BACKLOG {
            listener.post(place)?;
        }
        Ok((listener, handle.to_bytes()))
    }

    /// Returns the peer and the endpoint of the next sender, if one has connected.
    pub(crate) fn accept(&self) -> Result<Option<(Peer, To)>> {
        let mut completions = lock(&self.completions);
        if completions.is_empty() {
            self.jetty.poll(&mut completions);
        }
        while !completions.is_empty() {
            let done = completions.remove(0).result()?;
            let place = done.id.value();
            let mut bytes = [0; HELLO_BYTES];
            let length = if done.kind == CompletionKind::Receive { done.bytes as usize } else { 0 };
            // Behind the end of a shorter message is what an earlier one has left.
            let bytes = &mut bytes[..length.min(HELLO_BYTES)];
            self.inbox.read_at(place * HELLO_BYTES as u64, bytes)?;
            self.post(place)?;
            let Some(peer) = self.jetty.peer_of(&done).filter(Peer::is_alive) else { continue };
            match Hello::from_bytes(bytes) {
                Some(hello) if is_equal(&hello.secret, &self.secret) => {
                    return Ok(Some((peer, hello.from)));
                }
                // A program that does not know the secret, or is of another release.
                _ => drop(peer.close()),
            }
        }
        Ok(None)
    }

    /// The listener's right to use the NIC.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Closes the connections that have not been accepted, and refuses later ones.
    pub(crate) fn close(&self) {
        // A hello that arrives from now on is refused. An error reports that the NIC has been shut
        // down, or that the connection has been closed.
        let _ = self.jetty.fail();
        let mut completions = lock(&self.completions);
        while !completions.is_empty() || self.jetty.poll_once(&mut completions) > 0 {
            for hello in completions.drain(..).filter(|done| done.result().is_ok()) {
                if let Some(peer) = self.jetty.peer_of(&hello) {
                    let _ = peer.close();
                }
            }
        }
    }

    fn post(&self, place: u64) -> Result<()> {
        let start = place * HELLO_BYTES as u64;
        let slice = self.inbox.slice(start..start + HELLO_BYTES as u64);
        Ok(self.jetty.post_receive(slice, place)?)
    }
}

/// Compares secrets in a time that does not depend on their bytes.
fn is_equal(one: &[u8; 16], other: &[u8; 16]) -> bool {
    one.iter().zip(other).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}
