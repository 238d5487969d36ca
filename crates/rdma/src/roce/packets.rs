//! Encodes packets: each is written behind the one before it, with its ICRC, into a buffer to which
//! the run's train refers.

use fairway_port::{RawSlice, TRAIN_BYTES_MAX};
use fairway_roce::Transmit;
use fairway_runtime::{Appended, Companion, Destination, Io};
use fairway_ub::wire::Priority;
use fairway_ub::wire::roce::{self, Icrc, Operation, Outer, Packet, Syndrome};
use std::net::{IpAddr, SocketAddr};
use std::ptr::NonNull;

/// Sockets and outgoing packets.
pub(crate) type RoceIo = Io<Packets>;

/// The packets of the current run.
pub(crate) struct Packets {
    room: Room,
    /// True if the kernel segments trains, and numbers the segments (see [`identification`]).
    segmentation: bool,
}

/// A packet that begins the next run.
pub(crate) struct Waiting {
    pub(super) transmit: Transmit,
    /// A copy of its payload, if it has to wait for long. The operation may end before there is
    /// room, and its memory then belongs to the application again.
    pub(super) carried: Option<Vec<u8>>,
}

impl Packets {
    pub(super) fn new(segmentation: bool) -> Packets {
        Packets { room: Room::new(), segmentation }
    }
}

impl Companion for Packets {
    type Pending = Waiting;
    type Held = Transmit;

    fn cleared(&mut self) {
        self.room.used = 0;
    }
}

/// The result of adding a packet to the run.
pub(super) enum Pushed {
    Yes,
    /// The packet does not fit.
    No,
    /// The packet's payload could not be written.
    Unfilled,
}

/// A buffer to which a train refers by address, and into which one packet is written after the
/// other.
struct Room {
    base: NonNull<u8>,
    used: usize,
}

// SAFETY: it owns its allocation, and bytes have no thread affinity.
unsafe impl Send for Room {}

impl Room {
    const BYTES: usize = TRAIN_BYTES_MAX;

    fn new() -> Room {
        let bytes = vec![0_u8; Self::BYTES].into_boxed_slice();
        Room { base: NonNull::from(Box::leak(bytes)).cast(), used: 0 }
    }

    /// Returns the next `length` bytes.
    ///
    /// # Panics
    /// If there are not so many.
    fn next(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= Self::BYTES - self.used, "a train larger than its room");
        // SAFETY: within the allocation, asserted above, and initialised; packets before it are
        // named by addresses, and no reference to any byte here outlives the borrow of `self`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(self.used), length) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let bytes = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), Self::BYTES);
        // SAFETY: leaked in `new` with this length, and freed only here.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

/// Returns the IP identification that the next packet of the run will have, which its ICRC covers.
/// An unconnected socket sends 0 with DF; in a run that the kernel segments, each packet's is one
/// more than the previous one's. (Packets that were sent before it was known that the kernel does
/// not segment runs are lost for receivers that check the number, and are retransmitted.)
fn identification(io: &RoceIo) -> u16 {
    match io.own.segmentation && io.sockets.datapath.port().features().segmentation {
        true => io.outbox.run_len() as u16,
        false => 0,
    }
}

/// Adds a packet to the run. `fill` writes its payload of `payload` bytes, and returns false if
/// there is none.
pub(super) fn push(
    io: &mut RoceIo,
    bound: Destination,
    from: SocketAddr,
    packet: &Packet,
    payload: usize,
    fill: impl FnOnce(&mut [u8]) -> bool,
) -> Pushed {
    let outer = outer(from, bound.to.into(), identification(io));
    let length = roce::datagram_len(packet, payload);
    // The header is encoded in a separate buffer, because its encoder requires room for the longest
    // header, which may not be available behind the last packet of a train.
    let mut header = [0; roce::MAX_HEADER];
    let header_len = roce::encode(packet, payload, &mut header);
    let bytes = io.own.room.next(length);
    let (head, rest) = bytes.split_at_mut(header_len);
    head.copy_from_slice(&header[..header_len]);
    if !fill(&mut rest[..payload]) {
        return Pushed::Unfilled;
    }
    let (covered, tail) = bytes.split_at_mut(header_len + payload);
    let icrc = Icrc::new_with(&outer, covered, length, crc32);
    tail.copy_from_slice(icrc.trailer(payload).bytes());
    // SAFETY: the room is not written here, nor freed, before the train was sent and cleared.
    let slice = unsafe { RawSlice::new(bytes.as_ptr(), length) };
    match io.append(bound, class_of(packet), &[], slice) {
        Appended::Yes => {
            io.own.room.used += length;
            Pushed::Yes
        }
        Appended::Next | Appended::Never => Pushed::No,
    }
}

/// The class of a packet. Acknowledgements have that of data, because one that overtakes answers to
/// READs makes these seem lost.
fn class_of(packet: &Packet) -> Priority {
    match packet.operation {
        Operation::Cnp => Priority::CONTROL,
        _ => Priority::DATA,
    }
}

pub(super) fn is_acknowledgement(packet: &Packet) -> bool {
    let Operation::Acknowledge(aeth) = packet.operation else { return false };
    matches!(aeth.syndrome, Syndrome::Ack(_))
}

/// Returns the CRC-32 of data with the CRC `crc` followed by `bytes`, computed by the CPU's own
/// instructions if it has any.
pub(super) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// Returns the headers around a packet on the wire, as far as the ICRC covers them.
pub(super) fn outer(from: SocketAddr, to: SocketAddr, identification: u16) -> Outer {
    let port = from.port();
    let mut outer = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Outer::v4(from.octets(), to.octets(), port),
        (from, to) => Outer::v6(octets(from), octets(to), port),
    };
    if let roce::Network::V4 { identification: number, .. } = &mut outer.network {
        *number = identification;
    }
    outer.destination_port = to.port();
    outer
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
