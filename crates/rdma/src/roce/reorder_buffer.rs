//! Packets that arrived before it was known where their payload belongs. They wait for their turn
//! ([`OwnVerdict::Buffer`](fairway_roce::OwnVerdict)).

use fairway_roce::Received;
use fairway_ub::wire::Ecn;

/// Buffered packets by place. Grows to the largest number buffered at once; buffers are reused.
#[derive(Debug, Default)]
pub(super) struct ReorderBuffer {
    places: Vec<Place>,
}

#[derive(Debug, Default)]
struct Place {
    received: Option<Received>,
    payload: Vec<u8>,
}

impl ReorderBuffer {
    /// Stores a packet. Its congestion mark has been processed.
    pub(super) fn put(&mut self, place: u32, received: &Received, payload: &[u8]) {
        let index = place as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, Place::default);
        }
        let place = &mut self.places[index];
        place.received = Some(Received { ecn: Ecn::NotCapable, ..*received });
        place.payload.clear();
        place.payload.extend_from_slice(payload);
    }

    /// Takes a packet out.
    pub(super) fn take(&mut self, place: u32) -> Option<(Received, Vec<u8>)> {
        let place = self.places.get_mut(place as usize)?;
        Some((place.received.take()?, std::mem::take(&mut place.payload)))
    }

    /// Returns a packet's buffer for reuse, unless the place has another one by now.
    pub(super) fn restore(&mut self, place: u32, payload: Vec<u8>) {
        if let Some(place) = self.places.get_mut(place as usize)
            && place.received.is_none()
        {
            place.payload = payload;
        }
    }
}
