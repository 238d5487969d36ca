//! What fuzz targets run of the parsers that are private here.
//!
//! Each function takes any bytes, and panics if something is wrong. It uses no socket, file, thread
//! or clock. `fairway-fuzz` has the targets, and replays their inputs as a test.

use crate::letter::{LETTER_BYTES_MAX, Letter};

/// What processes of one host send each other: any bytes are a letter or none, and a letter
/// survives being written and read.
pub fn letter(input: &[u8]) {
    let Some(letter) = Letter::read(input) else { return };
    let mut out = [0; LETTER_BYTES_MAX];
    let length = letter.write(&mut out);
    assert_eq!(length.is_some(), input.len() <= LETTER_BYTES_MAX, "{letter:?}");
    if let Some(length) = length {
        assert_eq!(Letter::read(&out[..length]), Some(letter));
    }
}
