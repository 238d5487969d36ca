//! Test model of senders and their receiver. All lines have one rate, packets have one size, and
//! the only queue, of limited length, is in front of the receiver.
//!
//! Time advances in slots; a line carries one packet per slot. The model also takes the protocol's
//! part: running totals on the wire, retransmission after four round trips, one packet at a time.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_wire::{Duration, Instant};

use super::{CreditPolicy, CreditRequest, SourceId};
use crate::{AckSample, CongestionControl, LossSample};

pub(super) const PACKET: u32 = 4096;
/// Transmission time of 4096 bytes at 10 Gb/s.
const SLOT: Duration = Duration::from_ps(3_276_800);
/// The rate of each line, in bits per second.
pub(super) const LINE: u64 = 10_000_000_000;
/// Slots of one direction: a round trip is 32 slots or 105 us, and its bandwidth-delay product 128
/// KiB.
const WAY: u64 = 16;
/// Slots after which a dropped packet is detected as lost.
const LOST_AFTER: u64 = 4 * 2 * WAY;

pub(super) struct Sender {
    pub(super) control: Box<dyn CongestionControl>,
    /// Bytes that wait to be sent, including those that were lost.
    pub(super) backlog: u64,
    in_flight: u64,
    /// The highest running total of credit received.
    credit_seen: u64,
    pub(super) delivered: u64,
    pub(super) sent: u64,
    /// Slot in which it had delivered everything.
    pub(super) done_at: u64,
    /// The sender sends in one of this many slots, because its own line is busy.
    pub(super) every: u64,
    /// True if its data needs no credit.
    pub(super) uncontrolled: bool,
}

enum News {
    Data(usize),
    Ack(usize),
    Lost(usize),
    CreditRequest(usize, CreditRequest),
    Credit(usize, u64),
}

pub(super) struct Model {
    pub(super) senders: Vec<Sender>,
    pub(super) receiver: Box<dyn CreditPolicy>,
    granted: Vec<u64>,
    /// Messages under way, by arrival; equal delays keep them in order.
    on_the_way: VecDeque<(u64, News)>,
    loss_reports: VecDeque<(u64, News)>,
    queue: VecDeque<usize>,
    pub(super) queue_most: usize,
    pub(super) queue_limit: usize,
    pub(super) slot: u64,
    /// Losses per thousand, of credits and requests and of data.
    pub(super) lose: [u64; 2],
    pub(super) dropped: u64,
    random: u64,
}

impl Model {
    pub(super) fn new(
        receiver: Box<dyn CreditPolicy>,
        senders: usize,
        control: impl Fn() -> Box<dyn CongestionControl>,
    ) -> Model {
        let sender = |_| Sender {
            control: control(),
            backlog: 0,
            in_flight: 0,
            credit_seen: 0,
            delivered: 0,
            sent: 0,
            done_at: 0,
            every: 1,
            uncontrolled: false,
        };
        Model {
            senders: (0..senders).map(sender).collect(),
            receiver,
            granted: alloc::vec![0; senders],
            on_the_way: VecDeque::new(),
            loss_reports: VecDeque::new(),
            queue: VecDeque::new(),
            queue_most: 0,
            queue_limit: usize::MAX,
            slot: 0,
            lose: [0, 0],
            dropped: 0,
            random: 1,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + SLOT.times(self.slot)
    }

    /// Adds bytes to a sender's backlog.
    pub(super) fn post(&mut self, sender: usize, bytes: u64) {
        self.senders[sender].backlog += bytes;
        self.request(sender);
    }

    pub(super) fn run(&mut self, slots: u64) {
        for _ in 0..slots {
            self.step();
        }
    }

    /// Runs until everything is delivered.
    pub(super) fn finish(&mut self, slots_most: u64) {
        let end = self.slot + slots_most;
        while self.senders.iter().any(|sender| sender.backlog + sender.in_flight > 0) {
            assert!(self.slot < end, "a sender is stuck");
            self.step();
        }
    }

    /// Packets that each sender delivers in the next `slots` slots.
    pub(super) fn measure(&mut self, slots: u64) -> Vec<u64> {
        let before: Vec<u64> = self.senders.iter().map(|sender| sender.delivered).collect();
        self.queue_most = self.queue.len();
        self.run(slots);
        let all = self.senders.iter().zip(before);
        all.map(|(sender, before)| (sender.delivered - before) / u64::from(PACKET)).collect()
    }

    fn step(&mut self) {
        self.slot += 1;
        for queue in 0..2 {
            let queue_of = |model: &mut Model| match queue {
                0 => core::mem::take(&mut model.on_the_way),
                _ => core::mem::take(&mut model.loss_reports),
            };
            let mut news = queue_of(self);
            while news.front().is_some_and(|(at, _)| *at <= self.slot) {
                let (_, one) = news.pop_front().expect("one is there");
                self.receive(one);
            }
            // Messages that were sent meanwhile arrive later.
            news.append(&mut queue_of(self));
            *(if queue == 0 { &mut self.on_the_way } else { &mut self.loss_reports }) = news;
        }
        for sender in 0..self.senders.len() {
            self.send(sender);
            let due = self.senders[sender].control.credit_request_at();
            if due.is_some_and(|at| self.now().is_at_or_after(at)) {
                self.request(sender);
            }
        }
        if let Some(sender) = self.queue.pop_front() {
            self.senders[sender].delivered += u64::from(PACKET);
            self.receiver.on_data(self.now(), SourceId(sender as u32), PACKET);
            self.put(News::Ack(sender));
        }
        self.grant();
    }

    fn grant(&mut self) {
        while let Some(credit) = self.receiver.poll_credit(self.now()) {
            let total = &mut self.granted[credit.source.index()];
            *total += u64::from(credit.bytes);
            let news = News::Credit(credit.source.index(), *total);
            if !self.chance(self.lose[0]) {
                self.put(news);
            }
        }
    }

    fn put(&mut self, news: News) {
        self.on_the_way.push_back((self.slot + WAY, news));
    }

    fn receive(&mut self, news: News) {
        let (now, smoothed_rtt) = (self.now(), SLOT.times(2 * WAY));
        match news {
            News::Data(sender) => {
                if self.queue.len() < self.queue_limit && !self.chance(self.lose[1]) {
                    self.queue.push_back(sender);
                    self.queue_most = self.queue_most.max(self.queue.len());
                } else {
                    self.dropped += 1;
                    self.loss_reports.push_back((self.slot + LOST_AFTER, News::Lost(sender)));
                }
            }
            News::CreditRequest(sender, credit_request) => {
                self.receiver.announced(now, SourceId(sender as u32), &credit_request);
                self.grant();
            }
            News::Ack(index) => {
                let sender = &mut self.senders[index];
                sender.in_flight -= u64::from(PACKET);
                sender.control.on_ack(&AckSample {
                    now,
                    acked_bytes: PACKET,
                    smoothed_rtt,
                    bytes_in_flight: sender.in_flight,
                    ..AckSample::default()
                });
                if sender.backlog + sender.in_flight == 0 {
                    sender.done_at = self.slot;
                }
                self.request(index);
            }
            News::Lost(index) => {
                let sender = &mut self.senders[index];
                sender.in_flight -= u64::from(PACKET);
                sender.backlog += u64::from(PACKET);
                let lost_bytes = PACKET;
                let sample = LossSample { now, lost_bytes, smoothed_rtt, ..Default::default() };
                sender.control.on_loss(&sample);
                self.request(index);
            }
            News::Credit(index, total) => {
                let sender = &mut self.senders[index];
                let grown = total.saturating_sub(sender.credit_seen);
                sender.credit_seen += grown;
                sender.control.on_credit(now, grown as u32);
                self.request(index);
            }
        }
    }

    fn request(&mut self, index: usize) {
        let now = self.now();
        let sender = &mut self.senders[index];
        if sender.uncontrolled {
            return;
        }
        if let Some(credit_request) = sender.control.credit_request(now, sender.backlog)
            && !self.chance(self.lose[0])
        {
            self.put(News::CreditRequest(index, credit_request));
        }
    }

    fn send(&mut self, index: usize) {
        let (now, slot) = (self.now(), self.slot);
        let sender = &mut self.senders[index];
        let fits = sender.in_flight + u64::from(PACKET) <= sender.control.window_bytes();
        let may = sender.uncontrolled || fits && sender.control.allowance_bytes() > 0;
        if sender.backlog == 0 || !may || !slot.is_multiple_of(sender.every) {
            return;
        }
        sender.backlog = sender.backlog.saturating_sub(u64::from(PACKET));
        sender.in_flight += u64::from(PACKET);
        sender.sent += u64::from(PACKET);
        if !sender.uncontrolled {
            sender.control.on_sent(now, PACKET, sender.backlog);
        }
        self.put(News::Data(index));
        self.request(index);
    }

    fn chance(&mut self, permille: u64) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % 1000 < permille
    }
}
