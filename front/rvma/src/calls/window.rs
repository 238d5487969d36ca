//! Windows, at the receiver.

use std::ffi::{c_int, c_void};
use std::ptr;

use fairway::{EpochRecord, MailboxOptions, Steering, Threshold, WhenEmpty};

use super::out;
use crate::guard;
use crate::library::{self, Library};
use crate::operations::mailbox_address;
use crate::slots::to_pointer;
use crate::status::{Failure, Result};
use crate::types::{EpochInfo, WinOptions, read_options};
use crate::window::Notify;

/// `RVMA_Win`: a handle.
type Win = *mut c_void;

/// `RVMA_KEY_NEW`.
const KEY_NEW: i32 = -1;

const STREAM: u32 = 1;
const REFUSE_EMPTY: u32 = 2;
const NO_NACK: u32 = 4;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Init_window(
    virtual_addr: *mut c_void,
    key: *mut i32,
    epoch_threshold: i64,
    epoch_type: c_int,
) -> Win {
    let address = Some(mailbox_address(virtual_addr));
    // SAFETY: the header's promises for these arguments.
    unsafe { create(address, key, epoch_threshold, epoch_type, ptr::null()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Init_window_opts(
    virtual_addr: *mut c_void,
    key: *mut i32,
    epoch_threshold: i64,
    epoch_type: c_int,
    options: *const WinOptions,
) -> Win {
    let address = Some(mailbox_address(virtual_addr));
    // SAFETY: the header's promises for these arguments.
    unsafe { create(address, key, epoch_threshold, epoch_type, options) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Init_catch_all(
    key: *mut i32,
    epoch_threshold: i64,
    epoch_type: c_int,
    options: *const WinOptions,
) -> Win {
    // SAFETY: the header's promises for these arguments.
    unsafe { create(None, key, epoch_threshold, epoch_type, options) }
}

/// # Safety
/// `key` is NULL or points to a key; `options` is NULL or points to options.
unsafe fn create(
    address: Option<u64>,
    key: *mut i32,
    threshold: i64,
    epoch_type: c_int,
    options: *const WinOptions,
) -> Win {
    guard::value(ptr::null_mut(), || {
        // SAFETY: the header requires a structure that says its size, or NULL.
        let options = unsafe { read_options(options, WinOptions::default())? };
        let mut mailbox = mailbox_options(address, threshold, epoch_type, &options)?;
        let library = library::current()?;
        // SAFETY: the header requires a key of the caller's, or NULL.
        let given = unsafe { key.as_ref() }.copied().unwrap_or(0);
        let drawn = if given == KEY_NEW { Some(draw_key()?) } else { None };
        mailbox.key = drawn.unwrap_or(given) as u32;
        let handle = library.create_window(&mailbox)?;
        if let Some(drawn) = drawn {
            // SAFETY: as above; it is not NULL, because it held KEY_NEW.
            unsafe { key.write(drawn) };
        }
        Ok(to_pointer(handle))
    })
}

fn mailbox_options(
    address: Option<u64>,
    threshold: i64,
    epoch_type: c_int,
    options: &WinOptions,
) -> Result<MailboxOptions> {
    let count = u64::try_from(threshold).ok().filter(|count| *count > 0).ok_or_else(|| {
        Failure::argument("epoch_threshold", threshold, "an epoch takes at least 1")
    })?;
    let threshold = match epoch_type {
        0 => Threshold::Bytes(count),
        1 => Threshold::Operations(count),
        other => {
            return Err(Failure::argument("type", other, "use RVMA_EPOCH_BYTES or RVMA_EPOCH_OPS"));
        }
    };
    let WinOptions { flags, retired, reserved, .. } = *options;
    if flags & !(STREAM | REFUSE_EMPTY | NO_NACK) != 0 || reserved != 0 {
        return Err(Failure::argument("flags", format!("{flags:#x}"), "use RVMA_WIN_..."));
    }
    let has = |flag| flags & flag != 0;
    Ok(MailboxOptions::default()
        .address(address)
        .key(0)
        .threshold(threshold)
        .steering(if has(STREAM) { Steering::Receiver } else { Steering::Sender })
        .when_empty(if has(REFUSE_EMPTY) { WhenEmpty::Refuse } else { WhenEmpty::Wait })
        .retired(retired)
        .nack(!has(NO_NACK)))
}

/// Draws a secret other than 0 ("none") and `KEY_NEW` ("draw one").
fn draw_key() -> Result<i32> {
    loop {
        let mut key = 0i32;
        // SAFETY: the kernel writes at most the four bytes of `key`.
        let count = unsafe { libc::getrandom((&raw mut key).cast(), size_of_val(&key), 0) };
        if count == 4 && key != 0 && key != KEY_NEW {
            return Ok(key);
        }
        let error = std::io::Error::last_os_error();
        if count < 0 && error.kind() != std::io::ErrorKind::Interrupted {
            return Err(Failure::new(crate::status::Status::System, error.to_string()));
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Post_buffer(
    buffer: *mut c_void,
    size: i64,
    notification_ptr: *mut *mut c_void,
    win: Win,
) -> c_int {
    guard::status(|| {
        check_aligned(notification_ptr, "notification_ptr")?;
        let notify = Notify::Pointer(notification_ptr);
        // SAFETY: the header lends the buffer and the pointer until the buffer is returned.
        unsafe { post(buffer, size, notify, win) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Post_buffer_record(
    buffer: *mut c_void,
    size: i64,
    record: *mut EpochRecord,
    win: Win,
) -> c_int {
    guard::status(|| {
        if record.is_null() {
            return Err(Failure::argument("record", "NULL", "give a zeroed RVMA_Record"));
        }
        check_aligned(record, "record")?;
        // SAFETY: the header lends the buffer and the record until the buffer is returned.
        unsafe { post(buffer, size, Notify::Record(record), win) }
    })
}

/// # Safety
/// The buffer, and what `notify` points to, are the library's until the buffer is handed back.
unsafe fn post(buffer: *mut c_void, size: i64, notify: Notify, win: Win) -> Result<()> {
    let library = library::current()?;
    let window = library.window(win as usize)?;
    if buffer.is_null() {
        return Err(Failure::argument("buffer", "NULL", "point to its first byte"));
    }
    // SAFETY: as the caller vouches.
    unsafe {
        let lease = library.registry.lease(buffer, size)?;
        window.post(lease, notify)
    }
}

fn check_aligned<T>(pointer: *mut T, name: &str) -> Result<()> {
    if (pointer as usize).is_multiple_of(align_of::<T>()) {
        return Ok(());
    }
    let remedy = format!("align it to {} bytes", align_of::<T>());
    Err(Failure::argument(name, format!("{pointer:?}"), &remedy))
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Close_Win(win: Win) -> c_int {
    guard::status(|| library::current()?.window(win as usize)?.close(None))
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Close_Win_opts(win: Win, nack: c_int) -> c_int {
    guard::status(|| library::current()?.window(win as usize)?.close(Some(nack != 0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Win_free(win: Win) -> c_int {
    guard::status(|| library::current()?.free_window(win as usize))
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Win_inc_epoch(win: Win) -> c_int {
    guard::status(|| library::current()?.window(win as usize)?.increment_epoch())
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Win_get_epoch(win: Win) -> i64 {
    guard::value(-1, || Ok(library::current()?.window(win as usize)?.epoch()? as i64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Win_get_buf_ptrs(
    win: Win,
    notification_ptrs: *mut *mut c_void,
    count: c_int,
) -> c_int {
    guard::value(-1, || {
        let library: std::sync::Arc<Library> = library::current()?;
        let window = library.window(win as usize)?;
        let room = usize::try_from(count)
            .map_err(|_| Failure::argument("count", count, "use the length of the array"))?;
        if room > 0 && notification_ptrs.is_null() {
            return Err(Failure::argument("notification_ptrs", "NULL", "give an array"));
        }
        library.context.poll();
        let mut taken = 0;
        while taken < room {
            let Some(epoch) = window.take()? else { break };
            // SAFETY: the header requires an array of `count` pointers.
            unsafe { notification_ptrs.add(taken).write(epoch.buffer) };
            taken += 1;
        }
        Ok(taken as c_int)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Win_rewind(win: Win, back: i64, epoch: *mut EpochInfo) -> c_int {
    guard::status(|| {
        let rewound = library::current()?.window(win as usize)?.rewind(back)?;
        if !epoch.is_null() {
            // SAFETY: the header requires a place for an epoch.
            unsafe { out(epoch, "epoch")? }.write(rewound);
        }
        Ok(())
    })
}
