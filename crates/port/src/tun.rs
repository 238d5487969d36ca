//! A network interface whose other end is this program (Linux TUN): packets that the host sends
//! over it are read here, and packets that are written here are received by the host.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

/// The interface. It is removed when this value is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

/// The part of `struct ifreq` that TUNSETIFF reads, in the structure's full length.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

impl Tun {
    /// Creates an interface of this name in the network namespace that the file `namespace` stands
    /// for (`/run/netns/NAME`, `/proc/PID/ns/net`). It has no address yet, and is down.
    ///
    /// # Errors
    /// Of the system: `PermissionDenied` without CAP_NET_ADMIN, `NotFound` if there is no such
    /// namespace or no `/dev/net/tun`. `InvalidInput` for a name of no or more than 15 bytes.
    pub fn make(name: &str, namespace: &Path) -> io::Result<Tun> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            let wrong = format!("{name:?} is no name of an interface: 1 to 15 bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
        }
        let namespace = File::open(namespace)?;
        let mut request = Request {
            name: [0; libc::IFNAMSIZ],
            flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
            rest: [0; 22],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // A separate thread enters the namespace, so that no other thread is moved.
        let made = std::thread::spawn(move || enter_and_make(&namespace, &request)).join();
        made.unwrap_or_else(|_| Err(io::Error::other("the thread that makes it has panicked")))
    }

    /// Reads the next packet that the host has sent. Returns its length, or `None` if there is none
    /// now.
    ///
    /// # Errors
    /// Of the system.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a packet to the host. Returns false if the host has no room.
    ///
    /// # Errors
    /// Of the system: `InvalidInput` if it is no IP packet.
    pub fn write(&self, packet: &[u8]) -> io::Result<bool> {
        match (&self.file).write(packet) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn enter_and_make(namespace: &File, request: &Request) -> io::Result<Tun> {
    use std::os::unix::fs::OpenOptionsExt;
    // SAFETY: the descriptor is open; only this thread is moved, and it ends soon.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: the kernel reads and writes one `ifreq`, as long as `Request` is.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Tun { file })
}
