//! What fuzz targets run of the parsers that are private here.
//!
//! Each function takes any bytes, and panics if something is wrong. `fairway-fuzz` has the targets,
//! and replays their inputs as a test.

use crate::perf::message::Message;
use crate::printable::printable;
use crate::quantity::{duration, rate, show_size, size, sizes};

/// What the other side of `fairway copy`, `serve` and `perf` sends: any bytes are a message or an
/// error, and a message survives being encoded and decoded. Text that is printed of it stays on its
/// line.
pub fn copy_messages(input: &[u8]) {
    crate::copy::fuzzing::message(input);
    if let Ok(message) = Message::decode(input) {
        assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
    }
    assert!(!printable(input).contains(char::is_control));
}

/// Any text is a quantity or is refused with a message; sizes survive being printed and read.
pub fn quantities(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(bytes) = size(text) {
        assert_eq!(size(&show_size(bytes)), Ok(bytes));
    }
    if let Ok((first, last)) = sizes(text) {
        assert!(0 < first && first <= last);
    }
    let refused = [rate(text).err(), duration(text).err()];
    assert!(refused.iter().flatten().all(|error| !error.is_empty()));
}
