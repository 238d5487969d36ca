//! Peers that send arbitrary values: nothing panics, nothing leaks, and no byte is placed outside a
//! buffer of the mailbox that was addressed with its key.

use super::*;
use crate::random::Random;
use alloc::vec::Vec;
use fairway_wire::Get;

/// A number at or near a boundary.
fn odd(random: &mut Random) -> u64 {
    match random.number() % 6 {
        0 => random.number(),
        1 => random.number() & 0xFFFF_FFFF,
        2 => [u64::MAX, 1 << 63, u64::from(u32::MAX), 1 << 31, (1 << 31) - 1]
            [random.number() as usize % 5],
        3 => u64::MAX - random.number() % 70,
        _ => random.number() % 70,
    }
}

fn put(random: &mut Random) -> Put {
    Put {
        mailbox: random.number() % 3,
        offset: odd(random),
        sequence: odd(random) as u32,
        before: odd(random) as u32,
        length: odd(random) as u32,
        key: random.number().is_multiple_of(8) as u32,
        epoch: odd(random) as u32,
        named: random.number().is_multiple_of(3),
        oldest: random.number().is_multiple_of(3),
        follows: random.number().is_multiple_of(3),
    }
}

struct World {
    random: Random,
    mailboxes: Mailboxes,
    /// Addresses 0 and 1 and the catch-all, if they exist.
    ids: [Option<MailboxId>; 3],
    tickets: Vec<Ticket>,
    /// By segment ever posted: its mailbox, and its length.
    posted: Vec<(usize, u32)>,
    released: Vec<u32>,
}

impl World {
    fn new(seed: u64) -> Self {
        World {
            random: Random::new(seed),
            mailboxes: Mailboxes::new(&limits(24, 12)),
            ids: [None; 3],
            tickets: Vec::new(),
            posted: Vec::new(),
            released: Vec::new(),
        }
    }

    fn create(&mut self, which: usize) {
        let random = &mut self.random;
        let config = MailboxConfig {
            address: (which < 2).then_some(which as u64),
            key: 0,
            threshold: match random.number() % 2 {
                0 => Threshold::Bytes(odd(random).max(1)),
                _ => Threshold::Operations(odd(random).max(1)),
            },
            steering: [Steering::Sender, Steering::Receiver][random.number() as usize % 2],
            when_empty: [WhenEmpty::Wait, WhenEmpty::Refuse][random.number() as usize % 2],
            retired: (random.number() % 4) as u32,
        };
        match self.mailboxes.create(&config) {
            Ok(id) => assert_eq!(self.ids[which].replace(id), None),
            Err(error) => assert_eq!(error, SetupError::Number),
        }
    }

    fn admit(&mut self) {
        let put = put(&mut self.random);
        let sender = sender((self.random.number() % 3) as u32);
        let own = self.ids.get(put.mailbox as usize).copied().flatten();
        let which = if own.is_some() && put.mailbox < 2 { put.mailbox as usize } else { 2 };
        match self.mailboxes.admit(sender, &put) {
            Admission::Into { ticket, segment, offset } => {
                let (owner, length) = self.posted[segment as usize];
                let (from, to) = (offset - 7, offset - 7 + u64::from(put.length));
                assert!(from <= to && to <= u64::from(length), "{put:?} in {length}");
                assert_eq!((owner, put.key), (which, 0));
                self.tickets.push(ticket);
            }
            Admission::Discard => assert!(self.ids[which].is_some()),
            Admission::Wait | Admission::OutOfOrder | Admission::Refuse(_) => {}
        }
    }

    fn end_one(&mut self) {
        if !self.tickets.is_empty() {
            let at = self.random.number() as usize % self.tickets.len();
            let ticket = self.tickets.swap_remove(at);
            self.mailboxes.placed(ticket, odd(&mut self.random) as u32);
            match self.random.number() % 2 {
                0 => self.mailboxes.finish(ticket),
                _ => self.mailboxes.cancel(ticket),
            }
        }
    }

    fn post(&mut self, which: usize, id: MailboxId) {
        let length = odd(&mut self.random) as u32;
        let segment = self.posted.len() as u32;
        let range = LocalRange { offset: 7, ..range(segment, length) };
        if self.mailboxes.post_buffer(id, 0, range).is_ok() {
            self.posted.push((which, length));
        }
    }

    fn step(&mut self) {
        let which = self.random.number() as usize % 3;
        let id = self.ids[which].unwrap_or(MailboxId(self.random.number() as u32));
        match self.random.number() % 128 {
            0..4 => self.create(which),
            4..16 => self.post(which, id),
            16..40 => self.end_one(),
            40..44 => drop(self.mailboxes.increment_epoch(id)),
            44..46 => drop(self.mailboxes.rewind(id, odd(&mut self.random) as u32)),
            46 => drop(self.mailboxes.close(id, which == 0)),
            47..49 => {
                if self.mailboxes.release(id).is_ok() {
                    self.ids[which] = None;
                }
            }
            49 => self.mailboxes.forget_channel((self.random.number() % 3) as u32),
            50..60 => {
                let put = put(&mut self.random);
                let sender = sender((self.random.number() % 3) as u32);
                self.mailboxes.abandon(sender, put.mailbox, put.sequence);
            }
            60..64 => self.get(),
            64..70 => drop(self.mailboxes.poll_done()),
            70..74 => self.released.extend(self.mailboxes.poll_released()),
            _ => self.admit(),
        }
    }

    fn get(&mut self) {
        let put = put(&mut self.random);
        let get = Get {
            mailbox: put.mailbox,
            offset: put.offset,
            length: put.length,
            key: put.key,
            epoch: put.epoch,
            named: put.named,
        };
        if let Ok(range) = self.mailboxes.get(&get) {
            let (_, length) = self.posted[range.segment.index()];
            assert!(range.offset >= 7);
            assert!(range.offset - 7 + u64::from(range.length) <= u64::from(length));
        }
    }

    /// Ends all channels.
    fn finish(mut self) {
        for channel in 0..3 {
            self.mailboxes.forget_channel(channel);
        }
        let counts = self.mailboxes.counts();
        assert_eq!((counts.streams, counts.gaps), (0, 0));
        for ticket in self.tickets.drain(..) {
            self.mailboxes.cancel(ticket);
        }
        for id in self.ids.into_iter().flatten() {
            // No epoch hangs because a channel ended: all but the open epoch are done.
            let record = self.mailboxes.records[self.mailboxes.named(id).unwrap()];
            assert_eq!(record.first, record.open);
            self.mailboxes.close(id, false).unwrap();
            self.mailboxes.release(id).unwrap();
        }
        self.released.extend(drain_released(&mut self.mailboxes));
        self.released.sort_unstable();
        let all: Vec<u32> = (0..self.posted.len() as u32).collect();
        assert_eq!(self.released, all, "every reference ends once");
        assert_eq!(self.mailboxes.counts(), Counts::default());
        assert_eq!(self.mailboxes.poll_done(), None);
    }
}

#[test]
fn anything_may_arrive() {
    for seed in 0..3000 {
        let mut world = World::new(seed);
        for which in 0..3 {
            world.create(which);
        }
        for _ in 0..world.random.number() % 1000 {
            world.step();
        }
        world.finish();
    }
}

#[test]
fn chosen_keys_do_not_make_chains_long() {
    // 2^16 Jetties of one channel: the records run out long before a chain gets long.
    let mut mailboxes = Mailboxes::new(&limits(4, 1024));
    mailboxes.create(&config(Threshold::Bytes(1), Steering::Sender)).unwrap();
    for number in 0..1 << 16 {
        let source = Source::new(0);
        let sender = Sender { jetty: JettyId::new(number), ..source.sender };
        mailboxes.admit(sender, &source.put(1, 0));
    }
    assert_eq!(mailboxes.counts().streams, 1024);
}
