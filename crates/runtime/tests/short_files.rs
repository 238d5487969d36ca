//! Shared memory in a process whose files may not be long. The only test of its process, because
//! the limit is that of the whole process, and because the kernel ends a process that exceeds it.

use std::net::Ipv4Addr;

use fairway_port::{UdpConfig, UdpPort};
use fairway_runtime::{Memory, SharedMemory};

/// Bytes of the longest file.
const LIMIT: u64 = 100_000;

fn sockets() -> UdpPort {
    let bind = Ipv4Addr::LOCALHOST.into();
    let config = UdpConfig { bind, first_port: 0, sockets: 1, buffer_bytes: 1 << 20 };
    UdpPort::bind(&config).unwrap()
}

/// The limit, until this is dropped: the process may write its results to a file.
struct Limited(libc::rlimit);

impl Limited {
    fn new() -> Limited {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the structs outlive the calls.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &mut before), 0);
            let limits = libc::rlimit { rlim_cur: LIMIT, ..before };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limits), 0);
        }
        Limited(before)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // SAFETY: the struct outlives the call.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &self.0) };
    }
}

#[test]
fn memory_longer_than_files_may_be_is_refused_and_packets_take_the_sockets() {
    let _limited = Limited::new();
    let length = LIMIT as usize;
    assert_eq!(Memory::shared(length).expect("as long as the limit").len(), length);
    let error = Memory::shared(length + 1).expect_err("longer than the limit").to_string();
    for words in ["100001 bytes", "100000", "ulimit -f"] {
        assert!(error.contains(words), "no '{words}' in: {error}");
    }

    let datapath = SharedMemory::with_sockets(sockets());
    let reason = datapath.fallback().expect("the rings are longer than files may be");
    assert!(reason.contains("ulimit -f"), "{reason}");
    let Err(error) = SharedMemory::alone(sockets()) else { panic!("there is no other way") };
    assert!(error.to_string().contains("ulimit -f"), "{error}");
}
