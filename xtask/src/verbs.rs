//! The verbs library, with its symbol versions.

use std::io;

// The scoreboard of programs uses parts of this module.
#[path = "../../front/verbs/launch.rs"]
pub mod launch;
#[path = "../../front/verbs/link.rs"]
pub mod link;

/// Builds the library, and prints its path.
pub fn run() -> io::Result<()> {
    let folder = link::library()?;
    println!("built {} and librdmacm.so.1", folder.join("libibverbs.so.1").display());
    Ok(())
}

/// Builds the library without output.
pub fn run_quietly() -> io::Result<()> {
    link::library().map(drop)
}
