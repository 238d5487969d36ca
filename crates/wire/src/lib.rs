//! The values that all rooms of Fairway share, and the format of packets on the wire.
//!
//! **What it is.** The plain values that every other room uses: instants and durations, packet
//! sequence numbers, identifiers, packet values; and the only code that turns packets into bytes
//! and bytes into packets. Layouts follow the Unified Bus headers (`docs/wire.md`). Where the
//! public text has no layout, Fairway's own is documented there and versioned. [`roce`] is the
//! other protocol family: RoCEv2, as in the InfiniBand specification.
//!
//! **May import:** nothing.
//!
//! **Invariants.** A packet value is at most 80 bytes and never carries payload. Decoding is
//! total: any byte string gives a packet or a typed error. `decode(encode(p)) == p`.
//!
//! **How to test:** `cargo test -p fairway-wire`; `fairway-fuzz` has the fuzz targets.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod check;
mod codec;
mod fill;
mod ids;
mod packet;
mod paths;
mod psn;
pub mod roce;
mod setup;
#[cfg(test)]
mod strategies;
mod time;

pub use check::{CheckKey, header_check};
pub use codec::{
    DecodeError, Decoded, MAX_HEADER, PROTOCOL_VERSION, Unsupported, decode, decode_filled,
    decode_keyed, encode, encode_keyed, encode_setup, header_len,
};
pub use fill::fill_end;
pub use ids::{Cna, JettyId, Msn, Qpn, TokenId, Tpn};
pub use packet::{
    Access, Ack, AckFlags, AtomicOperator, BYPASS_BYTES, Bypass, BypassOperation, CREDIT_MAX,
    CarriedAck, Cci, Close, Credit, CreditRequest, Data, Datagram, ECHO_DELAY_UNIT_NS,
    EXECUTED_MAX, Ecn, Executed, Get, Nak, Operation, Order, PATH_REPORTS_MAX, Packet, Part,
    PathReport, PathReports, Priority, Probe, Put, Refusal, Retire, Route, SACK_BITS, Sack,
    ServiceMode, Tag, Target, Void,
};
pub use paths::{PathSockets, Role, path_sockets, socket_pairs, sockets_for};
pub use psn::Psn;
pub use setup::{
    Accept, BYPASS, CARRIED_ACKS, Confirm, Endpoint, FILLED, GROUP_MAX, Hello, Joins, KEY_LEN,
    PADDED_HELLOS, PARTS, PATHS_MAX, PORTS_MAX, Parameters, Ports, RETIRE, Reject, RejectReason,
    SETUP_LEN, SLOTS_MAX, Setup, SetupMessage, UNRELIABLE, Versions, Welcome,
};
pub use time::{Duration, Instant};
