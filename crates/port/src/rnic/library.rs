//! `libibverbs.so.1`, loaded when it is first used.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;

use libc::{c_char, c_int, c_void, ssize_t};

use super::abi::{
    DeviceList, Text, ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_device,
    ibv_gid, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
    ibv_srq, ibv_srq_init_attr,
};

/// The environment variable that names the library's file.
pub const LIBRARY_VARIABLE: &str = "FAIRWAY_RDMA_LIBRARY";
/// The name under which the dynamic linker finds the library otherwise.
const DEFAULT: &str = "libibverbs.so.1";

/// Declares the functions that are loaded, with their names and types.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// Functions of the library. The library is never unloaded.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Only in newer versions of the library.
            pub(super) query_gid_table: Option<QueryGidTable>,
        }

        impl Library {
            fn of(handle: *mut c_void, file: &str) -> io::Result<Library> {
                $(let $name = find(handle, concat!("ibv_", stringify!($name), "\0"), file)?;)*
                let table = find(handle, "_ibv_query_gid_table\0", file);
                // SAFETY: these are the functions of these names in a verbs library, which have
                // these types.
                unsafe {
                    Ok(Library {
                        $($name: std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) -> $result,
                        >($name),)*
                        query_gid_table: table
                            .ok()
                            .map(|table| std::mem::transmute::<*mut c_void, QueryGidTable>(table)),
                    })
                }
            }
        }
    };
}

pub(super) type QueryGidTable =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> ssize_t;

functions! {
    get_device_list: fn(*mut c_int) -> DeviceList;
    free_device_list: fn(DeviceList) -> ();
    get_device_name: fn(*mut ibv_device) -> Text;
    open_device: fn(*mut ibv_device) -> *mut ibv_context;
    close_device: fn(*mut ibv_context) -> c_int;
    query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    query_gid: fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
    alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    dealloc_pd: fn(*mut ibv_pd) -> c_int;
    reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    dereg_mr: fn(*mut ibv_mr) -> c_int;
    create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
    destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
    create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    destroy_cq: fn(*mut ibv_cq) -> c_int;
    get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ack_cq_events: fn(*mut ibv_cq, u32) -> ();
    create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    destroy_qp: fn(*mut ibv_qp) -> c_int;
    create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    destroy_srq: fn(*mut ibv_srq) -> c_int;
    create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    destroy_ah: fn(*mut ibv_ah) -> c_int;
}

impl Library {
    /// Loads the library: the file that the environment names, or the system's.
    ///
    /// # Errors
    /// There is no such file, or it is no verbs library. The error says what to do.
    pub(super) fn load() -> io::Result<Library> {
        let file = std::env::var_os(LIBRARY_VARIABLE).filter(|file| !file.is_empty());
        let file = file.unwrap_or_else(|| DEFAULT.into());
        let shown = file.to_string_lossy().into_owned();
        let name = CString::new(file.into_vec())?;
        // SAFETY: the name is a string. The library's initialisers run, as for a library that a
        // program is linked to.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "the verbs library cannot be loaded ({}): install libibverbs1 and the driver \
                     of the RDMA NIC, or name the file in {LIBRARY_VARIABLE}",
                    last_error()
                ),
            ));
        }
        Library::of(handle, &shown)
    }
}

fn find(handle: *mut c_void, name: &str, file: &str) -> io::Result<*mut c_void> {
    debug_assert!(name.ends_with('\0'));
    // SAFETY: an open library, and a string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr().cast::<c_char>()) };
    if found.is_null() {
        let name = name.trim_end_matches('\0');
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{file} has no function {name}: it is no verbs library, or too old"),
        ));
    }
    Ok(found)
}

fn last_error() -> String {
    // SAFETY: the text is valid until the next call that fails on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
