//! Version 9, of NCCL 2.24 and later: sizes are `size_t`, and NICs may be virtual.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

use super::calls::{self, ReceiveArguments, SendArguments};
use super::properties::PropertiesV9;
use super::{Absent, CLOSING, Closing, DeviceHandle, NAME, REGISTERING, Registering, v8};
use crate::guard::{call, out};
use crate::log::Logger;

/// `ncclNet_v9_t`.
#[repr(C)]
pub struct Table {
    name: *const c_char,
    init: unsafe extern "C" fn(Option<Logger>) -> c_int,
    devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    get_properties: unsafe extern "C" fn(c_int, *mut PropertiesV9<4>) -> c_int,
    listen: unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> c_int,
    connect: unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, DeviceHandle) -> c_int,
    registering: Registering,
    isend: unsafe extern "C" fn(
        comm: *mut c_void,
        data: *mut c_void,
        size: usize,
        tag: c_int,
        mhandle: *mut c_void,
        request: *mut *mut c_void,
    ) -> c_int,
    irecv: unsafe extern "C" fn(
        comm: *mut c_void,
        count: c_int,
        data: *mut *mut c_void,
        sizes: *mut usize,
        tags: *mut c_int,
        mhandles: *mut *mut c_void,
        request: *mut *mut c_void,
    ) -> c_int,
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
pub static ncclNetPlugin_v9: Table = Table {
    name: NAME,
    init: v8::init,
    devices: calls::devices,
    get_properties,
    listen: v8::listen,
    connect: v8::connect,
    registering: REGISTERING,
    isend,
    irecv,
    closing: CLOSING,
    make_v_device: None,
};

pub(super) unsafe extern "C" fn get_properties(
    device: c_int,
    properties: *mut PropertiesV9<4>,
) -> c_int {
    call("getProperties", || {
        // SAFETY: NCCL's place for the properties.
        *unsafe { out(properties, "props")? } = PropertiesV9::of(device)?;
        Ok(())
    })
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = SendArguments { data, size, tag, mhandle };
    // SAFETY: NCCL's objects, and its place for the request.
    call("isend", || unsafe { calls::isend(comm, &arguments, request) })
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = ReceiveArguments { count, data, sizes, tags, mhandles };
    // SAFETY: NCCL's objects and arrays, and its place for the request.
    call("irecv", || unsafe { calls::irecv(comm, &arguments, request) })
}
