//! Received PSNs: a window of bitmap blocks that come from a shared pool (ORNIC §3.4).
//!
//! Each channel has an array of nodes, one per 16 PSNs. A node is empty, or names a block of the
//! pool, or is marked full. A block that fills up is returned at once and its node marked, so that
//! one loss costs two blocks and not a bandwidth-delay product.
//!
//! The node of the base is different: it contains its 16 bits. So the packet for which all others
//! wait can always be recorded, however empty the pool is, and an idle channel takes no block.

use crate::pool::{Index, Pool};
use alloc::boxed::Box;
use fairway_policy::MemoryVisitor;
use fairway_wire::{Psn, SACK_BITS};

/// PSNs per bitmap block.
pub(crate) const BLOCK_PSNS: u32 = 16;

const EMPTY: u32 = u32::MAX;
const FULL: u32 = u32::MAX - 1;

/// The most blocks that a pool may have: two node values have other meanings.
pub(crate) const BLOCKS_MAX: u32 = FULL;

/// Bytes of a node.
pub(crate) const NODE_BYTES: usize = size_of::<u32>();

#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    /// The first PSN that has not arrived.
    base: Psn,
    /// One past the highest PSN that has arrived; `base` if nothing beyond it has.
    end: Psn,
    nodes: Box<[u32]>,
}

/// Reason for which a PSN was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrecorded {
    Arrived,
    BeyondWindow,
    PoolExhausted,
}

impl ReceiveWindow {
    pub(crate) fn new(first: Psn, window: u32) -> Self {
        let nodes = alloc::vec![EMPTY; (window / BLOCK_PSNS) as usize].into_boxed_slice();
        let mut new = ReceiveWindow { base: first, end: first, nodes };
        new.begin();
        new
    }

    /// Marks the PSNs before the base as arrived in the node of the base.
    fn begin(&mut self) {
        let node = self.node(self.base);
        self.nodes[node] = u32::from(bit(self.base)) - 1;
    }

    /// Number of PSNs from `base` that can be tracked: one block less than the nodes could name,
    /// because a base inside a block makes the window straddle one more.
    pub(crate) fn capacity(&self) -> u32 {
        (self.nodes.len() as u32 - 1) * BLOCK_PSNS
    }

    /// Number of PSNs from `base` that can be recorded in whatever order they arrive, if no other
    /// channel returns a block to an exhausted pool or takes the blocks of another one. At least 1.
    pub(crate) fn recordable(&self, pool: &Pool<u16>) -> u32 {
        if !pool.is_exhausted() {
            return self.capacity();
        }
        let mut count = BLOCK_PSNS - self.base.value() % BLOCK_PSNS;
        while count < self.capacity() && self.nodes[self.node(self.base.plus(count))] != EMPTY {
            count += BLOCK_PSNS;
        }
        count.min(self.capacity())
    }

    pub(crate) fn base(&self) -> Psn {
        self.base
    }

    /// One past the highest PSN that has arrived.
    pub(crate) fn end(&self) -> Psn {
        self.end
    }

    /// Whether `psn` may be recorded. Changes nothing except that it takes a block if one is
    /// needed, so that a following [`Self::record`] cannot fail.
    #[inline]
    pub(crate) fn admit(&mut self, psn: Psn, pool: &mut Pool<u16>) -> Result<(), Unrecorded> {
        let distance = psn.distance_from(self.base);
        if distance == 0 {
            // The base has not arrived, and its bit needs no block.
            return Ok(());
        }
        if distance < 0 {
            return Err(Unrecorded::Arrived);
        }
        if distance as u32 >= self.capacity() {
            return Err(Unrecorded::BeyondWindow);
        }
        let node = self.node(psn);
        if self.is_with_base(psn) {
            let arrived = self.nodes[node] & u32::from(bit(psn)) != 0;
            return if arrived { Err(Unrecorded::Arrived) } else { Ok(()) };
        }
        match self.nodes[node] {
            FULL => Err(Unrecorded::Arrived),
            EMPTY => {
                let block = pool.add(0).ok_or(Unrecorded::PoolExhausted)?;
                self.nodes[node] = block.number();
                Ok(())
            }
            block if pool[named(block)] & bit(psn) != 0 => Err(Unrecorded::Arrived),
            _ => Ok(()),
        }
    }

    /// Undoes an [`Self::admit`] that was not followed by a [`Self::record`].
    pub(crate) fn withdraw(&mut self, psn: Psn, pool: &mut Pool<u16>) {
        let node = self.node(psn);
        let block = self.nodes[node];
        if !self.is_with_base(psn) && block < FULL && pool[named(block)] == 0 {
            pool.remove(named(block));
            self.nodes[node] = EMPTY;
        }
    }

    /// Records an admitted PSN; true if that returned a full block to the pool.
    #[inline]
    pub(crate) fn record(&mut self, psn: Psn, pool: &mut Pool<u16>) -> bool {
        let is_only = psn == self.base && self.end == psn;
        if is_only && psn.value() % BLOCK_PSNS < BLOCK_PSNS - 1 {
            // In order, with nothing behind it: the base moves by one, within its node.
            let node = self.node(psn);
            self.nodes[node] |= u32::from(bit(psn));
            (self.base, self.end) = (psn.next(), psn.next());
            return false;
        }
        self.record_any(psn, pool)
    }

    fn record_any(&mut self, psn: Psn, pool: &mut Pool<u16>) -> bool {
        let node = self.node(psn);
        let mut full = false;
        if self.is_with_base(psn) {
            self.nodes[node] |= u32::from(bit(psn));
        } else {
            assert!(self.nodes[node] < FULL, "PSN recorded without being admitted");
            let block = named(self.nodes[node]);
            pool[block] |= bit(psn);
            full = pool[block] == u16::MAX;
            if full {
                pool.remove(block);
                self.nodes[node] = FULL;
            }
        }
        if psn.distance_from(self.end) >= 0 {
            self.end = psn.next();
        }
        if psn == self.base {
            self.advance(pool);
        }
        full
    }

    pub(crate) fn has_arrived(&self, psn: Psn, pool: &Pool<u16>) -> bool {
        let distance = psn.distance_from(self.base);
        if distance < 0 {
            return true;
        }
        distance < self.capacity() as i32 && self.bits(psn, pool) & bit(psn) != 0
    }

    /// The map of [`SACK_BITS`] PSNs from `from` on; those before the base count as arrived.
    pub(crate) fn map(&self, from: Psn, pool: &Pool<u16>) -> [u32; (SACK_BITS / 32) as usize] {
        let mut words = [0; (SACK_BITS / 32) as usize];
        let mut at = 0;
        while at < SACK_BITS {
            let psn = from.plus(at);
            if psn.distance_from(self.end) >= 0 {
                break;
            }
            let shift = psn.value() % BLOCK_PSNS;
            let count = (BLOCK_PSNS - shift).min(SACK_BITS - at);
            let bits = u64::from(self.bits(psn, pool) >> shift) << (at % 32);
            words[(at / 32) as usize] |= bits as u32;
            if (at % 32) + count > 32 && at / 32 + 1 < SACK_BITS / 32 {
                words[(at / 32 + 1) as usize] |= (bits >> 32) as u32;
            }
            at += count;
        }
        words
    }

    /// Names the memory that the next packets touch.
    pub(crate) fn visit_memory(&self, visitor: &mut MemoryVisitor<'_>) {
        visitor.element(&self.nodes, self.node(self.base));
    }

    /// Returns every block to the pool.
    pub(crate) fn clear(&mut self, pool: &mut Pool<u16>) {
        let base = self.node(self.base);
        for (at, node) in self.nodes.iter_mut().enumerate() {
            if at != base && *node < FULL {
                pool.remove(named(*node));
            }
            *node = EMPTY;
        }
        self.begin();
        self.end = self.base;
    }

    /// Moves the base past all that has arrived; the block of its new node is copied into the node.
    fn advance(&mut self, pool: &mut Pool<u16>) {
        loop {
            let node = self.node(self.base);
            let inside = self.base.value() % BLOCK_PSNS;
            let ones = (self.nodes[node] >> inside).trailing_ones();
            self.base = self.base.plus(ones);
            if ones < BLOCK_PSNS - inside {
                return self.clamp_end();
            }
            self.nodes[node] = EMPTY;
            let next = self.node(self.base);
            self.nodes[next] = match self.nodes[next] {
                EMPTY => 0,
                FULL => u32::from(u16::MAX),
                block => {
                    pool.remove(named(block));
                    u32::from(pool[named(block)])
                }
            };
        }
    }

    /// Advances `end` to `base` if it is behind.
    fn clamp_end(&mut self) {
        if self.end.is_before(self.base) {
            self.end = self.base;
        }
    }

    fn node(&self, psn: Psn) -> usize {
        (psn.value() / BLOCK_PSNS) as usize & (self.nodes.len() - 1)
    }

    fn bits(&self, psn: Psn, pool: &Pool<u16>) -> u16 {
        match self.nodes[self.node(psn)] {
            own if self.is_with_base(psn) => own as u16,
            // The nodes of PSNs before the base are already in use for later ones.
            _ if psn.is_before(self.base) => u16::MAX,
            EMPTY => 0,
            FULL => u16::MAX,
            block => pool[named(block)],
        }
    }

    /// True if `psn` is among the 16 of the base, so that its bit is in the node itself.
    fn is_with_base(&self, psn: Psn) -> bool {
        psn.value() / BLOCK_PSNS == self.base.value() / BLOCK_PSNS
    }
}

/// The block that a node names.
fn named(node: u32) -> Index<u16> {
    Index::of(node)
}

fn bit(psn: Psn) -> u16 {
    1 << (psn.value() % BLOCK_PSNS)
}

#[cfg(test)]
mod tests;
