//! The devices as files: what programs look for under `/sys/class/infiniband`,
//! `/sys/class/infiniband_verbs` and `/dev/infiniband`.
//!
//! Only root could put them there. So a private folder holds a copy of what a kernel would
//! show (`tree`), and the C library's functions that take a path (`preload`) look there instead,
//! for these paths and no others.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: strings end with a zero byte, and buffers have the lengths that are said.

// Tests use the C library's own.
#[cfg_attr(test, allow(dead_code))]
mod preload;
mod tree;

use std::ffi::{CStr, CString};
use std::io::Read as _;
use std::path::PathBuf;

use libc::{c_char, c_int};

use crate::abi::ibv_device;
use crate::device::DeviceHandle;
use crate::guard::{Errno, number};

const DEVICE_FILES: &[u8] = b"/dev/infiniband";

/// True if this is a path under which RDMA devices are looked for.
fn is_ours(path: &[u8]) -> bool {
    let under = |folder: &[u8]| {
        path.strip_prefix(folder).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    };
    // Most paths of most programs end here.
    path.starts_with(b"/sys/class/infiniband")
        && (under(b"/sys/class/infiniband") || under(b"/sys/class/infiniband_verbs"))
        || under(DEVICE_FILES)
}

/// Where to look for a path, if that is elsewhere.
fn redirected(path: &CStr) -> Option<CString> {
    let bytes = path.to_bytes();
    if !is_ours(bytes) {
        return None;
    }
    let tree = tree::tree()?;
    let file = bytes.strip_prefix(DEVICE_FILES).and_then(|rest| rest.strip_prefix(b"/uverbs"));
    if let Some(number) = file {
        let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
        if number.is_some_and(|number: usize| number < tree.devices()) {
            // A character device that every user may open.
            return Some(c"/dev/null".to_owned());
        }
    }
    if bytes.windows(9).any(|part| part == b"counters/") {
        tree.refresh();
    }
    let mut place = tree.root().as_os_str().as_encoded_bytes().to_vec();
    place.extend_from_slice(bytes);
    CString::new(place).ok()
}

/// Where the kernel's files are.
#[unsafe(no_mangle)]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

fn read_into(path: PathBuf, buffer: *mut c_char, size: usize) -> c_int {
    number(|| {
        let error = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
        let path = CString::new(path.into_os_string().into_encoded_bytes())
            .map_err(|_| Errno(libc::EINVAL))?;
        let place = redirected(&path).unwrap_or(path);
        let place = std::path::Path::new(std::ffi::OsStr::new(
            place.to_str().map_err(|_| Errno(libc::EINVAL))?,
        ));
        let mut text = Vec::new();
        std::fs::File::open(place)
            .and_then(|mut file| file.read_to_end(&mut text))
            .map_err(error)?;
        let mut length = text.len().min(size);
        if length > 0 && text[length - 1] == b'\n' {
            length -= 1;
        }
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, length);
            if length < size {
                *buffer.add(length) = 0;
            }
        }
        Ok(length as c_int)
    })
}

/// The text of a file without its last newline. Returns its length, or -1.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    let part = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    read_into(PathBuf::from(part(folder)).join(part(file)), buffer, size)
}

/// The same for a file of a device. (The last argument is a format in C; ours takes no parameters.)
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_read_ibdev_sysfs_file(
    buffer: *mut c_char,
    size: usize,
    device: *mut ibv_device,
    file: *const c_char,
) -> c_int {
    let device = unsafe { &*device.cast::<DeviceHandle>() };
    let file = unsafe { CStr::from_ptr(file) }.to_string_lossy().into_owned();
    let path = PathBuf::from(format!("/sys/class/infiniband/{}", device.device.name)).join(file);
    read_into(path, buffer, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_rdma_devices_are_ours() {
        for path in [
            "/sys/class/infiniband",
            "/sys/class/infiniband/",
            "/sys/class/infiniband_verbs/uverbs0/dev",
            "/dev/infiniband/uverbs0",
        ] {
            assert!(is_ours(path.as_bytes()), "{path}");
        }
        for path in [
            "",
            "/",
            "/sys/class",
            "/sys/class/infiniband_mad/abi_version",
            "/sys/class/infinibandx",
            "/dev/infinibandx",
            "sys/class/infiniband",
        ] {
            assert!(!is_ours(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn device_tree_has_the_files_that_programs_read() {
        let read = |path: &str| {
            let path = CString::new(path).expect("no zero byte");
            let place = redirected(&path).expect("it is ours");
            std::fs::read_to_string(place.to_str().expect("text")).expect("a file")
        };
        let device = "/sys/class/infiniband/fairway0";
        assert_eq!(read(&format!("{device}/ports/1/gid_attrs/types/0")), "RoCE v2\n");
        assert_eq!(read(&format!("{device}/ports/1/state")), "4: ACTIVE\n");
        assert_eq!(read(&format!("{device}/ports/1/gids/0")).len(), 40);
        assert_eq!(read(&format!("{device}/ports/1/hw_counters/sent_pkts")), "0\n");
        assert_eq!(read("/sys/class/infiniband_verbs/uverbs0/ibdev"), "fairway0\n");
        let interface = read(&format!("{device}/ports/1/gid_attrs/ndevs/0"));
        let index = format!("{device}/device/net/{}/ifindex", interface.trim());
        assert!(read(&index).trim().parse::<u32>().is_ok_and(|number| number > 0), "{index}");
        let file = redirected(c"/dev/infiniband/uverbs0");
        assert_eq!(file.as_deref(), Some(c"/dev/null"));
    }
}
