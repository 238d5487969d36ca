//! What fuzz targets run of the parsers and state machines that are private here.
//!
//! Each function takes any bytes, and panics if something is wrong. It uses no socket, file, thread
//! or clock. `fairway-fuzz` has the targets, and replays their inputs as a test.

use crate::same_host::question_is_sound;

/// A question for shared memory that a process of this host sends: any bytes are one or none.
pub fn question(input: &[u8]) {
    question_is_sound(input);
}
