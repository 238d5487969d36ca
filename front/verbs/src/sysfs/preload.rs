//! Replacements of the C library's functions that take a path.
//!
//! They compare a few bytes and then call the next library's function of the same name. For paths
//! other than those of RDMA devices they take no lock, allocate no memory and leave errno
//! unchanged.

use std::ffi::{CStr, CString, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_char, c_int, c_uint};

use super::{is_ours, redirected};

/// The next library's function of a name, looked up on first use.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        // Names that new programs no longer call exist only in old versions.
        const OLDEST: &[&CStr] = &[c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_2.4"];
        let name = self.name.as_ptr();
        // SAFETY: the names end with zero bytes.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        for version in OLDEST {
            if found.is_null() {
                // SAFETY: likewise.
                found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()) };
            }
        }
        self.found.store(found, Ordering::Release);
        found
    }
}

/// The path that replaces `path`, if RDMA devices are looked for there.
///
/// # Safety
///
/// The path is null or ends with a zero byte.
unsafe fn elsewhere(path: *const c_char) -> Option<CString> {
    // SAFETY: as the caller says. Of most paths only the first byte is read.
    if path.is_null() || unsafe { *path.cast::<u8>() } != b'/' {
        return None;
    }
    // SAFETY: as the caller says.
    let path = unsafe { CStr::from_ptr(path) };
    if is_ours(path.to_bytes()) { redirected(path) } else { None }
}

/// Value that a function returns if the C library lacks it.
trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: c_int = -1;
}

impl Failed for isize {
    const FAILED: isize = -1;
}

impl<T> Failed for *mut T {
    const FAILED: *mut T = null_mut();
}

/// Defines functions that differ from the C library's only in the path that they use.
macro_rules! in_front_of {
    ($($name:ident [$($before:ident: $before_type:ty),*] path ($($after:ident: $after_type:ty),*)
        -> $result:ty;)*) => {
        $(#[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $name(
            $($before: $before_type,)*
            path: *const c_char
            $(, $after: $after_type)*
        ) -> $result {
            static NEXT: Next = Next::new(
                // The name is a literal followed by a zero byte.
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a zero byte in a name"),
                },
            );
            type Function = unsafe extern "C" fn(
                $($before_type,)* *const c_char $(, $after_type)*
            ) -> $result;
            let next = NEXT.get();
            if next.is_null() {
                crate::guard::set_errno(crate::guard::Errno(libc::ENOSYS));
                return <$result>::FAILED;
            }
            // SAFETY: the C library's function of this name takes these types. Where it takes a
            // variable number of arguments, the last is passed as a call with that many would pass
            // it, on every ABI of Linux.
            let next: Function = unsafe { transmute::<*mut c_void, Function>(next) };
            // SAFETY: a program calls this function with what that of the C library demands: the
            // path ends with a zero byte, and the rest is handed on as it is.
            unsafe {
                match elsewhere(path) {
                    None => next($($before,)* path $(, $after)*),
                    Some(place) => next($($before,)* place.as_ptr() $(, $after)*),
                }
            }
        })*
    };
}

in_front_of! {
    open [] path (flags: c_int, mode: c_uint) -> c_int;
    open64 [] path (flags: c_int, mode: c_uint) -> c_int;
    __open_2 [] path (flags: c_int) -> c_int;
    __open64_2 [] path (flags: c_int) -> c_int;
    openat [folder: c_int] path (flags: c_int, mode: c_uint) -> c_int;
    openat64 [folder: c_int] path (flags: c_int, mode: c_uint) -> c_int;
    __openat_2 [folder: c_int] path (flags: c_int) -> c_int;
    __openat64_2 [folder: c_int] path (flags: c_int) -> c_int;
    fopen [] path (mode: *const c_char) -> *mut c_void;
    fopen64 [] path (mode: *const c_char) -> *mut c_void;
    opendir [] path () -> *mut c_void;
    scandir [] path (list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    scandir64 [] path (list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    stat [] path (result: *mut c_void) -> c_int;
    stat64 [] path (result: *mut c_void) -> c_int;
    lstat [] path (result: *mut c_void) -> c_int;
    lstat64 [] path (result: *mut c_void) -> c_int;
    fstatat [folder: c_int] path (result: *mut c_void, flags: c_int) -> c_int;
    fstatat64 [folder: c_int] path (result: *mut c_void, flags: c_int) -> c_int;
    __xstat [version: c_int] path (result: *mut c_void) -> c_int;
    __xstat64 [version: c_int] path (result: *mut c_void) -> c_int;
    __lxstat [version: c_int] path (result: *mut c_void) -> c_int;
    __lxstat64 [version: c_int] path (result: *mut c_void) -> c_int;
    __fxstatat [version: c_int, folder: c_int] path (result: *mut c_void, flags: c_int) -> c_int;
    __fxstatat64 [version: c_int, folder: c_int] path (result: *mut c_void, flags: c_int) -> c_int;
    statx [folder: c_int] path (flags: c_int, mask: c_uint, result: *mut c_void) -> c_int;
    access [] path (mode: c_int) -> c_int;
    faccessat [folder: c_int] path (mode: c_int, flags: c_int) -> c_int;
    euidaccess [] path (mode: c_int) -> c_int;
    eaccess [] path (mode: c_int) -> c_int;
    readlink [] path (buffer: *mut c_char, size: usize) -> isize;
    readlinkat [folder: c_int] path (buffer: *mut c_char, size: usize) -> isize;
    __readlink_chk [] path (buffer: *mut c_char, size: usize, room: usize) -> isize;
    realpath [] path (buffer: *mut c_char) -> *mut c_char;
    __realpath_chk [] path (buffer: *mut c_char, room: usize) -> *mut c_char;
    canonicalize_file_name [] path () -> *mut c_char;
}
