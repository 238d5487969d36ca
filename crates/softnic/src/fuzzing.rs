//! What fuzz targets run of the parsers and state machines that are private here.
//!
//! Each function takes any bytes, and panics if something is wrong. It uses no socket, file, thread
//! or clock. `fairway-fuzz` has the targets, and replays their inputs as a test.

use crate::same_host::question_is_sound;
use crate::verbs::letter::{LETTER_BYTES_MAX, Letter};

/// What processes of one host send each other: any bytes are a letter or none, and a letter
/// survives being written and read; so does a question for shared memory.
pub fn letter(input: &[u8]) {
    question_is_sound(input);
    let Some(letter) = Letter::read(input) else { return };
    let mut out = [0; LETTER_BYTES_MAX];
    let length = letter.write(&mut out);
    assert_eq!(length.is_some(), input.len() <= LETTER_BYTES_MAX, "{letter:?}");
    if let Some(length) = length {
        assert_eq!(Letter::read(&out[..length]), Some(letter));
    }
}
