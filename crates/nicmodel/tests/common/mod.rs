//! Helpers that the tests of whole runs share.

use fairway_nicmodel::{Config, Report, run};

/// Runs a configuration that must succeed.
pub fn measure(config: &Config) -> Report {
    run(config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

/// Returns the figure with this name.
pub fn figure(report: &Report, name: &str) -> f64 {
    let found = report.figures.iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", report.figures)).1
}
