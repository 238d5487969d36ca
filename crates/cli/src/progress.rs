//! Progress of long runs, on standard error and only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of the number of runs that have ended.
pub(crate) fn of_runs(runs: u64) -> ProgressBar {
    bar(runs, "{bar:40} {pos} of {len} runs, {eta} left", "")
}

/// A bar of a part of one run, with a message.
pub(crate) fn of_part(length: u64, message: &'static str) -> ProgressBar {
    bar(length, "{percent:>3}% {wide_bar} {msg}, {eta} left", message)
}

fn bar(length: u64, template: &str, message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let bar = ProgressBar::new(length);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(message);
    // At once, and not when the first part has ended.
    bar.tick();
    bar
}
