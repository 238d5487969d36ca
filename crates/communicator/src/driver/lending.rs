//! Messages between ranks of one host: through slots that both map, or read from the sender's
//! buffer.

use super::Driver;
use crate::error::{Error, Failure};
use crate::lending::ReadError;
use crate::near::{self, Nearness};
use fairway_collectives::{Memory, Work, Write};

/// Bytes of an address in a slot.
const ADDRESS: usize = 8;

impl Driver {
    /// Finds out which other ranks share slots with this one, and which of them can read its
    /// memory. A rank whose slots this one has not mapped is not asked about: it gets a key, which
    /// it need not use.
    pub(super) fn find_near_ranks(&mut self) -> Result<(), Error> {
        let ranks = self.connections.ranks();
        for from in 0..ranks {
            let connection = self.connections.get(from);
            if self.is_near[from as usize]
                || connection.is_none_or(|connection| connection.near.is_none())
            {
                continue;
            }
            let nearness = near::nearness_of(from, &self.slots, ranks, &self.options)?;
            if let Some(nearness) = nearness {
                self.is_near[from as usize] = true;
                self.rank.stage_receives(from);
                if nearness == Nearness::Reads {
                    let bytes = self.options.lend_from.min(self.options.slot_bytes);
                    self.rank.lend_sends(from, bytes);
                }
            }
        }
        Ok(())
    }

    /// Puts the address of bytes into a slot of the rank that is to read them.
    pub(super) fn lend(&mut self, write: &Write) {
        let Write { work, to, bytes, header, .. } = *write;
        let address = self.address(work, bytes).expose_provenance() as u64;
        let offset = self.outbox.remote_slot_offset(header.slot);
        let near = self.connections.get(to).and_then(|connection| connection.near.as_ref());
        if near.is_some_and(|near| near.copy_in(offset, &address.to_le_bytes())) {
            self.outbox.notify(to, header);
        } else {
            self.connections.set_gone(to, "its slots are not there any more");
            self.has_gone = true;
        }
    }

    /// Reads the bytes that a slot names from the memory of their sender. Returns false if that is
    /// not possible: then the group is about to end.
    pub(super) fn fetch(
        &mut self,
        work: Work,
        (from, slot): (u32, u8),
        into: Memory,
    ) -> Result<bool, Error> {
        let address = self.lent_address(from, slot)?;
        let target = self.address(work, into);
        Ok(self.read_lent(from, address, target, into.bytes() as usize))
    }

    /// The address in the memory of another rank that a slot names.
    pub(super) fn lent_address(&self, from: u32, slot: u8) -> Result<u64, Error> {
        let mut address = [0; ADDRESS];
        self.slots.read_at(self.outbox.slot_offset(from, slot), &mut address)?;
        Ok(u64::from_le_bytes(address))
    }

    /// Reads bytes of another rank to `target`, which is as long and belongs to a call, or is the
    /// driver's. Returns false if that is not possible: then the group is about to end.
    pub(super) fn read_lent(
        &mut self,
        from: u32,
        address: u64,
        target: *mut u8,
        length: usize,
    ) -> bool {
        let seal = self.connections.get(from).and_then(|connection| connection.seal);
        let Some(seal) = seal else {
            // A rank lends only to those that have said that they can read.
            self.found.get_or_insert(Failure::Invalid { rank: from });
            return false;
        };
        // SAFETY: all callers pass memory of this length that nothing else uses.
        match unsafe { seal.read(address, target, length) } {
            Ok(()) => return true,
            Err(ReadError::Gone) => {
                self.connections.set_gone(from, "it has left in the middle of a call");
                self.has_gone = true;
            }
            Err(ReadError::Refused(error)) => {
                let why = format!(
                    "{length} bytes of the buffer of rank {from} could not be copied to that of rank {}: \
                     {error}; keep both mapped until the call has ended",
                    self.own
                );
                self.found.get_or_insert(Failure::Aborted { rank: self.own, why });
            }
        }
        false
    }
}
