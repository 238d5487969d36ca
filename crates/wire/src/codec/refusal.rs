//! The reason of a refusal: the byte of RSPST and RSPINFO in a TPNAK, a TAACK and the answer to a
//! load or store.

use super::fields::bad;
use super::{DecodeError, status};
use crate::Refusal;

/// The byte of a refusal: RSPST (b7–b5) and RSPINFO (b4–b0).
pub(super) fn code(refusal: Refusal) -> u32 {
    let (status, info) = match refusal {
        Refusal::ReceiverNotReady => (status::NOT_READY, 0),
        Refusal::OutOfOrder => (status::NOT_READY, 1),
        Refusal::Trimmed { retry } => (status::NOT_READY, 2 + u32::from(retry)),
        Refusal::Access => (status::TARGET_ERROR, 1),
        Refusal::Rights => (status::TARGET_ERROR, 2),
        Refusal::NoJetty => (status::TARGET_ERROR, 3),
        Refusal::Length => (status::TARGET_ERROR, 4),
        Refusal::Operation => (status::TARGET_ERROR, 5),
        Refusal::Misaligned => (status::TARGET_ERROR, 6),
        Refusal::Resources => (status::TARGET_ERROR, 7),
        Refusal::NoMailbox => (status::TARGET_ERROR, 8),
        Refusal::Epoch => (status::TARGET_ERROR, 9),
    };
    status << 5 | info
}

/// The byte of a refusal as in [`code`]; 0 if there was no refusal.
pub(super) fn code_or_zero(refusal: Option<Refusal>) -> u32 {
    refusal.map_or(0, code)
}

/// The refusal that `code` stands for, or an error if the code is not defined.
pub(super) fn decode(code: u8) -> Result<Refusal, DecodeError> {
    let (status, info) = (u32::from(code >> 5), u32::from(code & 0x1f));
    Ok(match (status, info) {
        (status::NOT_READY, 0) => Refusal::ReceiverNotReady,
        (status::NOT_READY, 1) => Refusal::OutOfOrder,
        (status::NOT_READY, 2 | 3) => Refusal::Trimmed { retry: info == 3 },
        (status::TARGET_ERROR, 1) => Refusal::Access,
        (status::TARGET_ERROR, 2) => Refusal::Rights,
        (status::TARGET_ERROR, 3) => Refusal::NoJetty,
        (status::TARGET_ERROR, 4) => Refusal::Length,
        (status::TARGET_ERROR, 5) => Refusal::Operation,
        (status::TARGET_ERROR, 6) => Refusal::Misaligned,
        (status::TARGET_ERROR, 7) => Refusal::Resources,
        (status::TARGET_ERROR, 8) => Refusal::NoMailbox,
        (status::TARGET_ERROR, 9) => Refusal::Epoch,
        (status::NOT_READY | status::TARGET_ERROR, _) => return bad("RSPINFO", info),
        _ => return bad("RSPST", status),
    })
}

/// Decodes as [`decode`] does, in packets where 0 means that there was no refusal.
pub(super) fn decode_or_none(code: u8) -> Result<Option<Refusal>, DecodeError> {
    if code == 0 {
        return Ok(None);
    }
    match decode(code)? {
        Refusal::Trimmed { .. } => bad("RSPINFO", u32::from(code & 0x1f)),
        refusal => Ok(Some(refusal)),
    }
}
