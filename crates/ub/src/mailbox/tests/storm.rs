//! Everything at once, with honest senders: several mailboxes, named and unnamed puts, late
//! arrivals, puts given up, senders that die, early ends, rewinds, buffers posted late. Whatever
//! happens, bytes are counted where they fell, senders' orders hold, and nothing hangs or leaks.

use super::*;
use crate::random::Random;
use alloc::vec::Vec;

const ADDRESSES: [u64; 3] = [ADDRESS, 5, 6];

#[derive(Clone, Copy)]
enum State {
    Waiting,
    /// (rewinds before, epoch, offset)
    In(u32, u64, u64),
    Over,
}

/// The puts of one Jetty to one address.
struct Line {
    sender: Sender,
    address: u64,
    puts: Vec<(Put, State)>,
}

#[derive(Default)]
struct Tally {
    mailbox: usize,
    epoch: u64,
    length: u64,
    placed: u64,
    finished: u64,
    cancelled: u32,
    ranges: Vec<(u64, u64)>,
    done: bool,
}

struct Flight {
    ticket: Ticket,
    channel: u32,
    segment: usize,
    left: u32,
}

/// The application's state of a mailbox.
struct Owner {
    id: MailboxId,
    steering: Steering,
    end: u64,
    reported: u64,
    rewinds: u32,
}

struct World {
    random: Random,
    real: Mailboxes,
    owners: Vec<Owner>,
    lines: Vec<Line>,
    segments: Vec<Tally>,
    flights: Vec<Flight>,
    channels: u32,
    /// True if epochs may be ended early. Then orders are not checked.
    ends_early: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut real = Mailboxes::new(&limits(1200, 40));
        let owners = [Some(ADDRESS), None].map(|address| {
            let steering = [Steering::Sender, Steering::Receiver][random.number() as usize % 2];
            let threshold = match random.number() % 2 {
                0 => Threshold::Bytes(1 + random.number() % 120),
                _ => Threshold::Operations(1 + random.number() % 12),
            };
            let retired = (random.number() % 4) as u32;
            let config = MailboxConfig { address, retired, ..config(threshold, steering) };
            let id = real.create(&config).unwrap();
            Owner { id, steering, end: 0, reported: 0, rewinds: 0 }
        });
        let ends_early = random.number().is_multiple_of(2);
        let mut world = World {
            random,
            real,
            owners: Vec::from(owners),
            lines: Vec::new(),
            segments: Vec::new(),
            flights: Vec::new(),
            channels: 0,
            ends_early,
        };
        (0..3).for_each(|_| world.join());
        world
    }

    /// Adds a peer, which puts to every address.
    fn join(&mut self) {
        self.channels += 1;
        for address in ADDRESSES {
            let source = Source::new(self.channels);
            let (longest, names) =
                ([0, 3, 30, 90][self.random.number() as usize % 4], self.random.number() % 3);
            let puts = (0..self.random.number() % 60).map(|index| {
                let length = (self.random.number() % (longest + 1)) as u32;
                let offset = self.random.number() % 20;
                let put = match self.random.number() % 4 < names {
                    true => {
                        source.named(length, offset, (index / 4 + self.random.number() % 3) as u32)
                    }
                    false => source.put(length, offset),
                };
                (Put { mailbox: address, ..put }, State::Waiting)
            });
            let puts = puts.collect();
            self.lines.push(Line { sender: source.sender, address, puts });
        }
    }

    fn post(&mut self, mailbox: usize) {
        let length = 40 + self.random.number() % 40;
        let segment = self.segments.len() as u32;
        let owner = &mut self.owners[mailbox];
        if self.real.post_buffer(owner.id, 0, range(segment, length as u32)).is_ok() {
            let tally = Tally { mailbox, epoch: owner.end, length, ..Tally::default() };
            self.segments.push(tally);
            owner.end += 1;
        }
    }

    fn pick(&mut self) -> Option<(usize, usize)> {
        let line = self.random.number() as usize % self.lines.len();
        let spread = [1, 2, 6, 70][self.random.number() as usize % 4];
        let skip = (self.random.number() % spread) as usize;
        let puts = self.lines[line].puts.iter().enumerate();
        let mut waiting = puts.filter(|(_, (_, state))| matches!(state, State::Waiting));
        waiting.nth(skip).map(|(index, _)| (line, index))
    }

    fn admit(&mut self, line: usize, index: usize) -> Admission {
        let Line { sender, address, ref mut puts } = self.lines[line];
        let waits = |(_, state): &(Put, State)| matches!(state, State::Waiting);
        let oldest = !puts[..index].iter().any(waits);
        let (put, state) = &mut puts[index];
        let admission = self.real.admit(sender, &Put { oldest, ..*put });
        match admission {
            Admission::Into { ticket, segment, offset } => {
                let tally = &mut self.segments[segment as usize];
                assert_eq!(tally.mailbox, usize::from(address != ADDRESS));
                assert!(!tally.done, "epoch {} is over", tally.epoch);
                assert!(!put.named || u64::from(put.epoch) == tally.epoch);
                assert!(offset + u64::from(put.length) <= tally.length);
                tally.ranges.push((offset, u64::from(put.length)));
                let owner = &self.owners[tally.mailbox];
                let place = if owner.steering == Steering::Sender { 0 } else { offset };
                *state = State::In(owner.rewinds, tally.epoch, place);
                let (segment, left) = (segment as usize, put.length);
                self.flights.push(Flight { ticket, channel: sender.channel, segment, left });
            }
            Admission::Refuse(Refusal::Length | Refusal::Epoch) => *state = State::Over,
            Admission::Wait | Admission::OutOfOrder => {}
            other => panic!("{other:?} for {put:?}"),
        }
        admission
    }

    fn abandon(&mut self, line: usize, index: usize) {
        let Line { sender, address, ref mut puts } = self.lines[line];
        for (_, state) in &mut puts[..=index] {
            if let State::Waiting = state {
                *state = State::Over;
            }
        }
        self.real.abandon(sender, address, puts[index].0.sequence);
    }

    fn progress(&mut self, at: usize) {
        let flight = &mut self.flights[at];
        let tally = &mut self.segments[flight.segment];
        let bytes = (self.random.number() % (u64::from(flight.left) + 1)) as u32;
        let is_live = self.real.is_live(flight.ticket);
        assert!(!(is_live && tally.done), "a done epoch takes no more bytes");
        if bytes > 0 {
            self.real.placed(flight.ticket, bytes);
            tally.placed += u64::from(bytes);
            flight.left -= bytes;
        }
        if flight.left == 0 {
            tally.finished += 1;
            self.real.finish(flight.ticket);
            self.flights.swap_remove(at);
        }
    }

    /// Removes a peer, and adds another.
    fn die(&mut self) {
        let channel = 1 + (self.random.number() % u64::from(self.channels)) as u32;
        self.real.forget_channel(channel);
        self.lines.retain(|line| line.sender.channel != channel);
        for flight in self.flights.extract_if(.., |flight| flight.channel == channel) {
            self.segments[flight.segment].cancelled += 1;
            self.real.cancel(flight.ticket);
        }
        if self.lines.len() < 9 {
            self.join();
        }
    }

    fn rewind(&mut self, mailbox: usize) {
        let back = 1 + (self.random.number() % 3) as u32;
        let owner = &mut self.owners[mailbox];
        let before = self.real.epoch(owner.id).unwrap();
        if let Ok(done) = self.real.rewind(owner.id, back) {
            assert_eq!(done.epoch, before - u64::from(back));
            owner.end = done.epoch;
            owner.reported = owner.reported.min(owner.end);
            owner.rewinds += 1;
            for tally in self.segments.iter_mut().filter(|tally| tally.mailbox == mailbox) {
                tally.done |= tally.epoch >= owner.end;
            }
        }
    }

    fn check_done(&mut self) {
        while let Some(done) = self.real.poll_done() {
            let tally = &mut self.segments[done.buffer.segment.index()];
            let owner = &mut self.owners[tally.mailbox];
            assert!(!core::mem::replace(&mut tally.done, true), "done once");
            assert_eq!((done.mailbox, done.epoch), (owner.id, tally.epoch));
            assert_eq!(done.epoch, owner.reported, "in order");
            owner.reported += 1;
            assert_eq!((done.bytes, done.operations), (tally.placed, tally.finished));
            assert_eq!(done.cancelled, tally.cancelled);
            tally.ranges.retain(|range| range.1 > 0);
            tally.ranges.sort_unstable();
            let is_apart = tally.ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
            assert!(is_apart || owner.steering == Steering::Sender);
        }
    }

    fn step(&mut self) {
        let mailbox = self.random.number() as usize % 2;
        match self.random.number() % 256 {
            0..12 if self.segments.len() < 800 => self.post(mailbox),
            12..14 if self.ends_early => {
                let _ = self.real.increment_epoch(self.owners[mailbox].id);
            }
            14 if self.random.number().is_multiple_of(4) => self.rewind(mailbox),
            15 if self.random.number().is_multiple_of(2) => self.die(),
            16..22 => {
                if let Some((line, index)) = self.pick() {
                    self.abandon(line, index);
                }
            }
            22..120 if !self.flights.is_empty() => {
                let at = self.random.number() as usize % self.flights.len();
                self.progress(at);
            }
            120..125 => drop(self.real.poll_released()),
            _ => {
                if let Some((line, index)) = self.pick() {
                    self.admit(line, index);
                }
            }
        }
        if self.random.number().is_multiple_of(8) {
            self.check_done();
        }
    }

    /// Everything that is still waiting arrives in order, with buffers for it, or is given up; and
    /// all unfinished puts end.
    fn heal(&mut self) {
        for line in 0..self.lines.len() {
            for index in 0..self.lines[line].puts.len() {
                let mut tries = 0;
                while let State::Waiting = self.lines[line].puts[index].1 {
                    let answer = self.admit(line, index);
                    assert_ne!(answer, Admission::OutOfOrder, "nothing is missing before it");
                    tries += 1;
                    if tries == 5 {
                        assert!(self.lines[line].puts[index].0.named, "waits for ever");
                        self.abandon(line, index);
                    }
                    drain_released(&mut self.real);
                    self.post(usize::from(self.lines[line].address != ADDRESS));
                }
            }
        }
        while let Some(last) = self.flights.len().checked_sub(1) {
            self.progress(last);
        }
        self.check_done();
    }

    fn finish(mut self) {
        assert_eq!(self.real.counts().gaps, 0);
        if !self.ends_early {
            self.check_order();
        }
        for mailbox in 0..2 {
            let id = self.owners[mailbox].id;
            let record = self.real.records[self.real.named(id).unwrap()];
            assert_eq!(record.first, record.open, "only the open epoch isn't done");
            while self.real.epoch(id) < Some(self.owners[mailbox].end) {
                self.real.increment_epoch(id).unwrap();
            }
            self.check_done();
            assert_eq!(self.owners[mailbox].reported, self.owners[mailbox].end);
            self.real.close(id, true).unwrap();
            self.real.release(id).unwrap();
        }
        drain_released(&mut self.real);
        assert_eq!(self.real.counts(), Counts::default());
    }

    fn check_order(&self) {
        for line in &self.lines {
            let unnamed = line.puts.iter().filter(|(put, _)| !put.named);
            let mut last = (0, 0, 0);
            for (put, state) in unnamed {
                if let State::In(rewinds, epoch, offset) = *state {
                    assert!((rewinds, epoch, offset) >= last, "{put:?}");
                    last = (rewinds, epoch, offset);
                }
            }
        }
    }
}

#[test]
fn every_put_ends_and_no_byte_is_lost() {
    for seed in 0..1500 {
        let mut world = World::new(seed);
        for _ in 0..world.random.number() % 2500 {
            world.step();
        }
        world.heal();
        world.finish();
    }
}
