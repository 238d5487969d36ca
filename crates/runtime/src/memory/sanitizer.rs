//! Reports copies to AddressSanitizer before they happen, if the program runs under it:
//! AddressSanitizer checks libc's functions and instrumented code, and this library's copies are
//! neither.

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

/// Returns the first poisoned byte of a range, or null.
type IsPoisoned = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
/// Reports an access to a number of bytes at an address, and by default ends the process.
type Report = unsafe extern "C" fn(*mut c_void, usize);

/// AddressSanitizer's functions (`sanitizer/asan_interface.h` and the instrumentation's own).
#[derive(Clone, Copy)]
struct Sanitizer {
    is_poisoned: IsPoisoned,
    report_read: Report,
    report_write: Report,
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns AddressSanitizer's functions, if they are in this process.
fn sanitizer() -> Option<Sanitizer> {
    static FOUND: OnceLock<Option<Sanitizer>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let is_poisoned = symbol(c"__asan_region_is_poisoned")?;
        let report_read = symbol(c"__asan_report_load_n")?;
        let report_write = symbol(c"__asan_report_store_n")?;
        // SAFETY: the functions of these names have these types.
        Some(unsafe {
            Sanitizer {
                is_poisoned: transmute::<*mut c_void, IsPoisoned>(is_poisoned),
                report_read: transmute::<*mut c_void, Report>(report_read),
                report_write: transmute::<*mut c_void, Report>(report_write),
            }
        })
    })
}

/// Announces a write of `length` bytes at `start`. Under AddressSanitizer the program ends with its
/// report if they do not belong to the program any more.
pub(crate) fn will_write(start: *mut u8, length: usize) {
    if let Some(sanitizer) = sanitizer() {
        check(sanitizer, sanitizer.report_write, start, length);
    }
}

/// Announces a read, as [`will_write`] does a write.
pub(crate) fn will_read(start: *mut u8, length: usize) {
    if let Some(sanitizer) = sanitizer() {
        check(sanitizer, sanitizer.report_read, start, length);
    }
}

#[cold]
fn check(sanitizer: Sanitizer, report: Report, start: *mut u8, length: usize) {
    // SAFETY: it reads AddressSanitizer's own records, and no byte of the range.
    let poisoned = unsafe { (sanitizer.is_poisoned)(start.cast(), length) };
    if !poisoned.is_null() {
        // SAFETY: it touches nothing of the range.
        unsafe { report(poisoned, 1) };
    }
}
