//! Several engines: each is a thread with separate sockets.
//!
//! The protocol runs under the lock that all engines share, in short steps. Long work is done
//! without the lock: system calls that receive packets into buffers of the thread, copies of
//! payload from there, or from shared memory, to its final place, and system calls that send from
//! the application's memory.
//!
//! This I/O may therefore use the application's memory while another thread has the lock, and that
//! memory must not be returned to the application meanwhile. An operation completes when its
//! packets are acknowledged or its last payload arrives. Both arrive at the sockets of the engine
//! of its channel, and thus at the thread that does its I/O. Everything else that returns memory
//! (closing a connection, rewinding a mailbox, dropping a segment or a Jetty, declaring a peer
//! dead) happens while no I/O is in flight: [`Shared::with_quiesced`], `Core::fire_timers`. Packets
//! that were built before and have not been sent are dropped then (`Core::forget_ended`). Memory is
//! unmapped only when no engine has a packet that refers to it (`Core::free_released_memory`).

use std::sync::atomic::Ordering;

use fairway_port::Arrival;
use fairway_runtime::{
    Asleep, Companion, Protocol, clock, earlier, fill, fire_timers, handle_arrival, span_until,
};
use fairway_ub::wire::Duration;

use crate::core::Core;
use crate::protocol::{Io, wait_of};
use crate::shared::Shared;

/// Time for which an idle thread polls before it sleeps.
const SPIN: Duration = Duration::from_us(20);

/// Timers that are overdue by this much are fired by the next thread that polls.
const LATE: Duration = Duration::from_ms(2);

/// Runs an engine's thread until the context stops.
pub(crate) fn run(shared: &Shared, mut io: Io) {
    let mut ready = Vec::with_capacity(64);
    let mut busy_at = clock::now();
    io.own.share();
    let _returned = IoGuard { shared, engine: io.engine };
    while !shared.stopping.load(Ordering::Acquire) {
        if poll(shared, &mut io) {
            busy_at = clock::now();
            shared.make_way();
        } else if clock::now().since(busy_at) < SPIN {
            std::hint::spin_loop();
        } else {
            sleep(shared, &mut io, &mut ready);
            busy_at = clock::now();
        }
    }
    // Sends the remaining messages of the shutdown, such as closes of channels.
    poll(shared, &mut io);
}

/// Marks the engine's I/O as finished when its thread ends, even by a panic.
struct IoGuard<'a> {
    shared: &'a Shared,
    engine: u32,
}

impl Drop for IoGuard<'_> {
    fn drop(&mut self) {
        let mut locked = self.shared.lock();
        locked.core.io_in_flight &= !(1 << self.engine);
        locked.core.note_gone(self.engine);
    }
}

/// Sleeps until a packet has arrived, a timer is due, or another thread has left data to send.
fn sleep(shared: &Shared, io: &mut Io, ready: &mut Vec<usize>) {
    let engine = io.engine;
    let mut locked = shared.lock();
    // While a socket's send buffer is full, output waits for it to have room.
    if locked.core.has_output(engine) && !io.outbox.is_blocked() {
        return shared.run_pending_and_unlock(locked);
    }
    let until = match locked.core.has_crashed() {
        true => None,
        false => earlier(locked.core.deadline(engine), io.deadline()),
    };
    if io.sockets.arm() {
        return shared.run_pending_and_unlock(locked);
    }
    locked.asleep[engine as usize] = Some(Asleep(until));
    shared.run_pending_and_unlock(locked);
    if shared.stopping.load(Ordering::Acquire) {
        return;
    }
    // A wait that fails is treated as an interrupted one: the next poll checks every socket.
    let woken = shared.sleepers[engine as usize].wait(span_until(until), ready);
    let mut locked = shared.lock();
    locked.asleep[engine as usize] = None;
    drop(locked);
    if woken.is_ok() {
        io.sockets.mark_ready(ready);
    }
}

/// Runs one poll. Returns false if there was nothing to do.
fn poll(shared: &Shared, io: &mut Io) -> bool {
    let now = clock::now();
    io.sockets.release_due(now);
    let has_received = receive(shared, io);
    let mut locked = shared.lock();
    if locked.core.has_crashed() {
        shared.run_pending_and_unlock(locked);
        return false;
    }
    locked.core.counters.polls += 1;
    let now = clock::now();
    locked.core.changes += u64::from(io.own.has_setups());
    locked.core.handle_setups(io, now);
    // The first engine fires timers; another engine does only if they are overdue.
    if io.engine == 0 || locked.core.is_overdue(now, LATE) {
        fire_timers(&mut locked.core, now);
        locked.core.drain_events();
    }
    shared.run_pending_and_unlock(locked);
    send(shared, io) || has_received
}

/// Receives the packets that have arrived, one run at a time.
fn receive(shared: &Shared, io: &mut Io) -> bool {
    let mut packets = 0;
    io.sockets.choose();
    while packets < Core::RECEIVED_MAX
        && let Some(socket) = io.sockets.next()
    {
        let mut buffer = io.sockets.take_buffer();
        let mut took = 0;
        if let Some(arrival) = io.sockets.receive(socket, &mut buffer) {
            io.own.arrived(&arrival);
            took = arrival.segments();
            handle(shared, io, socket, &arrival);
        }
        io.sockets.give_buffer(buffer);
        io.sockets.took(socket, took);
        packets += took;
    }
    packets > 0
}

/// Passes a run of packets to the protocol, and copies their payloads into place.
fn handle(shared: &Shared, io: &mut Io, socket: usize, arrival: &Arrival<'_>) {
    let mut locked = shared.lock();
    if locked.core.has_crashed() {
        return shared.run_pending_and_unlock(locked);
    }
    let now = clock::now();
    handle_arrival(&mut locked.core, io, now, socket, arrival);
    locked.core.drain_events();
    if io.own.deferred_copies.is_empty() {
        return shared.run_pending_and_unlock(locked);
    }
    let alone = locked.core.may_start_io(now) && !shared.quiesce_requested();
    if alone {
        locked.core.io_in_flight |= 1 << io.engine;
        shared.unlock_for_io(locked);
        io.own
            .deferred_copies
            .iter_mut()
            .for_each(|deferred_copies| deferred_copies.place(arrival));
        locked = shared.lock();
        locked.core.io_in_flight &= !(1 << io.engine);
    } else {
        io.own
            .deferred_copies
            .iter_mut()
            .for_each(|deferred_copies| deferred_copies.place(arrival));
    }
    // Another engine may have received packets meanwhile.
    locked.core.nic.set_host_wait(wait_of(arrival));
    locked.core.finish_deferred_copies(io, clock::now());
    locked.core.drain_events();
    shared.run_pending_and_unlock(locked);
}

/// Sends the packets that the protocol has to send, one run at a time.
fn send(shared: &Shared, io: &mut Io) -> bool {
    let bit = 1 << io.engine;
    let mut any = false;
    if io.outbox.is_blocked() {
        let mut locked = shared.lock();
        locked.core.forget_ended(io);
        if !locked.core.may_start_io(clock::now()) || shared.quiesce_requested() {
            shared.run_pending_and_unlock(locked);
            return false;
        }
        locked.core.io_in_flight |= bit;
        shared.unlock_for_io(locked);
    }
    let mut may_send = io.begin_sending(clock::now());
    loop {
        let mut locked = shared.lock();
        // The clock is read under the lock, so the protocol's time never runs backwards.
        let now = clock::now();
        locked.core.io_in_flight &= !bit;
        let filled = may_send && fill(&mut locked.core, io, now);
        locked.core.note(io);
        if !filled {
            locked.core.end_poll();
            shared.run_pending_and_unlock(locked);
            return any;
        }
        any = true;
        let alone = locked.core.may_start_io(now) && !shared.quiesce_requested();
        if alone {
            locked.core.io_in_flight |= bit;
            shared.unlock_for_io(locked);
            may_send = io.send_run(now);
        } else {
            may_send = io.send_run(now);
            shared.run_pending_and_unlock(locked);
        }
        may_send = io.may_send_more(Core::RUNS_MAX, Core::SENT_MAX) && may_send;
    }
}
