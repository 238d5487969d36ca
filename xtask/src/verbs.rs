//! The verbs library, with its symbol versions.

use std::io;

#[path = "../../front/verbs/link.rs"]
mod link;

/// Builds it, and says where it is.
pub fn run() -> io::Result<()> {
    let folder = link::library()?;
    println!("built {} and librdmacm.so.1", folder.join("libibverbs.so.1").display());
    Ok(())
}
