//! The application's memory, for the time of a call.

use fairway::{Context, Error, Memory, Rights, Segment, SegmentKey};
use fairway_collectives::Span;
use std::ptr::NonNull;

/// Bytes of the application that a call reads or writes.
///
/// The maker of the value promises that they are the call's until it has ended.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    bytes: u64,
    /// Set from the first operation of the NIC on.
    segment: Option<Segment>,
}

// SAFETY: the bytes are the call's alone, so any thread that drives the call may access them.
unsafe impl Send for Buffer {}

impl Buffer {
    /// # Safety
    /// The bytes can be read, and written if the call writes them, until the value was dropped; and
    /// nothing else accesses them until then.
    pub(crate) unsafe fn new(start: *mut u8, bytes: u64) -> Buffer {
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        Buffer { start, bytes, segment: None }
    }

    /// Registers the bytes, if they are not yet.
    pub(crate) fn register(&mut self, context: &Context, rights: Rights) -> Result<(), Error> {
        if self.segment.is_none() {
            // SAFETY: see `new`; the segment ends with this value, or before.
            let memory = unsafe { Memory::from_raw(self.start, self.bytes as usize) };
            self.segment = Some(context.register(memory, rights)?);
        }
        Ok(())
    }

    pub(crate) fn segment(&self) -> Option<&Segment> {
        self.segment.as_ref()
    }

    pub(crate) fn key(&self) -> Option<SegmentKey> {
        self.segment.as_ref().map(Segment::key)
    }

    /// The address of a span, whose offset counts from `base`.
    ///
    /// # Panics
    /// The span leaves the buffer.
    pub(crate) fn at(&self, base: u64, span: Span) -> *mut u8 {
        let start = base.checked_add(span.offset);
        let end = start.and_then(|start| start.checked_add(u64::from(span.bytes)));
        assert!(end.is_some_and(|end| end <= self.bytes), "schedules stay within buffers");
        self.start.as_ptr().wrapping_add((base + span.offset) as usize)
    }
}

impl Drop for Buffer {
    /// Waits until no operation of the NIC needs the bytes.
    fn drop(&mut self) {
        if let Some(segment) = self.segment.take() {
            // No clone of the segment exists, so this waits and cannot fail.
            let _ = segment.into_memory();
        }
    }
}
