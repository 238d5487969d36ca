//! Version 8, of NCCL 2.20 and later: sizes are `int`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

use super::calls::{self, ReceiveArguments, SendArguments};
use super::properties::PropertiesV8;
use super::{CLOSING, Closing, DeviceHandle, NAME, REGISTERING, Registering};
use crate::guard::{call, out};
use crate::instance;
use crate::log::Logger;
use crate::status::Failure;

/// `ncclNet_v8_t`.
#[repr(C)]
pub struct Table {
    name: *const c_char,
    init: unsafe extern "C" fn(Option<Logger>) -> c_int,
    devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    get_properties: unsafe extern "C" fn(c_int, *mut PropertiesV8) -> c_int,
    listen: unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void) -> c_int,
    connect: unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, DeviceHandle) -> c_int,
    registering: Registering,
    isend: unsafe extern "C" fn(
        comm: *mut c_void,
        data: *mut c_void,
        size: c_int,
        tag: c_int,
        mhandle: *mut c_void,
        request: *mut *mut c_void,
    ) -> c_int,
    irecv: unsafe extern "C" fn(
        comm: *mut c_void,
        count: c_int,
        data: *mut *mut c_void,
        sizes: *mut c_int,
        tags: *mut c_int,
        mhandles: *mut *mut c_void,
        request: *mut *mut c_void,
    ) -> c_int,
    closing: Closing,
}

// SAFETY: a constant; the name is one, too.
unsafe impl Sync for Table {}

const WORD: usize = size_of::<usize>();
const _: () = {
    assert!(size_of::<Table>() == 19 * WORD);
    assert!(offset_of!(Table, isend) == 10 * WORD && offset_of!(Table, closing) == 12 * WORD);
};

/// The table that NCCL looks up by this name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static ncclNetPlugin_v8: Table = Table {
    name: NAME,
    init,
    devices: calls::devices,
    get_properties,
    listen,
    connect,
    registering: REGISTERING,
    isend,
    irecv,
    closing: CLOSING,
};

pub(super) unsafe extern "C" fn init(logger: Option<Logger>) -> c_int {
    call("init", || instance::begin_process(logger))
}

unsafe extern "C" fn get_properties(device: c_int, properties: *mut PropertiesV8) -> c_int {
    call("getProperties", || {
        // SAFETY: NCCL's place for the properties.
        *unsafe { out(properties, "props")? } = PropertiesV8::of(device)?;
        Ok(())
    })
}

pub(super) unsafe extern "C" fn listen(
    device: c_int,
    handle: *mut c_void,
    listener: *mut *mut c_void,
) -> c_int {
    // SAFETY: NCCL's handle, and its place for the listener.
    call("listen", || unsafe { calls::listen(instance::of_process(), device, handle, listener) })
}

pub(super) unsafe extern "C" fn connect(
    device: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: DeviceHandle,
) -> c_int {
    // SAFETY: NCCL's handle, and its place for the connection.
    call("connect", || unsafe { calls::connect(instance::of_process(), device, handle, comm) })
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    call("isend", || {
        let size = usize::try_from(size).map_err(|_| Failure::argument("a negative size"))?;
        let arguments = SendArguments { data, size, tag, mhandle };
        // SAFETY: NCCL's objects, and its place for the request.
        unsafe { calls::isend(comm, &arguments, request) }
    })
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    let arguments = ReceiveArguments { count, data, sizes, tags, mhandles };
    // SAFETY: NCCL's objects and arrays, and its place for the request.
    call("irecv", || unsafe { calls::irecv(comm, &arguments, request) })
}
