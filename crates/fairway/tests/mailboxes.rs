//! Mailboxes on live traffic: over loopback, and over networks that lose, duplicate and reorder.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Pair, Side, TIMEOUT, builder, bytes};
use fairway::{
    Epoch, EpochNote, EpochRecord, Error, Mailbox, MailboxAddress, MailboxOptions, Order, Post,
    Rights, Segment, ServiceMode, Status, Steering, Threshold, WhenEmpty,
};

const BAD: &str = "delay=50us,jitter=100us,loss=2%,reorder=16,dup=2%";
const ADDRESS: u64 = 0xB0B0;
const KEY: u32 = 99;
const SHORT: Duration = Duration::from_millis(50);

fn options(threshold: Threshold, steering: Steering) -> MailboxOptions {
    MailboxOptions::default().address(ADDRESS).key(KEY).threshold(threshold).steering(steering)
}

fn to() -> MailboxAddress {
    MailboxAddress::new(ADDRESS, KEY)
}

/// Creates a mailbox with buffers of `length` bytes, one behind the other.
fn with_buffers(
    side: &Side,
    options: &MailboxOptions,
    length: u64,
    count: u64,
) -> (Mailbox, Segment) {
    let shelf = side.segment((length * count) as usize, Rights::NONE);
    let mailbox = side.context.create_mailbox(options).unwrap();
    for buffer in 0..count {
        mailbox.post(shelf.slice(buffer * length..(buffer + 1) * length), buffer).unwrap();
    }
    (mailbox, shelf)
}

fn next(mailbox: &Mailbox) -> Epoch {
    mailbox.wait(TIMEOUT).unwrap()
}

#[test]
fn puts_fill_buffer_after_buffer_under_one_address() {
    let bad = |seed| builder().emulate(BAD.parse().unwrap(), seed);
    for (round, pair) in [Pair::new(), Pair::of(bad(1), bad(2))].into_iter().enumerate() {
        let options = options(Threshold::Operations(4), Steering::Receiver);
        let (mailbox, shelf) = with_buffers(&pair.server, &options, 40_000, 25);
        let source = pair.client.filled(1 << 20, 7);
        let data = bytes(1 << 20, 7);
        let length = |put: u64| 1 + (put * 977) % 9_000;
        for put in 0..100 {
            let from = put * 10_000;
            pair.client
                .jetty
                .put(&pair.client.peer, source.slice(from..from + length(put)), to(), put)
                .unwrap();
        }
        for number in 0..25 {
            let done = next(&mailbox);
            assert_eq!(
                (done.epoch, done.id.value(), done.operations),
                (number, number, 4),
                "{round}"
            );
            let mut expected = Vec::new();
            for put in number * 4..number * 4 + 4 {
                let from = (put * 10_000) as usize;
                expected.extend(&data[from..from + length(put) as usize]);
            }
            assert_eq!((done.bytes, u64::from(done.extent)), (expected.len() as u64, done.bytes));
            assert!(shelf.compare(number * 40_000, &expected).unwrap(), "epoch {number}");
        }
        assert_eq!(mailbox.epoch(), 25);
        for _ in 0..100 {
            let _ = pair.client.succeed();
        }
    }
}

#[test]
fn the_end_of_an_epoch_is_stored_in_one_cache_line() {
    let pair = Pair::new();
    let shelf = pair.server.segment(3 * 4096, Rights::NONE);
    let mailbox = pair
        .server
        .context
        .create_mailbox(&options(Threshold::Bytes(4096), Steering::Sender))
        .unwrap();
    let record = Arc::new(EpochRecord::new());
    let mut foreign = EpochRecord::new();
    let mut pointer = std::ptr::null_mut();
    mailbox.post_recorded(shelf.slice(0..4096), 11, &record).unwrap();
    let note = EpochNote { pointer: &mut pointer, record: &mut foreign };
    // SAFETY: both outlive the mailbox, and are looked at only when it is gone.
    unsafe { mailbox.post_noted(shelf.slice(4096..8192), 12, note).unwrap() };
    mailbox.post(shelf.slice(8192..3 * 4096), 13).unwrap();
    assert_eq!(record.get(), None);
    let waiting = pair.server.context.wait_record(&record, SHORT);
    assert!(matches!(waiting, Err(Error::Timeout { .. })), "{waiting:?}");
    let source = pair.client.filled(4096, 3);
    for put in 0..3 {
        for half in [2048..4096, 0..2048] {
            let place = to().offset(half.start);
            pair.client.jetty.put(&pair.client.peer, source.slice(half), place, put).unwrap();
        }
    }
    pair.server.context.wait_record(&record, TIMEOUT).unwrap();
    let seen = record.get().unwrap();
    assert_eq!((seen.length, seen.epoch, seen.operations, seen.id), (4096, 0, 2, 11));
    assert_eq!((seen.address, seen.cancelled, seen.early), (ADDRESS, 0, false));
    // The other epochs were reported in other ways, so the queue only contains the last one.
    let last = next(&mailbox);
    assert_eq!((last.epoch, last.id.value()), (2, 13));
    drop(mailbox);
    let seen = foreign.get().unwrap();
    assert_eq!((seen.epoch, seen.id), (1, 12));
    assert_eq!(pointer as usize, seen.buffer);
    assert_eq!(last.pointer - seen.buffer, 4096);
    for place in [0, 4096, 8192] {
        assert!(shelf.compare(place, &bytes(4096, 3)).unwrap());
    }
}

#[test]
fn many_senders_share_a_mailbox_and_no_byte_is_in_the_wrong_epoch() {
    let server = builder().emulate(BAD.parse().unwrap(), 5).build().unwrap();
    let clients: Vec<Side> = (0..4)
        .map(|seed| {
            let context = builder().emulate(BAD.parse().unwrap(), 10 + seed).build().unwrap();
            let peer = context.connect(server.local_addrs()[0], TIMEOUT).unwrap();
            common::side(context, peer)
        })
        .collect();
    let shelf =
        server.register(fairway::Memory::zeroed(60 * 2_000).unwrap(), Rights::NONE).unwrap();
    let mailbox =
        server.create_mailbox(&options(Threshold::Operations(5), Steering::Receiver)).unwrap();
    for buffer in 0..60 {
        mailbox.post(shelf.slice(buffer * 2_000..(buffer + 1) * 2_000), buffer).unwrap();
    }
    // Message number n of client c: 32 words that contain both numbers.
    for (number, client) in clients.iter().enumerate() {
        let paper = client.segment(50 * 256, Rights::NONE);
        for letter in 0..50_u64 {
            let word = ((number as u64) << 32 | letter).to_le_bytes();
            paper.write_at(letter * 256, &word.repeat(32)).unwrap();
            let from = paper.slice(letter * 256..(letter + 1) * 256);
            client.jetty.put(&client.peer, from, to(), letter).unwrap();
        }
    }
    let mut received = vec![0; 4];
    for number in 0..40 {
        let done = next(&mailbox);
        assert_eq!((done.epoch, done.bytes, done.operations), (number, 5 * 256, 5));
        for place in 0..5 {
            let mut text = vec![0; 256];
            shelf.read_at(number * 2_000 + place * 256, &mut text).unwrap();
            let word = u64::from_le_bytes(text[..8].try_into().unwrap());
            assert_eq!(text, word.to_le_bytes().repeat(32), "a letter is whole");
            let (client, letter) = ((word >> 32) as usize, word & 0xFFFF_FFFF);
            assert_eq!(letter, received[client], "of each client in its order");
            received[client] += 1;
        }
    }
    assert_eq!(received, [50; 4]);
}

#[test]
fn put_without_a_buffer_is_refused_or_waits() {
    let pair = Pair::new();
    let Side { jetty, peer, .. } = &pair.client;
    let data = pair.client.filled(200, 1);
    jetty.put(peer, data.slice(0..10), to(), 0).unwrap();
    assert_eq!(pair.client.wait().status, Status::RemoteNoMailbox);
    let refusing =
        options(Threshold::Operations(1), Steering::Sender).when_empty(WhenEmpty::Refuse);
    let mailbox = pair.server.context.create_mailbox(&refusing).unwrap();
    let twice = pair.server.context.create_mailbox(&refusing).unwrap_err();
    assert!(twice.to_string().contains("0xb0b0"), "{twice}");
    jetty.put(peer, data.slice(0..10), MailboxAddress::new(ADDRESS, KEY + 1), 1).unwrap();
    assert_eq!(pair.client.wait().status, Status::RemoteNoMailbox);
    jetty.put(peer, data.slice(0..10), to(), 2).unwrap();
    assert_eq!(pair.client.wait().status, Status::RemoteResources);
    assert!(matches!(mailbox.increment_epoch(), Err(Error::NoBuffer)));
    let shelf = pair.server.segment(1000, Rights::NONE);
    mailbox.post(shelf.slice(0..100), 0).unwrap();
    jetty.put(peer, data.slice(0..10), to().offset(91), 3).unwrap();
    assert_eq!(pair.client.wait().status, Status::RemoteLength);
    jetty.put(peer, data.slice(0..10), to().offset(90).epoch(0), 4).unwrap();
    let _ = pair.client.succeed();
    assert_eq!(next(&mailbox).bytes, 10);
    jetty.put(peer, data.slice(0..10), to().epoch(0), 5).unwrap();
    assert_eq!(pair.client.wait().status, Status::RemoteEpoch);
    drop(mailbox);
    let patient = options(Threshold::Operations(1), Steering::Sender);
    let mailbox = pair.server.context.create_mailbox(&patient).unwrap();
    jetty.put(peer, data.slice(0..10), to(), 6).unwrap();
    assert!(matches!(jetty.wait(SHORT), Err(Error::Timeout { .. })), "it waits");
    mailbox.post(shelf.slice(100..200), 1).unwrap();
    let _ = pair.client.succeed();
    mailbox.close(false).unwrap();
    jetty.put(peer, data.slice(0..10), to(), 7).unwrap();
    let _ = pair.client.succeed();
    let silent = mailbox.post(shelf.slice(0..10), 2).unwrap_err();
    assert!(matches!(silent, Error::MailboxClosed));
}

#[test]
fn an_epoch_ends_early_and_can_be_gone_back_to() {
    let pair = Pair::new();
    let options = options(Threshold::Bytes(1000), Steering::Receiver).retired(3);
    let (mailbox, shelf) = with_buffers(&pair.server, &options, 1000, 6);
    let data = pair.client.filled(1000, 4);
    let put = |length: u64| {
        let client = &pair.client;
        client.jetty.put(&client.peer, data.slice(0..length), to(), 0).unwrap();
        let _ = client.succeed();
    };
    put(300);
    assert_eq!(mailbox.increment_epoch().unwrap(), 0);
    let done = next(&mailbox);
    assert_eq!((done.epoch, done.bytes, done.early), (0, 300, true));
    put(1000);
    put(1000);
    assert_eq!((next(&mailbox).epoch, next(&mailbox).epoch), (1, 2));
    put(10);
    assert!(matches!(mailbox.rewind(4), Err(Error::EpochNotKept)));
    let back = mailbox.rewind(2).unwrap();
    assert_eq!((back.epoch, back.id.value(), back.bytes), (1, 1, 1000));
    assert!(shelf.compare(1000, &bytes(1000, 4)).unwrap(), "its bytes are there");
    assert_eq!(mailbox.epoch(), 1);
    mailbox.post(shelf.slice(5000..6000), 77).unwrap();
    put(1000);
    let again = next(&mailbox);
    assert_eq!((again.epoch, again.id.value()), (1, 77));
    // A get reads the retired one.
    let Side { jetty, peer, .. } = &pair.client;
    let landing = pair.client.open_segment(100);
    jetty.get(peer, landing.slice(0..100), to().offset(50).epoch(1), 5).unwrap();
    let _ = pair.client.succeed();
    assert!(landing.compare(0, &bytes(1000, 4)[50..150]).unwrap());
}

#[test]
fn the_catch_all_takes_what_no_other_mailbox_has() {
    let pair = Pair::new();
    let options = options(Threshold::Operations(2), Steering::Receiver).address(None);
    let (mailbox, _shelf) = with_buffers(&pair.server, &options, 1000, 1);
    let Side { jetty, peer, .. } = &pair.client;
    let data = pair.client.filled(100, 1);
    jetty.put(peer, data.slice(0..10), MailboxAddress::new(1, KEY), 0).unwrap();
    let _ = pair.client.succeed();
    jetty.put(peer, data.slice(0..10), MailboxAddress::new(2, KEY), 1).unwrap();
    let _ = pair.client.succeed();
    let done = next(&mailbox);
    assert_eq!((done.operations, done.address), (2, 2));
}

#[test]
fn flag_put_in_order_arrives_after_its_data() {
    let bad = |seed| builder().emulate(BAD.parse().unwrap(), seed);
    let pair = Pair::of(bad(21), bad(22));
    let target = pair.server.open_segment(100 * 6_000);
    let (mailbox, _shelf) =
        with_buffers(&pair.server, &options(Threshold::Operations(1), Steering::Sender), 8, 100);
    let source = pair.client.filled(6_000, 9);
    let Side { jetty, peer, .. } = &pair.client;
    for round in 0..100 {
        let data = jetty.ordered(Order::relaxed(ServiceMode::Rot));
        data.write(peer, source.slice(0..6_000), target.key().at(round * 6_000), round).unwrap();
        let flag = jetty.ordered(Order::strict(ServiceMode::Rot));
        flag.put(peer, source.slice(0..8), to(), round).unwrap();
    }
    let expected = bytes(6_000, 9);
    for round in 0..100 {
        assert_eq!(next(&mailbox).id, round);
        assert!(target.compare(round * 6_000, &expected).unwrap(), "round {round}");
    }
}

#[test]
fn a_sender_that_dies_does_not_hold_an_epoch_up() {
    let dying = common::dead_after(300);
    let pair = Pair::of(builder().profile(dying), builder().profile(dying));
    let (mailbox, _shelf) = with_buffers(
        &pair.server,
        &options(Threshold::Operations(1), Steering::Sender),
        1 << 26,
        1,
    );
    let data = pair.client.segment(1 << 26, Rights::NONE);
    pair.client.jetty.put(&pair.client.peer, data.slice(0..1 << 26), to(), 0).unwrap();
    while pair.server.context.counters().engine.payload_received == 0 {
        std::thread::yield_now();
    }
    pair.client.context.simulate_crash();
    let done = next(&mailbox);
    assert!(done.cancelled <= 1 && done.operations + u64::from(done.cancelled) == 1, "{done:?}");
}
