//! Support for crates that add objects to a context beside its public API, such as queue pairs.
//!
//! Such a crate implements [`Tenant`], builds a context with [`build`], and passes the tenant to
//! [`Core::set_tenant`]. From then on the tenant is called whenever the lock of the context is
//! about to be released, and shares the protocol ([`Core::nic`]), its registered memory
//! ([`Core::memories`]) and its threads ([`Shared`]). No object of the public API is on the same
//! context, so the tenant receives all completions and all events.

use std::sync::Arc;

use crate::builder::Builder;
use crate::error::Error;

pub use crate::core::{Core, Tenant};
pub use crate::peer_state::PeerState;
pub use crate::shared::{Handle, Shared};
pub use fairway_runtime::HomeProcess;

/// Builds a context for a tenant, which also listens at the addresses `others` ([`Builder::bind`]
/// sets the first address). The first socket of each address uses `port`.
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
