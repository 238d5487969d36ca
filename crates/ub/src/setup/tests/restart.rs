//! A side that restarts in the middle of a set-up, message by message.

use fairway_wire::{Cna, Psn, RejectReason, Setup, Tpn};

use super::{
    CLIENT_KEY, NONCE, SERVER_KEY, T0, TIMEOUT, after_ms, answer, attempt, client_address, confirm,
    identity, limits, listener, opening, receive, reject_reason, say, server_address,
};
use crate::setup::{Attempt, Identity, Listener, OpenRequest, Outcome};

const SERVER_AGAIN: Cna = Cna::new(0x5e_12e2);
const CLIENT_AGAIN: Cna = Cna::new(0xc1_1e18);

/// The server after a restart: another incarnation, without state.
fn restarted_server() -> Listener {
    let identity = Identity { setup_cna: Cna::new(0xa5_ced1), ..identity(SERVER_AGAIN, limits()) };
    Listener::new(identity, [8; 32])
}

/// The client after a restart, which requests a channel again.
fn restarted_client() -> Attempt {
    let request = OpenRequest {
        server: server_address(),
        tpn: Tpn::new(6),
        first_psn: Psn::new(78),
        nonce: NONCE ^ 0xffff_0000_0000,
        joins: None,
        mtu_bytes: 1400,
        deadline: after_ms(500) + TIMEOUT,
        key: CLIENT_KEY,
    };
    Attempt::new(after_ms(500), &identity(CLIENT_AGAIN, limits()), request)
}

/// Opens the channel that a CONFIRM requests, and returns the ACCEPT.
fn accept(listener: &mut Listener, confirm: &Setup) -> Setup {
    let opening = opening(receive(listener, T0, confirm));
    listener.opened(T0, &opening, (Tpn::new(9), Psn::new(1000)), SERVER_KEY)
}

#[test]
fn server_that_restarts_before_confirm_opens_a_channel_of_its_new_incarnation() {
    let (mut attempt, mut before) = (attempt(), listener());
    let old_confirm = confirm(&mut attempt, &mut before, T0);
    let mut after = restarted_server();
    let reject = answer(receive(&mut after, T0, &old_confirm));
    assert_eq!(reject_reason(&reject), RejectReason::StaleCookie);
    assert!(attempt.handle_message(T0, server_address(), &reject));
    let new_confirm = confirm(&mut attempt, &mut after, T0);
    let accept = accept(&mut after, &new_confirm);
    assert!(attempt.handle_message(T0, server_address(), &accept));
    let Some(Outcome::Open { server, .. }) = attempt.outcome() else { panic!("not open") };
    assert_eq!(server, SERVER_AGAIN);
}

#[test]
fn server_that_restarts_after_a_lost_accept_opens_another_channel() {
    let (mut attempt, mut before) = (attempt(), listener());
    let old_confirm = confirm(&mut attempt, &mut before, T0);
    accept(&mut before, &old_confirm);
    let mut after = restarted_server();
    let again = say(&mut attempt, after_ms(20)).expect("the CONFIRM again");
    let reject = answer(receive(&mut after, after_ms(20), &again));
    attempt.handle_message(after_ms(20), server_address(), &reject);
    let new_confirm = confirm(&mut attempt, &mut after, after_ms(20));
    assert_ne!(new_confirm.destination, old_confirm.destination, "each incarnation has its own");
    let opening = opening(receive(&mut after, after_ms(20), &new_confirm));
    assert_eq!(opening.confirm.hello.client.tpn, Tpn::new(5));
}

/// A REJECT does not name the stale cookie, so that one that arrives late, or twice, makes the
/// client drop the cookie of the next WELCOME as well. The server then has a channel that the
/// client does not know, beside the one that the client opens.
#[test]
fn late_reject_for_an_earlier_cookie_costs_another_channel() {
    let (mut attempt, mut before) = (attempt(), listener());
    let old_confirm = confirm(&mut attempt, &mut before, T0);
    let mut after = restarted_server();
    let reject = answer(receive(&mut after, T0, &old_confirm));
    assert!(attempt.handle_message(T0, server_address(), &reject));
    let second = confirm(&mut attempt, &mut after, T0);
    let unknown = opening(receive(&mut after, T0, &second));
    after.opened(T0, &unknown, (Tpn::new(9), Psn::new(1)), SERVER_KEY);
    assert!(attempt.handle_message(T0, server_address(), &reject), "the same REJECT again");
    let third = confirm(&mut attempt, &mut after, after_ms(1500));
    let known = opening(receive(&mut after, after_ms(1500), &third));
    assert_eq!(known.client, unknown.client);
    assert_eq!(known.confirm.hello, unknown.confirm.hello);
}

#[test]
fn reject_of_a_restarted_server_does_not_end_a_channel_that_is_open() {
    let (mut attempt, mut before) = (attempt(), listener());
    let old_confirm = confirm(&mut attempt, &mut before, T0);
    let accept = accept(&mut before, &old_confirm);
    let reject = answer(receive(&mut restarted_server(), T0, &old_confirm));
    assert!(attempt.handle_message(T0, server_address(), &accept));
    let open = attempt.outcome();
    assert!(attempt.handle_message(T0, server_address(), &reject), "it is about this attempt");
    assert_eq!(attempt.outcome(), open);
    assert!(matches!(open, Some(Outcome::Open { .. })));
}

#[test]
fn client_that_restarts_ignores_answers_to_its_earlier_incarnation() {
    let (mut before, mut listener) = (attempt(), listener());
    let hello = say(&mut before, T0).expect("a HELLO");
    let welcome = answer(receive(&mut listener, T0, &hello));
    assert!(before.handle_message(T0, server_address(), &welcome));
    let old_confirm = say(&mut before, T0).expect("a CONFIRM");
    let old_accept = accept(&mut listener, &old_confirm);
    let mut after = restarted_client();
    for late in [&welcome, &old_accept] {
        assert!(!after.handle_message(after_ms(500), server_address(), late));
        assert_eq!(after.outcome(), None);
    }
    let new_confirm = confirm(&mut after, &mut listener, after_ms(500));
    let opening = opening(receive(&mut listener, after_ms(500), &new_confirm));
    assert_eq!(opening.client, CLIENT_AGAIN);
    assert_eq!(opening.from, client_address(), "the same address, another incarnation");
    // A late CONFIRM of the earlier incarnation is answered as before and opens nothing.
    assert_eq!(answer(receive(&mut listener, after_ms(600), &old_confirm)), old_accept);
}
