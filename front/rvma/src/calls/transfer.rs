//! Puts and gets, at the initiator.

use std::ffi::{c_int, c_void};
use std::ptr;

use fairway::MailboxAddress;

use super::out;
use crate::guard::{self, Deadline};
use crate::library::{self, Library};
use crate::operations::{Direction, mailbox_address};
use crate::slots::to_pointer;
use crate::status::{Failure, Result, Status};
use crate::types::{AddrIn, EPOCH_ANY, OpOptions, read_options};

/// `RVMA_Request`: a handle.
type Request = *mut c_void;

/// Arguments that all calls of this file share.
struct Transfer {
    direction: Direction,
    buffer: *const c_void,
    size: i64,
    address: *const AddrIn,
    mailbox: *mut c_void,
    options: *const OpOptions,
}

impl Transfer {
    /// # Safety
    /// The header's promises for the arguments hold: the buffer belongs to the library until the
    /// operation has ended.
    unsafe fn begin(&self, library: &Library, detached: bool) -> Result<usize> {
        // SAFETY: the header requires a structure that says its size, or NULL.
        let options = unsafe { read_options(self.options, OpOptions::default())? };
        let to = mail_to(self.mailbox, &options)?;
        // SAFETY: the header requires an address.
        let address = unsafe { self.address.as_ref() }
            .ok_or_else(|| Failure::argument("the address", "NULL", "use RVMA_Resolve"))?
            .socket_addr()?;
        // SAFETY: as the caller vouches.
        let lease = unsafe { library.registry.lease(self.buffer, self.size)? };
        let begin = || {
            let peer = library.peers.get(address)?;
            library.operations.begin(self.direction, &peer, &lease, to, detached)
        };
        // The connection may have ended after it was looked up, so a second attempt is made.
        match begin() {
            Err(failure) if failure.status == Status::Peer => begin(),
            other => other,
        }
    }

    /// # Safety
    /// As `begin`.
    unsafe fn run(&self) -> c_int {
        guard::status(|| {
            let library = library::current()?;
            // SAFETY: as the caller vouches; it waits for the end.
            let handle = unsafe { self.begin(&library, false)? };
            library.operations.wait(handle, Deadline::NEVER)?
        })
    }

    /// # Safety
    /// As `begin`; `request` is NULL or a place for a request.
    unsafe fn start(&self, request: *mut Request) -> c_int {
        guard::status(|| {
            let library = library::current()?;
            // SAFETY: as the caller vouches.
            let handle = unsafe { self.begin(&library, request.is_null())? };
            if !request.is_null() {
                // SAFETY: as the caller vouches.
                unsafe { request.write(to_pointer(handle)) };
            }
            Ok(())
        })
    }
}

fn mail_to(mailbox: *mut c_void, options: &OpOptions) -> Result<MailboxAddress> {
    let OpOptions { key, offset, epoch, .. } = *options;
    let offset = u64::try_from(offset)
        .map_err(|_| Failure::argument("offset", offset, "count from the start of the buffer"))?;
    let to = MailboxAddress::new(mailbox_address(mailbox), key as u32).offset(offset);
    match epoch {
        EPOCH_ANY => Ok(to),
        // The receiver extends 32 bits to the epoch nearest to its current one.
        _ => match u32::try_from(epoch) {
            Ok(epoch) => Ok(to.epoch(epoch)),
            Err(_) => Err(Failure::argument(
                "epoch",
                epoch,
                "name an epoch from 0 to 4294967295, or RVMA_EPOCH_ANY",
            )),
        },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Put(
    send_buffer: *mut c_void,
    size: i64,
    dest_addr: *mut AddrIn,
    virtual_addr: *mut c_void,
) -> c_int {
    // SAFETY: the header's promises for these arguments.
    unsafe { RVMA_Put_opts(send_buffer, size, dest_addr, virtual_addr, ptr::null()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Put_opts(
    send_buffer: *const c_void,
    size: i64,
    dest_addr: *const AddrIn,
    virtual_addr: *mut c_void,
    options: *const OpOptions,
) -> c_int {
    let direction = Direction::Put;
    let (buffer, address, mailbox) = (send_buffer, dest_addr, virtual_addr);
    // SAFETY: the header's promises for these arguments.
    unsafe { Transfer { direction, buffer, size, address, mailbox, options }.run() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Get(
    receive_buffer: *mut c_void,
    size: i64,
    src_addr: *mut AddrIn,
    virtual_addr: *mut c_void,
) -> c_int {
    // SAFETY: the header's promises for these arguments.
    unsafe { RVMA_Get_opts(receive_buffer, size, src_addr, virtual_addr, ptr::null()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Get_opts(
    receive_buffer: *mut c_void,
    size: i64,
    src_addr: *const AddrIn,
    virtual_addr: *mut c_void,
    options: *const OpOptions,
) -> c_int {
    let direction = Direction::Get;
    let (buffer, address, mailbox) = (receive_buffer.cast_const(), src_addr, virtual_addr);
    // SAFETY: the header's promises for these arguments.
    unsafe { Transfer { direction, buffer, size, address, mailbox, options }.run() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Iput(
    send_buffer: *const c_void,
    size: i64,
    dest_addr: *const AddrIn,
    virtual_addr: *mut c_void,
    options: *const OpOptions,
    request: *mut Request,
) -> c_int {
    let direction = Direction::Put;
    let (buffer, address, mailbox) = (send_buffer, dest_addr, virtual_addr);
    // SAFETY: the header's promises for these arguments.
    unsafe { Transfer { direction, buffer, size, address, mailbox, options }.start(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Iget(
    receive_buffer: *mut c_void,
    size: i64,
    src_addr: *const AddrIn,
    virtual_addr: *mut c_void,
    options: *const OpOptions,
    request: *mut Request,
) -> c_int {
    let direction = Direction::Get;
    let (buffer, address, mailbox) = (receive_buffer.cast_const(), src_addr, virtual_addr);
    // SAFETY: the header's promises for these arguments.
    unsafe { Transfer { direction, buffer, size, address, mailbox, options }.start(request) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Test(request: *mut Request, done: *mut c_int) -> c_int {
    guard::status(|| {
        // SAFETY: the header requires a request, and for a place for the answer.
        let (handle, done) = unsafe { (handle_at(request)?, out(done, "done")?) };
        done.write(0);
        let library = library::current()?;
        let result = match handle {
            0 => Some(Ok(())),
            handle => library.operations.test(handle)?,
        };
        let Some(result) = result else { return Ok(()) };
        done.write(1);
        // SAFETY: as above.
        unsafe { request.write(ptr::null_mut()) };
        result
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Wait_request(request: *mut Request, timeout_ms: i64) -> c_int {
    guard::status(|| {
        let deadline = Deadline::after_ms(timeout_ms);
        // SAFETY: the header requires a request.
        let handle = unsafe { handle_at(request)? };
        let library = library::current()?;
        if handle == 0 {
            return Ok(());
        }
        let result = library.operations.wait(handle, deadline)?;
        // SAFETY: as above.
        unsafe { request.write(ptr::null_mut()) };
        result
    })
}

/// # Safety
/// `request` is NULL or points to a request.
unsafe fn handle_at(request: *mut Request) -> Result<usize> {
    // SAFETY: as the caller vouches.
    let request = unsafe { request.as_ref() };
    let handle = request.ok_or_else(|| Failure::argument("request", "NULL", "point to one"))?;
    Ok(*handle as usize)
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Flush(timeout_ms: i64) -> c_int {
    guard::status(|| {
        let deadline = Deadline::after_ms(timeout_ms);
        library::current()?.operations.flush(deadline)
    })
}
