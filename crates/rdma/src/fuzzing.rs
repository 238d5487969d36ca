//! Entry points for fuzz targets of this crate's private parsers.
//!
//! Each function accepts any bytes, and panics if it finds a defect. It uses no socket, file,
//! thread or clock. `fairway-fuzz` contains the targets, and replays their inputs as a test.

use crate::forwarded::{FORWARDED_BYTES_MAX, ForwardedDatagram};

/// Decodes a datagram between processes of one host: any bytes are either a forwarded datagram or
/// refused, and a forwarded datagram survives encoding and decoding.
pub fn forwarded(input: &[u8]) {
    let Some(forwarded) = ForwardedDatagram::read(input) else { return };
    let mut out = [0; FORWARDED_BYTES_MAX];
    let length = forwarded.write(&mut out);
    assert_eq!(length.is_some(), input.len() <= FORWARDED_BYTES_MAX, "{forwarded:?}");
    if let Some(length) = length {
        assert_eq!(ForwardedDatagram::read(&out[..length]), Some(forwarded));
    }
}
