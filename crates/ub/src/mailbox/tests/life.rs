//! Early ends, dead senders, rewinds, closing: each rule by itself.

use super::*;
use fairway_wire::Get;

#[test]
fn an_epoch_can_be_ended_early() {
    let mut bench = Bench::bytes(100, 3);
    let a = Source::new(1);
    let (ticket, ..) = bench.start(&a, &a.put(10, 0));
    assert_eq!(bench.mailboxes.increment_epoch(bench.id), Ok(0));
    assert_eq!(bench.whole(&a, &a.put(10, 0)), 1);
    assert_eq!(bench.mailboxes.increment_epoch(bench.id), Ok(0), "again: nothing");
    assert_eq!(bench.done(), []);
    bench.mailboxes.placed(ticket, 10);
    bench.mailboxes.finish(ticket);
    assert_eq!(bench.done(), [(0, 10, 1, true)]);
    assert_eq!(bench.mailboxes.increment_epoch(bench.id), Ok(1));
    assert_eq!(bench.mailboxes.increment_epoch(bench.id), Ok(2));
    assert_eq!(bench.done(), [(1, 10, 1, true), (2, 0, 0, true)]);
    let nothing = Err(SetupError::Parameter("buffer"));
    assert_eq!(bench.mailboxes.increment_epoch(bench.id), nothing);
}

#[test]
fn an_early_end_keeps_no_room() {
    let mut bench = Bench::bytes(100, 2);
    let a = Source::new(1);
    bench.whole(&a, &a.put(10, 0));
    let [first, second, third, fourth] = [20, 30, 7, 1].map(|length| a.put(length, 0));
    assert_eq!(bench.whole(&a, &third), 0);
    bench.mailboxes.increment_epoch(bench.id).unwrap();
    assert_eq!(bench.done(), [(0, 17, 2, true)]);
    // The missing put arrives in its turn, and later puts wait for it.
    assert_eq!(bench.admit(&a, &fourth), Admission::OutOfOrder);
    assert_eq!(bench.admit(&a, &second), Admission::OutOfOrder);
    assert_eq!(bench.whole(&a, &first), 1);
    assert_eq!(bench.admit(&a, &fourth), Admission::OutOfOrder);
    assert_eq!(bench.whole(&a, &second), 1);
    assert_eq!(bench.whole(&a, &fourth), 1);
    assert_eq!(bench.whole(&a, &a.put(49, 0)), 1);
    assert_eq!(bench.done(), [(1, 100, 4, false)]);
}

#[test]
fn no_room_is_kept_behind_a_put_that_waits_for_a_buffer() {
    let mut bench = Bench::new(&config(Threshold::Operations(1), Steering::Sender), 4);
    let a = Source::new(1);
    bench.whole(&a, &a.put(10, 0));
    let [first, second, third] = [10; 3].map(|length| a.put(length, 0));
    assert_eq!(bench.whole(&a, &third), 3, "room is kept for two in the epochs between");
    // The first put loses its room, and there is no further buffer. The second has room, but is not
    // sent.
    bench.mailboxes.increment_epoch(bench.id).unwrap();
    assert_eq!(bench.admit(&a, &first), Admission::Wait);
    assert_eq!(bench.done(), [(0, 10, 1, false), (1, 0, 0, true)]);
    bench.mailboxes.yield_room(a.sender, ADDRESS);
    assert_eq!(bench.done(), [(2, 0, 0, false), (3, 10, 1, false)]);
    bench.post(4, 100);
    bench.post(5, 100);
    assert_eq!(bench.admit(&a, &second), Admission::OutOfOrder);
    assert_eq!(bench.whole(&a, &first), 4);
    assert_eq!(bench.whole(&a, &second), 5);
}

#[test]
fn a_full_epoch_that_only_waits_is_not_ended_early() {
    let mut bench = Bench::bytes(10, 1);
    let a = Source::new(1);
    let (ticket, ..) = bench.start(&a, &a.put(10, 0));
    assert_eq!(bench.mailboxes.increment_epoch(bench.id), Ok(0));
    bench.mailboxes.placed(ticket, 10);
    bench.mailboxes.finish(ticket);
    assert_eq!(bench.done(), [(0, 10, 1, false)]);
}

#[test]
fn a_dead_senders_put_keeps_its_room() {
    let mut bench = Bench::stream(20, 1);
    let (a, b) = (Source::new(1), Source::new(2));
    let (ticket, ..) = bench.start(&a, &a.put(10, 0));
    bench.whole(&b, &b.put(10, 0));
    bench.mailboxes.placed(ticket, 4);
    bench.mailboxes.forget_channel(a.sender.channel);
    assert_eq!(bench.done(), []);
    bench.mailboxes.cancel(ticket);
    let done = bench.mailboxes.poll_done().unwrap();
    assert_eq!((done.bytes, done.operations), (14, 1));
    assert_eq!((done.cancelled, done.extent), (1, 20));
}

fn retiring(retired: u32) -> MailboxConfig {
    MailboxConfig { retired, ..config(Threshold::Bytes(10), Steering::Sender) }
}

#[test]
fn done_epochs_are_kept_and_can_be_read() {
    let mut bench = Bench::new(&retiring(2), 5);
    let a = Source::new(1);
    for _ in 0..3 {
        bench.whole(&a, &a.put(10, 0));
    }
    assert_eq!(bench.done().len(), 3);
    assert_eq!(drain_released(&mut bench.mailboxes), [0]);
    let get = |epoch: Option<u32>, offset| Get {
        mailbox: ADDRESS,
        offset,
        length: 10,
        key: KEY,
        epoch: epoch.unwrap_or(0),
        named: epoch.is_some(),
    };
    let at = |segment, offset| Ok(LocalRange { offset, ..range(segment, 10) });
    assert_eq!(bench.mailboxes.get(&get(None, 0)), at(3, 0));
    assert_eq!(bench.mailboxes.get(&get(Some(3), 90)), at(3, 90));
    assert_eq!(bench.mailboxes.get(&get(Some(1), 5)), at(1, 5));
    assert_eq!(bench.mailboxes.get(&get(Some(0), 0)), Err(Refusal::Epoch));
    assert_eq!(bench.mailboxes.get(&get(Some(u32::MAX), 0)), Err(Refusal::Epoch));
    assert_eq!(bench.mailboxes.get(&get(Some(4), 0)), Err(Refusal::ReceiverNotReady));
    assert_eq!(bench.mailboxes.get(&get(None, 91)), Err(Refusal::Length));
    assert_eq!(bench.mailboxes.get(&get(None, u64::MAX)), Err(Refusal::Length));
    let other = Get { key: 0, ..get(None, 0) };
    assert_eq!(bench.mailboxes.get(&other), Err(Refusal::NoMailbox));
}

#[test]
fn a_rewind_steps_back() {
    let mut bench = Bench::new(&retiring(3), 6);
    let (a, b) = (Source::new(1), Source::new(2));
    for _ in 0..3 {
        bench.whole(&a, &a.put(10, 0));
    }
    assert_eq!(bench.done().len(), 3);
    let (ticket, segment, _) = bench.start(&a, &a.put(4, 0));
    assert_eq!(segment, 3);
    let missing = a.put(1, 0);
    bench.whole(&a, &a.put(1, 0));
    let fresh = b.put(10, 0);
    for back in [0, 4] {
        let none = Err(SetupError::Parameter("back"));
        assert_eq!(bench.mailboxes.rewind(bench.id, back), none);
    }
    let done = bench.mailboxes.rewind(bench.id, 2).unwrap();
    assert_eq!((done.epoch, done.id, done.bytes), (1, 1001, 10));
    assert_eq!(drain_released(&mut bench.mailboxes), [1, 2, 3, 4, 5]);
    assert_eq!(bench.mailboxes.epoch(bench.id), Some(1));
    // Unfinished puts are dropped.
    assert!(!bench.mailboxes.is_live(ticket));
    bench.mailboxes.placed(ticket, 4);
    bench.mailboxes.finish(ticket);
    // Until a buffer is posted every put is refused.
    let late = a.put(10, 0);
    assert_eq!(bench.admit(&a, &late), Admission::Refuse(Refusal::Epoch));
    assert_eq!(
        bench.admit(&b, &Put { named: true, epoch: 1, ..fresh }),
        Admission::Refuse(Refusal::Epoch)
    );
    bench.post(9, 100);
    // Puts that had been overtaken before the rewind are refused permanently.
    assert_eq!(bench.admit(&a, &missing), Admission::Refuse(Refusal::Epoch));
    assert_eq!(bench.whole(&a, &a.put(10, 0)), 9);
    assert_eq!(bench.done(), [(1, 10, 1, false)]);
    // Epoch 0 is still kept, and is now the second newest.
    assert_eq!(bench.mailboxes.rewind(bench.id, 2).unwrap().epoch, 0);
}

#[test]
fn a_rewind_takes_back_reports() {
    let mut bench = Bench::new(&retiring(2), 2);
    let a = Source::new(1);
    bench.whole(&a, &a.put(10, 0));
    bench.whole(&a, &a.put(10, 0));
    assert_eq!(bench.mailboxes.rewind(bench.id, 1).unwrap().epoch, 1);
    assert_eq!(bench.done(), [(0, 10, 1, false)]);
}

#[test]
fn a_closed_mailbox_finishes_what_is_under_way() {
    let mut bench = Bench::bytes(20, 2);
    let a = Source::new(1);
    let (ticket, ..) = bench.start(&a, &a.put(20, 0));
    assert_eq!(bench.mailboxes.release(bench.id), Err(SetupError::Busy));
    bench.mailboxes.close(bench.id, true).unwrap();
    let put = a.put(1, 0);
    assert_eq!(bench.admit(&a, &put), Admission::Refuse(Refusal::NoMailbox));
    bench.mailboxes.close(bench.id, false).unwrap();
    assert_eq!(bench.admit(&a, &put), Admission::Discard);
    assert_eq!(bench.mailboxes.post_buffer(bench.id, 0, range(0, 1)), Err(PostError::NoMailbox));
    bench.mailboxes.placed(ticket, 20);
    bench.mailboxes.finish(ticket);
    assert_eq!(bench.done(), [(0, 20, 1, false)]);
    bench.mailboxes.release(bench.id).unwrap();
    assert_eq!(bench.mailboxes.epoch(bench.id), None);
    assert_eq!(bench.mailboxes.release(bench.id), Err(SetupError::Missing));
    assert_eq!(drain_released(&mut bench.mailboxes), [0, 1]);
    assert_eq!(bench.mailboxes.counts(), Counts::default());
    let again = config(Threshold::Bytes(1), Steering::Sender);
    assert_ne!(bench.mailboxes.create(&again), Ok(bench.id));
    assert_eq!(bench.mailboxes.poll_released(), None);
}
