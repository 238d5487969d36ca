//! What lives on a core beside the public API.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};

use fairway_engine::wire::Instant;

use super::Core;

/// Something that has Jetties and channels of its own on a core, such as the queue pairs of
/// [`crate::verbs`]. It is called with the core locked.
pub(crate) trait Tenant: Any + Send {
    /// Takes in what the engine has completed, and goes on with what that lets go on. Called
    /// whenever the lock is about to be released.
    fn digest(&mut self, core: &mut Core);

    /// When [`Tenant::digest`] has something to do although nothing else happens.
    fn deadline(&self) -> Option<Instant>;

    /// True if the HELLO or CONFIRM of a peer stays unanswered because one to that peer is under
    /// way, or was until a moment ago, which makes the channel for both. `local` is the address
    /// that the peer asked.
    fn prevails(&self, local: IpAddr, from: SocketAddr) -> bool;

    /// The program's callbacks that are due, to be run once the lock has been released.
    fn take_calls(&mut self) -> Option<Box<dyn FnOnce()>>;
}
