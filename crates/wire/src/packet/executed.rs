//! Transactions that share one transaction acknowledgement (TAACK).

/// Most transactions that a TAACK reports beside the one in its ATAH.
pub const EXECUTED_MAX: usize = 10;

/// Transactions that have been executed, each by the slot in which its initiator awaits the answer
/// and its number. All are of the Jetty that the ATAH names: the slot names the transaction, and
/// the number proves that it is the slot's current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    count: u8,
    slots: [u8; EXECUTED_MAX],
    transactions: [u16; EXECUTED_MAX],
}

impl Executed {
    /// No transaction.
    pub const NONE: Executed =
        Executed { count: 0, slots: [0; EXECUTED_MAX], transactions: [0; EXECUTED_MAX] };

    /// Adds a transaction, by its slot and number. False, without any change, if there is no room.
    #[must_use]
    pub fn push(&mut self, slot: u8, transaction: u16) -> bool {
        let at = self.len();
        if at == EXECUTED_MAX {
            return false;
        }
        self.slots[at] = slot;
        self.transactions[at] = transaction;
        self.count += 1;
        true
    }

    /// Number of transactions, at most [`EXECUTED_MAX`].
    #[inline]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is no transaction.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The slot and the number of each transaction, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u16)> + '_ {
        let pairs = self.slots.iter().copied().zip(self.transactions.iter().copied());
        pairs.take(self.len())
    }
}
