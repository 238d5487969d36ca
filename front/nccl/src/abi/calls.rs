//! The calls, as far as they are the same in several versions.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::DeviceHandle;
use crate::guard::{call, out};
use crate::instance::Instance;
use crate::interfaces;
use crate::limits::GROUP_MAX;
use crate::listener::Listener;
use crate::memory::Registration;
use crate::message::HANDLE_BYTES;
use crate::nics::Lease;
use crate::object::{Object, borrow, give, take};
use crate::receiver::{Receiver, Target};
use crate::request::Request;
use crate::sender::{Message, Sender};
use crate::status::{Failure, Result};

/// An end of a connection, as C names it.
pub(super) enum Comm {
    Send(Arc<Sender>),
    Receive(Arc<Receiver>),
}

impl Object for Comm {
    const NAME: &'static str = "connection";
    const TAG: u64 = 0x6661_6972_6e63_6305;
}

impl Comm {
    fn lease(&self) -> &Lease {
        match self {
            Comm::Send(sender) => sender.lease(),
            Comm::Receive(receiver) => receiver.lease(),
        }
    }

    fn sender(&self) -> Result<&Sender> {
        match self {
            Comm::Send(sender) => Ok(sender),
            Comm::Receive(_) => Err(Failure::argument("this is the receiving end")),
        }
    }

    fn receiver(&self) -> Result<&Receiver> {
        match self {
            Comm::Receive(receiver) => Ok(receiver),
            Comm::Send(_) => Err(Failure::argument("this is the sending end")),
        }
    }
}

/// # Safety
/// As NCCL's interface demands; likewise for all functions of this file. `context` is of `init`.
pub(super) unsafe fn communicator<'a>(context: *mut c_void) -> Result<&'a Instance> {
    // SAFETY: as the caller says.
    unsafe { borrow(context) }
}

pub(super) unsafe extern "C" fn devices(count: *mut c_int) -> c_int {
    call("devices", || {
        // SAFETY: NCCL's place for the number.
        *unsafe { out(count, "ndev")? } = interfaces::count() as c_int;
        Ok(())
    })
}

/// # Safety
/// `handle` has room for a handle, and `listener` for a pointer.
pub(super) unsafe fn listen(
    instance: &Instance,
    device: c_int,
    handle: *mut c_void,
    listener: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: as the caller says.
    let (handle, place) = unsafe {
        (out(handle.cast::<[u8; HANDLE_BYTES]>(), "handle")?, out(listener, "listenComm")?)
    };
    instance.attempts.drop_abandoned();
    let (listener, bytes) = Listener::new(instance.nics.lease(device)?)?;
    *handle = bytes;
    *place = give(listener);
    Ok(())
}

/// # Safety
/// `handle` is of [`listen`], and `comm` has room for a pointer.
pub(super) unsafe fn connect(
    instance: &Instance,
    device: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Result<()> {
    // SAFETY: as the caller says.
    let (handle, place) =
        unsafe { (out(handle.cast::<[u8; HANDLE_BYTES]>(), "handle")?, out(comm, "sendComm")?) };
    *place = std::ptr::null_mut();
    if let Some(sender) = instance.attempts.connect(&instance.nics, device, handle)? {
        *place = give(Comm::Send(sender));
    }
    Ok(())
}

pub(super) unsafe extern "C" fn accept(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: DeviceHandle,
) -> c_int {
    call("accept", || {
        // SAFETY: NCCL's listener, and its place for the connection.
        let (listener, place) = unsafe { (borrow::<Listener>(listener)?, out(comm, "recvComm")?) };
        *place = std::ptr::null_mut();
        if let Some((peer, to)) = listener.accept()? {
            let receiver = Receiver::new(listener.lease().clone(), peer, to)?;
            *place = give(Comm::Receive(receiver));
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> c_int {
    call("regMr", || {
        // SAFETY: NCCL's connection, and its place for the handle.
        let (comm, place) = unsafe { (borrow::<Comm>(comm)?, out(mhandle, "mhandle")?) };
        // SAFETY: NCCL deregisters memory before it frees it.
        let memory = unsafe { Registration::new(comm.lease().clone(), data.cast(), size, kind)? };
        *place = give(memory);
        Ok(())
    })
}

pub(super) unsafe extern "C" fn dereg_mr(_comm: *mut c_void, mhandle: *mut c_void) -> c_int {
    // SAFETY: a handle of `reg_mr`, which NCCL uses no more.
    call("deregMr", || unsafe { take::<Registration>(mhandle)? }.end())
}

/// # Safety
/// NULL, or a handle of [`reg_mr`].
unsafe fn memory<'a>(mhandle: *mut c_void) -> Result<Option<&'a Registration>> {
    if mhandle.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    unsafe { borrow(mhandle) }.map(Some)
}

/// The arguments of `isend` that describe the message.
pub(super) struct SendArguments {
    pub(super) data: *mut c_void,
    pub(super) size: usize,
    pub(super) tag: c_int,
    pub(super) mhandle: *mut c_void,
}

/// # Safety
/// The connection and the memory handle are of this library; `request` has room for a pointer.
pub(super) unsafe fn isend(
    comm: *mut c_void,
    arguments: &SendArguments,
    request: *mut *mut c_void,
) -> Result<()> {
    let SendArguments { data, size, tag, mhandle } = *arguments;
    // SAFETY: as the caller says.
    let (comm, memory, place) =
        unsafe { (borrow::<Comm>(comm)?, memory(mhandle)?, out(request, "request")?) };
    *place = std::ptr::null_mut();
    let message = Message { data: data as usize, size: size as u64, tag, memory };
    if let Some(request) = comm.sender()?.send(&message)? {
        *place = request.pointer();
    }
    Ok(())
}

/// The arguments of `irecv` that describe the buffers: arrays of `count` elements.
pub(super) struct ReceiveArguments<S> {
    pub(super) count: c_int,
    pub(super) data: *mut *mut c_void,
    pub(super) sizes: *mut S,
    pub(super) tags: *mut c_int,
    pub(super) mhandles: *mut *mut c_void,
}

/// A request may come with a hint in it, `NCCL_NET_OPTIONAL_RECV_COMPLETION`: NCCL does not need
/// the completion. It gets one nevertheless.
///
/// # Safety
/// The connection and the memory handles are of this library; `request` has room for a pointer.
pub(super) unsafe fn irecv<S: Copy + TryInto<u64>>(
    comm: *mut c_void,
    arguments: &ReceiveArguments<S>,
    request: *mut *mut c_void,
) -> Result<()> {
    let ReceiveArguments { count, data, sizes, tags, mhandles } = *arguments;
    // SAFETY: as the caller says.
    let (comm, place) = unsafe { (borrow::<Comm>(comm)?, out(request, "request")?) };
    *place = std::ptr::null_mut();
    let length = usize::try_from(count).ok().filter(|count| (1..=GROUP_MAX).contains(count));
    let Some(length) = length else {
        return Err(Failure::argument(format!("{count} grouped receives: use 1 to {GROUP_MAX}")));
    };
    if data.is_null() || sizes.is_null() || tags.is_null() || mhandles.is_null() {
        return Err(Failure::argument("an array of irecv is NULL"));
    }
    let mut targets = [Target { data: 0, size: 0, tag: 0, memory: None }; GROUP_MAX];
    for (at, target) in targets[..length].iter_mut().enumerate() {
        // SAFETY: arrays of `count` elements, as the caller says.
        let (size, mhandle) = unsafe { (*sizes.add(at), *mhandles.add(at)) };
        let size = size.try_into().map_err(|_| Failure::argument("a negative size"))?;
        // SAFETY: likewise.
        let (data, tag) = unsafe { (*data.add(at) as usize, *tags.add(at)) };
        // SAFETY: likewise.
        *target = Target { data, size, tag, memory: unsafe { memory(mhandle)? } };
    }
    if let Some(request) = comm.receiver()?.receive(&targets[..length])? {
        *place = request.pointer();
    }
    Ok(())
}

/// Received data is in host memory when a receive has ended: there is nothing to flush, which NCCL
/// takes from the request NULL.
pub(super) unsafe extern "C" fn iflush(
    comm: *mut c_void,
    _count: c_int,
    _data: *mut *mut c_void,
    _sizes: *mut c_int,
    _mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    call("iflush", || {
        // SAFETY: NCCL's connection, and its place for the request.
        let (comm, place) = unsafe { (borrow::<Comm>(comm)?, out(request, "request")?) };
        comm.receiver()?;
        *place = std::ptr::null_mut();
        Ok(())
    })
}

pub(super) unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    sizes: *mut c_int,
) -> c_int {
    call("test", || {
        // SAFETY: NCCL's request, and its place for the answer.
        let (request, done) = unsafe { (borrow::<Request>(request)?, out(done, "done")?) };
        *done = 0;
        if let Some(ended) = request.test()? {
            *done = 1;
            for (at, size) in ended.sizes[..ended.count].iter().enumerate() {
                if !sizes.is_null() {
                    // SAFETY: NCCL's array has an element for each buffer of the request.
                    unsafe { *sizes.add(at) = *size as c_int };
                }
            }
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn close_send(comm: *mut c_void) -> c_int {
    call("closeSend", || {
        // SAFETY: NCCL's connection, as below.
        unsafe { borrow::<Comm>(comm)? }.sender()?;
        // SAFETY: NCCL uses it no more.
        drop(unsafe { take::<Comm>(comm)? });
        Ok(())
    })
}

pub(super) unsafe extern "C" fn close_recv(comm: *mut c_void) -> c_int {
    call("closeRecv", || {
        // SAFETY: NCCL's connection, as below.
        unsafe { borrow::<Comm>(comm)? }.receiver()?;
        // SAFETY: NCCL uses it no more.
        drop(unsafe { take::<Comm>(comm)? });
        Ok(())
    })
}

pub(super) unsafe extern "C" fn close_listen(listener: *mut c_void) -> c_int {
    call("closeListen", || {
        // SAFETY: NCCL's listener, which it uses no more.
        unsafe { take::<Listener>(listener)? }.close();
        Ok(())
    })
}
