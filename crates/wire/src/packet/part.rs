//! A part of a WRITE or READ that goes by several channels.

use super::Access;

/// The memory of one part of a WRITE or READ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The memory of the part.
    pub access: Access,
    /// Bytes of the whole operation before the part.
    pub before: u32,
    /// Length of the whole operation in bytes.
    pub whole: u32,
}

impl Part {
    /// The memory of the whole operation; `None` if the part is not within it.
    pub fn whole(&self) -> Option<Access> {
        let end = self.before.checked_add(self.access.length)?;
        let address = { self.access.address }.checked_sub(u64::from(self.before))?;
        (end <= self.whole).then_some(Access { address, length: self.whole, ..self.access })
    }
}
