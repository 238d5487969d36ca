//! Tests of the owners of a message's state, one at a time.

use super::{Attempts, Gate, Outcome, Progress, Report, TakenSlots};
use crate::api::{ChannelId, Status};
use fairway_wire::{Duration, Instant, Msn};

#[test]
fn progress_of_three_packets_ends_with_the_third() {
    let mut progress = Progress::of_payload(2500, 1000);
    assert_eq!((progress.next_packet(), progress.packets_unsent()), (0, 3));
    assert!(!progress.note_sent() && !progress.note_sent());
    assert_eq!((progress.payload(2, 1000), progress.bytes_unsent(1000)), (500, 500));
    assert!(progress.note_sent() && progress.is_all_sent() && progress.is_last(2));
    assert!(!progress.note_acknowledged() && !progress.note_acknowledged());
    assert!(progress.note_acknowledged() && !progress.has_outstanding());
}

#[test]
fn progress_records_the_start_only_once_begun() {
    let mut progress = Progress::of_payload(2500, 1000);
    progress.note_start_known();
    assert!(!progress.is_start_known(), "a number of an earlier message is not its own");
    progress.note_sent();
    progress.note_start_known();
    assert!(progress.is_start_known());
    progress.restart();
    assert!(!progress.is_start_known() && !progress.has_begun());
}

#[test]
fn progress_of_a_notice_is_one_packet_and_keeps_the_number_on_request() {
    let mut progress = Progress::of_payload(2500, 1000);
    progress.set_number(Msn::new(7));
    progress.note_sent();
    progress.set_keeps_number(true);
    progress.restart_as_notice();
    assert!(!progress.is_multi() && !progress.needs_number());
    assert_eq!((progress.carried(), progress.number()), (0, Msn::new(7)));
}

#[test]
fn slot_that_was_given_back_is_still_named() {
    let mut slots = TakenSlots::NONE;
    assert_eq!(slots.release(), None);
    slots.take(9);
    assert_eq!((slots.release(), slots.release()), (Some(9), None));
    assert_eq!((slots.number(), slots.has_any()), (9, false));
}

#[test]
fn share_that_was_taken_stays_so_while_the_gate_opens() {
    let mut gate = Gate::OPEN;
    gate.await_share();
    gate.await_order();
    assert!(gate.note_order_done() && gate.is_closed());
    gate.take_share();
    gate.await_reads();
    gate.open();
    assert!(!gate.is_closed());
    assert!(gate.leave_share() && !gate.leave_share());
}

#[test]
fn record_is_free_only_when_it_is_both_released_and_reported() {
    let mut report = Report::new(1, ChannelId(0), true);
    report.add_unreported(Status::Success);
    assert!(!report.release() && report.is_released());
    assert!(report.fail_unreported(Status::PeerDead) && !report.fail_unreported(Status::Flushed));
    let unreported = report.take_unreported_next().expect("its completion waits");
    assert_eq!((unreported.status, unreported.is_released), (Status::PeerDead, true));
    assert!(report.is_reported() && report.take_unreported_next().is_none() && report.release());
}

#[test]
fn refused_attempt_is_due_after_its_wait_and_opens_again() {
    let mut attempts = Attempts::NONE_YET;
    let now = Instant::ZERO + Duration::from_us(10);
    attempts.refuse_early(now);
    assert!(!attempts.is_open() && attempts.outcome().is_refused() && !attempts.was_not_ready());
    assert_eq!(attempts.next_time(Instant::ZERO, Duration::from_us(1), None, true), Some(now));
    assert_eq!(attempts.next_time(now, Duration::from_us(1), None, true), None);
    assert_eq!(attempts.reopen(), Outcome::TooEarly);
    assert!(attempts.is_open());
}
