//! An AF_XDP socket: frames in and out of one queue of an interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::ring::{Descriptor, Mapping, Ring};
use crate::udp::check;

/// Bytes of a place for a frame, the kernel's room in front of it included.
const FRAME_BYTES: usize = 4_096;
/// Number of frames that the kernel may fill, and as many to send. Powers of two.
const FRAMES: u32 = 2_048;
/// Calls that one [`FrameSocket::flush`] makes at most where the kernel copies: a call sends 32
/// frames. Without copies a call only wakes the driver, so one is enough.
const CALLS_MAX: u32 = FRAMES / 32;

/// Time for which the kernel may go on to hold the queue of a socket that was closed.
const RELEASE: Duration = Duration::from_millis(500);

/// How frames pass between the interface and a socket's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The interface reads and writes the memory itself.
    ZeroCopy,
    /// The kernel copies.
    Copy,
}

/// A socket of one queue of an interface. It owns memory for frames: one half for those that
/// arrive, one for those that are sent.
#[derive(Debug)]
pub struct FrameSocket {
    // Dropped first: the kernel uses the memory until the socket is closed.
    socket: OwnedFd,
    fill: Ring<u64>,
    completion: Ring<u64>,
    receive: Ring<Descriptor>,
    send: Ring<Descriptor>,
    frames: Mapping,
    /// Places for frames to send that are free.
    free: Vec<u64>,
    queue: u32,
    mode: Mode,
}

impl FrameSocket {
    /// Opens a socket on a queue of an interface, without copies if the driver supports that.
    /// Frames arrive once a program redirects them.
    ///
    /// # Errors
    /// There is no such queue (`EINVAL`), another socket has it (`EBUSY`), or this process lacks
    /// the capability `CAP_NET_RAW` (`EPERM`).
    pub fn open(interface: u32, queue: u32) -> io::Result<FrameSocket> {
        match FrameSocket::open_as(interface, queue, Mode::ZeroCopy) {
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                FrameSocket::open_as(interface, queue, Mode::Copy)
            }
            other => other,
        }
    }

    /// Finds out whether sockets can be opened.
    pub(super) fn check() -> io::Result<()> {
        let refused = |error: io::Error| {
            let text = format!("AF_XDP sockets (CAP_NET_RAW): {error}");
            io::Error::new(error.kind(), text)
        };
        new_socket().map(|_| ()).map_err(refused)
    }

    /// As [`FrameSocket::open`], in this mode.
    ///
    /// # Errors
    /// As [`FrameSocket::open`]; or the driver cannot do without copies.
    pub fn open_as(interface: u32, queue: u32, mode: Mode) -> io::Result<FrameSocket> {
        let socket = new_socket()?;
        let length = 2 * FRAMES as usize * FRAME_BYTES;
        let frames = Mapping::anonymous(length)?;
        let area = Area {
            address: frames.at(0, length) as u64,
            length: length as u64,
            frame_bytes: FRAME_BYTES as u32,
            headroom: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &area)?;
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set(&socket, ring, &FRAMES)?;
        }
        let places = offsets(&socket)?;
        let mut fill =
            Ring::map(&socket, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, &places.fr, FRAMES)?;
        let completion = Ring::map(
            &socket,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
            &places.cr,
            FRAMES,
        )?;
        let receive = Ring::map(&socket, libc::XDP_PGOFF_RX_RING, &places.rx, FRAMES)?;
        let send = Ring::map(&socket, libc::XDP_PGOFF_TX_RING, &places.tx, FRAMES)?;
        let place = |index: u32| u64::from(index) * FRAME_BYTES as u64;
        for index in 0..FRAMES {
            fill.push(place(index));
        }
        fill.publish();
        bind(&socket, interface, queue, mode)?;
        let free = (FRAMES..2 * FRAMES).map(place).collect();
        Ok(FrameSocket { socket, fill, completion, receive, send, frames, free, queue, mode })
    }

    /// The descriptor, which is readable while frames wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Number of the queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// How frames pass.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sends a frame of `length` bytes: `write` fills it. The frame leaves with the next
    /// [`FrameSocket::flush`]. Returns false, and does not call `write`, if there is no room; if
    /// `write` fails, nothing is sent.
    ///
    /// # Errors
    /// What `write` returned.
    ///
    /// # Panics
    /// The frame is longer than [`super::FRAME_MAX`].
    pub fn push<E>(
        &mut self,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        assert!(length <= super::FRAME_MAX, "a frame of {length} bytes");
        if self.free.is_empty() {
            self.reclaim();
        }
        if self.send.room() == 0 {
            return Ok(false);
        }
        let Some(address) = self.free.pop() else { return Ok(false) };
        let start = self.frames.at(address as usize, length);
        // SAFETY: the place is free, so only this function uses it; zeroed or earlier bytes are
        // bytes.
        let written = write(unsafe { std::slice::from_raw_parts_mut(start, length) });
        if written.is_err() {
            self.free.push(address);
        }
        written?;
        self.send.push(Descriptor { address, length: length as u32, options: 0 });
        Ok(true)
    }

    /// Passes the frames that were pushed to the interface. Returns the number of system calls.
    ///
    /// # Errors
    /// What the kernel says about the interface. Frames that it has not taken follow with the next
    /// call.
    pub fn flush(&mut self) -> io::Result<u32> {
        self.send.publish();
        let calls_max = match self.mode {
            Mode::ZeroCopy => 1,
            Mode::Copy => CALLS_MAX,
        };
        let mut calls = 0;
        while calls < calls_max && self.send.needs_wakeup() && self.send.is_behind() {
            calls += 1;
            let number = self.socket.as_raw_fd();
            // SAFETY: no memory is passed.
            let sent = unsafe {
                libc::sendto(number, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            if sent >= 0 {
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The kernel has sent a part, or the interface has no room at the moment.
                Some(libc::EAGAIN | libc::EINTR) => {}
                Some(libc::EBUSY | libc::ENOBUFS) => break,
                _ => return Err(error),
            }
        }
        self.reclaim();
        Ok(calls)
    }

    /// Takes back the places of frames that have been sent.
    fn reclaim(&mut self) {
        while let Some(address) = self.completion.peek() {
            self.completion.pop();
            self.free.push(address);
        }
    }

    /// Returns the next frame that has arrived.
    pub fn peek(&mut self) -> Option<&[u8]> {
        let Descriptor { address, length, .. } = self.receive.peek()?;
        let start = self.frames.at(address as usize, length as usize);
        // SAFETY: the kernel has written the frame and leaves it alone until its place is given
        // back by `pop`, which needs this borrow to end.
        Some(unsafe { std::slice::from_raw_parts(start, length as usize) })
    }

    /// Removes the frame that [`FrameSocket::peek`] has returned.
    pub fn pop(&mut self) {
        let Some(Descriptor { address, .. }) = self.receive.peek() else { return };
        self.receive.pop();
        // The frame begins behind the kernel's room; the fill ring has room for every place.
        self.fill.push(address & !(FRAME_BYTES as u64 - 1));
        self.fill.publish();
        if self.fill.needs_wakeup() {
            self.wake_receiver();
        }
    }

    #[cold]
    fn wake_receiver(&self) {
        let number = self.socket.as_raw_fd();
        let flags = libc::MSG_DONTWAIT;
        let null = std::ptr::null_mut();
        // SAFETY: no memory is passed. Whether it worked shows in what arrives.
        unsafe { libc::recvfrom(number, null, 0, flags, null.cast(), null.cast()) };
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed; a result that is not -1 is a descriptor we now own.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_XDP, kind, 0))?)) }
}

/// The memory for frames (`struct xdp_umem_reg` in its first version).
#[repr(C)]
struct Area {
    address: u64,
    length: u64,
    frame_bytes: u32,
    headroom: u32,
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of the value.
    check(unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, size)
    })?;
    Ok(())
}

fn offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all zeros are a value of this structure of numbers.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to the structure.
    check(unsafe {
        let (room, size) = ((&raw mut offsets).cast(), &raw mut size);
        let option = libc::XDP_MMAP_OFFSETS;
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, room, size)
    })?;
    Ok(offsets)
}

fn bind(socket: &OwnedFd, interface: u32, queue: u32, mode: Mode) -> io::Result<()> {
    let mode = match mode {
        Mode::ZeroCopy => libc::XDP_ZEROCOPY,
        Mode::Copy => libc::XDP_COPY,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: mode | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    let begun = Instant::now();
    loop {
        // SAFETY: the address is valid for its length.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        match check(bound) {
            // The kernel frees the queue of a socket some time after it was closed.
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < RELEASE =>
            {
                std::thread::sleep(RELEASE / 100);
            }
            other => return other.map(|_| ()),
        }
    }
}
