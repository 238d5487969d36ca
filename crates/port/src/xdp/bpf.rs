//! The few calls of bpf(2) that loading a program needs.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Commands, types and flags of `linux/bpf.h` and `linux/if_link.h`.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
pub(super) const MAP_TYPE_HASH: u32 = 1;
pub(super) const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
/// Runs the program in the kernel's stack, for any interface.
pub(super) const ATTACH_GENERIC: u32 = 1 << 1;
/// Runs the program in the driver.
pub(super) const ATTACH_NATIVE: u32 = 1 << 2;

/// An instruction (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Destination register in the lower half, source register in the upper one.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// The attributes of `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// The attributes of `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The attributes of `BPF_PROG_LOAD`, as far as they are used.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    name: [u8; 16],
}

/// The attributes of `BPF_LINK_CREATE`, as far as they are used.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Makes a call whose result is a descriptor or zero.
///
/// # Safety
/// `T` is the structure of the command, and the addresses in it are valid for it.
unsafe fn call<T>(command: libc::c_int, attributes: &T) -> io::Result<RawFd> {
    let size = size_of::<T>() as libc::c_uint;
    // SAFETY: as the caller says; the kernel reads `size` bytes of the attributes.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        descriptor => Ok(descriptor as RawFd),
    }
}

/// Creates a map.
pub(super) fn create_map(
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
) -> io::Result<OwnedFd> {
    let attributes = MapCreate { map_type, key_size, value_size, max_entries, map_flags: 0 };
    // SAFETY: there are no addresses in it; the descriptor is ours alone.
    unsafe { Ok(OwnedFd::from_raw_fd(call(MAP_CREATE, &attributes)?)) }
}

/// Adds or replaces an entry. Key and value have the sizes of the map.
pub(super) fn update_map(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: key and value outlive the call, and have the sizes with which the map was created.
    unsafe { call(MAP_UPDATE_ELEM, &attributes) }.map(|_| ())
}

/// Loads an XDP program. The error contains the end of what the verifier says.
pub(super) fn load(instructions: &[Instruction], name: &str) -> io::Result<OwnedFd> {
    let load = |log: &mut [u8]| {
        let mut named = [0; 16];
        named[..name.len()].copy_from_slice(name.as_bytes());
        let attributes = ProgLoad {
            prog_type: PROG_TYPE_XDP,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            // No helper function that the program calls asks for another licence.
            license: c"Apache-2.0 OR MIT".as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kern_version: 0,
            prog_flags: 0,
            name: named,
        };
        // SAFETY: instructions, licence and log outlive the call; the descriptor is ours alone.
        unsafe { Ok::<_, io::Error>(OwnedFd::from_raw_fd(call(PROG_LOAD, &attributes)?)) }
    };
    load(&mut []).or_else(|error| {
        if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) {
            return Err(error);
        }
        let mut log = vec![0; 64 << 10];
        load(&mut log).map_err(|error| {
            let text = String::from_utf8_lossy(&log);
            let lines = text.trim_matches(char::from(0)).lines();
            let last = lines.rev().find(|line| !line.starts_with("processed")).unwrap_or_default();
            io::Error::new(error.kind(), format!("{error} (verifier: {last})"))
        })
    })
}

/// Attaches an XDP program to an interface, until the descriptor is closed.
pub(super) fn attach(program: &OwnedFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let attributes = LinkCreate { program, interface, attach_type: ATTACH_TYPE_XDP, flags };
    // SAFETY: there are no addresses in it; the descriptor is ours alone.
    unsafe { Ok(OwnedFd::from_raw_fd(call(LINK_CREATE, &attributes)?)) }
}
