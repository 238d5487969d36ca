//! Rate limit for lines of a server's log, so that clients can't fill it.

use std::time::{Duration, Instant};

use crate::process::say;

/// Largest number of lines of a kind that the server prints within [`STRETCH`]. Further ones are
/// counted, and their number is printed before the next line.
const LINES: u32 = 20;
const STRETCH: Duration = Duration::from_secs(1);

/// Rate limiter for one kind of lines.
#[derive(Debug)]
pub(super) struct Lines {
    began: Instant,
    printed: u32,
    left_out: u64,
}

impl Lines {
    pub(super) fn new(now: Instant) -> Lines {
        Lines { began: now, printed: 0, left_out: 0 }
    }

    /// Text to print for a line; `None` if there were too many lines.
    pub(super) fn line(&mut self, line: &str) -> Option<String> {
        let mut text = String::new();
        match self.admit(Instant::now())? {
            0 => {}
            left_out => {
                text +=
                    &format!("fairway serve: {left_out} lines like the next one are not shown\n");
            }
        }
        Some(text + "fairway serve: " + line)
    }

    /// Prints a line on standard error, unless there were too many.
    pub(super) fn print(&mut self, line: &str) {
        if let Some(text) = self.line(line) {
            say(&text);
        }
    }

    /// Whether a line may be printed: if so, the number of lines that were suppressed before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.began) >= STRETCH {
            (self.began, self.printed) = (now, 0);
        }
        if self.printed == LINES {
            self.left_out += 1;
            return None;
        }
        self.printed += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_limited_per_second_and_reports_what_it_left_out() {
        let start = Instant::now();
        let mut lines = Lines::new(start);
        for _ in 0..LINES {
            assert_eq!(lines.admit(start), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(lines.admit(start + STRETCH / 2), None);
        }
        assert_eq!(lines.admit(start + STRETCH), Some(7));
        assert_eq!(lines.admit(start + STRETCH), Some(0));
    }
}
