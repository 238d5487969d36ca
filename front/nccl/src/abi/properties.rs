//! `getProperties`: the layouts of the versions, filled from one description.

use std::ffi::{c_char, c_int};
use std::mem::{offset_of, size_of};
use std::ptr;

use crate::interfaces::{self, Interface};
use crate::limits::{GROUP_MAX, MESSAGE_MAX};
use crate::status::Result;

/// `NCCL_PTR_HOST`: NCCL copies between GPU and host memory itself.
const HOST: c_int = 1;
/// Half of a round trip in microseconds, with which NCCL compares its algorithms.
const LATENCY_US: f32 = 10.0;
/// Connections that NCCL may open.
const CONNECTIONS: c_int = 65_536;
/// The number of an InfiniBand-like port; Ethernet interfaces have one.
const PORT: c_int = 1;
/// `NCCL_NET_ID_UNDEF`.
const UNDEFINED: i16 = -1;

/// `ncclNetProperties_v8_t`.
#[repr(C)]
pub(super) struct PropertiesV8 {
    name: *const c_char,
    pci_path: *const c_char,
    guid: u64,
    ptr_support: c_int,
    reg_is_global: c_int,
    speed: c_int,
    port: c_int,
    latency: f32,
    max_comms: c_int,
    max_recvs: c_int,
    net_device_type: c_int,
    net_device_version: c_int,
}

/// The devices that a virtual NIC consists of: `N` at most.
#[repr(C)]
struct Virtual<const N: usize> {
    count: c_int,
    devices: [c_int; N],
}

/// The fields from version 9 on, with `N` devices of a virtual NIC.
#[repr(C)]
pub(super) struct PropertiesV9<const N: usize> {
    name: *const c_char,
    pci_path: *const c_char,
    guid: u64,
    ptr_support: c_int,
    reg_is_global: c_int,
    force_flush: c_int,
    speed: c_int,
    port: c_int,
    latency: f32,
    max_comms: c_int,
    max_recvs: c_int,
    net_device_type: c_int,
    net_device_version: c_int,
    virtual_properties: Virtual<N>,
    max_p2p_bytes: usize,
    max_coll_bytes: usize,
}

/// `ncclNetProperties_v11_t`.
#[repr(C)]
pub(super) struct PropertiesV11 {
    before: PropertiesV9<4>,
    max_multi_request_size: c_int,
}

/// `ncclNetProperties_v12_t`.
#[repr(C)]
pub(super) struct PropertiesV12 {
    before: PropertiesV9<8>,
    max_multi_request_size: c_int,
    rail: i16,
    plane: i16,
}

const _: () = {
    assert!(size_of::<PropertiesV8>() == 64 && offset_of!(PropertiesV8, speed) == 32);
    assert!(offset_of!(PropertiesV8, net_device_version) == 56);
    assert!(size_of::<PropertiesV9<4>>() == 104);
    assert!(offset_of!(PropertiesV9<4>, speed) == 36);
    assert!(offset_of!(PropertiesV9<4>, virtual_properties) == 64);
    assert!(offset_of!(PropertiesV9<4>, max_p2p_bytes) == 88);
    assert!(size_of::<PropertiesV11>() == 112);
    assert!(offset_of!(PropertiesV11, max_multi_request_size) == 104);
    assert!(offset_of!(PropertiesV9<8>, max_p2p_bytes) == 104);
    assert!(size_of::<PropertiesV12>() == 128);
    assert!(offset_of!(PropertiesV12, max_multi_request_size) == 120);
    assert!(offset_of!(PropertiesV12, rail) == 124 && offset_of!(PropertiesV12, plane) == 126);
};

fn pci_path(interface: &Interface) -> *const c_char {
    interface.pci_path.as_ref().map_or(ptr::null(), |path| path.as_ptr())
}

impl PropertiesV8 {
    pub(super) fn of(device: c_int) -> Result<PropertiesV8> {
        let interface = interfaces::device(device)?;
        Ok(PropertiesV8 {
            name: interface.name.as_ptr(),
            pci_path: pci_path(interface),
            guid: interface.guid,
            ptr_support: HOST,
            reg_is_global: 1,
            speed: interface.speed_mbps,
            port: PORT,
            latency: LATENCY_US,
            max_comms: CONNECTIONS,
            max_recvs: GROUP_MAX as c_int,
            net_device_type: 0,
            net_device_version: 0,
        })
    }
}

impl<const N: usize> PropertiesV9<N> {
    pub(super) fn of(device: c_int) -> Result<PropertiesV9<N>> {
        let interface = interfaces::device(device)?;
        let mut devices = [0; N];
        devices[0] = device;
        Ok(PropertiesV9 {
            name: interface.name.as_ptr(),
            pci_path: pci_path(interface),
            guid: interface.guid,
            ptr_support: HOST,
            reg_is_global: 1,
            force_flush: 0,
            speed: interface.speed_mbps,
            port: PORT,
            latency: LATENCY_US,
            max_comms: CONNECTIONS,
            max_recvs: GROUP_MAX as c_int,
            net_device_type: 0,
            net_device_version: 0,
            virtual_properties: Virtual { count: 1, devices },
            max_p2p_bytes: MESSAGE_MAX as usize,
            max_coll_bytes: MESSAGE_MAX as usize,
        })
    }
}

impl PropertiesV11 {
    pub(super) fn of(device: c_int) -> Result<PropertiesV11> {
        Ok(PropertiesV11 { before: PropertiesV9::of(device)?, max_multi_request_size: 1 })
    }
}

impl PropertiesV12 {
    pub(super) fn of(device: c_int) -> Result<PropertiesV12> {
        Ok(PropertiesV12 {
            before: PropertiesV9::of(device)?,
            max_multi_request_size: 1,
            rail: UNDEFINED,
            plane: UNDEFINED,
        })
    }
}
