//! Texts for statuses.

use std::ffi::{c_char, c_int};

use crate::status::{self, Status};

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Strerror(status: c_int) -> *const c_char {
    Status::meaning(status).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Last_error() -> *const c_char {
    status::last_error()
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Last_status() -> c_int {
    status::last_status() as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Version() -> *const c_char {
    VERSION.as_ptr().cast()
}
