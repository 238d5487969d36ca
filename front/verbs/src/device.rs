//! The list of devices, and the structs of devices and contexts.

use std::collections::HashSet;
use std::ffi::c_char;
use std::mem::offset_of;
use std::net::IpAddr;
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

/// The objects of devices that the program may know.
static KNOWN: Mutex<Vec<&'static DeviceHandle>> = Mutex::new(Vec::new());

/// Lists the present devices. A device is the same object as in the last listing if it has not
/// changed; or if its provider is open, and still has one of its addresses.
pub fn devices() -> Result<Vec<&'static DeviceHandle>> {
    let found = found()?.into_iter().enumerate();
    let mut known = lock(&KNOWN);
    Ok(found.map(|(index, device)| present(&mut known, device, index)).collect())
}

/// Lists devices that have all present addresses: those of [`devices`], and further objects of
/// devices that have got addresses since their providers were opened.
pub fn devices_of_all_addresses() -> Result<Vec<&'static DeviceHandle>> {
    let found = found()?.into_iter().enumerate();
    let mut known = lock(&KNOWN);
    let mut all = Vec::new();
    for (index, device) in found {
        let first = all.len();
        all.push(present(&mut known, device.clone(), index));
        for address in &device.addresses {
            if !all[first..].iter().any(|handle| handle.device.addresses.contains(address)) {
                all.push(with_address(&mut known, &device, index, *address));
            }
        }
    }
    Ok(all)
}

fn found() -> Result<Vec<Device>> {
    let filter =
        settings::filter(&settings::environment).map_err(|settings::SettingError(text)| {
            eprintln!("fairway: {text}");
            EINVAL
        })?;
    devices::list(&filter).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// Returns the object of a present device.
fn present(
    known: &mut Vec<&'static DeviceHandle>,
    device: Device,
    index: usize,
) -> &'static DeviceHandle {
    match choose(known, &device, index, |old| DeviceState::is_open(&old.device)) {
        Some(old) => old,
        None => add(known, device, index),
    }
}

/// Returns an object of a present device that has an address.
fn with_address(
    known: &mut Vec<&'static DeviceHandle>,
    device: &Device,
    index: usize,
    address: IpAddr,
) -> &'static DeviceHandle {
    let has = |old: &&&DeviceHandle| {
        is_same(old, device, index)
            && old.device.addresses.contains(&address)
            && (old.device == *device || DeviceState::is_open(&old.device))
    };
    match known.iter().find(has) {
        Some(old) => old,
        None => add(known, device.clone(), index),
    }
}

fn add(
    known: &mut Vec<&'static DeviceHandle>,
    device: Device,
    index: usize,
) -> &'static DeviceHandle {
    let new: &'static DeviceHandle = Box::leak(Box::new(handle(device, index)));
    known.push(new);
    new
}

fn is_same(old: &DeviceHandle, device: &Device, index: usize) -> bool {
    let name = |device: &Device| (device.name.clone(), device.interface.clone(), device.index);
    old.index == index && name(&old.device) == name(device)
}

/// Returns the known object of a device: one that is open, or one without a change. Objects of an
/// open device must stay together, because a program can't use those of two providers in one call.
fn choose(
    known: &[&'static DeviceHandle],
    device: &Device,
    index: usize,
    is_open: impl Fn(&DeviceHandle) -> bool,
) -> Option<&'static DeviceHandle> {
    let same = || known.iter().copied().filter(|old| is_same(old, device, index));
    let shares = |old: &&DeviceHandle| {
        old.device.addresses.iter().any(|address| device.addresses.contains(address))
    };
    let open = same().filter(|old| is_open(old)).find(shares);
    open.or_else(|| same().find(|old| old.device == *device))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn device(addresses: &[&str]) -> Device {
        Device {
            name: "fairway0".to_owned(),
            interface: "eth0".to_owned(),
            index: 2,
            addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
            interface_mtu: 1500,
            hardware: [2; 6],
            running: true,
            speed_mbps: None,
        }
    }

    fn known(addresses: &[&str]) -> &'static DeviceHandle {
        add(&mut Vec::new(), device(addresses), 0)
    }

    #[test]
    fn open_device_stays_the_same_object_while_it_has_one_of_its_addresses() {
        let (closed, open) = (known(&["10.0.0.1", "10.0.0.2"]), known(&["10.0.0.1"]));
        let chosen = |device: &Device, index| {
            let is_open = |handle: &DeviceHandle| std::ptr::eq(handle, open);
            let chosen = choose(&[closed, open], device, index, is_open);
            chosen.map(|handle| std::ptr::eq(handle, open))
        };
        for addresses in [&["10.0.0.1"][..], &["10.0.0.1", "10.0.0.2"], &["fe80::1", "10.0.0.1"]] {
            assert_eq!(chosen(&device(addresses), 0), Some(true), "{addresses:?}");
        }
        let mut slower = device(&["10.0.0.1"]);
        (slower.interface_mtu, slower.running, slower.speed_mbps) = (576, false, Some(10));
        assert_eq!(chosen(&slower, 0), Some(true));
        assert_eq!(chosen(&device(&["10.0.0.3"]), 0), None, "its provider serves no address");
        let other = Device { index: 3, ..device(&["10.0.0.1"]) };
        assert_eq!(chosen(&other, 0), None, "another interface of the same name");
        assert_eq!(chosen(&device(&["10.0.0.1"]), 1), None, "at another place of the list");
    }

    #[test]
    fn device_that_is_not_open_is_another_object_after_each_change() {
        let old = known(&["10.0.0.1"]);
        let chosen = |device: &Device| choose(&[old], device, 0, |_| false).is_some();
        assert!(chosen(&device(&["10.0.0.1"])));
        assert!(!chosen(&device(&["10.0.0.1", "10.0.0.2"])));
        assert!(!chosen(&Device { running: false, ..device(&["10.0.0.1"]) }));
    }
}
