//! Several engines: each is a thread with sockets of its own.
//!
//! What the protocol decides, and where payload is put, is done under the lock that all share, in
//! short steps. What takes long is done outside of it: the system calls that receive packets, with
//! payload going to where the engine expects it, and those that send them, out of the application's
//! memory.
//!
//! So memory is lent to system calls while others have the lock, and must not become the
//! application's again meanwhile. An operation completes when its packets are acknowledged or its
//! last payload arrives, and both come to the sockets of the engine that carries its channel, so to
//! the very thread that makes those calls. Whoever gives memory back otherwise (closes a
//! connection, rewinds a mailbox, drops a segment or a Jetty, calls a peer dead) does so while none
//! is lent: [`Shared::with_still`], `Core::fire_timers`. Memory is unmapped only when no engine has
//! a packet that names any (`Core::bury`).

use std::sync::atomic::Ordering;

use fairway_engine::wire::Duration;
use fairway_port::Arrival;

use crate::clock;
use crate::progress::{earlier, span_until};
use crate::shared::{Asleep, Shared};
use crate::turn::{Io, Prepared, Targets};

/// How long a thread with nothing to do looks for something before it sleeps.
const SPIN: Duration = Duration::from_us(20);

/// The life of an engine's thread.
pub(crate) fn run(shared: &Shared, mut io: Io) {
    let mut ready = Vec::with_capacity(64);
    let mut busy_at = clock::now();
    let _returned = Returned { shared, engine: io.engine };
    while !shared.stopping.load(Ordering::Acquire) {
        if turn(shared, &mut io) {
            busy_at = clock::now();
            shared.make_way();
        } else if clock::now().since(busy_at) < SPIN {
            std::hint::spin_loop();
        } else {
            sleep(shared, &mut io, &mut ready);
            busy_at = clock::now();
        }
    }
    // The last words.
    turn(shared, &mut io);
}

/// Whatever ends an engine's thread: no memory is lent to it any more.
struct Returned<'a> {
    shared: &'a Shared,
    engine: u32,
}

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        self.shared.lock().core.lent &= !(1 << self.engine);
    }
}

/// Sleeps until something has arrived, a timer is due, or somebody has left something to send.
fn sleep(shared: &Shared, io: &mut Io, ready: &mut Vec<usize>) {
    let engine = io.engine;
    let mut locked = shared.lock();
    if locked.core.has_output(engine) {
        return shared.unlock(locked);
    }
    let until = match locked.core.has_vanished() {
        true => None,
        false => earlier(locked.core.deadline(engine), io.deadline()),
    };
    locked.asleep[engine as usize] = Some(Asleep(until));
    shared.unlock(locked);
    if shared.stopping.load(Ordering::Acquire) {
        return;
    }
    // A failing wait is like one that was interrupted: the next turn looks at every socket.
    let woken = shared.engines[engine as usize].wait(span_until(until), ready);
    let mut locked = shared.lock();
    locked.asleep[engine as usize] = None;
    drop(locked);
    if woken.is_ok() {
        io.mark_ready(ready);
    }
}

/// One turn. False if there was nothing to do.
fn turn(shared: &Shared, io: &mut Io) -> bool {
    let now = clock::now();
    io.release_due(now);
    let heard = receive(shared, io);
    let mut locked = shared.lock();
    if locked.core.has_vanished() {
        shared.unlock(locked);
        return false;
    }
    locked.core.counters.turns += 1;
    let now = clock::now();
    locked.core.handle_setups(io, now);
    if io.engine == 0 {
        locked.core.fire_timers(now);
        locked.core.hear_events();
    }
    shared.unlock(locked);
    send(shared, io) || heard
}

/// Takes in what has arrived: a run of packets at a time.
fn receive(shared: &Shared, io: &mut Io) -> bool {
    let mut packets = 0;
    io.choose_sockets();
    while packets < io.budget()
        && let Some(socket) = io.next_socket()
    {
        let mut targets = Targets::default();
        let prepared = prepare(shared, io, socket, &mut targets);
        let planned = prepared == Prepared::Planned;
        let mut buffer = io.take_buffer();
        let arrival = match prepared {
            Prepared::Nothing => None,
            _ => io.receive(socket, &mut buffer, planned),
        };
        let took = arrival.as_ref().map_or(0, Arrival::segments);
        if planned || took > 0 {
            let mut locked = shared.lock();
            locked.core.lent &= !(1 << io.engine);
            if let Some(mut arrival) = arrival.filter(|_| !locked.core.has_vanished()) {
                locked.core.handle_arrival(io, clock::now(), socket, &mut arrival, &targets);
                locked.core.hear_events();
            }
            shared.unlock(locked);
        }
        io.give_buffer(buffer);
        io.took(socket, took);
        packets += took;
    }
    packets > 0
}

/// Draws a plan for the next receive call, if it is worth it.
fn prepare(shared: &Shared, io: &mut Io, socket: usize, targets: &mut Targets) -> Prepared {
    if !io.may_plan(socket) || shared.wants_still() {
        return Prepared::Plain;
    }
    let mut locked = shared.lock();
    if !locked.core.may_lend(clock::now()) {
        return Prepared::Plain;
    }
    let prepared = locked.core.prepare(io, socket, targets);
    if prepared == Prepared::Planned {
        locked.core.lent |= 1 << io.engine;
    }
    prepared
}

/// Sends what the engine wants to send: a run of packets at a time.
fn send(shared: &Shared, io: &mut Io) -> bool {
    let bit = 1 << io.engine;
    let mut any = false;
    let mut may_send = io.begin_sending(clock::now());
    loop {
        let mut locked = shared.lock();
        // Whoever has the lock has the latest time: the engine's never runs backwards.
        let now = clock::now();
        locked.core.lent &= !bit;
        let filled = may_send && locked.core.fill(io, now);
        locked.core.note(io);
        if !filled {
            locked.core.end_turn();
            shared.unlock(locked);
            return any;
        }
        any = true;
        let alone = locked.core.may_lend(now) && !shared.wants_still();
        if alone {
            locked.core.lent |= bit;
            shared.unlock_lent(locked);
            may_send = io.send_run(now);
        } else {
            may_send = io.send_run(now);
            shared.unlock(locked);
        }
        may_send = io.may_send_more() && may_send;
    }
}
