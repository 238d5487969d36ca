//! Copies of packets that an emulated network delays.

use fairway_wire::Ecn;

use crate::limits::HOLDING_BYTES_MAX;
use crate::memory::RawSlice;
use crate::udp::Address;

/// Delayed packets. Buffers are reused, so that in the long run nothing is allocated.
#[derive(Debug, Default)]
pub(super) struct Pool {
    parcels: Vec<Parcel>,
    free: Vec<u32>,
    bytes: usize,
}

/// A delayed packet, and its route.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) bytes: Vec<u8>,
    pub(super) route: Route,
}

/// The socket, the destination, the congestion bits and the code point of a packet that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) socket: usize,
    pub(super) to: Address,
    pub(super) ecn: Ecn,
    pub(super) dscp: u8,
}

impl Pool {
    /// Copies a packet. Returns its number, or `None` if too many bytes are stored already.
    pub(super) fn store(&mut self, route: Route, header: &[u8], payload: RawSlice) -> Option<u32> {
        let len = header.len() + payload.len();
        if self.bytes + len > HOLDING_BYTES_MAX {
            return None;
        }
        self.bytes += len;
        let number = self.free.pop().unwrap_or_else(|| {
            self.parcels.push(Parcel { bytes: Vec::new(), route });
            (self.parcels.len() - 1) as u32
        });
        let parcel = &mut self.parcels[number as usize];
        parcel.route = route;
        parcel.bytes.clear();
        parcel.bytes.reserve(len);
        parcel.bytes.extend_from_slice(header);
        if !payload.is_empty() {
            // SAFETY: room for `len` bytes was reserved; payload is readable until the send it was
            // handed to returns, by the promise of `RawSlice::new`, and this is part of that send.
            unsafe {
                let end = parcel.bytes.as_mut_ptr().add(header.len());
                std::ptr::copy_nonoverlapping(payload.as_ptr(), end, payload.len());
                parcel.bytes.set_len(len);
            }
        }
        Some(number)
    }

    pub(super) fn get(&self, number: u32) -> &Parcel {
        &self.parcels[number as usize]
    }

    pub(super) fn release(&mut self, number: u32) {
        self.bytes -= self.parcels[number as usize].bytes.len();
        self.parcels[number as usize].bytes.clear();
        self.free.push(number);
    }

    /// Number of bytes stored.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
