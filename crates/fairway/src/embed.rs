//! For crates whose objects live on a context beside those of its public API, such as queue pairs.
//!
//! Such a crate implements [`Tenant`], builds a context with [`build`], and hands the tenant to
//! [`Core::set_tenant`]. From then on the tenant is called whenever the lock of the context is
//! about to be released, and shares the protocol ([`Core::nic`]), its registered memory
//! ([`Core::memories`]) and its threads ([`Shared`]). No object of the public API is on the same
//! context, so the tenant takes all completions and all events.

use std::sync::Arc;

use crate::builder::Builder;
use crate::error::Error;

pub use crate::core::{Core, Tenant};
pub use crate::peer_state::PeerState;
pub use crate::shared::{Handle, Shared};

/// Builds a context for a tenant: on these further addresses ([`Builder::bind`] gives the first),
/// with the first socket of each at `port`.
///
/// # Errors
/// As [`Builder::build`].
pub fn build(
    builder: Builder,
    port: u16,
    others: Vec<std::net::SocketAddr>,
) -> Result<Arc<Handle>, Error> {
    builder.bind_also(others).listen_at(port).build_handle()
}
