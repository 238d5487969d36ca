//! Tests that need what only the superuser may do: network namespaces, raw sockets, mounts.

use std::io::Write as _;

/// With this value a test that would be skipped for want of the superuser's rights fails instead.
const DEMANDED: (&str, &str) = ("FAIRWAY_TEST_SUPERUSER", "demanded");

/// Prints that the calling test is skipped because `what` could not be had, also where the output
/// of tests that pass is not shown.
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
