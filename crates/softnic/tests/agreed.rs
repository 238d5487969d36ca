//! What the two sides of a connection agree on beside its numbers, and what ends one that guesses.

mod common;

use common::{PATIENCE, Pair, builder, side};
use fairway_softnic::{Error, Event, Order, Post, Profile, Rights, SegmentKey, Status};

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
        pair.client.succeed();
        pair.client.jetty.store(&pair.client.peer, local.slice(0..8), remote.key(), 3).unwrap();
        pair.client.succeed();
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
    pair.client.succeed();
}

/// A peer that guesses a segment's key loses its connection; another peer keeps its own.
#[test]
fn peer_that_guesses_keys_loses_its_connection() {
    let profile = Profile { refused_keys: 100, ..Profile::default() };
    let pair = Pair::of(builder(), builder().profile(profile));
    let (client, server) = (&pair.client, &pair.server);
    let honest = builder().build().unwrap();
    let peer = honest.connect(server.context.local_addrs()[0], PATIENCE).unwrap();
    let honest = side(honest, peer);
    assert!(matches!(server.context.wait_event(PATIENCE).unwrap(), Event::Connected(_)));

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
    let event = server.context.wait_event(PATIENCE).unwrap();
    assert!(matches!(&event, Event::KeysRefused(peer) if *peer == server.peer), "{event:?}");
    assert!(!server.peer.is_alive());
    assert!(matches!(client.context.wait_event(PATIENCE).unwrap(), Event::PeerClosed(_)));

    let local = honest.filled(64, 2);
    honest.jetty.write(&honest.peer, &local, secret.key(), 1).unwrap();
    honest.succeed();
}
