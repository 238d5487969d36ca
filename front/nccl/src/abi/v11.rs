//! Version 11, of NCCL 2.28 and later: a context for each communicator, and its end.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

use super::calls;
use super::properties::PropertiesV11;
use super::v10::{self, Irecv, Isend};
use super::{Absent, CLOSING, Closing, DeviceHandle, NAME, Profiler, REGISTERING, Registering};
use crate::guard::{call, out};
use crate::instance::{self, Instance};
use crate::log::Logger;
use crate::object::{give, take};

/// `ncclNet_v11_t`, and with other properties `ncclNet_v12_t`.
#[repr(C)]
pub struct Table<P> {
    pub(super) name: *const c_char,
    pub(super) init: Init,
    pub(super) devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub(super) get_properties: unsafe extern "C" fn(c_int, *mut P) -> c_int,
    pub(super) listen: Listen,
    pub(super) connect: Connect,
    pub(super) registering: Registering,
    pub(super) isend: Isend,
    pub(super) irecv: Irecv,
    pub(super) closing: Closing,
    pub(super) make_v_device: Absent,
    pub(super) finalize: unsafe extern "C" fn(context: *mut c_void) -> c_int,
    pub(super) set_net_attr: Absent,
}

pub(super) type Init = unsafe extern "C" fn(
    context: *mut *mut c_void,
    communicator: u64,
    config: *mut c_void,
    logger: Option<Logger>,
    profiler: Profiler,
) -> c_int;
pub(super) type Listen = unsafe extern "C" fn(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    listener: *mut *mut c_void,
) -> c_int;
pub(super) type Connect = unsafe extern "C" fn(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    device_handle: DeviceHandle,
) -> c_int;

// SAFETY: a constant; the name is one, too.
unsafe impl<P> Sync for Table<P> {}

const WORD: usize = size_of::<usize>();
const _: () = {
    type V11 = Table<PropertiesV11>;
    assert!(size_of::<V11>() == 22 * WORD);
    assert!(offset_of!(V11, isend) == 10 * WORD && offset_of!(V11, closing) == 12 * WORD);
    assert!(offset_of!(V11, finalize) == 20 * WORD);
};

/// The table that NCCL looks up by this name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static ncclNetPlugin_v11: Table<PropertiesV11> = Table {
    name: NAME,
    init,
    devices: calls::devices,
    get_properties,
    listen,
    connect,
    registering: REGISTERING,
    isend: v10::isend,
    irecv: v10::irecv,
    closing: CLOSING,
    make_v_device: None,
    finalize,
    set_net_attr: None,
};

pub(super) unsafe extern "C" fn init(
    context: *mut *mut c_void,
    _communicator: u64,
    _config: *mut c_void,
    logger: Option<Logger>,
    _profiler: Profiler,
) -> c_int {
    call("init", || {
        // SAFETY: NCCL's place for the context.
        let place = unsafe { out(context, "ctx")? };
        *place = give(instance::begin_communicator(logger)?);
        Ok(())
    })
}

unsafe extern "C" fn get_properties(device: c_int, properties: *mut PropertiesV11) -> c_int {
    call("getProperties", || {
        // SAFETY: NCCL's place for the properties.
        *unsafe { out(properties, "props")? } = PropertiesV11::of(device)?;
        Ok(())
    })
}

pub(super) unsafe extern "C" fn listen(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    listener: *mut *mut c_void,
) -> c_int {
    call("listen", || {
        // SAFETY: NCCL's context and handle, and its place for the listener.
        unsafe { calls::listen(calls::communicator(context)?, device, handle, listener) }
    })
}

pub(super) unsafe extern "C" fn connect(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: DeviceHandle,
) -> c_int {
    call("connect", || {
        // SAFETY: NCCL's context and handle, and its place for the connection.
        unsafe { calls::connect(calls::communicator(context)?, device, handle, comm) }
    })
}

pub(super) unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    call("finalize", || {
        // SAFETY: NCCL's context, which it uses no more.
        instance::end_communicator(unsafe { take::<Instance>(context)? });
        Ok(())
    })
}
