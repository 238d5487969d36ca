//! What the drivers of a host's interfaces count, as `ethtool -S` shows it. Every user may read it.

use std::ffi::CStr;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::udp::check;

/// Bytes of a counter's name (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;
/// `ETH_SS_STATS`: the names of a driver's statistics.
const NAMES_OF_STATISTICS: u32 = 1;
/// Commands of `linux/ethtool.h`.
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_COUNTS: u32 = 0x37;
/// More counters than any driver has; another number is not believed.
const COUNTERS_MAX: usize = 1 << 16;
/// Counters that may come to be (another queue is opened) between two questions.
const SPARE: usize = 4096;

/// The names of the host's interfaces, in this network namespace.
///
/// # Errors
/// Of the system.
pub fn interfaces() -> io::Result<Vec<String>> {
    // SAFETY: has no conditions.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    let mut next = list;
    // SAFETY: the list ends with an entry without a name, and each name with a zero.
    unsafe {
        while !(*next).if_name.is_null() {
            names.push(CStr::from_ptr((*next).if_name).to_string_lossy().into_owned());
            next = next.add(1);
        }
        libc::if_freenameindex(list);
    }
    Ok(names)
}

/// What the driver of an interface counts, by name.
///
/// # Errors
/// There is no such interface, or its driver counts nothing (`Unsupported`).
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    let mut request = Request::new(interface)?;
    let count = request.count()?;
    let names = request.names(count)?;
    let values = request.values(count)?;
    Ok(names.into_iter().zip(values).collect())
}

/// A socket to ask by, and what is asked about.
struct Request {
    socket: UdpSocket,
    interface: libc::ifreq,
}

impl Request {
    fn new(name: &str) -> io::Result<Request> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            let wrong = format!("{name:?} is no name of an interface: 1 to 15 bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
        }
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        // SAFETY: numbers, pointers and bytes, for which zero is a value.
        let mut interface: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in interface.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Request { socket, interface })
    }

    /// Asks what the words say, which begin with a command; the answer comes in their place.
    fn ask(&mut self, words: &mut [u64]) -> io::Result<()> {
        self.interface.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the kernel writes as much as the command's answer has; the callers make room.
        check(unsafe {
            libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut self.interface)
        })?;
        Ok(())
    }

    /// How many counters there are.
    fn count(&mut self) -> io::Result<usize> {
        // Command and nothing; which sets; a number for the one.
        let mut words = [pair(GET_COUNTS, 0), 1 << NAMES_OF_STATISTICS, 0];
        self.ask(&mut words)?;
        let count = if words[1] == 0 { 0 } else { first(words[2]) as usize };
        match count {
            0 => Err(io::ErrorKind::Unsupported.into()),
            1..=COUNTERS_MAX => Ok(count),
            _ => Err(io::Error::other(format!("a driver tells of {count} counters"))),
        }
    }

    fn names(&mut self, count: usize) -> io::Result<Vec<String>> {
        // Command and set; how many; then the names, which begin in the middle of a word.
        let mut words = vec![0_u64; 2 + (count + SPARE) * NAME_BYTES / 8];
        words[0] = pair(GET_STRINGS, NAMES_OF_STATISTICS);
        words[1] = pair(count as u32, 0);
        self.ask(&mut words)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).skip(12).collect();
        let names = bytes.chunks_exact(NAME_BYTES).take(count).map(|name| {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
            String::from_utf8_lossy(&name[..end]).into_owned()
        });
        Ok(names.collect())
    }

    fn values(&mut self, count: usize) -> io::Result<Vec<u64>> {
        let mut words = vec![0_u64; 1 + count + SPARE];
        words[0] = pair(GET_STATISTICS, count as u32);
        self.ask(&mut words)?;
        Ok(words[1..=count].to_vec())
    }
}

/// Two numbers that lie one after the other.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn first(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there_and_counts_nothing() {
        assert!(interfaces().unwrap().iter().any(|name| name == "lo"));
        let error = statistics("lo").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "a\0b", "sixteen-letters-"] {
            assert_eq!(statistics(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(statistics("no-such-nic").is_err());
    }

    /// Whatever this host has: a counter has a name.
    #[test]
    fn counters_have_names() {
        for interface in interfaces().unwrap() {
            let Ok(counters) = statistics(&interface) else { continue };
            let named = |(name, _): &(String, u64)| {
                !name.is_empty() && name.chars().all(|letter| letter.is_ascii_graphic())
            };
            assert!(counters.iter().any(named), "{interface}: {counters:?}");
        }
    }
}
