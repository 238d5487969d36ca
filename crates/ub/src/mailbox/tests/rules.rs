//! Look-up, epochs, order, named epochs, abandoned puts: each rule by itself.

use super::*;
use alloc::vec::Vec;

#[test]
fn a_put_needs_the_address_and_the_key() {
    let mut bench = Bench::bytes(100, 1);
    let a = Source::new(1);
    let put = a.put(10, 0);
    let refused = Admission::Refuse(Refusal::NoMailbox);
    assert_eq!(bench.admit(&a, &Put { mailbox: ADDRESS + 1, ..put }), refused);
    assert_eq!(bench.admit(&a, &Put { key: KEY + 1, ..put }), refused);
    assert_eq!(bench.mailboxes.counts().streams, 0);
    bench.start(&a, &put);
}

#[test]
fn addresses_and_the_catch_all_are_unique() {
    let mut bench = Bench::bytes(100, 0);
    let config = config(Threshold::Bytes(1), Steering::Sender);
    assert_eq!(bench.mailboxes.create(&config), Err(SetupError::Number));
    let catch_all = MailboxConfig { address: None, ..config };
    bench.mailboxes.create(&catch_all).unwrap();
    assert_eq!(bench.mailboxes.create(&catch_all), Err(SetupError::Number));
    let zero = MailboxConfig { threshold: Threshold::Operations(0), ..config };
    assert_eq!(bench.mailboxes.create(&zero), Err(SetupError::Parameter("threshold")));
    for address in 0..2 {
        bench.mailboxes.create(&MailboxConfig { address: Some(address), ..config }).unwrap();
    }
    let more = MailboxConfig { address: Some(9), ..config };
    assert_eq!(bench.mailboxes.create(&more), Err(SetupError::Limit("mailboxes")));
}

#[test]
fn the_catch_all_takes_what_no_other_mailbox_has() {
    let mut bench = Bench::bytes(100, 1);
    let ours = config(Threshold::Operations(2), Steering::Sender);
    let all = bench.mailboxes.create(&MailboxConfig { address: None, ..ours }).unwrap();
    bench.mailboxes.post_buffer(all, 1, range(50, 100)).unwrap();
    let a = Source::new(1);
    assert_eq!(bench.whole(&a, &Put { mailbox: 5, ..a.put(1, 0) }), 50);
    // Each address has sequence numbers of its own.
    let b = Source::new(1);
    assert_eq!(bench.whole(&b, &Put { mailbox: 6, ..b.put(1, 0) }), 50);
    let done = bench.mailboxes.poll_done().unwrap();
    assert_eq!((done.mailbox, done.address, done.operations), (all, 6, 2));
    let c = Source::new(1);
    assert_eq!(bench.whole(&c, &c.put(1, 0)), 0);
    // An address gets a mailbox of its own: the sender's numbers go on.
    let own = bench.mailboxes.create(&MailboxConfig { address: Some(5), ..ours }).unwrap();
    bench.mailboxes.post_buffer(own, 1, range(51, 100)).unwrap();
    assert_eq!(bench.whole(&a, &Put { mailbox: 5, ..a.put(1, 0) }), 51);
}

#[test]
fn the_put_that_passes_the_threshold_is_the_last_of_its_epoch() {
    let mut bench = Bench::bytes(100, 3);
    let a = Source::new(1);
    let puts: Vec<Put> = [60, 60, 99, 1, 5].map(|length| a.put(length, 0)).to_vec();
    let segments: Vec<u32> = puts.iter().map(|put| bench.whole(&a, put)).collect();
    assert_eq!(segments, [0, 0, 1, 1, 2]);
    assert_eq!(bench.done(), [(0, 120, 2, false), (1, 100, 2, false)]);
    assert_eq!(drain_released(&mut bench.mailboxes), [0, 1]);
    assert_eq!(bench.mailboxes.epoch(bench.id), Some(2));
}

#[test]
fn operations_count_whatever_their_length() {
    let mut bench = Bench::new(&config(Threshold::Operations(3), Steering::Sender), 2);
    let a = Source::new(1);
    let segments = [0, 100, 0, 7].map(|length| bench.whole(&a, &a.put(length, 0)));
    assert_eq!(segments, [0, 0, 0, 1]);
    assert_eq!(bench.done(), [(0, 100, 3, false)]);
}

#[test]
fn epochs_fill_at_once_and_are_done_in_order() {
    let mut bench = Bench::bytes(10, 2);
    let (a, b) = (Source::new(1), Source::new(2));
    let (slow, ..) = bench.start(&a, &a.put(10, 0));
    assert_eq!(bench.whole(&b, &b.put(10, 0)), 1);
    assert_eq!(bench.done(), []);
    bench.mailboxes.placed(slow, 10);
    assert_eq!(bench.mailboxes.epoch(bench.id), Some(0));
    bench.mailboxes.finish(slow);
    assert_eq!(bench.done(), [(0, 10, 1, false), (1, 10, 1, false)]);
    assert_eq!(bench.admit(&b, &b.put(1, 0)), Admission::Wait);
}

#[test]
fn without_a_buffer_puts_wait_or_are_refused() {
    let mut bench = Bench::bytes(10, 0);
    let a = Source::new(1);
    let put = a.put(10, 0);
    assert_eq!(bench.admit(&a, &put), Admission::Wait);
    bench.post(0, 100);
    bench.whole(&a, &put);
    let refusing = MailboxConfig {
        when_empty: WhenEmpty::Refuse,
        ..config(Threshold::Bytes(10), Steering::Sender)
    };
    let mut bench = Bench::new(&refusing, 0);
    assert_eq!(bench.admit(&a, &put), Admission::Refuse(Refusal::Resources));
    bench.post(0, 100);
    // The number of a refused put is over.
    bench.whole(&a, &a.put(10, 0));
    assert_eq!(bench.admit(&a, &put), Admission::Refuse(Refusal::Operation));
}

#[test]
fn an_early_put_leaves_room_for_the_missing_ones() {
    let mut bench = Bench::bytes(100, 2);
    let (a, b) = (Source::new(1), Source::new(2));
    bench.whole(&a, &a.put(10, 0));
    let [first, second, third] = [30, 20, 20].map(|length| a.put(length, 0));
    assert_eq!(bench.whole(&a, &third), 0);
    // 30 used, 50 kept: the next 20 bytes are the last of this epoch.
    assert_eq!(bench.whole(&b, &b.put(20, 0)), 0);
    assert_eq!(bench.whole(&b, &b.put(20, 0)), 1);
    assert_eq!(bench.whole(&a, &second), 0);
    assert_eq!(bench.done(), []);
    assert_eq!(bench.mailboxes.counts().gaps, 1);
    assert_eq!(bench.whole(&a, &first), 0);
    assert_eq!(bench.done(), [(0, 100, 5, false)]);
    assert_eq!(bench.mailboxes.counts().gaps, 0);
    assert_eq!(bench.admit(&a, &first), Admission::Refuse(Refusal::Operation));
}

#[test]
fn an_uncertain_put_is_not_admitted() {
    let mut bench = Bench::bytes(100, 3);
    let a = Source::new(1);
    bench.whole(&a, &a.put(10, 0));
    let [first, second, third] = [89, 1, 5].map(|length| a.put(length, 0));
    // 10 + 89 + 1 reach the threshold: the third belongs to the next epoch, the second to this.
    assert_eq!(bench.admit(&a, &third), Admission::OutOfOrder);
    assert_eq!(bench.whole(&a, &second), 0);
    assert_eq!(bench.admit(&a, &third), Admission::OutOfOrder);
    assert_eq!(bench.whole(&a, &first), 0);
    assert_eq!(bench.whole(&a, &third), 1);
}

#[test]
fn a_stream_begins_with_its_first_put() {
    let mut bench = Bench::bytes(100, 1);
    let a = Source::new(1);
    let [first, second] = [1, 1].map(|length| a.put(length, 0));
    assert_eq!(bench.admit(&a, &second), Admission::OutOfOrder);
    assert_eq!(bench.mailboxes.counts().streams, 0);
    bench.whole(&a, &first);
    bench.whole(&a, &second);
}

#[test]
fn the_window_of_early_puts_is_128() {
    let mut bench = Bench::new(&config(Threshold::Operations(1000), Steering::Sender), 1);
    let a = Source::new(1);
    bench.whole(&a, &a.put(0, 0));
    let puts: Vec<Put> = (0..140).map(|_| a.put(1, 0)).collect();
    assert_eq!(bench.admit(&a, &puts[129]), Admission::OutOfOrder);
    bench.whole(&a, &puts[128]);
    for put in &puts[1..128] {
        bench.whole(&a, put);
    }
    assert_eq!(bench.admit(&a, &puts[129]), Admission::OutOfOrder);
    bench.whole(&a, &puts[0]);
    bench.whole(&a, &puts[129]);
    assert_eq!(bench.mailboxes.counts().gaps, 0);
}

#[test]
fn room_is_kept_in_as_many_epochs_as_missing_puts_fill() {
    let mut bench = Bench::new(&config(Threshold::Operations(2), Steering::Sender), 5);
    let (a, b) = (Source::new(1), Source::new(2));
    assert_eq!(bench.whole(&a, &a.put(1, 0)), 0);
    let puts: Vec<Put> = (0..7).map(|_| a.put(1, 0)).collect();
    // Puts 0 to 3 are missing: one belongs to epoch 0, two to epoch 1, and one to epoch 2.
    assert_eq!(bench.whole(&a, &puts[4]), 2);
    assert_eq!(bench.mailboxes.counts().gaps, 3);
    assert_eq!(bench.whole(&b, &b.put(1, 0)), 3, "another sender's goes behind them");
    assert_eq!(bench.whole(&a, &puts[5]), 3);
    assert_eq!(bench.whole(&a, &puts[2]), 1);
    assert_eq!(bench.done(), []);
    assert_eq!([0, 1, 3].map(|at| bench.whole(&a, &puts[at])), [0, 1, 2]);
    let done = [0, 1, 2, 3].map(|epoch| (epoch, 2, 2, false));
    assert_eq!(bench.done(), done);
    assert_eq!(bench.mailboxes.counts().gaps, 0);
    // No buffer was posted for what follows the missing one.
    assert_eq!(bench.whole(&a, &puts[6]), 4);
    let late = [a.put(1, 0), a.put(1, 0)];
    assert_eq!(bench.admit(&a, &late[1]), Admission::OutOfOrder);
}

#[test]
fn an_epoch_that_lost_all_its_puts_is_done_without_any() {
    let mut bench = Bench::new(&config(Threshold::Operations(1), Steering::Sender), 3);
    let a = Source::new(1);
    assert_eq!(bench.whole(&a, &a.put(1, 0)), 0);
    let (given_up, next) = (a.put(1, 0), a.put(1, 0));
    assert_eq!(bench.whole(&a, &next), 2);
    bench.mailboxes.abandon(a.sender, ADDRESS, given_up.sequence);
    assert_eq!(bench.done(), [(0, 1, 1, false), (1, 0, 0, false), (2, 1, 1, false)]);
}

#[test]
fn a_stream_of_bytes_is_put_together_in_order() {
    let mut bench = Bench::stream(100, 2);
    let (a, b) = (Source::new(1), Source::new(2));
    bench.whole(&a, &a.put(10, 0));
    let [first, second, third] = [5, 6, 7].map(|length| a.put(length, 0));
    assert_eq!(bench.start(&a, &third).2, 21);
    assert_eq!(bench.start(&b, &b.put(2, 0)).2, 28);
    assert_eq!(bench.start(&a, &second).2, 15);
    assert_eq!(bench.start(&a, &first).2, 10);
    assert_eq!(bench.start(&a, &a.put(1, 0)).2, 30);
}

#[test]
fn put_that_does_not_fit_the_rest_goes_to_the_next_buffer() {
    let mut bench = Bench::stream(1000, 2);
    let a = Source::new(1);
    assert_eq!(bench.whole(&a, &a.put(60, 0)), 0);
    assert_eq!(bench.admit(&a, &a.put(101, 0)), Admission::Refuse(Refusal::Length));
    assert_eq!(bench.whole(&a, &a.put(41, 0)), 1);
    assert_eq!(bench.done(), [(0, 60, 1, false)]);
    // A full buffer is done, though the threshold is more than it holds.
    assert_eq!(bench.whole(&a, &a.put(59, 0)), 1);
    assert_eq!(bench.done(), [(1, 100, 2, false)]);
}

#[test]
fn the_sender_steers_within_the_buffer() {
    let mut bench = Bench::bytes(1000, 1);
    let a = Source::new(1);
    assert_eq!(bench.start(&a, &a.put(10, 90)).2, 90);
    assert_eq!(bench.admit(&a, &a.put(10, 91)), Admission::Refuse(Refusal::Length));
    assert_eq!(bench.admit(&a, &a.put(10, u64::MAX)), Admission::Refuse(Refusal::Length));
    assert_eq!(bench.start(&a, &a.put(0, 100)).2, 100);
}

#[test]
fn a_put_may_name_its_epoch() {
    let mut bench = Bench::bytes(10, 2);
    let (a, b) = (Source::new(1), Source::new(2));
    let [now, next, after] = [0, 1, 2].map(|epoch| a.named(10, 0, epoch));
    // The put passes all others, also its own sender's earlier puts.
    assert_eq!(bench.whole(&a, &next), 1);
    assert_eq!(bench.admit(&a, &after), Admission::Wait);
    assert_eq!(bench.whole(&b, &b.put(10, 0)), 0);
    assert_eq!(bench.done(), [(0, 10, 1, false), (1, 10, 1, false)]);
    assert_eq!(bench.admit(&a, &now), Admission::Refuse(Refusal::Epoch));
    bench.post(2, 100);
    assert_eq!(bench.whole(&a, &after), 2);
    assert_eq!(bench.mailboxes.counts().gaps, 0);
    bench.post(3, 100);
    let old = b.named(1, 0, u32::MAX);
    assert_eq!(bench.admit(&b, &old), Admission::Refuse(Refusal::Epoch));
    assert_eq!(bench.whole(&b, &b.put(1, 0)), 3);
}

#[test]
fn a_named_put_does_not_take_the_room_of_a_missing_one() {
    let mut bench = Bench::bytes(100, 2);
    let (a, b) = (Source::new(1), Source::new(2));
    bench.whole(&a, &a.put(10, 0));
    let [first, second] = [40, 50].map(|length| a.put(length, 0));
    bench.whole(&a, &second);
    let named = b.named(10, 0, 0);
    assert_eq!(bench.admit(&b, &named), Admission::Wait);
    // The missing put turns out to name the next epoch: its room here is free again.
    assert_eq!(bench.whole(&a, &Put { named: true, epoch: 1, ..first }), 1);
    assert_eq!(bench.whole(&b, &named), 0);
    assert_eq!(bench.whole(&b, &b.put(30, 0)), 0);
    assert_eq!(bench.done(), [(0, 100, 4, false)]);
}

#[test]
fn giving_up_closes_the_gap() {
    let mut bench = Bench::bytes(100, 2);
    let (a, b) = (Source::new(1), Source::new(2));
    bench.whole(&a, &a.put(10, 0));
    let [first, second, third] = [20, 30, 40].map(|length| a.put(length, 0));
    bench.whole(&a, &third);
    bench.whole(&a, &first);
    bench.mailboxes.abandon(a.sender, ADDRESS, first.sequence);
    assert_eq!(bench.mailboxes.counts().gaps, 1, "the second may come yet");
    bench.mailboxes.abandon(a.sender, ADDRESS, second.sequence);
    bench.mailboxes.abandon(a.sender, ADDRESS, second.sequence);
    assert_eq!(bench.mailboxes.counts().gaps, 0);
    assert_eq!(bench.done(), []);
    assert_eq!(bench.whole(&b, &b.put(30, 0)), 0);
    assert_eq!(bench.done(), [(0, 100, 4, false)]);
    assert_eq!(bench.admit(&a, &second), Admission::Refuse(Refusal::Operation));
}

#[test]
fn an_epoch_does_not_wait_for_what_was_given_up() {
    let mut bench = Bench::bytes(100, 2);
    let (a, b) = (Source::new(1), Source::new(2));
    bench.whole(&a, &a.put(10, 0));
    let missing = a.put(50, 0);
    bench.whole(&a, &a.put(40, 0));
    assert_eq!(bench.whole(&b, &b.put(7, 0)), 1, "turned away");
    bench.mailboxes.forget_channel(a.sender.channel);
    assert_eq!(bench.done(), [(0, 50, 2, false)]);
    assert_eq!(bench.mailboxes.counts().streams, 1);
    let _ = missing;
}

#[test]
fn puts_may_be_given_up_before_anything_arrived() {
    let mut bench = Bench::bytes(100, 1);
    let a = Source::new(1);
    let [_, second, third] = [20, 30, 40].map(|length| a.put(length, 0));
    bench.mailboxes.abandon(a.sender, ADDRESS, 0);
    assert_eq!(bench.mailboxes.counts().streams, 0, "no room is kept for anything");
    assert_eq!(bench.admit(&a, &third), Admission::OutOfOrder);
    bench.whole(&a, &Put { oldest: true, ..second });
    assert_eq!(bench.whole(&a, &third), 0);
    // The length of the puts given up last is unknown: only the next one is certain.
    let [_, fifth, sixth] = [1, 1, 1].map(|length| a.put(length, 0));
    bench.mailboxes.abandon(a.sender, ADDRESS, third.sequence + 1);
    assert_eq!(bench.admit(&a, &sixth), Admission::OutOfOrder);
    bench.whole(&a, &fifth);
    bench.whole(&a, &sixth);
}

#[test]
fn a_gap_in_the_catch_all_can_be_given_up_later() {
    let mut bench = Bench::new(
        &MailboxConfig { address: None, ..config(Threshold::Bytes(100), Steering::Sender) },
        1,
    );
    let a = Source::new(1);
    bench.whole(&a, &a.put(10, 0));
    let missing = a.put(20, 0);
    bench.whole(&a, &a.put(30, 0));
    // The address gets a mailbox of its own, which is closed before anything arrives.
    let own = bench.mailboxes.create(&config(Threshold::Bytes(1), Steering::Sender)).unwrap();
    bench.mailboxes.close(own, true).unwrap();
    assert_eq!(bench.admit(&a, &missing), Admission::Refuse(Refusal::NoMailbox));
    assert_eq!(bench.mailboxes.counts().gaps, 1);
    bench.mailboxes.abandon(a.sender, ADDRESS, missing.sequence);
    assert_eq!(bench.mailboxes.counts().gaps, 0);
}

#[test]
fn strangers_do_not_use_up_the_records() {
    let mut bench = Bench::bytes(100, 1);
    for number in 0..100 {
        let stranger = Source::new(number);
        let put = stranger.put(1, 0);
        bench.mailboxes.abandon(stranger.sender, ADDRESS, 0);
        let wrong = Put { key: KEY + 1, ..put };
        assert_eq!(bench.admit(&stranger, &wrong), Admission::Refuse(Refusal::NoMailbox));
    }
    assert_eq!(bench.mailboxes.counts().streams, 0);
    for number in 100..116 {
        let source = Source::new(number);
        bench.whole(&source, &source.put(1, 0));
    }
    // Records of idle streams are used again.
    let late = Source::new(200);
    bench.whole(&late, &late.put(1, 0));
    assert_eq!(bench.mailboxes.counts().streams, 16);
}

/// A sender whose stream was forgotten goes on with its oldest put.
#[test]
fn a_forgotten_stream_begins_again_with_the_oldest_put() {
    let mut bench = Bench::bytes(1000, 2);
    let a = Source::new(1);
    bench.whole(&a, &a.put(1, 0));
    for number in 100..132 {
        let other = Source::new(number);
        bench.whole(&other, &other.put(1, 0));
    }
    assert_eq!(bench.mailboxes.counts().streams, 16);
    let [first, second] = [1, 1].map(|length| a.put(length, 0));
    assert_eq!(bench.admit(&a, &second), Admission::OutOfOrder);
    bench.whole(&a, &Put { oldest: true, ..first });
    bench.whole(&a, &second);
    assert_eq!(bench.admit(&a, &first), Admission::Refuse(Refusal::Operation));
}

#[test]
fn a_stream_with_missing_puts_is_not_forgotten() {
    let mut bench = Bench::bytes(1000, 2);
    let a = Source::new(1);
    let [first, second, third] = [1, 1, 1].map(|length| a.put(length, 0));
    bench.whole(&a, &first);
    bench.whole(&a, &third);
    for number in 100..132 {
        let other = Source::new(number);
        bench.whole(&other, &other.put(1, 0));
    }
    bench.whole(&a, &second);
    assert_eq!(bench.mailboxes.counts().gaps, 0);
    // Nor are those of senders whose puts before a rewind may still come.
    let bytes = config(Threshold::Bytes(100), Steering::Sender);
    let mut bench = Bench::new(&MailboxConfig { retired: 1, ..bytes }, 2);
    bench.whole(&a, &Put { oldest: true, ..a.put(100, 0) });
    bench.mailboxes.rewind(bench.id, 1).unwrap();
    bench.post(0, 1000);
    for number in 100..132 {
        let other = Source::new(number);
        bench.whole(&other, &other.put(1, 0));
    }
    assert!(bench.mailboxes.streams.find(a.sender, ADDRESS).is_some());
}

/// A sender that made its stream anew goes on with the next number, and counts bytes from 0.
#[test]
fn bytes_of_a_stream_that_is_made_anew_count_from_its_oldest_put() {
    let mut bench = Bench::new(&config(Threshold::Bytes(10), Steering::Receiver), 1);
    let a = Source::new(1);
    bench.whole(&a, &a.put(60, 0));
    a.before.set(0);
    let [first, _, third] = [50, 50, 50].map(|length| a.put(length, 0));
    let first = Put { oldest: true, ..first };
    assert_eq!(bench.admit(&a, &first), Admission::Wait);
    bench.post(1, 1000);
    // No room could be kept for the 100 bytes before this one: the first ends the epoch.
    assert_eq!(bench.admit(&a, &third), Admission::OutOfOrder);
    assert_eq!(bench.whole(&a, &first), 1);
}

/// Senders forget idle streams, and begin behind the numbers that they have used. Numbers wrap.
#[test]
fn an_oldest_put_begins_its_stream_again_however_far_its_number_is() {
    let mut bench = Bench::new(&config(Threshold::Operations(1000), Steering::Sender), 1);
    let a = Source::new(1);
    bench.whole(&a, &a.put(1, 0));
    for distance in [1_u32, 200, 1 << 30, 1 << 31, (1 << 31) + 1, u32::MAX - 1000] {
        a.sequence.set(a.sequence.get().wrapping_add(distance));
        a.before.set(0);
        let [first, second] = [1, 1].map(|length| a.put(length, 0));
        bench.whole(&a, &Put { oldest: true, ..first });
        bench.whole(&a, &second);
    }
    // A number that was used just before is a repeat.
    let repeat = Put { sequence: a.sequence.get().wrapping_sub(5), oldest: true, ..a.put(1, 0) };
    assert_eq!(bench.admit(&a, &repeat), Admission::Refuse(Refusal::Operation));
    assert_eq!(bench.mailboxes.counts().gaps, 0);
}

#[test]
fn oldest_put_number_ends_the_wait_for_missing_puts() {
    let mut bench = Bench::bytes(100, 2);
    let a = Source::new(1);
    let puts = [30; 5].map(|length| a.put(length, 0));
    for index in [0, 2, 3] {
        bench.whole(&a, &puts[index]);
    }
    assert_eq!(bench.done(), [], "room is kept for put 1");
    bench.whole(&a, &Put { oldest: true, ..puts[4] });
    assert_eq!(bench.mailboxes.counts().gaps, 0);
    assert_eq!(bench.done(), [(0, 120, 4, false)]);
    assert_eq!(bench.admit(&a, &puts[1]), Admission::Refuse(Refusal::Operation));
    // Even if more puts are missing than a sender may be ahead.
    let mut far = puts[4];
    far.sequence += 1000;
    assert_eq!(bench.admit(&a, &far), Admission::OutOfOrder);
    bench.whole(&a, &Put { oldest: true, ..far });
}

#[test]
fn numbers_wrap() {
    let mut bench = Bench::bytes(u64::MAX, 1);
    let a = Source::new(1);
    bench.whole(&a, &a.put(1, 0));
    // As if 2^32 - 2 puts of 2^32 - 2 bytes had gone before.
    let stream = bench.mailboxes.streams.find(a.sender, ADDRESS).unwrap();
    bench.mailboxes.streams.set_end(stream, u32::MAX - 1, Some(u32::MAX - 9));
    a.sequence.set(u32::MAX - 1);
    a.before.set(u32::MAX - 9);
    let puts = [20; 4].map(|length| a.put(length, 0));
    for index in [3, 1, 2, 0] {
        bench.whole(&a, &puts[index]);
    }
    assert_eq!(bench.mailboxes.counts().gaps, 0);
    assert_eq!(bench.admit(&a, &puts[1]), Admission::Refuse(Refusal::Operation));
}

#[test]
fn without_records_for_gaps_puts_come_later() {
    let mut mailboxes = Mailboxes::new(&limits(4, 1));
    let id = mailboxes.create(&config(Threshold::Bytes(100), Steering::Receiver)).unwrap();
    mailboxes.post_buffer(id, 0, range(0, 100)).unwrap();
    let a = Source::new(1);
    let puts: Vec<Put> = (0..6).map(|_| a.put(1, 0)).collect();
    let admit = |mailboxes: &mut Mailboxes, index: usize| {
        matches!(mailboxes.admit(a.sender, &puts[index]), Admission::Into { .. })
    };
    assert!(admit(&mut mailboxes, 0));
    assert!(admit(&mut mailboxes, 4));
    assert!(!admit(&mut mailboxes, 2), "would make two gaps of one");
    assert!(admit(&mut mailboxes, 1));
    assert!(admit(&mut mailboxes, 5));
    assert!(admit(&mut mailboxes, 2));
    assert!(admit(&mut mailboxes, 3));
}

#[test]
fn stream_without_a_free_byte_is_full_whatever_the_threshold() {
    let mut bench = Bench::new(&config(Threshold::Operations(10), Steering::Receiver), 2);
    let a = Source::new(1);
    bench.whole(&a, &a.put(60, 0));
    assert_eq!(bench.done(), []);
    bench.whole(&a, &a.put(40, 0));
    assert_eq!(bench.done(), [(0, 100, 2, false)]);
    assert_eq!(bench.whole(&a, &a.put(0, 0)), 1, "an empty one, too, belongs to the next");
}
