//! Random schedules against a clairvoyant model: it knows every put in advance, so where the state
//! machine keeps room for puts that are missing, the model assigns those puts. Every answer has to
//! be the same, and every epoch has to be done at the same step with the same content.

use super::*;
use crate::random::Random;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The put's place isn't decided.
    Missing,
    /// The put belongs there, but has not arrived.
    Promised(usize, u64),
    /// The put belongs there.
    Admitted(usize, u64),
    /// The put was refused.
    Refused,
}

struct Message {
    put: Put,
    state: State,
    /// The put lost its place when an epoch was ended early.
    displaced: bool,
}

#[derive(Default)]
struct Epoch {
    length: u64,
    used: u64,
    puts: u64,
    append: u64,
    unfinished: u64,
    placed: u64,
    finished: u64,
    cancelled: u32,
    early: bool,
    ranges: Vec<(u64, u64)>,
}

struct Flight {
    ticket: Ticket,
    epoch: usize,
    left: u32,
}

struct World {
    random: Random,
    real: Mailboxes,
    id: MailboxId,
    config: MailboxConfig,
    senders: Vec<(Sender, Vec<Message>)>,
    epochs: Vec<Epoch>,
    first: usize,
    open: usize,
    flights: Vec<Flight>,
    early_admissions: u64,
}

const SHORTEST: u64 = 40;

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let steering = [Steering::Sender, Steering::Receiver][random.number() as usize % 2];
        let threshold = match random.number() % 2 {
            0 => Threshold::Bytes(1 + random.number() % 90),
            _ => Threshold::Operations(1 + random.number() % 12),
        };
        let config = MailboxConfig {
            when_empty: [WhenEmpty::Wait, WhenEmpty::Refuse]
                [usize::from(random.number().is_multiple_of(8))],
            ..super::config(threshold, steering)
        };
        let mut real = Mailboxes::new(&limits(600, 1024));
        let id = real.create(&config).unwrap();
        let senders = 1 + random.number() as u32 % 4;
        let senders =
            (0..senders).map(|number| Self::sender(&mut random, number, steering)).collect();
        World {
            random,
            real,
            id,
            config,
            senders,
            epochs: Vec::new(),
            first: 0,
            open: 0,
            flights: Vec::new(),
            early_admissions: 0,
        }
    }

    /// The last of four senders names its epochs. Puts beyond the buffer's end are left to the
    /// storm where the sender decides the offset.
    fn sender(random: &mut Random, number: u32, steering: Steering) -> (Sender, Vec<Message>) {
        let source = Source::new(number);
        let longest = match steering {
            Steering::Sender => SHORTEST,
            Steering::Receiver => SHORTEST + 40,
        };
        let longest = [1, 4, 20, longest][random.number() as usize % 4];
        let puts = 20 + random.number() % 160;
        let messages = (0..puts).map(|index| {
            let length = random.number() % (longest + 1);
            let offset = random.number() % (SHORTEST + 1).saturating_sub(length).max(1);
            let put = match number {
                3 => source.named(length as u32, offset, (index / 2 + random.number() % 3) as u32),
                _ => source.put(length as u32, offset),
            };
            Message { put, state: State::Missing, displaced: false }
        });
        let messages = messages.collect();
        (source.sender, messages)
    }

    fn full(&self, epoch: usize, more_bytes: u64, more_puts: u64) -> bool {
        let record = &self.epochs[epoch];
        match (self.config.threshold, self.config.steering) {
            (Threshold::Operations(threshold), Steering::Sender) => {
                record.puts + more_puts >= threshold
            }
            (Threshold::Operations(threshold), Steering::Receiver) => {
                record.puts + more_puts >= threshold || record.append + more_bytes >= record.length
            }
            (Threshold::Bytes(threshold), Steering::Sender) => {
                record.used + more_bytes >= threshold
            }
            (Threshold::Bytes(threshold), Steering::Receiver) => {
                record.append + more_bytes >= threshold.min(record.length)
            }
        }
    }

    fn post(&mut self) {
        let length = SHORTEST + self.random.number() % 30;
        let segment = self.epochs.len() as u32;
        self.real.post_buffer(self.id, u64::from(segment), range(segment, length as u32)).unwrap();
        self.epochs.push(Epoch { length, ..Epoch::default() });
    }

    fn without_buffer(&self) -> Admission {
        match self.config.when_empty {
            WhenEmpty::Wait => Admission::Wait,
            WhenEmpty::Refuse => Admission::Refuse(Refusal::Resources),
        }
    }

    /// Enters a put into the model, and returns its place.
    fn take(&mut self, epoch: usize, put: &Put) -> State {
        let record = &mut self.epochs[epoch];
        record.used += u64::from(put.length);
        record.puts += 1;
        match self.config.steering {
            Steering::Sender => State::Promised(epoch, put.offset),
            Steering::Receiver => {
                record.append += u64::from(put.length);
                State::Promised(epoch, record.append - u64::from(put.length))
            }
        }
    }

    /// The rule for a put whose turn it is.
    fn in_turn(&mut self, put: &Put) -> Result<State, Admission> {
        while self.open < self.epochs.len() {
            let record = &self.epochs[self.open];
            let length = u64::from(put.length);
            let full = self.full(self.open, 0, 0);
            let (end, whole) = match self.config.steering {
                Steering::Sender => (put.offset + length, put.offset + length),
                Steering::Receiver => (record.append + length, length),
            };
            if !full && whole > record.length {
                return Err(Admission::Refuse(Refusal::Length));
            }
            if !full && end <= record.length {
                return Ok(self.take(self.open, put));
            }
            self.open += 1;
        }
        Err(self.without_buffer())
    }

    fn expect_named(&mut self, put: &Put) -> Result<State, Admission> {
        let epoch = put.epoch as usize;
        if epoch < self.open {
            return Err(Admission::Refuse(Refusal::Epoch));
        }
        let Some(record) = self.epochs.get(epoch) else { return Err(self.without_buffer()) };
        if self.full(epoch, 0, 0) {
            return Err(match self.promised_in(epoch) {
                true => Admission::Wait,
                false => Admission::Refuse(Refusal::Epoch),
            });
        }
        let start = match self.config.steering {
            Steering::Sender => put.offset,
            Steering::Receiver => record.append,
        };
        match start + u64::from(put.length) <= record.length {
            true => Ok(self.take(epoch, put)),
            false => Err(Admission::Refuse(Refusal::Length)),
        }
    }

    fn promised_in(&self, epoch: usize) -> bool {
        let mut all = self.senders.iter().flat_map(|(_, messages)| messages);
        all.any(|message| matches!(message.state, State::Promised(at, _) if at == epoch))
    }

    fn expect(&mut self, sender: usize, index: usize) -> Result<State, Admission> {
        let messages = &self.senders[sender].1;
        let put = messages[index].put;
        let is_over = |m: &Message| matches!(m.state, State::Admitted(..) | State::Refused);
        if let place @ State::Promised(..) = messages[index].state {
            return Ok(place);
        }
        let missing = messages.iter().position(|message| !is_over(message)).unwrap();
        let end = messages.iter().rposition(is_over).map_or(0, |last| last + 1);
        if index >= end && index - missing > 128 {
            return Err(Admission::OutOfOrder);
        }
        if put.named {
            return self.expect_named(&put);
        }
        if missing == index {
            return self.in_turn(&put);
        }
        let open = self.open;
        let before = &messages[..index.min(end)];
        let certain = before.iter().all(|message| match message.state {
            State::Missing => false,
            State::Promised(epoch, _) => epoch == open || self.counts_puts(),
            _ => true,
        });
        let is_known = self.begun(sender);
        if !certain || index < end || open >= self.epochs.len() || !is_known {
            return Err(Admission::OutOfOrder);
        }
        if self.counts_puts() {
            return self.by_count(sender, index, end);
        }
        if index - end > 64 {
            return Err(Admission::OutOfOrder);
        }
        let bytes: u64 = messages[end..index].iter().map(|m| u64::from(m.put.length)).sum();
        let record = &self.epochs[open];
        let stop = match self.config.steering {
            Steering::Sender => put.offset + u64::from(put.length),
            Steering::Receiver => record.append + bytes + u64::from(put.length),
        };
        if self.full(open, bytes, (index - end) as u64) || stop > record.length {
            return Err(Admission::OutOfOrder);
        }
        self.early_admissions += 1;
        for earlier in end..index {
            let put = self.senders[sender].1[earlier].put;
            self.senders[sender].1[earlier].state = self.take(open, &put);
        }
        Ok(self.take(open, &put))
    }

    fn counts_puts(&self) -> bool {
        let Threshold::Operations(_) = self.config.threshold else { return false };
        self.config.steering == Steering::Sender
    }

    /// Where only the number of puts ends an epoch: all puts from `end` up to this one take the
    /// places that would be theirs if they came in order.
    fn by_count(&mut self, sender: usize, index: usize, end: usize) -> Result<State, Admission> {
        let mut places = Vec::new();
        let mut epoch = self.open;
        let mut puts = 0;
        while places.len() <= index - end {
            if epoch >= self.epochs.len() || epoch - self.open > 128 {
                return Err(Admission::OutOfOrder);
            }
            if self.full(epoch, 0, puts) {
                (epoch, puts) = (epoch + 1, 0);
            } else {
                places.push(epoch);
                puts += 1;
            }
        }
        let put = self.senders[sender].1[index].put;
        if put.offset + u64::from(put.length) > self.epochs[epoch].length {
            return Err(Admission::OutOfOrder);
        }
        self.early_admissions += 1;
        for (earlier, at) in (end..index).zip(places) {
            let put = self.senders[sender].1[earlier].put;
            self.senders[sender].1[earlier].state = self.take(at, &put);
        }
        self.open = epoch;
        Ok(self.take(epoch, &put))
    }

    /// True if put 0 of this sender has arrived (though it may have had to wait).
    fn begun(&self, sender: usize) -> bool {
        self.real.streams.find(self.senders[sender].0, ADDRESS).is_some()
    }

    fn admit(&mut self, sender: usize, index: usize) {
        let expected = self.expect(sender, index);
        let put = self.senders[sender].1[index].put;
        let actual = self.real.admit(self.senders[sender].0, &put);
        match (expected, actual) {
            (Ok(State::Promised(epoch, place)), Admission::Into { ticket, segment, offset }) => {
                assert_eq!((segment as usize, offset), (epoch, place), "{put:?}");
                self.senders[sender].1[index].state = State::Admitted(epoch, place);
                let record = &mut self.epochs[epoch];
                record.unfinished += 1;
                record.ranges.push((place, u64::from(put.length)));
                self.flights.push(Flight { ticket, epoch, left: put.length });
            }
            (Err(expected), actual) => {
                assert_eq!(actual, expected, "{put:?}");
                if matches!(actual, Admission::Refuse(_)) {
                    self.senders[sender].1[index].state = State::Refused;
                }
            }
            (expected, actual) => panic!("{put:?}: {actual:?} instead of {expected:?}"),
        }
    }

    /// Some packet of some put is placed, or its sender dies.
    fn progress(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let at = self.random.number() as usize % self.flights.len();
        let flight = &mut self.flights[at];
        let record = &mut self.epochs[flight.epoch];
        let bytes = (self.random.number() % (u64::from(flight.left) + 1)) as u32;
        let dies = self.random.number().is_multiple_of(40);
        if bytes > 0 {
            self.real.placed(flight.ticket, bytes);
            flight.left -= bytes;
            record.placed += u64::from(bytes);
        }
        if dies || flight.left == 0 {
            let flight = self.flights.swap_remove(at);
            record.unfinished -= 1;
            if dies {
                record.cancelled += 1;
                self.real.cancel(flight.ticket);
            } else {
                record.finished += 1;
                self.real.finish(flight.ticket);
            }
        }
    }

    fn increment(&mut self) {
        let epoch = self.first;
        let expected = match epoch < self.epochs.len() {
            true => Ok(epoch as u64),
            false => Err(SetupError::Parameter("buffer")),
        };
        assert_eq!(self.real.increment_epoch(self.id), expected);
        if expected.is_err() || !(self.takes(epoch) || self.promised_in(epoch)) {
            return;
        }
        self.epochs[epoch].early = true;
        self.open = self.open.max(epoch + 1);
        for message in self.senders.iter_mut().flat_map(|(_, messages)| messages) {
            if matches!(message.state, State::Promised(at, _) if at == epoch) {
                message.state = State::Missing;
                message.displaced = true;
            }
        }
    }

    fn takes(&self, epoch: usize) -> bool {
        self.open == epoch && !self.full(epoch, 0, 0)
    }

    /// Checks that every epoch which is done in the model is reported now, and no other.
    fn check_done(&mut self) {
        while self.first < self.epochs.len()
            && !self.takes(self.first)
            && !self.promised_in(self.first)
            && self.epochs[self.first].unfinished == 0
        {
            let done = self.real.poll_done().expect("an epoch is done");
            let record = &mut self.epochs[self.first];
            assert_eq!((done.epoch, done.id), (self.first as u64, self.first as u64));
            let expected = (record.placed, record.finished, record.early);
            assert_eq!((done.bytes, done.operations, done.early), expected);
            assert_eq!((done.cancelled, u64::from(done.extent)), (record.cancelled, record.append));
            assert_eq!(self.real.poll_released(), Some(self.first as u32));
            check_ranges(record, self.config.steering);
            self.first += 1;
            self.open = self.open.max(self.first);
        }
        assert_eq!(self.real.poll_done(), None);
        assert_eq!(self.real.epoch(self.id), Some(self.first as u64));
    }

    fn step(&mut self) {
        match self.random.number() % 64 {
            0 => self.increment(),
            1..4 if self.epochs.len() < 500 => self.post(),
            4..34 => self.progress(),
            _ => {
                let sender = self.random.number() as usize % self.senders.len();
                let spread = [1, 3, 8, 70][self.random.number() as usize % 4];
                let skip = (self.random.number() % spread) as usize;
                if let Some(index) = self.waiting(sender, skip) {
                    self.admit(sender, index);
                }
            }
        }
        self.check_done();
    }

    /// The put with this number among those that have neither been admitted nor refused.
    fn waiting(&self, sender: usize, number: usize) -> Option<usize> {
        let messages = self.senders[sender].1.iter().enumerate();
        messages
            .filter(|(_, m)| matches!(m.state, State::Missing | State::Promised(..)))
            .map(|(index, _)| index)
            .nth(number)
    }

    /// Delivers everything, ends everything, and checks that nothing is left.
    fn finish(&mut self) {
        for sender in 0..self.senders.len() {
            let mut tries = 0;
            while let Some(index) = self.waiting(sender, 0) {
                let named = self.senders[sender].1[index].put.named;
                if self.open == self.epochs.len() || named {
                    self.post();
                }
                self.admit(sender, index);
                self.check_done();
                tries += 1;
                assert!(tries < 1000, "put {index} of sender {sender} waits for ever");
                if named && tries % 10 == 0 {
                    self.increment();
                    self.check_done();
                }
            }
        }
        assert_eq!(self.real.counts().gaps, 0);
        while !self.flights.is_empty() {
            self.progress();
        }
        self.check_done();
        while self.first < self.epochs.len() {
            self.increment();
            self.check_done();
        }
        self.real.close(self.id, true).unwrap();
        self.real.release(self.id).unwrap();
        assert_eq!(self.real.counts(), Counts::default());
    }

    /// Checks that the puts of a sender lie in the order of their numbers.
    fn check_order(&self) {
        for (_, messages) in &self.senders {
            let mut last = (0, 0);
            let in_order = messages.iter().filter(|m| !m.put.named && !m.displaced);
            for message in in_order {
                if let State::Admitted(epoch, offset) = message.state {
                    let offset = match self.config.steering {
                        Steering::Sender => 0,
                        Steering::Receiver => offset,
                    };
                    assert!((epoch, offset) >= last, "{:?}", message.put);
                    last = (epoch, offset);
                }
            }
        }
    }
}

/// Checks that in stream mode no puts overlap.
fn check_ranges(epoch: &mut Epoch, steering: Steering) {
    epoch.ranges.sort_unstable();
    for pair in epoch.ranges.windows(2) {
        let overlap = pair[0].0 + pair[0].1 > pair[1].0;
        assert!(steering == Steering::Sender || !overlap, "{pair:?}");
    }
    assert!(epoch.ranges.iter().all(|(start, length)| start + length <= epoch.length));
}

#[test]
fn every_answer_is_the_models() {
    let mut early_admissions = 0;
    for seed in 0..3000 {
        let mut world = World::new(seed);
        for _ in 0..world.random.number() % 1500 {
            world.step();
        }
        world.finish();
        world.check_order();
        early_admissions += world.early_admissions;
    }
    assert!(early_admissions > 10_000, "{early_admissions}");
}
