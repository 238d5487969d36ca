//! A terminal screen that is redrawn, with unbuffered keys.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use crate::failure::Failure;
use crate::process;

/// Meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Sort,
    Tenants,
    /// No key: the terminal was resized and must be redrawn.
    Resized,
    Other,
}

/// The terminal, whose settings are restored on drop.
pub(super) struct Screen {
    /// Terminal settings before; `None` if input is not a terminal.
    before: Option<libc::termios>,
    /// Size for which the screen was last drawn.
    drawn: Cell<Option<(usize, usize)>>,
}

/// Interval of the checks of the terminal's size.
const LOOK: Duration = Duration::from_millis(100);

/// Control sequences to enter the alternate screen and hide the cursor, and to undo both.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Control sequences to move to the first position, and to clear the rest of a line and of the
/// screen.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST: &str = "\x1b[J";

impl Screen {
    pub(super) fn open() -> Result<Screen, Failure> {
        // SAFETY: zero is a value of it; the kernel fills it, if input is a terminal.
        let before = unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            (libc::tcgetattr(libc::STDIN_FILENO, &mut settings) == 0).then_some(settings)
        };
        if let Some(mut settings) = before {
            // Keys that cause signals keep working.
            settings.c_lflag &= !(libc::ICANON | libc::ECHO);
            // SAFETY: settings that the kernel gave, but for two bits.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &settings) };
        }
        let screen = Screen { before, drawn: Cell::new(None) };
        process::print(ENTER)?;
        Ok(screen)
    }

    /// The next key; `None` if none is pressed within that time, which is limited to a short one.
    pub(super) fn key(&self, within: Duration) -> Option<Key> {
        if self.drawn.get().is_some_and(|drawn| drawn != size()) {
            return Some(Key::Resized);
        }
        let within = within.min(LOOK);
        if self.before.is_none() {
            process::stopped_within(within);
            return None;
        }
        let mut wait = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        let ms = i32::try_from(within.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one entry, which outlives the call.
        if unsafe { libc::poll(&mut wait, 1, ms) } <= 0 {
            return None;
        }
        let mut byte = 0_u8;
        // SAFETY: at most one byte is written, to `byte`.
        let count = unsafe { libc::read(libc::STDIN_FILENO, (&raw mut byte).cast(), 1) };
        match (count, byte) {
            // The terminal is closed, so no key can be pressed any more.
            (..=0, _) => Some(Key::Quit),
            (1, b'q' | b'Q') => Some(Key::Quit),
            (1, b's' | b'S') => Some(Key::Sort),
            (1, b't' | b'T') => Some(Key::Tenants),
            _ => Some(Key::Other),
        }
    }

    /// Draws as much of the text as fits.
    pub(super) fn draw(&self, text: &str) -> Result<(), Failure> {
        let (rows, columns) = size();
        self.drawn.set(Some((rows, columns)));
        let mut out = String::from(HOME);
        let lines = text.lines().chain(["q ends, s sorts, t shows tenants or flows"]);
        for (number, line) in lines.take(rows).enumerate() {
            if number > 0 {
                out.push_str("\r\n");
            }
            out.extend(line.chars().take(columns));
            out.push_str(REST_OF_LINE);
        }
        out.push_str(REST);
        process::print(&out)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: the settings that the kernel returned.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &before) };
        }
        // If the terminal is closed there is nothing to restore.
        let _ = process::print(LEAVE);
        let _ = io::Write::flush(&mut io::stdout());
    }
}

/// Rows and columns of the terminal.
fn size() -> (usize, usize) {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel fills it, if output is a terminal.
    unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    match (size.ws_row, size.ws_col) {
        (0, _) | (_, 0) => (24, 80),
        (rows, columns) => (usize::from(rows), usize::from(columns)),
    }
}
