//! The verbs library, with its symbol versions.

use std::io;

// The board of programs uses some of it.
#[path = "../../front/verbs/launch.rs"]
pub mod launch;
#[path = "../../front/verbs/link.rs"]
pub mod link;

/// Builds it, and says where it is.
pub fn run() -> io::Result<()> {
    let folder = link::library()?;
    println!("built {} and librdmacm.so.1", folder.join("libibverbs.so.1").display());
    Ok(())
}

/// Builds it without a word.
pub fn run_quietly() -> io::Result<()> {
    link::library().map(drop)
}
