//! Version 10, of NCCL 2.26 and later: a traffic class, and handles for the profiler. Neither is
//! used.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

use super::calls::{self, ReceiveArguments, SendArguments};
use super::properties::PropertiesV9;
use super::{Absent, CLOSING, Closing, DeviceHandle, NAME, Profiler, REGISTERING, Registering};
use super::{v8, v9};
use crate::guard::call;
use crate::instance;
use crate::log::Logger;

/// `isend` from this version on.
pub(super) type Isend = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    phandle: *mut c_void,
    request: *mut *mut c_void,
) -> c_int;
/// `irecv` from this version on.
pub(super) type Irecv = unsafe extern "C" fn(
    comm: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    phandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int;

/// `ncclNet_v10_t`.
#[repr(C)]
pub struct Table {
    name: *const c_char,
    init: unsafe extern "C" fn(Option<Logger>, Profiler) -> c_int,
    devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    get_properties: unsafe extern "C" fn(c_int, *mut PropertiesV9<4>) -> c_int,
    listen: unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> c_int,
    connect: unsafe extern "C" fn(
        device: c_int,
        config: *mut c_void,
        handle: *mut c_void,
        comm: *mut *mut c_void,
        device_handle: DeviceHandle,
    ) -> c_int,
    registering: Registering,
    isend: Isend,
    irecv: Irecv,
    closing: Closing,
    make_v_device: Absent,
}

// SAFETY: a constant; the name is one, too.
unsafe impl Sync for Table {}

const WORD: usize = size_of::<usize>();
const _: () = {
    assert!(size_of::<Table>() == 20 * WORD);
    assert!(offset_of!(Table, isend) == 10 * WORD && offset_of!(Table, closing) == 12 * WORD);
};

/// The table that NCCL looks up by this name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static ncclNetPlugin_v10: Table = Table {
    name: NAME,
    init,
    devices: calls::devices,
    get_properties: v9::get_properties,
    listen: v8::listen,
    connect,
    registering: REGISTERING,
    isend,
    irecv,
    closing: CLOSING,
    make_v_device: None,
};

unsafe extern "C" fn init(logger: Option<Logger>, _profiler: Profiler) -> c_int {
    call("init", || instance::begin_process(logger))
}

unsafe extern "C" fn connect(
    device: c_int,
    _config: *mut c_void,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: DeviceHandle,
) -> c_int {
    // SAFETY: NCCL's handle, and its place for the connection.
    call("connect", || unsafe { calls::connect(instance::of_process(), device, handle, comm) })
}

pub(super) unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    _phandle: *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = SendArguments { data, size, tag, mhandle };
    // SAFETY: NCCL's objects, and its place for the request.
    call("isend", || unsafe { calls::isend(comm, &arguments, request) })
}

pub(super) unsafe extern "C" fn irecv(
    comm: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    _phandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = ReceiveArguments { count, data, sizes, tags, mhandles };
    // SAFETY: NCCL's objects and arrays, and its place for the request.
    call("irecv", || unsafe { calls::irecv(comm, &arguments, request) })
}
