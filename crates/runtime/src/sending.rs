//! Sends packets: those of one path form one run, which leaves in one system call.

use fairway_wire::Instant;

use crate::burst::SmallPosts;
use crate::clock;
use crate::io::{Companion, Io};
use crate::protocol::Protocol;

/// A run of up to this many packets is sent in about the time that the device takes to look for
/// another one.
const FEW: usize = 2;

/// Sends the packets that the device has to send.
pub fn transmit<P: Protocol>(protocol: &mut P, io: &mut Io<P::Own>, now: Instant) {
    transmit_all::<P, false>(protocol, io, now);
}

/// In a poll that goes on to receive: sends the packets that go before data, if an acknowledgement
/// covers enough packets. Does nothing while a socket is full, or an acknowledgement is delayed.
pub(super) fn transmit_urgent<P: Protocol>(protocol: &mut P, io: &mut Io<P::Own>) {
    let waits = io.outbox.has_run() || io.outbox.ack_deadline().is_some();
    if !waits && protocol.has_full_ack(io.engine) {
        transmit_all::<P, true>(protocol, io, clock::now());
    }
}

/// Sends the device's packets; with `URGENT` only those that go before data.
fn transmit_all<P: Protocol, const URGENT: bool>(
    protocol: &mut P,
    io: &mut Io<P::Own>,
    now: Instant,
) {
    let mut now = now;
    if protocol.sending_begins(io) && io.begin_sending(now) {
        while fill_from::<P, URGENT>(protocol, io, now) {
            // Sending a run takes longer than the precision of round-trip measurements, so the
            // packets after it must be recorded with a later time.
            if !io.send_run(now)
                || !io.may_send_more(P::RUNS_MAX, P::SENT_MAX)
                || io.outbox.is_done()
            {
                break;
            }
            now = clock::now();
        }
    }
    protocol.note_sending_done(io);
}

/// Sends what a call has posted, and everything before it. `small`: all that was posted are these
/// small operations, which may wait for others ([`Burst`](crate::Burst)). Returns false if they do.
pub fn transmit_posted<P: Protocol>(
    protocol: &mut P,
    io: &mut Io<P::Own>,
    small: Option<SmallPosts>,
) -> bool {
    if small.is_some_and(|small| io.burst.may_wait(small)) {
        return false;
    }
    io.outbox.hold_postponed();
    transmit(protocol, io, clock::now());
    io.outbox.may_hold_ack = false;
    // The next poll has nothing to make up for.
    io.outbox.take_postponed();
    let is_certain = small.is_some() && io.outbox.packets > 0;
    io.burst.left(clock::now(), is_certain);
    true
}

/// Builds the next run. Returns false if there is nothing to send.
pub fn fill<P: Protocol>(protocol: &mut P, io: &mut Io<P::Own>, now: Instant) -> bool {
    fill_from::<P, false>(protocol, io, now)
}

fn fill_from<P: Protocol, const URGENT: bool>(
    protocol: &mut P,
    io: &mut Io<P::Own>,
    now: Instant,
) -> bool {
    protocol.run_begins(io, now);
    io.outbox.has_drained = false;
    if let Some(first) = io.outbox.pending.take() {
        io.own.run_begun();
        if !protocol.add_pending(io, now, first) {
            return true;
        }
    }
    if protocol.add_own(io) {
        return true;
    }
    while io.outbox.packets < P::SENT_MAX {
        let next = match URGENT {
            true => protocol.next_urgent(now, io.engine),
            false => protocol.next(now, io.engine),
        };
        let Some(transmit) = next else {
            // Sending more takes so long that the device may have another packet after it.
            io.outbox.has_drained = io.outbox.packets <= FEW;
            break;
        };
        io.outbox.packets += 1;
        if !protocol.add(io, now, &transmit) {
            protocol.run_complete(io, now);
            return true;
        }
    }
    io.outbox.unfinished |= io.outbox.packets >= P::SENT_MAX;
    if let Some(held) = io.outbox.release(now)
        && !protocol.add_held(io, now, held)
    {
        return true;
    }
    io.outbox.has_run()
}
