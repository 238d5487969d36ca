//! Requirements of RDMA programs: the library of `fairway run`, loaded into a program, and RoCE's
//! port.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Stdio;

use fairway_rdma::ROCE_PORT;

use crate::doctor::readings::{RocePort, Verbs};
use crate::verbs::{LIBRARY, library, program};

pub(super) fn verbs() -> Verbs {
    match library() {
        Ok(folder) => {
            let loaded = loaded(&folder).map_err(|error| error.to_string());
            Verbs { loaded: Some(loaded), folder: Ok(folder) }
        }
        Err(error) => Verbs { folder: Err(error), loaded: None },
    }
}

/// Starts `cat /proc/self/maps` as `fairway run` starts programs. Its list of mappings contains the
/// library, or the loader has printed why it failed.
fn loaded(folder: &std::path::Path) -> io::Result<()> {
    let mut command = program(folder, "cat".as_ref());
    let output = command.arg("/proc/self/maps").stdin(Stdio::null()).output()?;
    if String::from_utf8_lossy(&output.stdout).contains(LIBRARY) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(said.lines().next().unwrap_or("the loader gives no reason")))
}

/// Opens RoCE's port exclusively, and if that fails as programs under `fairway run` do.
pub(super) fn roce_port() -> RocePort {
    if bind(false).is_ok() {
        return RocePort::Free;
    }
    if bind(true).is_ok() { RocePort::Shared } else { RocePort::Taken }
}

fn bind(shares: bool) -> io::Result<()> {
    let check = |result: libc::c_int| match result {
        0.. => Ok(result),
        _ => Err(io::Error::last_os_error()),
    };
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: ROCE_PORT.to_be(),
        sin_addr: libc::in_addr { s_addr: Ipv4Addr::UNSPECIFIED.to_bits().to_be() },
        sin_zero: [0; 8],
    };
    let one: libc::c_int = libc::c_int::from(shares);
    // SAFETY: plain numbers, and structures that outlive the calls; the descriptor is ours alone.
    unsafe {
        let number = check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let socket = OwnedFd::from_raw_fd(number);
        check(libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_REUSEPORT,
            (&raw const one).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        ))?;
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)).map(drop)
    }
}
