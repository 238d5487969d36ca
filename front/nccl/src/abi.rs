//! NCCL's tables, and the calls behind them.
//!
//! A table is a structure of function pointers, `ncclNetPlugin_vN`. NCCL looks for the highest
//! version that it knows. The layouts and signatures are those of NCCL's headers for plug-ins.
//! Functions that may be absent are `None`: registration of DMA buffers, device offload and virtual
//! NICs.

mod calls;
mod properties;
mod v10;
mod v11;
mod v12;
mod v8;
mod v9;

use std::ffi::{c_char, c_int, c_void};

/// The name by which `NCCL_NET` selects the plug-in.
const NAME: *const c_char = c"Fairway".as_ptr();

/// The pointer to NCCL's profiler callback, which is not called.
type Profiler = *const c_void;
/// The place for a handle for device offload, which is not offered.
type DeviceHandle = *mut *mut c_void;

type RegMr = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> c_int;
type RegMrDmaBuf = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    offset: u64,
    file: c_int,
    mhandle: *mut *mut c_void,
) -> c_int;
type Accept = unsafe extern "C" fn(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    device_handle: DeviceHandle,
) -> c_int;
type Flush = unsafe extern "C" fn(
    comm: *mut c_void,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int;
type Test =
    unsafe extern "C" fn(request: *mut c_void, done: *mut c_int, sizes: *mut c_int) -> c_int;
type Close = unsafe extern "C" fn(comm: *mut c_void) -> c_int;
/// `getDeviceMr`, `irecvConsumed` and others that are never present.
type Absent = Option<unsafe extern "C" fn()>;

/// The middle of every table: calls that are the same in all versions.
#[repr(C)]
struct Closing {
    iflush: Flush,
    test: Test,
    close_send: Close,
    close_recv: Close,
    close_listen: Close,
    get_device_mr: Absent,
    irecv_consumed: Absent,
}

const CLOSING: Closing = Closing {
    iflush: calls::iflush,
    test: calls::test,
    close_send: calls::close_send,
    close_recv: calls::close_recv,
    close_listen: calls::close_listen,
    get_device_mr: None,
    irecv_consumed: None,
};

/// Registration, likewise.
#[repr(C)]
struct Registering {
    accept: Accept,
    reg_mr: RegMr,
    reg_mr_dma_buf: Option<RegMrDmaBuf>,
    dereg_mr: unsafe extern "C" fn(comm: *mut c_void, mhandle: *mut c_void) -> c_int,
}

const REGISTERING: Registering = Registering {
    accept: calls::accept,
    reg_mr: calls::reg_mr,
    reg_mr_dma_buf: None,
    dereg_mr: calls::dereg_mr,
};
