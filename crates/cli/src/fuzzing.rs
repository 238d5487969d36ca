//! Functions that fuzz targets run on this crate's private parsers.
//!
//! Each function accepts any bytes, and panics if an assertion fails. `fairway-fuzz` has the
//! targets, and replays their inputs as a test.

use crate::perf::message::Message;
use crate::printable::printable;
use crate::quantity::{duration, rate, show_size, size, sizes};

/// Checks messages that the other side of `fairway copy`, `serve` and `perf` sends: any bytes are a
/// message or an error, and a message survives being encoded and decoded; the name of a file leads
/// to no other directory; text of the message that is printed stays on one line.
///
/// Input: a byte that selects the kind of the remaining bytes: a message of either protocol, or
/// only the part behind the protocol's name, a name of a file, or text.
pub fn copy_messages(input: &[u8]) {
    let Some((what, bytes)) = input.split_first() else { return };
    match what % 8 {
        0 => crate::copy::fuzzing::message(bytes),
        1 | 2 => behind(&crate::copy::fuzzing::example(), bytes, crate::copy::fuzzing::message),
        3 => crate::copy::fuzzing::name(bytes),
        4 => perf_message(bytes),
        5 | 6 => behind(&Message::Refusal(String::new()).encode(), bytes, perf_message),
        _ => assert!(!printable(bytes).contains(char::is_control)),
    }
}

/// Length in bytes of the name and the version of a protocol.
const PROTOCOL_BYTES: usize = 5;

/// Runs a target on bytes that follow the name and version of the example's protocol, so that the
/// fuzzer need not find those.
fn behind(example: &[u8], bytes: &[u8], run: impl FnOnce(&[u8])) {
    let mut all = [0; 512];
    let length = (PROTOCOL_BYTES + bytes.len()).min(all.len());
    let (name, fields) = all[..length].split_at_mut(PROTOCOL_BYTES);
    name.copy_from_slice(&example[..PROTOCOL_BYTES]);
    fields.copy_from_slice(&bytes[..fields.len()]);
    run(&all[..length]);
}

fn perf_message(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
    }
}

/// Checks that any text is a quantity or is refused with a message, and that sizes survive being
/// printed and parsed.
///
/// Input: a byte that selects the quantity, and the text.
pub fn quantities(input: &[u8]) {
    let Some((what, bytes)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let refused = match what % 4 {
        0 => size(text).map(|bytes| assert_eq!(size(&show_size(bytes)), Ok(bytes))).err(),
        1 => sizes(text).map(|(first, last)| assert!(0 < first && first <= last)).err(),
        2 => rate(text).err(),
        _ => duration(text).err(),
    };
    assert!(refused.is_none_or(|error| !error.to_string().is_empty()));
}
