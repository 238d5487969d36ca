//! L_Keys, and the registered memory that they name.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use fairway_device::{LocalRange, SegmentId};

use crate::abi::ibv_sge;

/// Registered memory that an L_Key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) segment: SegmentId,
    /// Address of the first byte, as work requests give it.
    pub(crate) address: u64,
    /// Whether the NIC may write to the memory.
    pub(crate) writable: bool,
}

/// Hasher that returns the key itself, because keys are already random.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// All keys of a device.
#[derive(Default)]
pub(crate) struct Keys {
    table: RwLock<HashMap<u32, Key, BuildHasherDefault<KeyHasher>>>,
    /// Incremented whenever a key is withdrawn or replaced; earlier lookups may then be out of
    /// date.
    withdrawn: AtomicU64,
}

impl Keys {
    pub(crate) fn insert(&self, l_key: u32, key: Key) {
        self.table.write().unwrap_or_else(PoisonError::into_inner).insert(l_key, key);
    }

    /// Replaces the memory that a key names.
    pub(crate) fn replace(&self, l_key: u32, key: Key) {
        self.insert(l_key, key);
        self.withdrawn.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn remove(&self, l_key: u32) {
        self.table.write().unwrap_or_else(PoisonError::into_inner).remove(&l_key);
        self.withdrawn.fetch_add(1, Ordering::Release);
    }

    fn get(&self, l_key: u32) -> Option<Key> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(&l_key).copied()
    }
}

/// Cache of the key that was used last, because most programs use few.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastKey {
    withdrawn: u64,
    found: Option<(u32, Key)>,
}

impl LastKey {
    fn find(&mut self, keys: &Keys, l_key: u32) -> Option<Key> {
        let withdrawn = keys.withdrawn.load(Ordering::Acquire);
        match self.found {
            Some((last, key)) if last == l_key && self.withdrawn == withdrawn => Some(key),
            _ => {
                let key = keys.get(l_key)?;
                *self = LastKey { withdrawn, found: Some((l_key, key)) };
                Some(key)
            }
        }
    }

    /// Returns the range that `sge` describes, which the NIC writes if `written`. `None` if the key
    /// does not permit the access.
    pub(crate) fn range(
        &mut self,
        keys: &Keys,
        sge: &ibv_sge,
        written: bool,
    ) -> Option<LocalRange> {
        let key = self.find(keys, sge.lkey).filter(|key| key.writable || !written)?;
        let offset = sge.addr.checked_sub(key.address)?;
        Some(LocalRange { segment: key.segment, offset, length: sge.length })
    }
}
