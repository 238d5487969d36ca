//! The devices as files, where programs look for them: under `/sys/class/infiniband`,
//! `/sys/class/infiniband_verbs` and `/dev/infiniband`.
//!
//! Only root could put them there. So a private folder holds a copy of what a kernel would show
//! (`tree`), and replacements of the C library's functions that take a path (`preload`) look there
//! instead, for these paths and no others.

// Tests use the C library's own functions. The nightly compiler 1.101 refuses a definition of
// `open` without variable arguments, and stable Rust has no definitions with them. Older compilers
// do not have this check.
#[cfg_attr(test, allow(dead_code))]
#[allow(unknown_lints, invalid_runtime_symbol_definitions)]
mod preload;
mod tree;

use std::ffi::{CStr, CString};
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::path::PathBuf;

use libc::{c_char, c_int};

use crate::abi::ibv_device;
use crate::guard::{Errno, number};
use crate::pointer::{Array, Ptr, Text};

const DEVICE_FILES: &[u8] = b"/dev/infiniband";

/// True if this is a path under which RDMA devices are looked for.
fn is_ours(path: &[u8]) -> bool {
    let under = |folder: &[u8]| {
        path.strip_prefix(folder).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    };
    // For most programs, this comparison already fails for most paths.
    path.starts_with(b"/sys/class/infiniband")
        && (under(b"/sys/class/infiniband") || under(b"/sys/class/infiniband_verbs"))
        || under(DEVICE_FILES)
}

/// The path that replaces `path`, if RDMA devices are looked for there.
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

/// Returns the mount point of the kernel's sysfs.
#[unsafe(no_mangle)]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

fn read_into(path: PathBuf, buffer: &mut [MaybeUninit<u8>]) -> c_int {
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
        text.truncate(buffer.len());
        text.pop_if(|last| *last == b'\n');
        let length = text.len();
        // The text ends with a zero byte if there is room for one.
        for (to, from) in buffer.iter_mut().zip(text.into_iter().chain([0])) {
            to.write(from);
        }
        Ok(length as c_int)
    })
}

/// Reads the text of a file without its last newline. Returns its length, or -1.
#[unsafe(no_mangle)]
extern "C" fn ibv_read_sysfs_file(
    folder: Text<'_>,
    file: Text<'_>,
    buffer: Array<'_, u8>,
    size: usize,
) -> c_int {
    let part = |text: Text<'_>| text.as_c_str().to_string_lossy().into_owned();
    // SAFETY: the program has passed this length.
    let buffer = unsafe { buffer.room(size) };
    read_into(PathBuf::from(part(folder)).join(part(file)), buffer)
}

/// Reads a file of a device in the same way. (In C the last argument is a format; this library's
/// takes no parameters.)
#[unsafe(no_mangle)]
extern "C" fn ibv_read_ibdev_sysfs_file(
    buffer: Array<'_, u8>,
    size: usize,
    device: Ptr<'_, ibv_device>,
    file: Text<'_>,
) -> c_int {
    let file = file.as_c_str().to_string_lossy().into_owned();
    let name = &device.object().device.name;
    let path = PathBuf::from(format!("/sys/class/infiniband/{name}")).join(file);
    // SAFETY: the program has passed this length.
    read_into(path, unsafe { buffer.room(size) })
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
