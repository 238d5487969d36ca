//! Packets sent and not yet acknowledged: one record per packet, in blocks from a shared pool,
//! found by PSN without a search.

use crate::list::{Linked, Links};
use crate::message::Message;
use crate::pool::{Index, Pool};
use alloc::boxed::Box;
use fairway_policy::MemoryVisitor;
use fairway_wire::{Instant, Psn};

/// Records per block.
pub(crate) const BLOCK_RECORDS: u32 = 64;

/// A packet in flight. Until it is acknowledged it is in exactly one list: that of its path (in
/// the order of sending), or that of lost packets waiting to be resent.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Sent {
    pub(crate) sent_at: Instant,
    pub(crate) links: Links<Index<Sent>>,
    /// The packet's message, by its index in the pool.
    pub(crate) message: Option<Index<Message>>,
    /// The packet's index in its message.
    pub(crate) index: u32,
    /// Number of the packet among those of its path.
    pub(crate) path_sequence: u32,
    /// Bytes that the packet takes of the window, headers included.
    pub(crate) bytes: u16,
    pub(crate) path: u8,
    pub(crate) flags: u8,
}

const _: () = assert!(size_of::<Sent>() == 32);

/// The packet has been acknowledged.
pub(crate) const ACKNOWLEDGED: u8 = 1;
/// The packet was declared lost and waits to be resent.
pub(crate) const LOST: u8 = 2;
/// The packet has been sent more than once.
pub(crate) const RESENT: u8 = 4;
/// The packet's message was given up: only its sequence number has to arrive.
pub(crate) const VOID: u8 = 8;
/// The packet waits to be resent, as a probe or because it was refused, and was not declared lost.
pub(crate) const UNCOUNTED: u8 = 16;
/// The packet has been sent more than twice, so an echo does not identify the copy that arrived.
/// These bits count the copies after the second, up to seven.
pub(crate) const RESENT_AGAIN: u8 = 0b111 << COPIES_SHIFT;
const COPIES_SHIFT: u32 = 5;

impl Sent {
    /// The list index of a PSN's record, of which a channel has one at a time.
    pub(crate) fn at(psn: Psn) -> Index<Sent> {
        Index::of(psn.value())
    }

    /// The PSN of a record's list index.
    pub(crate) fn psn(index: Index<Sent>) -> Psn {
        Psn::new(index.number())
    }

    pub(crate) const UNUSED: Sent = Sent {
        sent_at: Instant::ZERO,
        links: Links::UNLINKED,
        message: None,
        index: 0,
        path_sequence: 0,
        bytes: 0,
        path: 0,
        flags: ACKNOWLEDGED,
    };

    /// The message to which the packet belongs.
    ///
    /// # Panics
    /// If the record is unused.
    #[inline]
    pub(crate) fn message(&self) -> Index<Message> {
        self.message.expect("a packet in flight is of a message")
    }

    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Copies that were sent after the second, up to seven.
    pub(crate) fn further_copies(&self) -> u32 {
        u32::from(self.flags >> COPIES_SHIFT)
    }

    /// The flags of this packet once it has been sent one more time.
    pub(crate) fn flags_when_resent(&self) -> u8 {
        let is_full = self.flags & RESENT_AGAIN == RESENT_AGAIN;
        let counts = self.is(RESENT) && !is_full;
        let flags = self.flags + (u8::from(counts) << COPIES_SHIFT);
        (flags | RESENT) & !(LOST | UNCOUNTED)
    }
}

/// The shared pool of send-window blocks.
pub(crate) type SendBlocks = Pool<Block>;

/// Records of consecutive PSNs.
pub(crate) type Block = [Sent; BLOCK_RECORDS as usize];

/// The blocks of one channel's window. The window's edges are in the channel's hot state.
#[derive(Debug)]
pub(crate) struct SendWindow {
    blocks: Box<[Option<Index<Block>>]>,
}

impl SendWindow {
    pub(crate) fn new(window: u32) -> Self {
        SendWindow {
            blocks: alloc::vec![None; (window / BLOCK_RECORDS) as usize].into_boxed_slice(),
        }
    }

    /// Number of PSNs that can be tracked at once: one block less than could be named, because an
    /// oldest packet inside a block makes the window straddle one more.
    pub(crate) fn capacity(&self) -> u32 {
        (self.blocks.len() as u32 - 1) * BLOCK_RECORDS
    }

    /// Ensures that there is a record for `psn`; false if the pool is exhausted.
    #[inline]
    pub(crate) fn admit(&mut self, psn: Psn, pool: &mut SendBlocks) -> bool {
        self.blocks[self.slot(psn)].is_some() || self.take_block(psn, pool)
    }

    #[cold]
    fn take_block(&mut self, psn: Psn, pool: &mut SendBlocks) -> bool {
        let block = pool.add([Sent::UNUSED; BLOCK_RECORDS as usize]);
        let slot = self.slot(psn);
        self.blocks[slot] = block;
        block.is_some()
    }

    #[inline]
    pub(crate) fn record<'p>(&self, psn: Psn, pool: &'p mut SendBlocks) -> &'p mut Sent {
        let block = self.blocks[self.slot(psn)].expect("a packet in flight has a record");
        &mut pool[block][(psn.value() % BLOCK_RECORDS) as usize]
    }

    /// The record of a packet, if there is one.
    #[inline]
    pub(crate) fn peek<'p>(&self, psn: Psn, pool: &'p SendBlocks) -> Option<&'p Sent> {
        let block = self.blocks[self.slot(psn)]?;
        Some(&pool[block][(psn.value() % BLOCK_RECORDS) as usize])
    }

    /// Names the memory by which the record of a packet is found.
    pub(crate) fn visit_memory(&self, psn: Psn, visitor: &mut MemoryVisitor<'_>) {
        visitor.element(&self.blocks, self.slot(psn));
    }

    /// Returns to the pool the blocks between `from` and `to`, the old and the new oldest packet;
    /// true if any was returned.
    pub(crate) fn retire(&mut self, from: Psn, to: Psn, pool: &mut SendBlocks) -> bool {
        let mut block = from.value() / BLOCK_RECORDS;
        let end = to.value() / BLOCK_RECORDS;
        let mut returned = false;
        while block != end {
            let slot = block as usize & (self.blocks.len() - 1);
            if let Some(block) = self.blocks[slot].take() {
                pool.remove(block);
                returned = true;
            }
            block = (block + 1) % (Psn::SPACE / BLOCK_RECORDS);
        }
        returned
    }

    /// True if any block is held.
    pub(crate) fn holds_blocks(&self) -> bool {
        self.blocks.iter().any(|block| block.is_some())
    }

    /// Returns every block to the pool.
    pub(crate) fn clear(&mut self, pool: &mut SendBlocks) {
        for block in &mut self.blocks {
            if let Some(block) = block.take() {
                pool.remove(block);
            }
        }
    }

    #[inline]
    fn slot(&self, psn: Psn) -> usize {
        (psn.value() / BLOCK_RECORDS) as usize & (self.blocks.len() - 1)
    }
}

/// A window and its pool, in whose records lists of PSNs keep their links.
pub(crate) struct SentLinks<'a> {
    pub(crate) window: &'a SendWindow,
    pub(crate) pool: &'a mut SendBlocks,
}

impl Linked<Index<Sent>> for SentLinks<'_> {
    #[inline]
    fn links(&mut self, index: Index<Sent>) -> &mut Links<Index<Sent>> {
        &mut self.window.record(Sent::psn(index), self.pool).links
    }
}
