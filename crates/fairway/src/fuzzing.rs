//! Entry points for fuzz targets of this crate's private parsers and state machines.
//!
//! Each function accepts any bytes, and panics if it finds a defect. It uses no socket, file,
//! thread or clock. `fairway-fuzz` contains the targets, and replays their inputs as a test.

use crate::same_host::mapping_request_is_sound;

/// Parses a request for shared memory from a process of this host. Any bytes are either a request
/// or refused.
pub fn mapping_request(input: &[u8]) {
    mapping_request_is_sound(input);
}
