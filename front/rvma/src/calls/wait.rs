//! Waiting for the end of epochs.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use fairway::EpochRecord;

use super::out;
use crate::guard::{self, Deadline};
use crate::library;
use crate::status::{Failure, Result, Status};
use crate::types::EpochInfo;
use crate::window::sleep;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Wait(
    win: *mut c_void,
    epoch: *mut EpochInfo,
    timeout_ms: i64,
) -> c_int {
    guard::status(|| {
        let deadline = Deadline::after_ms(timeout_ms);
        let window = library::current()?.window(win as usize)?;
        // SAFETY: the header requires a place for an epoch.
        let place = unsafe { out(epoch, "epoch")? };
        place.write(window.wait(deadline)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Wait_ptr(
    notification_ptr: *mut *mut c_void,
    old: *mut c_void,
    timeout_ms: i64,
) -> c_int {
    guard::status(|| {
        if notification_ptr.is_null() || !notification_ptr.is_aligned() {
            return Err(Failure::argument("notification_ptr", "that", "point to a pointer"));
        }
        // SAFETY: the header requires a notification pointer; every thread that stores to one does
        // so atomically.
        let pointer = unsafe { AtomicPtr::from_ptr(notification_ptr) };
        wait_until(timeout_ms, || pointer.load(Ordering::Acquire) != old)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Wait_record(record: *const EpochRecord, timeout_ms: i64) -> c_int {
    guard::status(|| {
        if record.is_null() || !record.is_aligned() {
            return Err(Failure::argument("record", "that", "point to an RVMA_Record"));
        }
        // SAFETY: the header requires a record, all of whose members are atomics to us.
        let record = unsafe { &*record };
        wait_until(timeout_ms, || record.is_done())
    })
}

fn wait_until(timeout_ms: i64, mut done: impl FnMut() -> bool) -> Result<()> {
    let deadline = Deadline::after_ms(timeout_ms);
    let library = library::current()?;
    loop {
        if done() {
            return Ok(());
        }
        if library.has_ended() {
            return Err(Failure::of(Status::Cancelled));
        }
        sleep(&library.context, deadline, || done() || library.has_ended())?;
    }
}
