//! Parameters on which both sides of a connection agree, and the end of a connection whose peer
//! guesses keys.

mod common;

use common::{Pair, Side, TIMEOUT, builder, event_of_peer, side};
use fairway::{
    Error, Event, Memory, Order, Post, Profile, Refusal, Rights, Segment, SegmentKey, Status,
};
use fairway_wire as wire;

#[test]
fn unreliable_messages_need_the_agreement_of_both_sides() {
    for (client, server) in [(false, true), (true, false)] {
        let pair =
            Pair::of(builder().unreliable_messages(client), builder().unreliable_messages(server));
        let local = pair.client.filled(64, 1);
        let remote = pair.server.open_segment(64);
        let loose = pair.client.jetty.ordered(Order::unreliable());
        let refused = loose.write(&pair.client.peer, &local, remote.key(), 1).unwrap_err();
        assert!(matches!(refused, Error::NotAgreed), "{refused}");
        pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 2).unwrap();
        let _ = pair.client.succeed();
        pair.client.jetty.store(&pair.client.peer, local.slice(0..8), remote.key(), 3).unwrap();
        let _ = pair.client.succeed();
    }
}

#[test]
fn loads_and_stores_need_the_agreement_of_both_sides() {
    let pair = Pair::of(builder(), builder().loads_and_stores(false));
    let remote = pair.server.open_segment(64);
    let local = pair.client.filled(64, 1);
    let stored = pair.client.jetty.store(&pair.client.peer, local.slice(0..8), remote.key(), 1);
    assert!(matches!(stored, Err(Error::NotAgreed)), "{stored:?}");
    let loaded = pair.client.jetty.load(&pair.client.peer, local.slice(0..8), remote.key(), 1);
    assert!(matches!(loaded, Err(Error::NotAgreed)), "{loaded:?}");
    let loose = pair.client.jetty.ordered(Order::unreliable());
    loose.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    let _ = pair.client.succeed();
}

/// A peer that guesses a segment's key loses its connection; another peer keeps its own.
#[test]
fn peer_that_guesses_keys_loses_its_connection() {
    let profile = Profile::new().refused_keys(100);
    let pair = Pair::of(builder(), builder().profile(profile));
    let (client, server) = (&pair.client, &pair.server);
    let honest = builder().build().unwrap();
    let peer = honest.connect(server.context.local_addrs()[0], TIMEOUT).unwrap();
    let honest = side(honest, peer);
    assert!(matches!(server.context.wait_event(TIMEOUT).unwrap(), Event::Connected(_)));

    let secret = server.segment(4096, Rights::READ_WRITE);
    let local = client.filled(64, 1);
    let mut guesses = 0;
    loop {
        let key = secret.key();
        let guess = SegmentKey { token_value: key.token_value ^ (1 + guesses), ..key };
        if client.jetty.read(&client.peer, &local, guess, u64::from(guesses)).is_err() {
            break;
        }
        guesses += 1;
        match client.wait().status {
            Status::RemoteAccess => assert!(guesses < 10_000, "guesses are not limited"),
            Status::PeerClosed => break,
            other => panic!("{other:?}"),
        }
    }
    assert!((100..=200).contains(&guesses), "{guesses} guesses");
    let event = event_of_peer(&server.context);
    assert!(matches!(&event, Event::KeysRefused(peer) if *peer == server.peer), "{event:?}");
    assert!(!server.peer.is_alive());
    assert!(matches!(event_of_peer(&client.context), Event::PeerClosed(_)));

    let local = honest.filled(64, 2);
    honest.jetty.write(&honest.peer, &local, secret.key(), 1).unwrap();
    let _ = honest.succeed();
}

/// Uses wrong keys for a segment until the connection ends, at most `most` times. Returns how many
/// it used.
fn guess(client: &Side, secret: &Segment, most: u32) -> u32 {
    let local = client.filled(64, 1);
    let key = secret.key();
    for guesses in 0..most {
        let guess = SegmentKey { token_value: key.token_value ^ (1 + guesses), ..key };
        if client.jetty.read(&client.peer, &local, guess, 1).is_err() {
            return guesses;
        }
        match client.wait().status {
            Status::RemoteAccess => {}
            Status::PeerClosed => return guesses + 1,
            other => panic!("{other:?}"),
        }
    }
    most
}

/// The limit used to belong to a connection, so a guesser that connected again got a new one.
#[test]
fn peer_that_guesses_keys_gets_no_more_guesses_by_connecting_again() {
    let refused_key_interval = wire::Duration::from_secs(3600);
    let profile = Profile::new().refused_keys(100).refused_key_interval(refused_key_interval);
    let server = builder().profile(profile).build().unwrap();
    let memory = Memory::zeroed(4096).unwrap();
    let secret = server.register(memory, Rights::READ_WRITE).unwrap();
    let connect = || {
        let client = builder().build().unwrap();
        client.connect(server.local_addrs()[0], TIMEOUT).map(|peer| side(client, peer))
    };
    let mut guesses = 0;
    for round in 0.. {
        assert!(round < 10, "{guesses} guesses and no end");
        match connect() {
            // The client disconnects before it has used its guesses up.
            Ok(client) => guesses += guess(&client, &secret, 30),
            Err(Error::Refused { reason: Refusal::Unwanted, .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(guesses, 101, "the last one ends the connection");
    let events = server.poll_events();
    assert!(events.iter().any(|event| matches!(event, Event::KeysRefused(_))), "{events:?}");
}

/// Two connections at the same time share one limit, and only the one that used the last guess is
/// closed.
#[test]
fn connections_of_one_address_share_its_guesses() {
    let refused_key_interval = wire::Duration::from_secs(3600);
    let profile = Profile::new().refused_keys(100).refused_key_interval(refused_key_interval);
    let server = builder().profile(profile).build().unwrap();
    let memory = Memory::zeroed(4096).unwrap();
    let secret = server.register(memory, Rights::READ_WRITE).unwrap();
    let connect = || {
        let client = builder().build().unwrap();
        let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
        side(client, peer)
    };
    let [one, other] = [connect(), connect()];
    assert_eq!(guess(&one, &secret, 60), 60);
    assert_eq!(guess(&other, &secret, 1000), 41);
    let local = one.filled(64, 2);
    one.jetty.write(&one.peer, &local, secret.key(), 1).unwrap();
    let _ = one.succeed();
}
