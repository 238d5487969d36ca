//! Completion records: the end of an epoch in one cache line (RVMA §III-A, §IV-C).

use crate::epoch::Epoch;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The flag of an epoch that the application ended early.
const EARLY: u32 = 1;

/// The place where the end of an epoch is stored: one cache line, which a program may poll, or
/// sleep on with [`crate::Context::wait_record`]. Its layout is that of C, and will not change.
///
/// The buffer's address is stored last: a thread that reads a non-null address also sees the other
/// fields, and the bytes in the buffer.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct EpochRecord {
    buffer: AtomicPtr<c_void>,
    length: AtomicU64,
    epoch: AtomicU64,
    operations: AtomicU64,
    id: AtomicU64,
    address: AtomicU64,
    cancelled: AtomicU32,
    flags: AtomicU32,
    bytes: AtomicU64,
}

const _: () = assert!(size_of::<EpochRecord>() == 64);

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedEpoch {
    /// Address of the buffer in this process.
    pub buffer: usize,
    /// Bytes that were put; for a stream, bytes up to the end of the last put.
    pub length: u64,
    /// Bytes that were put. Less than `length` if there are holes.
    pub bytes: u64,
    /// The epoch's number.
    pub epoch: u64,
    /// Number of puts.
    pub operations: u64,
    /// The number that the caller gave with the buffer.
    pub id: u64,
    /// The address that the last put named.
    pub address: u64,
    /// Number of puts that were cut off because their sender is gone.
    pub cancelled: u32,
    /// True if the application ended the epoch before its threshold.
    pub early: bool,
}

impl Default for EpochRecord {
    fn default() -> Self {
        EpochRecord::new()
    }
}

impl EpochRecord {
    /// Returns an empty record.
    pub const fn new() -> EpochRecord {
        EpochRecord {
            buffer: AtomicPtr::new(ptr::null_mut()),
            length: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            id: AtomicU64::new(0),
            address: AtomicU64::new(0),
            cancelled: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// True if the epoch has ended.
    pub fn is_done(&self) -> bool {
        !self.buffer.load(Ordering::Acquire).is_null()
    }

    /// Returns the contents once the epoch has ended.
    pub fn get(&self) -> Option<RecordedEpoch> {
        let buffer = self.buffer.load(Ordering::Acquire);
        let order = Ordering::Relaxed;
        (!buffer.is_null()).then(|| RecordedEpoch {
            buffer: buffer as usize,
            length: self.length.load(order),
            bytes: self.bytes.load(order),
            epoch: self.epoch.load(order),
            operations: self.operations.load(order),
            id: self.id.load(order),
            address: self.address.load(order),
            cancelled: self.cancelled.load(order),
            early: self.flags.load(order) & EARLY != 0,
        })
    }

    /// Clears the record for another epoch.
    pub fn clear(&self) {
        self.buffer.store(ptr::null_mut(), Ordering::Release);
    }

    pub(crate) fn store(&self, epoch: &Epoch) {
        let order = Ordering::Relaxed;
        self.length.store(epoch.bytes.max(u64::from(epoch.extent)), order);
        self.bytes.store(epoch.bytes, order);
        self.epoch.store(epoch.epoch, order);
        self.operations.store(epoch.operations, order);
        self.id.store(epoch.id.value(), order);
        self.address.store(epoch.address, order);
        self.cancelled.store(epoch.cancelled, order);
        self.flags.store(if epoch.early { EARLY } else { 0 }, order);
        self.buffer.store(epoch.pointer as *mut c_void, Ordering::Release);
    }
}
