//! What fuzz targets run of the parsers that are private here.
//!
//! Each function takes any bytes, and panics if something is wrong. It uses no socket, file, thread
//! or clock. `fairway-fuzz` has the targets, and replays their inputs as a test.

use crate::forwarded::{FORWARDED_BYTES_MAX, ForwardedDatagram};

/// What processes of one host send each other: any bytes are a forwarded datagram or none, and a
/// forwarded datagram survives being written and read.
pub fn forwarded(input: &[u8]) {
    let Some(forwarded) = ForwardedDatagram::read(input) else { return };
    let mut out = [0; FORWARDED_BYTES_MAX];
    let length = forwarded.write(&mut out);
    assert_eq!(length.is_some(), input.len() <= FORWARDED_BYTES_MAX, "{forwarded:?}");
    if let Some(length) = length {
        assert_eq!(ForwardedDatagram::read(&out[..length]), Some(forwarded));
    }
}
