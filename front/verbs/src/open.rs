//! Opening and closing devices.

use std::sync::{Arc, Mutex};

use libc::{c_int, c_void};

use crate::abi::{ibv_context, ibv_device};
use crate::device::Context;
use crate::device_state::DeviceState;
use crate::events::EventQueue;
use crate::guard::{Errno, lock, number, object, set_errno};
use crate::operations;
use crate::pointer::{Handle, Last, Ptr};

/// Opens a device. Its provider is opened on the first call that needs it, so that listing devices
/// is cheap and can't fail.
#[unsafe(no_mangle)]
extern "C" fn ibv_open_device(device: Ptr<'_, ibv_device>) -> *mut ibv_context {
    object(|| {
        let events = Arc::new(EventQueue::new()?);
        let path = c"/dev/null";
        // Programs expect a descriptor here, and do not use it.
        // SAFETY: the path ends with a zero byte.
        let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        let context = ibv_context {
            device: device.raw(),
            ops: operations::OPERATIONS,
            cmd_fd: descriptor,
            async_fd: events.descriptor(),
            num_comp_vectors: 1,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            abi_compat: usize::MAX as *mut c_void,
        };
        let context = Box::new(Context {
            verbs: operations::verbs_context(context),
            device_state: DeviceState::of(&device.object().device),
            events,
            held: Mutex::default(),
        });
        Ok(ibv_context::give(context))
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_close_device(context: Last<'_, ibv_context>) -> c_int {
    number(|| {
        let context = context.take();
        if let Some(provider) = context.device_state.open_provider() {
            let held = std::mem::take(&mut *lock(&context.held));
            for pair in held.pairs {
                context.device_state.remove_pair(pair.value());
                // The queue pair may be destroyed already, and no caller is left to receive an
                // error.
                let _ = provider.destroy_queue_pair(pair);
            }
            for segment in held.segments {
                let _ = provider.deregister(segment);
            }
        }
        // SAFETY: opened with the context, and the program does nothing with it.
        unsafe { libc::close(context.verbs.context.cmd_fd) };
        Ok(0)
    })
}

/// Contexts can't be passed from one process to another.
#[unsafe(no_mangle)]
extern "C" fn ibv_import_device(_descriptor: c_int) -> *mut ibv_context {
    set_errno(Errno(libc::EOPNOTSUPP));
    std::ptr::null_mut()
}
