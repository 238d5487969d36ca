//! RoCEv2: InfiniBand's transport headers in UDP, as used by RNICs and the Linux kernel's
//! soft-RoCE.
//!
//! The layouts are those of the InfiniBand Architecture Specification, volume 1 ("IBTA" below),
//! chapter 9, and of its Annex A17 (RoCEv2). `docs/wire.md` has the tables.
//!
//! A datagram is BTH, extension headers, payload, 0 to 3 bytes of padding, and the invariant CRC.
//! [`encode()`] writes the headers and [`decode()`] reads them; neither touches the payload.
//! [`Icrc`] computes the CRC piece by piece, so that payload need not lie behind its headers:
//!
//! ```
//! use fairway_wire::roce::{
//!     self, Bth, Icrc, Operation, Outer, Packet, SendFragment, Service, Tail,
//! };
//!
//! let outer = Outer::v4([10, 0, 0, 1], [10, 0, 0, 2], 49_152);
//! let fragment = SendFragment::Only(Tail::Nothing);
//! let operation = Operation::Send { service: Service::Rc, fragment };
//! let packet = Packet { bth: Bth::default(), operation };
//! let payload = b"hello";
//!
//! let mut header = [0; roce::MAX_HEADER];
//! let header_len = roce::encode(&packet, payload.len(), &mut header);
//! let datagram_len = roce::datagram_len(&packet, payload.len());
//! let mut icrc = Icrc::new(&outer, &header[..header_len], datagram_len);
//! icrc.update(payload);
//! let trailer = icrc.trailer(payload.len());
//!
//! let datagram = [&header[..header_len], payload, trailer.bytes()].concat();
//! assert_eq!(datagram.len(), datagram_len);
//! let decoded = roce::decode(&datagram, datagram.len()).unwrap();
//! assert_eq!((decoded.packet, decoded.payload_len), (packet, 5));
//! assert!(Icrc::verify(&outer, &datagram));
//! ```

pub mod cm;
mod codec;
mod crc32;
mod error;
mod icrc;
mod outer;
mod packet;
mod syndrome;

pub use codec::{Decoded, datagram_len, decode, encode, header_len};
pub use crc32::Crc32;
pub use error::{DecodeError, OuterError};
pub use icrc::{Icrc, Trailer};
pub use outer::{Enclosed, Network, Outer};
pub use packet::{
    AtomicEth, Bth, Deth, Operation, Packet, ReadFragment, Reth, SendFragment, Service, Tail,
    WriteFragment,
};
pub use syndrome::{Aeth, Credits, NakCode, RnrTimer, Syndrome};

/// The UDP destination port of every RoCEv2 datagram (IBTA vol 1, Annex A17).
pub const UDP_PORT: u16 = 4791;

/// Length in bytes of the longest packet header. A prefix of this length of a datagram is always
/// enough to decode it.
pub const MAX_HEADER: usize = 40;

/// Length of the invariant CRC at the end of every datagram, in bytes.
pub const ICRC_LEN: usize = 4;

/// The P_Key of the default partition, with full membership.
pub const DEFAULT_P_KEY: u16 = 0xffff;

#[cfg(test)]
mod tests;
