//! Requests of `ethtool`: the counters of an interface's driver, its offloads, queues and address.
//! Every user may make them.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::udp::check;

/// Length of a name in bytes (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;
/// Commands of `linux/ethtool.h`.
const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_COUNTS: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
/// `ARPHRD_ETHER` of `linux/if_arp.h`.
const ETHERNET: libc::sa_family_t = 1;
/// More names than any driver has; a larger number is refused.
const NAMES_MAX: usize = 1 << 16;
/// Number of counters that a driver may add between two requests, for example because it opens a
/// queue.
const SPARE: usize = 4096;
/// Bytes of `struct ethtool_drvinfo`: command, five texts, 12 unused bytes and five numbers.
const DRIVER_BYTES: usize = 4 + 5 * NAME_BYTES + 12 + 5 * 4;
/// Number of bits in a word of features.
const WORD_BITS: usize = 32;

/// A set of names of a driver (`enum ethtool_stringset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// The names of its statistics, as `ethtool -S` prints them.
    Statistics = 1,
    /// The names of its features, as `ethtool -k` prints them.
    Features = 4,
}

/// A socket for requests, and the interface that they concern.
pub(crate) struct Request {
    socket: UdpSocket,
    interface: libc::ifreq,
}

impl Request {
    /// # Errors
    /// The name is none of an interface (`InvalidInput`), or a socket cannot be opened.
    pub(crate) fn new(name: &str) -> io::Result<Request> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            let wrong = format!("{name:?} is no name of an interface: 1 to 15 bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
        }
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // SAFETY: numbers, pointers and bytes, for which zero is a value.
        let mut interface: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in interface.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Request { socket, interface })
    }

    /// Makes the request in `words`, which begins with a command; the answer replaces it.
    fn ioctl(&mut self, words: &mut [u64]) -> io::Result<()> {
        self.interface.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the kernel writes as much as the command's answer has; the callers make room.
        check(unsafe {
            libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut self.interface)
        })?;
        Ok(())
    }

    /// Returns the name of the interface's driver.
    ///
    /// # Errors
    /// There is no such interface, or it has no driver that says its name.
    pub(crate) fn driver(&mut self) -> io::Result<String> {
        let mut words = [0_u64; DRIVER_BYTES.div_ceil(8)];
        words[0] = pair(GET_DRIVER, 0);
        self.ioctl(&mut words)?;
        // The name begins behind the command.
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).skip(4).collect();
        Ok(text(&bytes[..NAME_BYTES]))
    }

    /// Returns the number of names in a set.
    fn count(&mut self, set: Names) -> io::Result<usize> {
        // Command and padding; a mask of sets; space for the number of the one set.
        let mut words = [pair(GET_COUNTS, 0), 1 << set as u32, 0];
        self.ioctl(&mut words)?;
        let count = if words[1] == 0 { 0 } else { first(words[2]) as usize };
        match count {
            0 => Err(io::ErrorKind::Unsupported.into()),
            1..=NAMES_MAX => Ok(count),
            _ => Err(io::Error::other(format!("a driver reports {count} names"))),
        }
    }

    /// Returns the names of a set, in the driver's order.
    ///
    /// # Errors
    /// There is no such interface, or its driver has no such names (`Unsupported`).
    pub(crate) fn names(&mut self, set: Names) -> io::Result<Vec<String>> {
        let count = self.count(set)?;
        // Command and set; the number; then the names, which begin in the middle of a word.
        let mut words = vec![0_u64; 2 + (count + SPARE) * NAME_BYTES / 8];
        words[0] = pair(GET_STRINGS, set as u32);
        words[1] = pair(count as u32, 0);
        self.ioctl(&mut words)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).skip(12).collect();
        Ok(bytes.chunks_exact(NAME_BYTES).take(count).map(text).collect())
    }

    /// Returns the values of `count` statistics, in the driver's order.
    pub(crate) fn statistics(&mut self, count: usize) -> io::Result<Vec<u64>> {
        let mut words = vec![0_u64; 1 + count + SPARE];
        words[0] = pair(GET_STATISTICS, count as u32);
        self.ioctl(&mut words)?;
        Ok(words[1..=count].to_vec())
    }

    /// Returns the number of queues through which frames arrive; 1 if the driver does not say.
    pub(crate) fn receive_queues(&mut self) -> u32 {
        // The command, four maxima, and the queues for receiving, sending, other purposes, and both
        // receiving and sending.
        let mut words = [pair(GET_CHANNELS, 0), 0, 0, 0, 0];
        match self.ioctl(&mut words) {
            Ok(()) => (second(words[2]) + first(words[4])).max(1),
            Err(_) => 1,
        }
    }

    /// Returns the interface's Ethernet address; `None` if it is of another kind.
    pub(crate) fn ethernet_address(&mut self) -> io::Result<Option<[u8; 6]>> {
        // SAFETY: the kernel writes a socket address into the request, which has room for it.
        let address = unsafe {
            let request = &raw mut self.interface;
            check(libc::ioctl(self.socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, request))?;
            self.interface.ifr_ifru.ifru_hwaddr
        };
        let bytes = std::array::from_fn(|at| address.sa_data[at] as u8);
        Ok((address.sa_family == ETHERNET).then_some(bytes))
    }

    /// Returns for each of `count` features, in the driver's order, whether it can be switched, and
    /// whether it is on.
    pub(crate) fn features(&mut self, count: usize) -> io::Result<Vec<(bool, bool)>> {
        // Each block has for 32 features: which can be switched, which are requested, which are on,
        // which are fixed.
        let blocks = count.div_ceil(WORD_BITS);
        let mut words = vec![0_u64; 1 + 2 * blocks];
        words[0] = pair(GET_FEATURES, blocks as u32);
        self.ioctl(&mut words)?;
        let bit = |word: u32, at: usize| word >> (at % WORD_BITS) & 1 == 1;
        let feature = |at: usize| {
            let block = 1 + 2 * (at / WORD_BITS);
            (bit(first(words[block]), at), bit(first(words[block + 1]), at))
        };
        Ok((0..count).map(feature).collect())
    }
}

/// Returns a text that a zero byte may end.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Joins two numbers, one after the other in memory.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Returns the second of the two numbers in a word.
fn second(word: u64) -> u32 {
    let [.., a, b, c, d] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// Returns the first of the two numbers in a word.
fn first(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}
