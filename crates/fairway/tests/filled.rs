//! Messages of unequal length, whose packets are filled so that one call sends several of them.

mod common;

use common::{Pair, builder, bytes, content, engines};
use fairway::{Builder, CompletionKind, DatapathKind, Post};

/// Lengths as a library sends them that cuts its messages by buffers of its own.
const PIECES: [usize; 8] = [8256, 8170, 8256, 8170, 8256, 8170, 8256, 8170];
/// Lengths that need fills of all sizes, and some that cannot be filled: a packet that is shorter
/// by one byte, and one in front of a longer one.
const MIXED: [usize; 8] = [8256, 8255, 8256, 5000, 8170, 600, 70, 8256];
/// Length of the buffers into which messages are received.
const ROOM: usize = 8256;

/// Sends messages in batches, compares all bytes, and returns the number of calls that sent.
fn send_messages(builder: fn() -> Builder, lengths: &[usize], rounds: u64) -> u64 {
    let pair = Pair::of(builder(), builder());
    let (client, server) = (&pair.client, &pair.server);
    let sources: Vec<_> =
        lengths.iter().zip(1..).map(|(length, seed)| client.filled(*length, seed)).collect();
    let inboxes: Vec<_> = lengths.iter().map(|_| server.open_segment(ROOM)).collect();
    let before = client.context.counters().port.send_calls;
    for _ in 0..rounds {
        for (inbox, id) in inboxes.iter().zip(0..) {
            server.jetty.post_receive(inbox, id).unwrap();
        }
        let posted = client.jetty.batch(|batch| {
            let mut posts = sources.iter().zip(0..);
            let number = server.jetty.number();
            posts.try_for_each(|(source, id)| batch.send(&client.peer, number, source, id))
        });
        assert_eq!(posted.unwrap(), lengths.len());
        for _ in lengths {
            let _ = client.succeed();
        }
        // Messages may overtake each other, so each is looked for by its length and its bytes.
        let mut missing: Vec<_> = lengths.to_vec();
        for _ in lengths {
            let completion = server.succeed();
            assert_eq!(completion.kind, CompletionKind::Receive);
            let length = completion.bytes as usize;
            let received = content(&inboxes[completion.id.value() as usize]);
            let is_it = |index: &usize| {
                missing[*index] == length && received[..length] == bytes(length, 1 + *index as u64)
            };
            let index = (0..lengths.len()).find(is_it).expect("a message that was sent");
            missing[index] = 0;
        }
    }
    // A packet that its receiver cannot read is sent again, and so would not be missed.
    for context in [&client.context, &server.context] {
        assert_eq!(context.counters().nic.undecodable, 0);
    }
    client.context.counters().port.send_calls - before
}

#[test]
fn messages_of_unequal_length_leave_together_and_arrive_whole() {
    const ROUNDS: u64 = 100;
    let over_udp = || builder().datapath(DatapathKind::Udp);
    let calls = send_messages(over_udp, &PIECES, ROUNDS);
    // Without fills every second message would end a call. Engines send on their own threads.
    if engines() == 1 {
        assert!(calls < 3 * ROUNDS, "{calls} calls for {ROUNDS} batches");
    }
    send_messages(over_udp, &MIXED, ROUNDS);
}

#[test]
fn the_same_messages_cross_memory_and_an_emulated_network_whole() {
    send_messages(|| builder().datapath(DatapathKind::Auto), &MIXED, 20);
    send_messages(|| builder().emulate("loss=3%,dup=3%,reorder=2".parse().unwrap(), 7), &MIXED, 20);
}
