//! Puts and gets between two NICs.

use super::*;
use crate::api::{
    EpochDone, MailboxConfig, MailboxId, RemoteMailbox, Steering, Threshold, WhenEmpty,
};
use fairway_wire::{Operation, Packet, Tag};

const BOX: RemoteMailbox = RemoteMailbox { address: 0xB0B0, key: 5 };

impl Pair {
    fn mailbox(&mut self, threshold: Threshold, steering: Steering) -> MailboxId {
        let config = MailboxConfig {
            address: Some(BOX.address),
            key: BOX.key,
            threshold,
            steering,
            when_empty: WhenEmpty::Wait,
            retired: 2,
        };
        self.nics[1].create_mailbox(&config).unwrap()
    }

    /// Buffer `n` has 64 KiB from 64 KiB x `n` on.
    fn buffer(&mut self, mailbox: MailboxId, n: u64) {
        let local = LocalRange { segment: self.segments[1], offset: n << 16, length: 1 << 16 };
        self.nics[1].post_buffer(mailbox, n, local).unwrap();
    }

    fn put(&mut self, id: u64, offset: u64, length: u32) {
        self.post(id, Work::Put { mailbox: BOX, offset, epoch: None }, length);
    }

    fn epochs(&mut self) -> Vec<EpochDone> {
        core::iter::from_fn(|| self.nics[1].poll_epoch()).collect()
    }

    /// Advances the clock and moves packets in transit; returns what was sent.
    fn step(&mut self, microseconds: u64) -> Vec<Transmit> {
        self.now = self.now + Duration::from_us(microseconds);
        let mut all = Vec::new();
        for n in 0..2 {
            self.nics[n].handle_timeout(self.now);
            let now = self.now;
            let sent: Vec<Transmit> =
                core::iter::from_fn(|| self.nics[n].poll_transmit(now)).collect();
            for packet in &sent {
                self.deliver(1 - n, packet);
            }
            all.extend(sent);
        }
        all
    }

    pub(super) fn statuses(&mut self) -> Vec<Status> {
        let mut done = self.completions(0);
        done.sort_by_key(|completion| completion.id);
        done.iter().map(|completion| completion.status).collect()
    }
}

#[test]
fn puts_fill_epoch_after_epoch_whatever_is_lost() {
    for seed in 0..30 {
        let mut pair = Pair::new(0xFF_FFF0, 4);
        let mailbox = pair.mailbox(Threshold::Bytes(6_000), Steering::Receiver);
        for n in 0..20 {
            pair.buffer(mailbox, n);
        }
        for id in 0..60 {
            pair.put(id, 0, 2_000);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
        assert_eq!(pair.statuses(), [Status::Success; 60]);
        let epochs = pair.epochs();
        assert_eq!(epochs.len(), 20, "seed {seed}");
        for (n, done) in epochs.iter().enumerate() {
            let n = n as u64;
            let expected = (n, n, 6_000, 3, 6_000, 0, false);
            let EpochDone { epoch, id, bytes, operations, extent, cancelled, early, .. } = *done;
            assert_eq!((epoch, id, bytes, operations, extent, cancelled, early), expected);
        }
        // Each put went to the epoch that its number gives, and each byte of it once.
        let mut effects = core::mem::take(&mut pair.effects);
        effects.sort_unstable();
        effects.dedup();
        let place = |id: u64| ((id / 3) << 16) | (id % 3 * 2_000);
        let expected: Vec<u64> = (0..60).flat_map(|id| [place(id), place(id) + 1024]).collect();
        assert_eq!(effects, expected, "seed {seed}");
        assert_eq!(pair.nics[1].mailbox_epoch(mailbox), Some(20));
        let usage = pair.nics[1].usage();
        assert_eq!((usage.put_streams, usage.put_gaps), (1, 0));
    }
}

#[test]
fn a_put_without_a_buffer_waits_or_is_refused_as_the_mailbox_has_it() {
    let mut pair = Pair::new(0, 1);
    let mailbox = pair.mailbox(Threshold::Operations(1), Steering::Sender);
    pair.put(0, 10, 100);
    pair.put(1, 20, 100);
    for _ in 0..500 {
        pair.step(1);
    }
    assert_eq!(pair.statuses(), [], "it waits");
    pair.buffer(mailbox, 0);
    pair.buffer(mailbox, 1);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    // Whichever put is retried first, each goes to its own epoch.
    pair.effects.sort_unstable();
    assert_eq!(pair.effects, [10, (1 << 16) + 20]);

    let config = MailboxConfig {
        address: Some(1),
        key: 0,
        threshold: Threshold::Operations(1),
        steering: Steering::Sender,
        when_empty: WhenEmpty::Refuse,
        retired: 0,
    };
    let strict = pair.nics[1].create_mailbox(&config).unwrap();
    let other = RemoteMailbox { address: 1, key: 0 };
    let put = Work::Put { mailbox: other, offset: 0, epoch: None };
    pair.post(2, put, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::RemoteResources]);
    pair.buffer(strict, 7);
    pair.post(3, put, 10);
    pair.post(4, Work::Put { mailbox: other, offset: 0, epoch: Some(0) }, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success, Status::RemoteEpoch]);
}

#[test]
fn puts_sent_before_the_mailbox_exists_are_admitted_once_it_does() {
    let mut pair = Pair::new(0, 1);
    for id in 0..3 {
        pair.put(id, 0, 10);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::RemoteNoMailbox; 3]);
    let mailbox = pair.mailbox(Threshold::Operations(2), Steering::Receiver);
    pair.buffer(mailbox, 0);
    pair.buffer(mailbox, 1);
    for id in 0..4 {
        pair.put(id, 0, 10);
    }
    pair.run_until_idle(|n, _| n.is_multiple_of(3));
    assert_eq!(pair.statuses(), [Status::Success; 4]);
    assert_eq!(pair.epochs().len(), 2);
    // The mailbox is closed and created again while puts are unfinished.
    pair.put(4, 0, 10);
    pair.put(5, 0, 10);
    pair.nics[1].close_mailbox(mailbox, true).unwrap();
    pair.nics[1].release_mailbox(mailbox).unwrap();
    let again = pair.mailbox(Threshold::Operations(2), Steering::Receiver);
    pair.buffer(again, 2);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    assert_eq!(pair.epochs()[0].id, 2);
}

#[test]
fn room_for_a_refused_put_is_given_back_though_a_later_one_is_refused_too() {
    let mut pair = Pair::new(0, 1);
    let any = MailboxConfig {
        address: None,
        key: BOX.key,
        threshold: Threshold::Operations(4),
        steering: Steering::Sender,
        when_empty: WhenEmpty::Wait,
        retired: 0,
    };
    let any = pair.nics[1].create_mailbox(&any).unwrap();
    pair.buffer(any, 0);
    pair.put(0, 0, 10);
    pair.run_until_idle(|_, _| false);
    for id in 1..5 {
        pair.put(id, 0, 10);
    }
    let now = pair.now;
    let sent: Vec<Transmit> = core::iter::from_fn(|| pair.nics[0].poll_transmit(now)).collect();
    assert_eq!(sent.len(), 4);
    // The first put is lost. The second and the last reach a mailbox that refuses.
    for (packet, is_refused) in sent[1..].iter().zip([true, false, true]) {
        let closed = pair.mailbox(Threshold::Operations(1), Steering::Sender);
        pair.nics[1].close_mailbox(closed, true).unwrap();
        if !is_refused {
            pair.nics[1].release_mailbox(closed).unwrap();
        }
        pair.deliver(1, packet);
        if is_refused {
            pair.nics[1].release_mailbox(closed).unwrap();
        }
    }
    assert!(pair.nics[1].usage().put_gaps > 0, "room is kept for the first and the second");
    pair.run_until_idle(|_, _| false);
    let (done, refused) = (Status::Success, Status::RemoteNoMailbox);
    assert_eq!(pair.statuses(), [done, done, refused, done, refused]);
    assert_eq!(pair.nics[1].usage().put_gaps, 0);
}

#[test]
fn abandoned_put_does_not_delay_later_ones() {
    let profile = Profile { not_ready_retries: 1, ..Profile::default() };
    let mut pair = Pair::with_profile(0, 1, profile);
    let mailbox = pair.mailbox(Threshold::Operations(2), Steering::Receiver);
    pair.put(0, 0, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::ReceiverNotReady]);
    pair.buffer(mailbox, 0);
    for id in 1..3 {
        pair.put(id, 0, 10);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    assert_eq!(pair.epochs()[0].operations, 2);
}

#[test]
fn a_get_brings_the_current_epoch_or_a_retired_one() {
    let mut pair = Pair::new(0, 2);
    let mailbox = pair.mailbox(Threshold::Operations(1), Steering::Sender);
    for n in 0..3 {
        pair.buffer(mailbox, n);
    }
    pair.put(0, 0, 5_000);
    pair.run_until_idle(|_, _| false);
    let get = |epoch| Work::Get { mailbox: BOX, offset: 100, epoch };
    pair.post(1, get(None), 3_000);
    pair.post(2, get(Some(0)), 3_000);
    pair.post(3, get(Some(9)), 3_000);
    pair.post(4, Work::Get { mailbox: BOX, offset: 1 << 16, epoch: None }, 1);
    let mut sources = Vec::new();
    for _ in 0..400 {
        for packet in pair.step(1) {
            let is_answer = |data: &fairway_wire::Data| data.operation == Operation::ReadResponse;
            if matches!(&packet.packet, Packet::Data(data) if is_answer(data)) {
                sources.push(packet.gather.offset);
            }
        }
    }
    sources.sort_unstable();
    let parts = [100, 1124, 2148];
    let expected: Vec<u64> = parts.iter().chain(&parts.map(|at| at + (1 << 16))).copied().collect();
    assert_eq!(sources, expected, "epoch 0 is retired, epoch 1 the current one");
    let done = pair.completions(0);
    let status = |id| done.iter().find(|done| done.id == id).map(|done| done.status);
    assert_eq!(status(1), Some(Status::Success));
    assert_eq!(status(2), Some(Status::Success));
    assert_eq!(status(3), None, "epoch 9 has no buffer yet: it waits");
    assert_eq!(status(4), Some(Status::RemoteLength));
}

#[test]
fn a_rewound_epoch_takes_no_more_of_what_was_under_way() {
    let mut pair = Pair::new(0, 1);
    let mailbox = pair.mailbox(Threshold::Operations(1), Steering::Sender);
    for n in 0..3 {
        pair.buffer(mailbox, n);
    }
    pair.put(0, 0, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.epochs().len(), 1);
    pair.put(1, 0, 5_000);
    let packets = pair.outgoing();
    for packet in &packets[..2] {
        pair.deliver(1, packet);
    }
    pair.effects.clear();
    let done = pair.nics[1].rewind(mailbox, 1).unwrap();
    assert_eq!((done.epoch, done.id, done.bytes), (0, 0, 10));
    for packet in &packets[2..] {
        pair.deliver(1, packet);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success; 2], "it counts as done");
    assert_eq!(pair.effects, [], "and goes nowhere");
    pair.buffer(mailbox, 5);
    pair.put(2, 0, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.effects, [5 << 16]);
    assert_eq!(pair.nics[1].mailbox_epoch(mailbox), Some(1));
}

#[test]
fn a_closed_mailbox_discards_or_refuses() {
    for (nack, status) in [(true, Status::RemoteNoMailbox), (false, Status::Success)] {
        let mut pair = Pair::new(0, 1);
        let mailbox = pair.mailbox(Threshold::Operations(1), Steering::Sender);
        pair.buffer(mailbox, 0);
        pair.nics[1].close_mailbox(mailbox, nack).unwrap();
        pair.put(0, 0, 10);
        pair.put(1, 0, 9_000);
        pair.run_until_idle(|n, _| n.is_multiple_of(4));
        assert_eq!(pair.statuses(), [status; 2]);
        assert_eq!(pair.effects, []);
        pair.nics[1].release_mailbox(mailbox).unwrap();
        let usage = pair.nics[1].usage();
        assert_eq!((usage.mailboxes, usage.mailbox_buffers, usage.put_streams), (0, 0, 0));
    }
}

#[test]
fn a_buffer_holds_its_segment_until_it_is_back() {
    let mut pair = Pair::new(0, 1);
    let mailbox = pair.mailbox(Threshold::Operations(1), Steering::Sender);
    pair.buffer(mailbox, 0);
    assert_eq!(pair.nics[1].deregister(pair.segments[1]), Ok(false));
    pair.put(0, 0, 10);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success], "as with a posted receive");
    assert_eq!(pair.epochs().len(), 1);
    assert_eq!(pair.nics[1].poll_event(), None, "it is kept for rewind");
    pair.nics[1].close_mailbox(mailbox, true).unwrap();
    pair.nics[1].release_mailbox(mailbox).unwrap();
    let segment = pair.segments[1];
    assert_eq!(pair.nics[1].poll_event(), Some(Event::SegmentReleased { segment }));
}

#[test]
fn a_channel_that_ends_cancels_its_puts_and_the_epoch_goes_on() {
    let mut pair = Pair::new(0, 1);
    let mailbox = pair.mailbox(Threshold::Operations(2), Steering::Receiver);
    pair.buffer(mailbox, 0);
    pair.put(0, 0, 5_000);
    pair.put(1, 0, 10);
    let packets = pair.outgoing();
    for packet in packets.iter().skip(2) {
        pair.deliver(1, packet);
    }
    let (now, channel) = (pair.now, pair.channels[1]);
    pair.nics[1].close_channel(now, channel).unwrap();
    let epochs = pair.epochs();
    assert_eq!(epochs.len(), 1);
    assert_eq!((epochs[0].cancelled, epochs[0].operations), (1, 1));
    assert_eq!(epochs[0].bytes, 5_000 - 2 * 1024 + 10);
    let usage = pair.nics[1].usage();
    assert_eq!((usage.put_streams, usage.put_gaps, usage.arrivals), (0, 0, 0));
}

#[test]
fn ordered_puts_keep_their_order_with_other_operations() {
    for mode in [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol] {
        for seed in 0..10 {
            let mut pair = Pair::new(0, 4).with_staging();
            let mailbox = pair.mailbox(Threshold::Operations(10), Steering::Receiver);
            pair.buffer(mailbox, 1);
            let order = OrderRequest { mode, tag: Tag::So, ..OrderRequest::default() };
            for id in 0..20_u64 {
                let put = Work::Put { mailbox: BOX, offset: 0, epoch: None };
                let remote = RemoteRange { address: 0x1007, ..pair.remote() };
                let write = Work::Write { remote };
                let work = if id.is_multiple_of(2) { put } else { write };
                pair.post_in_order(id, work, 10, order);
            }
            let mut random = Random::new(seed);
            pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
            assert_eq!(pair.statuses(), [Status::Success; 20], "{mode:?} seed {seed}");
            // Payload that was set aside lies at multiples of the packet's size.
            pair.effects.retain(|&at| at >= 1 << 16 || at % 1024 != 0);
            let at = |n: u64| if n.is_multiple_of(2) { (1 << 16) + n / 2 * 10 } else { 7 };
            assert_eq!(pair.effects, (0..20).map(at).collect::<Vec<u64>>(), "{mode:?} {seed}");
            assert_eq!(pair.epochs().len(), 1);
        }
    }
}

#[test]
fn puts_of_four_gibibytes_are_never_under_way_to_one_mailbox() {
    let mut pair = Pair::new(0, 1);
    let request =
        SegmentRequest { address: 0, length: 1 << 40, rights: Rights::NONE, token_value: 0 };
    let large = pair.nics[0].register(&request).unwrap();
    let mut post = |id, length| {
        let local = LocalRange { segment: large, offset: 0, length };
        let work = Work::Put { mailbox: BOX, offset: 0, epoch: None };
        let (channel, order) = (pair.channels[0], OrderRequest::default());
        let request = WorkRequest { id, channel, work, local, signaled: true, order };
        pair.nics[0].post(pair.now, pair.jetties[0], &request)
    };
    assert_eq!(post(0, u32::MAX / 2), Ok(()));
    assert_eq!(post(1, u32::MAX / 2), Ok(()));
    assert_eq!(post(2, 1), Ok(()));
    assert_eq!(post(3, 1), Err(PostError::TooManyPuts));
    // The puts are refused, so later ones can proceed again.
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::RemoteNoMailbox; 3]);
    pair.put(4, 0, u32::MAX >> 8);
}

/// A put ends in the middle, because its Jetty is aborted or its memory is missing. The sender goes
/// on with a put that needs no slot.
#[test]
fn put_that_is_cut_short_does_not_hold_its_epoch() {
    for aborts in [true, false] {
        let mut pair = Pair::new(0, 1);
        let mailbox = pair.mailbox(Threshold::Operations(1), Steering::Sender);
        pair.buffer(mailbox, 0);
        pair.buffer(mailbox, 1);
        pair.put(0, 0, 8 * MTU);
        let first = pair.nics[0].poll_transmit(pair.now).unwrap();
        pair.deliver(1, &first);
        if aborts {
            pair.nics[0].abort_jetty(pair.jetties[0]).unwrap();
        } else {
            let second = pair.nics[0].poll_transmit(pair.now).unwrap();
            pair.nics[0].handle_ungathered(&second);
        }
        pair.run_until_idle(|_, _| false);
        let status = if aborts { Status::Flushed } else { Status::LocalMemory };
        assert_eq!(pair.completions(0)[0].status, status);
        pair.put(1, 0, 8);
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.completions(0)[0].status, Status::Success);
        let epochs: Vec<_> = core::iter::from_fn(|| pair.nics[1].poll_epoch()).collect();
        assert_eq!(epochs.len(), 2, "aborts: {aborts}, {epochs:?}");
        assert_eq!(pair.nics[1].usage().arrivals, 0);
    }
}

/// A Jetty puts to more mailboxes than either side has records for streams of puts.
#[test]
fn records_of_idle_streams_are_used_again() {
    const BOXES: u64 = 5;
    const ROUNDS: u64 = 12;
    for seed in 0..10 {
        let limits = Limits { channels: 4, jetties: 8, put_streams: 2, ..Limits::default() };
        let new = |n| UbDevice::new(Cna::new(n), &limits, &Profile::default(), u64::from(n));
        let policy = PolicySpec::default();
        let mut pair = Pair::between([1, 2].map(new), 0xFF_FFF0, 4, &policy);
        for number in 0..BOXES {
            let config = MailboxConfig {
                address: Some(number),
                key: 0,
                threshold: Threshold::Operations(1),
                steering: Steering::Sender,
                when_empty: WhenEmpty::Wait,
                retired: 0,
            };
            let mailbox = pair.nics[1].create_mailbox(&config).unwrap();
            (0..2 * ROUNDS).for_each(|n| pair.buffer(mailbox, n));
        }
        let mut random = Random::new(seed);
        for round in 0..ROUNDS {
            for pairs in 0..BOXES {
                // Two puts to each of two mailboxes are under way together.
                for (n, address) in [pairs, (pairs + 1) % BOXES].into_iter().enumerate() {
                    let mailbox = RemoteMailbox { address, key: 0 };
                    let work = Work::Put { mailbox, offset: 0, epoch: None };
                    let length = 1 + 2 * round + n as u64;
                    pair.post(0, work, length as u32);
                }
                pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
                assert_eq!(pair.statuses(), [Status::Success; 2], "seed {seed}");
            }
        }
        assert_eq!(pair.nics[0].usage().put_streams, 2);
        assert_eq!(pair.nics[1].usage().put_streams, 2);
        let epochs = pair.epochs();
        assert_eq!(epochs.len() as u64, 2 * ROUNDS * BOXES);
    }
}

/// The puts of a stream that is made anew wait for the first: the receiver may remember the numbers
/// of a forgotten one.
#[test]
fn first_put_of_a_stream_that_is_made_anew_goes_alone() {
    let limits = Limits { channels: 4, jetties: 8, put_streams: 1, ..Limits::default() };
    let new = |n| UbDevice::new(Cna::new(n), &limits, &Profile::default(), u64::from(n));
    let mut pair = Pair::between([1, 2].map(new), 0, 1, &PolicySpec::default());
    let mailbox = pair.mailbox(Threshold::Bytes(100), Steering::Sender);
    pair.buffer(mailbox, 0);
    let other = RemoteMailbox { address: 1, key: 0 };
    for (id, mailbox) in [BOX, BOX, other].into_iter().enumerate() {
        pair.post(id as u64, Work::Put { mailbox, offset: 0, epoch: None }, 1);
        pair.run_until_idle(|_, _| false);
    }
    let [first, second, third] = pair.statuses()[..] else { panic!("three puts end") };
    assert_eq!((first, second, third), (Status::Success, Status::Success, Status::RemoteNoMailbox));
    // The second of these is not sent before the first was judged; then both have numbers behind
    // that of the put to the other mailbox.
    pair.put(3, 0, 1);
    pair.put(4, 0, 1);
    let sent = pair.step(1);
    let puts: Vec<(u32, bool)> = sent.iter().filter_map(put_number).collect();
    assert_eq!(puts, [(3, true)]);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
}

/// The number of a put, and whether it is marked as the oldest.
fn put_number(transmit: &Transmit) -> Option<(u32, bool)> {
    match &transmit.packet {
        Packet::Data(data) => match data.operation {
            Operation::Put(put) => Some((put.sequence, put.oldest)),
            _ => None,
        },
        _ => None,
    }
}
