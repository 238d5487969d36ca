//! The structures that C programs share with this library, as `rvma.h` lays them out.

use std::ffi::{c_char, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::status::{Failure, Result};

/// `RVMA_Addr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AddrIn {
    bytes: [u8; 16],
    scope: u32,
    port: u16,
    version: u8,
    reserved: u8,
}

impl AddrIn {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut bytes = [0; 16];
        let (version, scope) = match address {
            SocketAddr::V4(v4) => {
                bytes[..4].copy_from_slice(&v4.ip().octets());
                (4, 0)
            }
            SocketAddr::V6(v6) => {
                bytes = v6.ip().octets();
                (6, v6.scope_id())
            }
        };
        AddrIn { bytes, scope, port: address.port(), version, reserved: 0 }
    }

    pub(crate) fn socket_addr(&self) -> Result<SocketAddr> {
        if self.port == 0 {
            return Err(Failure::argument("the port of an address", 0, "use RVMA_Resolve"));
        }
        match self.version {
            4 => {
                let [a, b, c, d, ..] = self.bytes;
                Ok((IpAddr::V4(Ipv4Addr::new(a, b, c, d)), self.port).into())
            }
            6 => {
                let ip = Ipv6Addr::from(self.bytes);
                Ok(SocketAddrV6::new(ip, self.port, 0, self.scope).into())
            }
            other => Err(Failure::argument("the version of an address", other, "use 4 or 6")),
        }
    }
}

/// `RVMA_Init_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InitOptions {
    pub(crate) struct_size: u32,
    pub(crate) port: u16,
    pub(crate) sockets: u16,
    pub(crate) bind: *const c_char,
    pub(crate) policy: *const c_char,
    pub(crate) paths: u32,
    pub(crate) connect_timeout_ms: u32,
    pub(crate) peer_timeout_ms: u32,
    pub(crate) windows: u32,
    pub(crate) buffers: u32,
    pub(crate) reserved: u32,
}

/// `RVMA_Win_options`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct WinOptions {
    pub(crate) struct_size: u32,
    pub(crate) flags: u32,
    pub(crate) retired: u32,
    pub(crate) reserved: u32,
}

/// `RVMA_Op_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct OpOptions {
    pub(crate) struct_size: u32,
    pub(crate) key: i32,
    pub(crate) offset: i64,
    pub(crate) epoch: i64,
}

/// `RVMA_EPOCH_ANY`.
pub(crate) const EPOCH_ANY: i64 = -1;

impl Default for OpOptions {
    fn default() -> Self {
        OpOptions { struct_size: size_of::<Self>() as u32, key: 0, offset: 0, epoch: EPOCH_ANY }
    }
}

/// `RVMA_Epoch`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EpochInfo {
    pub(crate) buffer: *mut c_void,
    pub(crate) size: i64,
    pub(crate) length: i64,
    pub(crate) bytes: i64,
    pub(crate) epoch: i64,
    pub(crate) operations: i64,
    pub(crate) virtual_addr: *mut c_void,
    pub(crate) cancelled: u32,
    pub(crate) flags: u32,
}

// SAFETY: the pointers are reported, not followed.
unsafe impl Send for EpochInfo {}

/// `RVMA_EPOCH_EARLY`.
pub(crate) const EPOCH_EARLY: u32 = 1;

/// Reads options of C: NULL for the defaults, or a structure that begins with its own size, so that
/// later versions can append members and still recognise an older program's structure.
///
/// # Safety
/// `options` is NULL, or `struct_size` bytes from it on can be read, and at least four.
pub(crate) unsafe fn read_options<T: Copy>(options: *const T, default: T) -> Result<T> {
    let Some(first) = std::ptr::NonNull::new(options.cast_mut()) else { return Ok(default) };
    // SAFETY: every option structure begins with its size, as the caller vouches.
    let size = unsafe { first.cast::<u32>().read_unaligned() } as usize;
    if size != size_of::<T>() {
        return Err(Failure::argument(
            "struct_size of the options",
            size,
            "set it to the sizeof of the structure in the rvma.h of this version",
        ));
    }
    // SAFETY: so many bytes can be read; any bytes are a value of these plain structures.
    Ok(unsafe { first.as_ptr().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_trip_through_c() {
        for text in ["127.0.0.1:4810", "[::1]:1", "[2001:db8::7]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(AddrIn::new(address).socket_addr().unwrap(), address);
        }
        assert!(AddrIn::default().socket_addr().is_err());
    }

    #[test]
    fn the_layout_is_that_of_the_header() {
        assert_eq!(size_of::<AddrIn>(), 24);
        assert_eq!(size_of::<InitOptions>(), 48);
        assert_eq!(size_of::<WinOptions>(), 16);
        assert_eq!(size_of::<OpOptions>(), 24);
        assert_eq!(size_of::<EpochInfo>(), 64);
        assert_eq!(size_of::<fairway::EpochRecord>(), 64);
        assert_eq!(align_of::<fairway::EpochRecord>(), 64);
    }
}
