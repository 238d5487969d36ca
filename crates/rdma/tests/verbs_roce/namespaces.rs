//! Two network namespaces with a virtual Ethernet between them, and the packets on it. Requires the
//! superuser and the `ip` tool.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

/// Two network namespaces, which are removed when this is dropped.
pub struct Namespaces {
    names: [String; 2],
}

/// Runs a tool. Returns false if it is missing or fails.
pub fn run(words: &str) -> bool {
    let mut words = words.split(' ');
    let program = words.next().expect("a program");
    let mut command = Command::new(program);
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Namespaces {
    /// Creates the namespaces. Side `n` has the addresses 10.77.0.`n+1` and fd77::`n+1`. Returns
    /// `None` if that is not possible here.
    pub fn new(label: &str) -> Option<Namespaces> {
        let pid = std::process::id();
        let names = ["a", "b"].map(|side| format!("fairway-{label}-{side}-{pid}"));
        if !names.iter().all(|name| run(&format!("ip netns add {name}"))) {
            names.iter().for_each(|name| {
                run(&format!("ip netns del {name}"));
            });
            return None;
        }
        let made = Namespaces { names };
        let [a, b] = &made.names;
        let linked = run(&format!("ip -n {a} link add wire type veth peer name wire netns {b}"));
        let set_up = made.names.iter().enumerate().all(|(n, name)| {
            let (own, other) = (n + 1, 2 - n);
            // Neighbour entries are added by hand: resolution takes as long as the tests wait.
            let ip = |what: String| run(&format!("ip -n {name} {what}"));
            ip(format!("link set wire address 02:00:00:00:00:0{own}"))
                && ip(format!("addr add 10.77.0.{own}/24 dev wire"))
                && ip(format!("addr add fd77::{own}/64 dev wire nodad"))
                && ip("link set lo up".into())
                && ip("link set wire up".into())
                && ["10.77.0.", "fd77::"].iter().all(|net| {
                    ip(format!("neigh add {net}{other} lladdr 02:00:00:00:00:0{other} dev wire"))
                })
        });
        (linked && set_up).then_some(made)
    }

    /// Makes the virtual interfaces segment trains, as they would be on a wire. Returns false if
    /// that is not possible.
    pub fn cut_trains(&self) -> bool {
        self.names.iter().all(|name| {
            run(&format!("ip netns exec {name} ethtool -K wire tx-udp-segmentation off gro off"))
        })
    }

    /// Runs `work` in namespace `n`; threads that it starts stay there.
    pub fn inside<R: Send>(&self, n: usize, work: impl FnOnce() -> R + Send) -> R {
        let file = File::open(format!("/run/netns/{}", self.names[n])).unwrap();
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                // SAFETY: the descriptor is open for the call, and no memory is passed.
                let moved = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(moved, 0, "{}", std::io::Error::last_os_error());
                work()
            });
            inside.join().unwrap()
        })
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            run(&format!("ip netns del {name}"));
        }
    }
}

/// Receives every frame that passes an interface.
pub struct Sniffer {
    socket: OwnedFd,
}

impl Sniffer {
    /// Opens a sniffer in the current namespace.
    pub fn new() -> Sniffer {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed; a result that is not -1 is a descriptor we own.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, kind, i32::from(all));
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let bytes: libc::c_int = 64 << 20;
        // SAFETY: four bytes of `bytes` are read.
        unsafe {
            let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
            libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const bytes).cast(), 4);
        }
        Sniffer { socket }
    }

    /// Returns the frames since the last call.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let mut frame = vec![0_u8; 70_000];
            // SAFETY: at most the frame's length is written to it.
            let length = unsafe {
                libc::recv(self.socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0)
            };
            let Ok(length) = usize::try_from(length) else { return frames };
            frame.truncate(length);
            frames.push(frame);
        }
    }
}

/// A capture file of Ethernet frames.
pub fn capture_file(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let words = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 70_000, 1];
    words.iter().for_each(|word| file.extend_from_slice(&word.to_ne_bytes()));
    for frame in frames {
        let length = frame.len() as u32;
        for word in [0, 0, length, length] {
            file.extend_from_slice(&u32::to_ne_bytes(word));
        }
        file.extend_from_slice(frame);
    }
    file
}
