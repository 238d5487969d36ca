//! Messages through the logger that NCCL passes to `init`.

use std::ffi::{CString, c_char, c_int, c_ulong};
use std::sync::{PoisonError, RwLock};

/// NCCL's logger: level, subsystem, file, line, format and arguments of `printf`.
pub(crate) type Logger = unsafe extern "C" fn(
    level: c_int,
    flags: c_ulong,
    file: *const c_char,
    line: c_int,
    format: *const c_char,
    ...
);

/// `NCCL_LOG_WARN` and `NCCL_LOG_INFO`.
const WARN: c_int = 2;
const INFO: c_int = 3;
/// `NCCL_INIT | NCCL_NET`: the subsystems of the messages.
const NET: c_ulong = 0x11;

static LOGGER: RwLock<Option<Logger>> = RwLock::new(None);

/// Sets the function that receives messages from now on.
pub(crate) fn set(logger: Option<Logger>) {
    *LOGGER.write().unwrap_or_else(PoisonError::into_inner) = logger;
}

/// Reports a failure.
pub(crate) fn warn(text: &str) {
    write(WARN, text);
}

/// Reports what was done, for `NCCL_DEBUG=INFO`.
pub(crate) fn info(text: &str) {
    write(INFO, text);
}

fn write(level: c_int, text: &str) {
    let logger = *LOGGER.read().unwrap_or_else(PoisonError::into_inner);
    let Some(logger) = logger else { return };
    let text: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    let (file, format) = (c"fairway".as_ptr(), c"NET/Fairway : %s".as_ptr());
    // SAFETY: the function that NCCL passed for this purpose; the format takes one C string.
    unsafe { logger(level, NET, file, 0, format, text.as_ptr()) };
}
