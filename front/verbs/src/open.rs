//! Opening and closing devices.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: a device comes from `ibv_get_device_list` (devices are never freed), a context from
// `ibv_open_device` and is closed once, after its last use.

use std::mem::offset_of;
use std::sync::{Arc, Mutex};

use libc::{c_int, c_void};

use crate::abi::{ibv_context, ibv_device, verbs_context, zeroed};
use crate::device::{Context, DeviceHandle};
use crate::device_state::DeviceState;
use crate::events::EventQueue;
use crate::guard::{Errno, lock, number, object, set_errno};
use crate::operations;

/// Opens a device. Its carrier is opened when something is made that needs it, so that looking at
/// devices costs nothing and can't fail.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    object(|| {
        let known = unsafe { &*device.cast::<DeviceHandle>() };
        let events = Arc::new(EventQueue::new()?);
        let path = c"/dev/null";
        // Programs expect a descriptor here, and do nothing with it.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        let context = ibv_context {
            device,
            ops: operations::OPERATIONS,
            cmd_fd: descriptor,
            async_fd: events.descriptor(),
            num_comp_vectors: 1,
            mutex: unsafe { zeroed() },
            abi_compat: usize::MAX as *mut c_void,
        };
        let context = Box::new(Context {
            verbs: operations::verbs_context(context),
            device_state: DeviceState::of(&known.device),
            events,
            held: Mutex::default(),
        });
        Ok(unsafe { &raw mut (*Box::into_raw(context)).verbs.context })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    let front = offset_of!(verbs_context, context);
    number(|| {
        let context = unsafe { Box::from_raw(context.byte_sub(front).cast::<Context>()) };
        if let Some(carrier) = context.device_state.open_carrier() {
            let held = std::mem::take(&mut *lock(&context.held));
            for pair in held.pairs {
                context.device_state.remove_pair(pair.value());
                // It may be gone already, and no caller is left to be told.
                let _ = carrier.destroy_queue_pair(pair);
            }
            for segment in held.segments {
                let _ = carrier.deregister(segment);
            }
        }
        unsafe { libc::close(context.verbs.context.cmd_fd) };
        Ok(0)
    })
}

/// Contexts can't be handed from process to process.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_import_device(_descriptor: c_int) -> *mut ibv_context {
    set_errno(Errno(libc::EOPNOTSUPP));
    std::ptr::null_mut()
}
