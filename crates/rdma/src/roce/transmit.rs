//! Sends packets of the protocol: each goes to the process of its queue pair, with its payload
//! behind its headers.

use fairway_roce::{Received, Transmit};
use fairway_runtime::Destination;
use fairway_ub::wire::Instant;
use fairway_ub::wire::roce;

use super::core::RoceCore;
use super::packets::{Pushed, RoceIo, Waiting, push};
use super::routes::Way;

#[cfg(test)]
mod tests;

impl RoceCore {
    /// Adds a packet to the run. Returns false if it does not belong to the run; then it is
    /// pending. `carried` is its payload, if that is no longer at the address in `transmit`.
    pub(super) fn put(
        &mut self,
        io: &mut RoceIo,
        transmit: &Transmit,
        carried: Option<&[u8]>,
    ) -> bool {
        let Transmit { to, packet, gather, .. } = transmit;
        let Ok((way, bound)) = self.network.bound(*to, packet.bth.destination) else {
            self.network.counters.unroutable += 1;
            return true;
        };
        if !io.outbox.takes(&bound, roce::datagram_len(packet, gather.length() as usize)) {
            io.outbox.pending = Some(Waiting { transmit: *transmit, carried: None });
            return false;
        }
        self.write(io, (way, bound), transmit, carried);
        true
    }

    fn write(
        &mut self,
        io: &mut RoceIo,
        (way, bound): (Way, Destination),
        transmit: &Transmit,
        carried: Option<&[u8]>,
    ) {
        let Transmit { packet, gather, .. } = transmit;
        let memories = &self.memories;
        let fill = |bytes: &mut [u8]| match carried {
            Some(carried) => {
                bytes.copy_from_slice(carried);
                true
            }
            None => memories.gather_into(gather, bytes),
        };
        match push(io, bound, way.from, packet, gather.length() as usize, fill) {
            Pushed::Yes => {}
            Pushed::No => self.network.counters.send_errors += 1,
            Pushed::Unfilled => self.ungathered(transmit),
        }
    }

    /// Adds the delayed acknowledgement, if it has the run's destination, and fits.
    pub(super) fn put_held(&mut self, io: &mut RoceIo) {
        let Some(held) = io.outbox.held.take() else { return };
        let Ok((way, bound)) = self.network.bound(held.to, held.packet.bth.destination) else {
            self.network.counters.unroutable += 1;
            return;
        };
        match io.outbox.takes(&bound, roce::datagram_len(&held.packet, 0)) {
            true => self.write(io, (way, bound), &held, None),
            false => io.outbox.held = Some(held),
        }
    }

    /// Builds the answers that read memory which an arriving packet is about to change, as far as
    /// there is room. If there is not, the protocol has that packet retransmitted.
    pub(super) fn answer_before(&mut self, io: &mut RoceIo, now: Instant, received: &Received) {
        while !io.outbox.is_blocked()
            && io.outbox.pending.is_none()
            && let Some(transmit) = self.host.poll_answer(received)
        {
            if self.put(io, &transmit, None) {
                continue;
            }
            self.put_held(io);
            // If the run cannot be sent, a socket is full.
            io.send_run(now);
            self.settle_pending(io);
        }
    }

    /// Adds the packet that had to wait for a new run. Returns false if there is no room yet.
    pub(super) fn put_waiting(&mut self, io: &mut RoceIo, waiting: Waiting) -> bool {
        let put = self.put(io, &waiting.transmit, waiting.carried.as_deref());
        if !put {
            io.outbox.pending = Some(waiting);
        }
        put
    }

    /// Payload must not stay in the application's memory for a packet that the protocol has handed
    /// out: a packet that waits for a new run begins it, or takes a copy of its payload along.
    pub(super) fn settle_pending(&mut self, io: &mut RoceIo) {
        if !io.outbox.has_run()
            && let Some(waiting) = io.outbox.pending.take()
        {
            self.put_waiting(io, waiting);
        }
        let Some(waiting) = &mut io.outbox.pending else { return };
        if waiting.carried.is_some() {
            return;
        }
        let transmit = waiting.transmit;
        let mut bytes = vec![0; transmit.gather.length() as usize];
        if self.memories.gather_into(&transmit.gather, &mut bytes) {
            waiting.carried = Some(bytes);
        } else {
            io.outbox.pending = None;
            self.ungathered(&transmit);
        }
    }

    /// Reports that a packet is not sent, because its payload's memory is gone.
    fn ungathered(&mut self, transmit: &Transmit) {
        self.network.counters.send_errors += 1;
        self.memories.counters.gone += 1;
        self.host.handle_ungathered(transmit);
    }
}
