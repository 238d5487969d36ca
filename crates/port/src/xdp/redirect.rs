//! The program that passes frames for certain UDP sockets to AF_XDP sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::bpf::{
    ATTACH_GENERIC, ATTACH_NATIVE, Instruction, MAP_TYPE_HASH, MAP_TYPE_XSKMAP, attach, create_map,
    load, update_map,
};
use super::socket::{FrameSocket, Mode};

/// Longest frame that is redirected, in bytes: what fits a page beside the room that the kernel
/// keeps in front of a frame and behind it. Longer ones go through the kernel's sockets.
pub const FRAME_MAX: usize = 3_498;

/// Maximum number of UDP sockets whose packets are redirected.
const ADDRESSES_MAX: u32 = 1_024;
/// Maximum number of queues of an interface.
pub(super) const QUEUES_MAX: u32 = 64;

/// Length of a key of the map of addresses: 16 bytes of the IP address, IPv4 in its mapped form,
/// two bytes of the port, and two bytes of zeros.
const KEY_BYTES: usize = 20;

/// Results of an XDP program, and numbers of helper functions.
const XDP_PASS: i32 = 2;
const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT_MAP: i32 = 51;

/// Offsets in a frame.
const ETHER_TYPE: i16 = 12;
const V4: i16 = 14;
const V4_FRAGMENT: i16 = V4 + 6;
const V4_PROTOCOL: i16 = V4 + 9;
const V4_FROM: i16 = V4 + 12;
const V4_TO: i16 = V4 + 16;
const V4_UDP: i16 = V4 + 20;
const V6: i16 = 14;
const V6_NEXT: i16 = V6 + 6;
const V6_FROM: i16 = V6 + 8;
const V6_TO: i16 = V6 + 24;
const V6_UDP: i16 = V6 + 40;
/// Offsets in the header of UDP.
const PORT: i16 = 2;
const LENGTH: i16 = 4;
const CHECKSUM: i16 = 6;
/// Lengths of all headers.
const V4_HEADERS: i32 = 14 + 20 + 8;
const V6_HEADERS: i32 = 14 + 40 + 8;

/// Where the key is built on the program's stack.
const KEY: i16 = -24;

/// A program on an interface that redirects frames. Frames are passed to the kernel again once it
/// is dropped.
#[derive(Debug)]
pub struct Redirect {
    /// The addresses of UDP sockets whose packets are redirected.
    addresses: OwnedFd,
    /// The AF_XDP socket of each queue.
    sockets: OwnedFd,
    /// Keeps the program attached.
    _link: OwnedFd,
}

impl Redirect {
    /// Attaches the program to an interface. Nothing is redirected yet.
    ///
    /// For sockets without copies the interface's driver runs the program. For others the kernel
    /// runs it once it has coalesced packets: then long runs are too long for a frame and reach the
    /// UDP sockets in one piece, and a virtual interface keeps its offloads.
    ///
    /// # Errors
    /// Another program is attached already (`EBUSY`), or this process lacks the capabilities
    /// `CAP_BPF` and `CAP_NET_ADMIN` (`EPERM`).
    pub fn attach(interface: u32, mode: Mode) -> io::Result<Redirect> {
        let (addresses, sockets, program) = load_program()?;
        let flags = match mode {
            Mode::ZeroCopy => ATTACH_NATIVE,
            Mode::Copy => ATTACH_GENERIC,
        };
        let link = attach(&program, interface, flags)?;
        Ok(Redirect { addresses, sockets, _link: link })
    }

    /// Finds out whether the program can be loaded.
    pub(super) fn check() -> io::Result<()> {
        let refused = |error: io::Error| {
            let text = format!("XDP programs (CAP_BPF and CAP_NET_ADMIN): {error}");
            io::Error::new(error.kind(), text)
        };
        load_program().map(|_| ()).map_err(refused)
    }

    /// Redirects frames that arrive through a queue to `socket`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_socket(&self, socket: &FrameSocket) -> io::Result<()> {
        let number = socket.fd().as_raw_fd() as u32;
        update_map(&self.sockets, &socket.queue().to_ne_bytes(), &number.to_ne_bytes())
    }

    /// Redirects packets to this UDP address.
    ///
    /// # Errors
    /// There are too many.
    pub fn add_address(&self, address: SocketAddr) -> io::Result<()> {
        update_map(&self.addresses, &key(address), &1_u32.to_ne_bytes())
    }
}

/// Creates the maps of addresses and of sockets, and loads the program that uses them.
fn load_program() -> io::Result<(OwnedFd, OwnedFd, OwnedFd)> {
    let addresses = create_map(MAP_TYPE_HASH, KEY_BYTES as u32, 4, ADDRESSES_MAX)?;
    let sockets = create_map(MAP_TYPE_XSKMAP, 4, 4, QUEUES_MAX)?;
    let instructions = program(addresses.as_raw_fd(), sockets.as_raw_fd());
    let program = load(&instructions, "fairway")?;
    Ok((addresses, sockets, program))
}

/// Returns the key of an address as the program builds it.
fn key(address: SocketAddr) -> [u8; KEY_BYTES] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&ip.octets());
    key[16..18].copy_from_slice(&address.port().to_be_bytes());
    key
}

/// Registers by use. `R0` to `R5` are lost in calls.
const R0: u8 = 0;
const R1: u8 = 1;
const FRAME: u8 = 2;
const R2: u8 = 2;
const END: u8 = 3;
const R3: u8 = 3;
const LIMIT: u8 = 4;
const OTHER: u8 = 4;
const VALUE: u8 = 5;
const CONTEXT: u8 = 6;
const STACK: u8 = 10;

/// Classes, sizes and operations of instructions.
const LOAD_8: u8 = 0x71;
const LOAD_16: u8 = 0x69;
const LOAD_32: u8 = 0x61;
const STORE_32: u8 = 0x63;
const STORE_IMMEDIATE_32: u8 = 0x62;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_IMMEDIATE: u8 = 0x07;
const SHIFT_LEFT_IMMEDIATE: u8 = 0x67;
const SHIFT_RIGHT_IMMEDIATE: u8 = 0x77;
const AND_IMMEDIATE: u8 = 0x57;
const JUMP: u8 = 0x05;
const JUMP_IF_IMMEDIATE_EQUAL: u8 = 0x15;
const JUMP_IF_EQUAL: u8 = 0x1d;
const JUMP_IF_IMMEDIATE_DIFFERS: u8 = 0x55;
const JUMP_IF_GREATER: u8 = 0x2d;
const JUMP_IF_LESS: u8 = 0xad;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The source register that makes a loaded immediate value the descriptor of a map.
const MAP_DESCRIPTOR: u8 = 1;

/// A place that jumps lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    V6,
    LookUp,
    Pass,
}

/// Collects instructions, and completes jumps at the end.
#[derive(Default)]
struct Assembler {
    instructions: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        let registers = to | from << 4;
        self.instructions.push(Instruction { code, registers, offset, immediate });
    }

    fn load(&mut self, code: u8, to: u8, base: u8, offset: i16) {
        self.add(code, to, base, offset, 0);
    }

    fn jump(&mut self, code: u8, register: u8, from: u8, immediate: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.add(code, register, from, 0, immediate);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.instructions.len()));
    }

    /// Jumps to `Pass` unless the frame has `bytes` bytes.
    fn require(&mut self, bytes: i32) {
        self.add(MOVE, LIMIT, FRAME, 0, 0);
        self.add(ADD_IMMEDIATE, LIMIT, 0, 0, bytes);
        self.jump(JUMP_IF_GREATER, LIMIT, END, 0, Label::Pass);
    }

    /// Jumps to `Pass` if the UDP packet has no checksum of its own: none at all, or only the sum
    /// of the pseudo-header, whose addresses are at `addresses`. The latter have not left this
    /// machine, or the kernel has coalesced them. Either kind may be several packets in one, and
    /// only the kernel knows how many.
    fn require_checksum(&mut self, addresses: std::ops::Range<i16>, udp: i16) {
        self.load(LOAD_16, VALUE, FRAME, udp + LENGTH);
        self.add(ADD_IMMEDIATE, VALUE, 0, 0, field(libc::IPPROTO_UDP as u16));
        for word in addresses.step_by(4) {
            self.load(LOAD_32, OTHER, FRAME, word);
            self.add(ADD, VALUE, OTHER, 0, 0);
        }
        // The sum has up to 36 bits, after the first step 21, and after the third 16.
        for _ in 0..3 {
            self.add(MOVE, OTHER, VALUE, 0, 0);
            self.add(SHIFT_RIGHT_IMMEDIATE, OTHER, 0, 0, 16);
            self.add(AND_IMMEDIATE, VALUE, 0, 0, 0xffff);
            self.add(ADD, VALUE, OTHER, 0, 0);
        }
        self.load(LOAD_16, OTHER, FRAME, udp + CHECKSUM);
        self.jump(JUMP_IF_IMMEDIATE_EQUAL, OTHER, 0, 0, Label::Pass);
        self.jump(JUMP_IF_EQUAL, OTHER, VALUE, 0, Label::Pass);
    }

    fn load_map(&mut self, to: u8, map: RawFd) {
        self.add(LOAD_IMMEDIATE_64, to, MAP_DESCRIPTOR, 0, map);
        self.add(0, 0, 0, 0, 0);
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (place, label) in self.jumps {
            let found = self.labels.iter().find(|(known, _)| *known == label);
            let (_, target) = found.expect("every label is placed");
            self.instructions[place].offset = (target - place - 1) as i16;
        }
        self.instructions
    }
}

/// Returns the bytes of a 16-bit field as a load in this machine's byte order gives them.
fn field(value: u16) -> i32 {
    u16::from_ne_bytes(value.to_be_bytes()).into()
}

/// Returns the program. It redirects a frame if it is an unfragmented UDP packet of IPv4 without
/// options, or of IPv6 without extension headers, with a checksum, to one of the addresses, and
/// short enough.
fn program(addresses: RawFd, sockets: RawFd) -> Vec<Instruction> {
    let mut code = Assembler::default();
    code.add(MOVE, CONTEXT, R1, 0, 0);
    code.load(LOAD_32, FRAME, CONTEXT, 0);
    code.load(LOAD_32, END, CONTEXT, 4);
    code.require(V4_HEADERS);
    code.add(MOVE, LIMIT, FRAME, 0, 0);
    code.add(ADD_IMMEDIATE, LIMIT, 0, 0, FRAME_MAX as i32);
    code.jump(JUMP_IF_LESS, LIMIT, END, 0, Label::Pass);
    code.load(LOAD_16, VALUE, FRAME, ETHER_TYPE);
    code.jump(JUMP_IF_IMMEDIATE_EQUAL, VALUE, 0, field(0x86dd), Label::V6);
    code.jump(JUMP_IF_IMMEDIATE_DIFFERS, VALUE, 0, field(0x0800), Label::Pass);

    code.load(LOAD_8, VALUE, FRAME, V4);
    code.jump(JUMP_IF_IMMEDIATE_DIFFERS, VALUE, 0, 0x45, Label::Pass);
    code.load(LOAD_16, VALUE, FRAME, V4_FRAGMENT);
    code.add(AND_IMMEDIATE, VALUE, 0, 0, field(0x3fff));
    code.jump(JUMP_IF_IMMEDIATE_DIFFERS, VALUE, 0, 0, Label::Pass);
    code.load(LOAD_8, VALUE, FRAME, V4_PROTOCOL);
    code.jump(JUMP_IF_IMMEDIATE_DIFFERS, VALUE, 0, libc::IPPROTO_UDP, Label::Pass);
    code.require_checksum(V4_FROM..V4_UDP, V4_UDP);
    code.add(STORE_IMMEDIATE_32, STACK, 0, KEY, 0);
    code.add(STORE_IMMEDIATE_32, STACK, 0, KEY + 4, 0);
    code.add(STORE_IMMEDIATE_32, STACK, 0, KEY + 8, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    code.load(LOAD_32, VALUE, FRAME, V4_TO);
    code.add(STORE_32, STACK, VALUE, KEY + 12, 0);
    code.load(LOAD_16, VALUE, FRAME, V4_UDP + PORT);
    code.jump(JUMP, 0, 0, 0, Label::LookUp);

    code.label(Label::V6);
    code.require(V6_HEADERS);
    code.load(LOAD_8, VALUE, FRAME, V6_NEXT);
    code.jump(JUMP_IF_IMMEDIATE_DIFFERS, VALUE, 0, libc::IPPROTO_UDP, Label::Pass);
    code.require_checksum(V6_FROM..V6_UDP, V6_UDP);
    for part in (0..16).step_by(4) {
        code.load(LOAD_32, VALUE, FRAME, V6_TO + part);
        code.add(STORE_32, STACK, VALUE, KEY + part, 0);
    }
    code.load(LOAD_16, VALUE, FRAME, V6_UDP + PORT);

    code.label(Label::LookUp);
    if cfg!(target_endian = "big") {
        // The port is the upper half of the last word.
        code.add(SHIFT_LEFT_IMMEDIATE, VALUE, 0, 0, 16);
    }
    code.add(STORE_32, STACK, VALUE, KEY + 16, 0);
    code.load_map(R1, addresses);
    code.add(MOVE, R2, STACK, 0, 0);
    code.add(ADD_IMMEDIATE, R2, 0, 0, KEY.into());
    code.add(CALL, 0, 0, 0, MAP_LOOKUP_ELEM);
    code.jump(JUMP_IF_IMMEDIATE_EQUAL, R0, 0, 0, Label::Pass);
    code.load_map(R1, sockets);
    code.load(LOAD_32, R2, CONTEXT, 16);
    // Without a socket for the queue, the frame is passed to the kernel.
    code.add(MOVE_IMMEDIATE, R3, 0, 0, XDP_PASS);
    code.add(CALL, 0, 0, 0, REDIRECT_MAP);
    code.add(EXIT, 0, 0, 0, 0);

    code.label(Label::Pass);
    code.add(MOVE_IMMEDIATE, R0, 0, 0, XDP_PASS);
    code.add(EXIT, 0, 0, 0, 0);
    code.finish()
}
