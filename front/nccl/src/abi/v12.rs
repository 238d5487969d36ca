//! Version 12, of NCCL 2.30 and later: rails and planes, and more devices in a virtual NIC.

use std::ffi::c_int;

use super::properties::PropertiesV12;
use super::v11::{self, Table};
use super::{CLOSING, NAME, REGISTERING, calls, v10};
use crate::guard::{call, out};

/// The table that NCCL looks up by this name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static ncclNetPlugin_v12: Table<PropertiesV12> = Table {
    name: NAME,
    init: v11::init,
    devices: calls::devices,
    get_properties,
    listen: v11::listen,
    connect: v11::connect,
    registering: REGISTERING,
    isend: v10::isend,
    irecv: v10::irecv,
    closing: CLOSING,
    make_v_device: None,
    finalize: v11::finalize,
    set_net_attr: None,
};

unsafe extern "C" fn get_properties(device: c_int, properties: *mut PropertiesV12) -> c_int {
    call("getProperties", || {
        // SAFETY: NCCL's place for the properties.
        *unsafe { out(properties, "props")? } = PropertiesV12::of(device)?;
        Ok(())
    })
}
