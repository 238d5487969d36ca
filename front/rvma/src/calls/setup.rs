//! Initialisation, finalisation, and addresses of processes.

use std::ffi::{CStr, c_char, c_int};
use std::net::Ipv6Addr;
use std::ptr;

use super::out;
use crate::address;
use crate::guard;
use crate::library;
use crate::options::Settings;
use crate::status::Failure;
use crate::types::{AddrIn, InitOptions, read_options};

const DEFAULTS: InitOptions = InitOptions {
    struct_size: size_of::<InitOptions>() as u32,
    port: 0,
    sockets: 0,
    bind: ptr::null(),
    policy: ptr::null(),
    paths: 0,
    connect_timeout_ms: 0,
    peer_timeout_ms: 0,
    windows: 0,
    buffers: 0,
    reserved: 0,
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Init(options: *const InitOptions) -> c_int {
    guard::status(|| {
        // SAFETY: the header requires a structure that says its size, or NULL.
        let options = unsafe { read_options(options, DEFAULTS)? };
        if options.reserved != 0 {
            return Err(Failure::argument("reserved", options.reserved, "set it to 0"));
        }
        // SAFETY: the header requires C strings, or NULL.
        library::begin(unsafe { Settings::new(&options)? })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn RVMA_Finalize() -> c_int {
    guard::status(library::end)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Resolve(text: *const c_char, address: *mut AddrIn) -> c_int {
    guard::status(|| {
        // SAFETY: the header requires a place for an address.
        let place = unsafe { out(address, "address")? };
        if text.is_null() {
            return Err(Failure::argument("text", "NULL", "give host:port"));
        }
        // SAFETY: the header requires a C string.
        let text = unsafe { CStr::from_ptr(text) }
            .to_str()
            .map_err(|_| Failure::argument("text", "no UTF-8", "give host:port"))?;
        let bound = library::current().ok().and_then(|library| library.local_addr().ok());
        // A socket at `[::]` serves both families.
        let bound = bound.filter(|bound| bound.ip() != Ipv6Addr::UNSPECIFIED);
        let found = address::resolve(text, bound.map(|bound| bound.is_ipv6()))?;
        place.write(AddrIn::new(found));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Local_addr(address: *mut AddrIn) -> c_int {
    guard::status(|| {
        // SAFETY: the header requires a place for an address.
        let place = unsafe { out(address, "address")? };
        let bound = library::current()?.local_addr()?;
        place.write(AddrIn::new(address::reachable(bound)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RVMA_Addr_string(
    address: *const AddrIn,
    text: *mut c_char,
    size: usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: the header requires an address.
        let address = unsafe { address.as_ref() }
            .ok_or_else(|| Failure::argument("address", "NULL", "give an address"))?;
        // SAFETY: the header requires room for `size` bytes.
        unsafe { out(text, "text")? };
        let found = address.socket_addr()?.to_string();
        if found.len() >= size {
            return Err(Failure::argument("size", size, "64 bytes are always enough"));
        }
        // SAFETY: the text and its NUL fit into the `size` bytes.
        unsafe {
            ptr::copy_nonoverlapping(found.as_ptr(), text.cast(), found.len());
            text.add(found.len()).write(0);
        }
        Ok(())
    })
}
