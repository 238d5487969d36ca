//! What the fuzz target `copy_messages` checks of messages between client and server.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use super::incoming::parts;
use super::message::Message;

/// An encoded message.
pub(crate) fn example() -> Vec<u8> {
    Message::Done.encode()
}

/// Checks that any bytes decode to a message or an error, that a message survives encoding and
/// decoding, and that the name of a file in it leads to no other directory.
pub(crate) fn message(bytes: &[u8]) {
    match Message::decode(bytes) {
        Ok(message) => {
            assert_eq!(Message::decode(&message.encode()).as_ref(), Ok(&message));
            if let Message::Open { name: text, .. } = &message {
                name(text);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Checks that the name of a file leads to no other directory, or is refused.
pub(crate) fn name(text: &[u8]) {
    let Ok(parts) = parts(text) else { return };
    assert!(!parts.is_empty());
    for part in parts {
        let path = Path::new(std::ffi::OsStr::from_bytes(part.as_bytes()));
        let mut components = path.components();
        let only = components.next();
        assert!(matches!(only, Some(Component::Normal(_))) && components.next().is_none());
    }
}
