//! Reads and writes words and flags of a header, and builds the errors for them.

use super::{DecodeError, Unsupported};

/// Word `index` of a block. The block's size is a constant, so the compiler checks the bounds.
#[inline(always)]
pub(super) fn word<const N: usize>(block: &[u8; N], index: usize) -> u32 {
    let at = 4 * index;
    u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

#[inline(always)]
pub(super) fn long<const N: usize>(block: &[u8; N], index: usize) -> u64 {
    u64::from(word(block, index)) << 32 | u64::from(word(block, index + 1))
}

pub(super) fn too_short(header: &[u8], needed: usize) -> DecodeError {
    DecodeError::TooShort { needed, available: header.len() }
}

pub(super) fn bad<T>(field: &'static str, value: u32) -> Result<T, DecodeError> {
    Err(DecodeError::BadField { field, value })
}

pub(super) fn unsupported<T>(what: Unsupported) -> Result<T, DecodeError> {
    Err(DecodeError::NotSupported(what))
}

/// Writes word `index` of the datagram: as an array, which is one store where a copy between slices
/// is a call.
#[inline(always)]
pub(super) fn put(out: &mut [u8], index: usize, word: u32) {
    *out[4 * index..].first_chunk_mut().expect("a word of the header") = word.to_be_bytes();
}

#[inline(always)]
pub(super) fn put_long(out: &mut [u8], index: usize, value: u64) {
    put(out, index, (value >> 32) as u32);
    put(out, index + 1, value as u32);
}

pub(super) fn flag(set: bool, bit: u32) -> u32 {
    u32::from(set) << bit
}
