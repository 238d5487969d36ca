//! Support for tests that need superuser rights: for network namespaces, raw sockets and mounts.

use std::io::Write as _;

/// Environment variable and value with which a test fails, instead of being skipped, if it lacks
/// superuser rights.
const DEMANDED: (&str, &str) = ("FAIRWAY_TEST_SUPERUSER", "demanded");

/// Prints that the calling test is skipped because `what` is not available, even where the output
/// of passing tests is hidden.
///
/// # Panics
/// If the environment demands these tests, as CI does.
pub fn skip(what: &str) {
    let (variable, value) = DEMANDED;
    let is_demanded = std::env::var_os(variable).is_some_and(|set| set == value);
    assert!(!is_demanded, "{variable}={value}, and these could not be had: {what}");
    let _ =
        writeln!(std::io::stderr(), "SKIPPED: {what}: needs the superuser, and `ip` for networks");
}
