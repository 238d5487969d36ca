//! The list of devices, and the structs of devices and contexts.

use std::collections::HashSet;
use std::ffi::c_char;
use std::mem::offset_of;
use std::sync::{Arc, Mutex};

use fairway_device::SegmentId;
use fairway_rdma::devices::{self, Device};
use fairway_wire::Qpn;
use libc::c_int;

use crate::abi::{IBV_NODE_CA, IBV_TRANSPORT_IB, ibv_context, ibv_device, verbs_context};
use crate::device_state::DeviceState;
use crate::events::{AsyncEvent, EventQueue};
use crate::guard::{EINVAL, Errno, Result, lock, object};
use crate::pointer::{Handle, Out, Ptr, null_ended};
use crate::settings;

/// Bytes that providers' `*dv_is_supported` read behind an `ibv_device`, because libibverbs' own is
/// part of a `verbs_device`. They are zero here.
const BEHIND_DEVICE: usize = 64;

/// Object behind an `ibv_device` that a program holds. Lives as long as the process.
#[repr(C)]
pub struct DeviceHandle {
    pub(crate) base: ibv_device,
    behind: [u8; BEHIND_DEVICE],
    /// Name, addresses and kind of the device.
    pub device: Device,
    /// Index of the device among all devices.
    pub(crate) index: usize,
}

impl DeviceHandle {
    /// The device in the form that calls of libibverbs take.
    pub fn as_ptr(&'static self) -> Ptr<'static, ibv_device> {
        // SAFETY: devices are never freed.
        unsafe { Ptr::kept((&raw const self.base).cast_mut()) }
    }
}

// SAFETY: it is not changed after it is made.
unsafe impl Send for DeviceHandle {}
// SAFETY: likewise.
unsafe impl Sync for DeviceHandle {}

/// Object behind an `ibv_context` that a program holds.
#[repr(C)]
pub struct Context {
    pub(crate) verbs: verbs_context,
    pub(crate) device_state: Arc<DeviceState>,
    pub(crate) events: Arc<EventQueue<AsyncEvent>>,
    pub(crate) held: Mutex<HeldObjects>,
}

/// Objects that were created with a context and not destroyed. Closing the context destroys them at
/// the provider, as a kernel would.
#[derive(Default)]
pub(crate) struct HeldObjects {
    pub(crate) pairs: HashSet<Qpn>,
    pub(crate) segments: HashSet<SegmentId>,
}

// SAFETY: `handle` makes every `ibv_device`, as the first field of a boxed `DeviceHandle`.
unsafe impl Handle for ibv_device {
    type Object = DeviceHandle;
}

// SAFETY: `ibv_open_device` makes all of them, within the `verbs_context` at the start of a
// `Context` from a box.
unsafe impl Handle for ibv_context {
    type Object = Context;
    const FRONT: usize = offset_of!(verbs_context, context);
}

impl Context {
    /// The device that the context was opened on.
    pub(crate) fn device(&self) -> &DeviceHandle {
        // SAFETY: set when the context was made; devices are never freed.
        unsafe { Ptr::kept(self.verbs.context.device) }.object()
    }
}

fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut room = [0; N];
    for (to, from) in room[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    room
}

fn handle(device: Device, index: usize) -> DeviceHandle {
    let base = ibv_device {
        ops: [std::ptr::null_mut(); 2],
        node_type: IBV_NODE_CA,
        transport_type: IBV_TRANSPORT_IB,
        name: text(&device.name),
        dev_name: text(&format!("uverbs{index}")),
        dev_path: text(&format!("/sys/class/infiniband_verbs/uverbs{index}")),
        ibdev_path: text(&format!("/sys/class/infiniband/{}", device.name)),
    };
    DeviceHandle { base, behind: [0; BEHIND_DEVICE], device, index }
}

/// Lists the present devices. A device that has not changed since the last listing is the same
/// object.
pub fn devices() -> Result<Vec<&'static DeviceHandle>> {
    static KNOWN: Mutex<Vec<&'static DeviceHandle>> = Mutex::new(Vec::new());
    let filter =
        settings::filter(&settings::environment).map_err(|settings::SettingError(text)| {
            eprintln!("fairway: {text}");
            EINVAL
        })?;
    let found =
        devices::list(&filter).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let mut known = lock(&KNOWN);
    let same = |device: Device, index| {
        if let Some(old) = known.iter().find(|old| old.device == device && old.index == index) {
            return *old;
        }
        let new: &'static DeviceHandle = Box::leak(Box::new(handle(device, index)));
        known.push(new);
        new
    };
    Ok(found
        .into_iter()
        .zip(0..)
        .map({
            let mut same = same;
            move |(device, index)| same(device, index)
        })
        .collect())
}

/// Lists the devices: an array that ends with a null pointer.
#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_list(count: Option<Out<'_, c_int>>) -> *mut *mut ibv_device {
    let report = |found: usize| {
        if let Some(count) = count {
            count.write(found as c_int);
        }
    };
    report(0);
    object(|| {
        let found = devices()?;
        let list = null_ended(found.iter().map(|device| (&raw const device.base).cast_mut()))?;
        report(found.len());
        Ok(list)
    })
}

/// Frees the array. The devices stay.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: the program gives back, once, what `null_ended` allocated, or a null pointer.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_name(device: Ptr<'_, ibv_device>) -> *const c_char {
    device.object().base.name.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_guid(device: Ptr<'_, ibv_device>) -> u64 {
    device.object().device.guid().to_be()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_index(device: Ptr<'_, ibv_device>) -> c_int {
    device.object().index as c_int
}
