//! The messages by which two sides learn each other's queue pairs.

use std::net::{IpAddr, Ipv6Addr};

use fairway_port::rnic::Gid;

/// The first bytes of each message: four letters, and a byte that no packet has in this place (RT
/// of NTH is 3) with the version.
const BEGIN: [u8; 5] = [b'F', b'w', b'Q', b'P', 0xC1];
/// Maximum number of queue pairs of a message.
pub(super) const PAIRS_MAX: usize = 16;
const PAIR_BYTES: usize = 6;
const FIXED_BYTES: usize = 64;
/// Length of every message, so that no answer is longer than its request.
pub(super) const BYTES: usize = FIXED_BYTES + PAIRS_MAX * PAIR_BYTES;

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Requests the numbers of queue pairs. Through the sockets.
    Request = 1,
    /// Answers a request. Through the sockets.
    Answer = 2,
    /// Tests the way from one queue pair to another. Through the NIC.
    Probe = 3,
    /// Confirms a probe. Through the sockets.
    Proof = 4,
    /// Requests a connection with a queue pair. Through the sockets.
    Connect = 5,
    /// Confirms that a queue pair is connected. Through the sockets.
    Connected = 6,
    /// Tests a connection. Through the connection.
    Check = 7,
    /// Confirms a test. Through the sockets.
    Passed = 8,
}

/// A queue pair, and the port of the socket that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) port: u16,
    pub(super) number: u32,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) kind: Kind,
    /// A number that only its receiver learns, because it is sent to the receiver's IP address.
    pub(super) nonce: u64,
    /// The number that the receiver has sent; 0: none has arrived.
    pub(super) echo: u64,
    /// In answers and proofs the receiver's IP address, as the sender sees it; in probes the
    /// sender's, as an answer has told it.
    pub(super) seen: IpAddr,
    /// The sender's queue pairs: their address, the key that packets to them need, the local
    /// identifier (InfiniBand), and the largest packet.
    pub(super) gid: Gid,
    pub(super) qkey: u32,
    pub(super) lid: u16,
    pub(super) packet_max: u16,
    /// Of messages about a connection: the sender's queue pair, and the one that it is connected
    /// with, 0 if with none.
    pub(super) pairs: Vec<Pair>,
}

/// True if a datagram is one of these messages, sound or not, and thus no packet.
#[inline]
pub(super) fn is_introduction(datagram: &[u8]) -> bool {
    datagram.len() == BYTES && datagram[..BEGIN.len()] == BEGIN
}

impl Introduction {
    pub(super) fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let IpAddr::V6(seen) = widened(self.seen) else { return bytes };
        let count = self.pairs.len().min(PAIRS_MAX);
        bytes[..5].copy_from_slice(&BEGIN);
        (bytes[5], bytes[6]) = (self.kind as u8, count as u8);
        bytes[8..16].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.echo.to_be_bytes());
        bytes[24..40].copy_from_slice(&seen.octets());
        bytes[40..56].copy_from_slice(&self.gid);
        bytes[56..60].copy_from_slice(&self.qkey.to_be_bytes());
        bytes[60..62].copy_from_slice(&self.lid.to_be_bytes());
        bytes[62..64].copy_from_slice(&self.packet_max.to_be_bytes());
        let places = bytes[FIXED_BYTES..].chunks_exact_mut(PAIR_BYTES);
        for (place, pair) in places.zip(&self.pairs[..count]) {
            place[..2].copy_from_slice(&pair.port.to_be_bytes());
            place[2..].copy_from_slice(&pair.number.to_be_bytes());
        }
        bytes
    }

    /// Reads a message. `None`: the bytes are none.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Introduction> {
        if !is_introduction(bytes) {
            return None;
        }
        let kind = match bytes[5] {
            1 => Kind::Request,
            2 => Kind::Answer,
            3 => Kind::Probe,
            4 => Kind::Proof,
            5 => Kind::Connect,
            6 => Kind::Connected,
            7 => Kind::Check,
            8 => Kind::Passed,
            _ => return None,
        };
        let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        let half = |at: usize| bytes[at..at + 2].try_into().map(u16::from_be_bytes).ok();
        let octets: [u8; 16] = bytes[24..40].try_into().ok()?;
        let count = usize::from(bytes[6]);
        if count > PAIRS_MAX {
            return None;
        }
        let places = bytes[FIXED_BYTES..].chunks_exact(PAIR_BYTES).take(count);
        let pairs = places.map(|place| Pair {
            port: u16::from_be_bytes([place[0], place[1]]),
            number: u32::from_be_bytes([place[2], place[3], place[4], place[5]]),
        });
        Some(Introduction {
            kind,
            nonce: word(8)?,
            echo: word(16)?,
            seen: Ipv6Addr::from(octets).to_canonical(),
            gid: bytes[40..56].try_into().ok()?,
            qkey: bytes[56..60].try_into().map(u32::from_be_bytes).ok()?,
            lid: half(60)?,
            packet_max: half(62)?,
            pairs: pairs.collect(),
        })
    }
}

fn widened(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 @ IpAddr::V6(_) => v6,
    }
}
