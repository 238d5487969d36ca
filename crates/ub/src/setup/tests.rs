use alloc::vec::Vec;
use core::net::SocketAddr;

use fairway_wire::{
    Cna, Duration, Instant, KEY_LEN, PROTOCOL_VERSION, Parameters, Ports, Psn, RejectReason,
    SETUP_LEN, Setup, SetupMessage, Tpn, Versions, encode_setup,
};

use super::{Attempt, Identity, Listener, OpenRequest, Opening, Outcome, Reaction};

mod restart;
mod search;
mod world;

const T0: Instant = Instant::from_ns(1_000_000_000);
const TIMEOUT: Duration = Duration::from_secs(2);
const CLIENT: Cna = Cna::new(0xc11e17);
const SERVER: Cna = Cna::new(0x5e12e1);
/// The server's address in WELCOME and REJECT.
const SETUP_CNA: Cna = Cna::new(0xa5_ced0);
const NONCE: u64 = 0x1234_5678_9abc_def0;
const LONG: u16 = 9000;
/// Public keys, which set-up carries and never interprets.
const CLIENT_KEY: [u8; KEY_LEN] = [1; KEY_LEN];
const SERVER_KEY: [u8; KEY_LEN] = [2; KEY_LEN];

fn after_ms(ms: u64) -> Instant {
    T0 + Duration::from_ms(ms)
}

fn client_address() -> SocketAddr {
    "192.0.2.1:4000".parse().unwrap()
}

fn server_address() -> SocketAddr {
    "192.0.2.2:4810".parse().unwrap()
}

fn limits() -> Parameters {
    Parameters {
        mtu_bytes: 4096,
        paths: 16,
        window_packets: 4096,
        message_slots: 64,
        read_slots: 64,
        keep_alive_ms: 500,
        channels: 1,
        capabilities: 0,
    }
}

fn identity(cna: Cna, limits: Parameters) -> Identity {
    Identity { cna, setup_cna: SETUP_CNA, ports: vec![Ports::new(&[4810, 4811]).unwrap()], limits }
}

fn listener() -> Listener {
    let limits = Parameters { paths: 8, window_packets: 1024, ..limits() };
    Listener::new(identity(SERVER, limits), [7; 32])
}

fn attempt() -> Attempt {
    let request = OpenRequest {
        server: server_address(),
        tpn: Tpn::new(5),
        first_psn: Psn::new(77),
        nonce: NONCE,
        joins: None,
        mtu_bytes: 1400,
        deadline: T0 + TIMEOUT,
        key: CLIENT_KEY,
    };
    Attempt::new(T0, &identity(CLIENT, limits()), request)
}

fn receive(listener: &mut Listener, now: Instant, setup: &Setup) -> Reaction {
    listener.handle_message(now, client_address(), LONG, setup)
}

fn answer(reaction: Reaction) -> Setup {
    match reaction {
        Reaction::Answer(setup) => setup,
        other => panic!("expected an answer, got {other:?}"),
    }
}

fn opening(reaction: Reaction) -> Opening {
    match reaction {
        Reaction::Open(opening) => opening,
        other => panic!("expected a channel to be opened, got {other:?}"),
    }
}

fn reject_reason(setup: &Setup) -> RejectReason {
    match setup.message {
        SetupMessage::Reject(reject) => reject.reason,
        other => panic!("expected a REJECT, got {other:?}"),
    }
}

/// The first of the messages that an attempt sends.
fn say(attempt: &mut Attempt, now: Instant) -> Option<Setup> {
    attempt.poll_transmit(now).first().map(|message| message.setup)
}

/// Runs set-up up to the CONFIRM.
fn confirm(attempt: &mut Attempt, listener: &mut Listener, now: Instant) -> Setup {
    let hello = say(attempt, now).expect("a HELLO");
    let welcome = answer(receive(listener, now, &hello));
    assert!(attempt.handle_message(now, server_address(), &welcome));
    say(attempt, now).expect("a CONFIRM, at once")
}

#[test]
fn four_messages_open_a_channel() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let confirm = confirm(&mut attempt, &mut listener, T0);
    let opening = opening(receive(&mut listener, T0, &confirm));
    assert_eq!(opening.client, CLIENT);
    assert_eq!(opening.confirm.hello.client.tpn, Tpn::new(5));
    let accept = listener.opened(T0, &opening, (Tpn::new(9), Psn::new(1000)), SERVER_KEY);
    assert_eq!(attempt.outcome(), None);
    assert!(attempt.handle_message(T0, server_address(), &accept));
    let Some(Outcome::Open { server, accept }) = attempt.outcome() else {
        panic!("not open: {:?}", attempt.outcome());
    };
    assert_eq!((server, accept.server.tpn), (SERVER, Tpn::new(9)));
    let agreed = Parameters { mtu_bytes: 1400, paths: 8, window_packets: 1024, ..limits() };
    assert_eq!(accept.agreed, agreed, "the smaller of each");
    assert_eq!(opening.confirm.agreed, agreed);
    assert_eq!(attempt.poll_timeout(), None);
    assert_eq!(say(&mut attempt, after_ms(5000)), None);
    let terms = listener.terms(&opening, Tpn::new(9), SERVER_KEY);
    assert_eq!(attempt.terms(server, &accept), terms, "both know the same of it");
}

#[test]
fn welcome_names_neither_address_nor_ports_of_the_node() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let hello = say(&mut attempt, T0).expect("a HELLO");
    let welcome = answer(receive(&mut listener, T0, &hello));
    let mut bytes = [0; SETUP_LEN];
    encode_setup(&welcome, &mut bytes);
    let holds = |wanted: &[u8]| bytes.windows(wanted.len()).any(|some| some == wanted);
    assert!(holds(&SETUP_CNA.value().to_be_bytes()[1..]));
    assert!(!holds(&SERVER.value().to_be_bytes()[1..]));
    assert!(!holds(&4811_u16.to_be_bytes()));
}

#[test]
fn hellos_are_repeated_at_growing_intervals_until_the_deadline() {
    let mut attempt = attempt();
    let mut sent_ms = Vec::new();
    while let Some(at) = attempt.poll_timeout() {
        if let Some(setup) = say(&mut attempt, at) {
            assert!(matches!(setup.message, SetupMessage::Hello(_)));
            sent_ms.push(at.since(T0).as_us() / 1000);
        }
    }
    assert_eq!(sent_ms, [0, 20, 60, 140, 300, 620, 1120, 1620]);
    assert_eq!(attempt.outcome(), Some(Outcome::TimedOut));
}

#[test]
fn a_lost_accept_is_repeated_and_opens_nothing_twice() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let confirm = confirm(&mut attempt, &mut listener, T0);
    let opening = opening(receive(&mut listener, T0, &confirm));
    let lost = listener.opened(T0, &opening, (Tpn::new(9), Psn::new(1000)), SERVER_KEY);
    let again = say(&mut attempt, after_ms(20)).expect("the CONFIRM again");
    assert_eq!(again, confirm);
    let repeated = answer(receive(&mut listener, after_ms(20), &again));
    assert_eq!(repeated, lost);
    assert!(attempt.handle_message(after_ms(20), server_address(), &repeated));
    assert!(matches!(attempt.outcome(), Some(Outcome::Open { .. })));
    // A later replay gets the same answer, and opens no channel.
    assert_eq!(answer(receive(&mut listener, after_ms(9000), &confirm)), lost);
    // Much later the acceptance is forgotten, but the cookie is stale by then.
    let late = answer(receive(&mut listener, after_ms(60_000), &confirm));
    assert_eq!(reject_reason(&late), RejectReason::StaleCookie);
}

/// The server found the client dead before the client had an ACCEPT.
#[test]
fn the_accept_of_an_ended_channel_is_not_repeated() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let confirm = confirm(&mut attempt, &mut listener, T0);
    let opening = opening(receive(&mut listener, T0, &confirm));
    let end = (Tpn::new(7), Psn::new(8));
    let _lost = listener.opened(T0, &opening, end, [0; KEY_LEN]);
    let again = say(&mut attempt, after_ms(20)).expect("the CONFIRM again");
    let accept = answer(receive(&mut listener, after_ms(20), &again));
    assert!(matches!(accept.message, SetupMessage::Accept(_)));
    let reject = listener.ended(&accept);
    assert_eq!(reject_reason(&reject), RejectReason::StaleCookie);
    assert!(attempt.handle_message(after_ms(20), server_address(), &reject));
    let hello = say(&mut attempt, after_ms(20)).expect("a HELLO");
    assert!(matches!(hello.message, SetupMessage::Hello(_)), "the client begins again");
}

#[test]
fn duplicated_and_reordered_answers_change_nothing() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let hello = say(&mut attempt, T0).unwrap();
    let first = answer(receive(&mut listener, T0, &hello));
    let second = answer(receive(&mut listener, after_ms(3000), &hello));
    assert_ne!(first, second, "the cookie carries the time");
    assert!(attempt.handle_message(T0, server_address(), &second));
    let confirm = say(&mut attempt, T0).unwrap();
    for late in [first, second] {
        assert!(attempt.handle_message(T0, server_address(), &late));
        assert_eq!(say(&mut attempt, T0), None, "no second CONFIRM for a repeated WELCOME");
    }
    let opening = opening(receive(&mut listener, after_ms(3000), &confirm));
    let accept = listener.opened(after_ms(3000), &opening, (Tpn::new(9), Psn::new(1)), SERVER_KEY);
    for _ in 0..2 {
        assert!(attempt.handle_message(T0, server_address(), &accept));
        assert!(matches!(attempt.outcome(), Some(Outcome::Open { .. })));
    }
    assert!(attempt.handle_message(T0, server_address(), &first));
    assert!(matches!(attempt.outcome(), Some(Outcome::Open { .. })), "still open");
}

#[test]
fn an_accept_before_any_welcome_is_ignored() {
    let (mut one, mut two, mut listener) = (attempt(), attempt(), listener());
    let confirm = confirm(&mut one, &mut listener, T0);
    let opening = opening(receive(&mut listener, T0, &confirm));
    let accept = listener.opened(T0, &opening, (Tpn::new(9), Psn::new(1)), SERVER_KEY);
    two.handle_message(T0, server_address(), &accept);
    assert_eq!(two.outcome(), None);
}

#[test]
fn forged_answers_are_ignored() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let hello = say(&mut attempt, T0).unwrap();
    let welcome = answer(receive(&mut listener, T0, &hello));
    let elsewhere = "192.0.2.66:4810".parse().unwrap();
    assert!(!attempt.handle_message(T0, elsewhere, &welcome), "from another address");
    let for_another = Setup { destination: Cna::new(1), ..welcome };
    assert!(!attempt.handle_message(T0, server_address(), &for_another));
    let SetupMessage::Welcome(content) = welcome.message else { unreachable!() };
    let mut other_nonce = content;
    other_nonce.nonce += 1;
    let mut more_than_requested = content;
    more_than_requested.offer.mtu_bytes = 4096;
    for forged in [other_nonce, more_than_requested] {
        let message = SetupMessage::Welcome(forged);
        attempt.handle_message(T0, server_address(), &Setup { message, ..welcome });
        assert_eq!(say(&mut attempt, T0), None, "still requesting");
    }
}

#[test]
fn cookie_is_valid_for_one_client_one_hello_and_a_short_time() {
    let mut listener = listener();
    let good = confirm(&mut attempt(), &mut listener, T0);
    let SetupMessage::Confirm(content) = good.message else { unreachable!() };
    let stale = |listener: &mut Listener, now, from, setup: &Setup| {
        let reaction = listener.handle_message(now, from, LONG, setup);
        assert_eq!(reject_reason(&answer(reaction)), RejectReason::StaleCookie);
    };
    stale(&mut listener, T0, "192.0.2.1:4001".parse().unwrap(), &good);
    stale(&mut listener, T0, "192.0.2.3:4000".parse().unwrap(), &good);
    stale(&mut listener, after_ms(12_000), client_address(), &good);
    stale(&mut listener, T0, client_address(), &Setup { source: Cna::new(3), ..good });
    stale(&mut listener, T0, client_address(), &Setup { destination: Cna::new(3), ..good });
    let mut tampered = [content; 4];
    tampered[0].hello.nonce ^= 1;
    tampered[1].hello.client.tpn = Tpn::new(6);
    tampered[2].agreed.mtu_bytes = 4096;
    tampered[3].cookie[15] ^= 1;
    for confirm in tampered {
        let message = SetupMessage::Confirm(confirm);
        stale(&mut listener, T0, client_address(), &Setup { message, ..good });
    }
    let mut restarted = Listener::new(identity(SERVER, limits()), [8; 32]);
    stale(&mut restarted, T0, client_address(), &good);
    opening(receive(&mut listener, after_ms(8000), &good));
}

#[test]
fn a_stale_cookie_starts_over_and_gives_up_in_the_end() {
    let (mut attempt, mut listener) = (attempt(), listener());
    for round in 0..4 {
        let confirm = confirm(&mut attempt, &mut listener, after_ms(round));
        let mut restarted = Listener::new(identity(SERVER, limits()), [9; 32]);
        let reject = answer(receive(&mut restarted, after_ms(round), &confirm));
        assert!(attempt.handle_message(after_ms(round), server_address(), &reject));
        assert_eq!(attempt.outcome().is_some(), round == 3);
    }
}

#[test]
fn version_without_overlap_is_refused() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let mut hello = say(&mut attempt, T0).unwrap();
    if let SetupMessage::Hello(content) = &mut hello.message {
        content.versions = Versions::new(PROTOCOL_VERSION + 1, 200).unwrap();
    }
    let reject = answer(receive(&mut listener, T0, &hello));
    assert_eq!(reject_reason(&reject), RejectReason::Version);
    assert!(attempt.handle_message(T0, server_address(), &reject));
    assert!(matches!(attempt.outcome(), Some(Outcome::Refused(_))));
}

#[test]
fn server_without_resources_refuses_with_the_reason() {
    let (mut attempt, mut listener) = (attempt(), listener());
    let confirm = confirm(&mut attempt, &mut listener, T0);
    let opening = opening(receive(&mut listener, T0, &confirm));
    let reject = listener.refuse(&opening, RejectReason::NoResources);
    assert!(attempt.handle_message(T0, server_address(), &reject));
    let Some(Outcome::Refused(reject)) = attempt.outcome() else { panic!("not refused") };
    assert_eq!(reject.reason, RejectReason::NoResources);
}

#[test]
fn a_listener_ignores_answers() {
    let mut listener = listener();
    let hello = say(&mut attempt(), T0).unwrap();
    let welcome = answer(receive(&mut listener, T0, &hello));
    assert_eq!(receive(&mut listener, T0, &welcome), Reaction::Ignore);
}
