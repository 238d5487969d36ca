//! A switch between two interfaces of a network namespace that trims some of the packets, as
//! switches do whose queue is full: it cuts the frame, marks it with a code point, and leaves the
//! lengths in its headers.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Length of a trimmed frame, the shortest that Spectrum's switches can be set to.
const TRIMMED_BYTES: usize = 256;
/// Code point of a trimmed packet, those switches' default.
const TRIMMED_DSCP: u8 = 11;
/// Frames from this length on are trimmed.
const LONG: usize = 700;

/// Requests of `ethtool` that turn a feature on or off: checksums, segmentation of TCP, and of all.
const FEATURES: [u32; 3] = [0x17, 0x1f, 0x24];
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// The state that the switch's thread shares with the test.
#[derive(Default)]
struct State {
    stop: AtomicBool,
    /// Long frames that are trimmed, in thousandths.
    permille: AtomicU32,
    trimmed: AtomicU64,
    /// The first long frame towards each interface.
    long: Mutex<[Option<Vec<u8>>; 2]>,
}

/// A switch; it stops when dropped.
pub struct Switch {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Starts a switch between two interfaces.
    pub fn start(interfaces: [&str; 2]) -> Switch {
        let sockets = interfaces.map(open);
        let state = Arc::new(State::default());
        let shared = state.clone();
        let thread = std::thread::spawn(move || forward(&sockets, &shared));
        Switch { state, thread: Some(thread) }
    }

    /// Trims so many thousandths of all long packets from now on.
    pub fn trim(&self, permille: u32) {
        self.state.permille.store(permille, Ordering::Relaxed);
    }

    /// Packets that were trimmed.
    pub fn trimmed(&self) -> u64 {
        self.state.trimmed.load(Ordering::Relaxed)
    }

    /// The first long frame that has passed towards the interface of this number.
    pub fn long_frame(&self, towards: usize) -> Option<Vec<u8>> {
        self.state.long.lock().unwrap()[towards].clone()
    }

    pub fn forget_long_frames(&self) {
        *self.state.long.lock().unwrap() = [None, None];
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Cuts a frame, and marks its packet as trimmed.
pub fn cut(frame: &mut Vec<u8>, length: usize) {
    frame.truncate(length);
    if frame[12..14] == [0x08, 0x00] {
        frame[15] = TRIMMED_DSCP << 2 | frame[15] & 0b11;
        set_v4_checksum(frame);
    } else {
        let class = TRIMMED_DSCP << 2 | frame[15] >> 4 & 0b11;
        frame[14] = 0x60 | class >> 4;
        frame[15] = class << 4 | frame[15] & 0x0f;
    }
}

/// Computes the checksum of the IPv4 header.
pub fn set_v4_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let folded = (sum >> 16) + (sum & 0xffff);
    let folded = (folded >> 16) + (folded & 0xffff);
    frame[24..26].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Passes frames on until the switch is dropped.
fn forward(sockets: &[OwnedFd; 2], state: &State) {
    let mut buffer = vec![0; 1 << 16];
    let mut draw = 1_u64;
    while !state.stop.load(Ordering::Relaxed) {
        let mut watched = sockets.each_ref().map(|socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: the array is valid for its length.
        unsafe { libc::poll(watched.as_mut_ptr(), 2, 20) };
        for from in 0..2 {
            while let Some(length) = take(&sockets[from], &mut buffer) {
                let mut frame = buffer[..length].to_vec();
                if length >= LONG {
                    let mut long = state.long.lock().unwrap();
                    long[1 - from].get_or_insert_with(|| frame.clone());
                    draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if (draw >> 33) % 1000 < state.permille.load(Ordering::Relaxed).into() {
                        cut(&mut frame, TRIMMED_BYTES);
                        state.trimmed.fetch_add(1, Ordering::Relaxed);
                    }
                }
                put(&sockets[1 - from], &frame);
            }
        }
    }
}

/// Opens a socket for all frames of an interface.
fn open(interface: &str) -> OwnedFd {
    let name = std::ffi::CString::new(interface).unwrap();
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the calls read the structures and names that they are given.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, all.into());
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let bound = libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length);
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        let room: libc::c_int = 16 << 20;
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const room).cast(), size);
        socket
    }
}

/// Receives the next frame that has arrived from outside, and not one that this host sends.
fn take(socket: &OwnedFd, buffer: &mut [u8]) -> Option<usize> {
    loop {
        // SAFETY: zeros are a value of it; the kernel writes at most the given lengths.
        let (got, kind) = unsafe {
            let mut from: libc::sockaddr_ll = std::mem::zeroed();
            let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let (bytes, flags) = (buffer.as_mut_ptr().cast(), libc::MSG_DONTWAIT);
            let address = (&raw mut from).cast();
            let number = socket.as_raw_fd();
            let got = libc::recvfrom(number, bytes, buffer.len(), flags, address, &raw mut size);
            (got, from.sll_pkttype)
        };
        if got < 0 {
            return None;
        }
        if kind != libc::PACKET_OUTGOING {
            return Some(got as usize);
        }
    }
}

/// Sends a frame; one for which there is no room is lost.
fn put(socket: &OwnedFd, frame: &[u8]) {
    // SAFETY: the kernel reads the frame during the call.
    unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
}

/// Sends a frame from this host's interface, as a hostile program could.
pub fn inject(frame: &[u8]) {
    put(&open("wire"), frame);
}

/// Turns off what would let packets leave the interface `wire` without checksum, or several in one.
pub fn set_offloads() {
    // SAFETY: no memory is passed; a result that is not -1 is a descriptor we now own.
    let socket = unsafe {
        let number: RawFd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        assert!(number >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(number)
    };
    for feature in FEATURES {
        let mut off = [feature, 0];
        // SAFETY: zeros are a value of it; the request points to two words, as these commands need.
        let set = unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(b"wire") {
                *to = *from as libc::c_char;
            }
            request.ifr_ifru.ifru_data = off.as_mut_ptr().cast();
            libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request)
        };
        assert_eq!(set, 0, "{feature:#x}: {}", io::Error::last_os_error());
    }
}
