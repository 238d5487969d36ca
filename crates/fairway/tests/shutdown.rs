//! What is posted, and threads that wait, when a context is shut down; memory that is posted.

mod common;
#[path = "common/tasks.rs"]
mod tasks;

use std::sync::Barrier;
use std::time::Duration;

use common::{Pair, Side, TIMEOUT, builder};
use fairway::{
    Completion, CompletionKind, Error, JettyOptions, Mailbox, MailboxAddress, MailboxOptions,
    PostedTo, Status,
};
use tasks::block_on;

fn mailbox(side: &Side) -> Mailbox {
    side.context.create_mailbox(&MailboxOptions::default().address(7)).unwrap()
}

fn is_shut_down<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::ShutDown))
}

/// Each wait has a thread, and no event ends it but the end of the context.
#[test]
fn waits_end_when_the_context_is_shut_down() {
    let Pair { client, server } = Pair::new();
    let mailbox = mailbox(&server);
    let (context, jetty) = (&server.context, &server.jetty);
    let late = context.create_jetty(JettyOptions::default()).unwrap();
    let waits: [(&str, &(dyn Fn() -> bool + Sync)); 6] = [
        ("Jetty::wait", &|| is_shut_down(&jetty.wait(TIMEOUT))),
        ("a second Jetty::wait", &|| is_shut_down(&jetty.wait(TIMEOUT))),
        ("next_completion", &|| is_shut_down(&block_on(late.next_completion()))),
        ("Mailbox::wait", &|| is_shut_down(&mailbox.wait(TIMEOUT))),
        ("wait_event", &|| is_shut_down(&context.wait_event(TIMEOUT))),
        ("wait_until", &|| is_shut_down(&context.wait_until(|| false, TIMEOUT))),
    ];
    let begun = Barrier::new(waits.len() + 1);
    std::thread::scope(|scope| {
        let threads = waits.map(|(name, wait)| {
            let begun = &begun;
            let thread = scope.spawn(move || {
                begun.wait();
                wait()
            });
            (name, thread)
        });
        begun.wait();
        server.context.shutdown(TIMEOUT).unwrap();
        for (name, thread) in threads {
            assert!(thread.join().unwrap(), "{name} did not return ShutDown");
        }
    });
    drop(client);
}

#[test]
fn shutdown_gives_back_what_is_posted_and_refuses_more() {
    let Pair { client, server } = Pair::new();
    let (receives, buffers, sent) =
        (server.open_segment(64), server.open_segment(4096), server.filled(64, 1));
    let mailbox = mailbox(&server);
    server.jetty.post_receive(receives.slice(0..32), 5).unwrap();
    server.jetty.post_receive(receives.slice(32..64), 6).unwrap();
    for buffer in 0..3 {
        mailbox.post(buffers.slice(1024 * buffer..1024 * (buffer + 1)), buffer).unwrap();
    }
    let data = client.filled(8, 2);
    let put = MailboxAddress::new(7, 0);
    client.jetty.put(&client.peer, data.slice(0..8), put, 1).unwrap();
    let _ = client.succeed();
    // The send can't finish, because the client posts no receive.
    server.jetty.send(&server.peer, client.jetty.number(), &sent, 7).unwrap();
    server.context.shutdown(TIMEOUT).unwrap();

    let flushed = |done: Completion| (done.id.value(), done.kind, done.status);
    let mut done: Vec<_> = (0..3).map(|_| flushed(server.wait())).collect();
    done.sort_unstable_by_key(|(id, ..)| *id);
    let (receive, send) = (CompletionKind::Receive, CompletionKind::Send);
    let status = Status::Flushed;
    assert_eq!(done, [(5, receive, status), (6, receive, status), (7, send, status)]);
    assert!(is_shut_down(&server.jetty.wait(TIMEOUT)));
    // The epoch that had ended is reported; the others are not.
    let epoch = mailbox.wait(TIMEOUT).unwrap();
    assert_eq!((epoch.epoch, epoch.id.value(), epoch.bytes), (0, 0, 8));
    assert!(is_shut_down(&mailbox.wait(TIMEOUT)));
    assert_eq!(mailbox.epoch(), 1);

    assert!(is_shut_down(&server.jetty.post_receive(&receives, 8)));
    assert!(is_shut_down(&mailbox.post(&buffers, 9)));
    assert!(is_shut_down(&mailbox.increment_epoch()));
    let written = server.jetty.write(&server.peer, &sent, data.key(), 10);
    assert!(matches!(written, Err(Error::PeerGone { .. })), "{written:?}");
    mailbox.close(true).unwrap();
    for segment in [receives, buffers, sent] {
        assert_eq!(segment.posted_to(), None);
        segment.into_memory().unwrap();
    }
}

#[test]
fn memory_that_is_posted_is_not_returned_and_the_error_names_the_object() {
    let context = builder().build().unwrap();
    let memory = |length| fairway::Memory::zeroed(length).unwrap();
    let register = || context.register(memory(4096), fairway::Rights::NONE).unwrap();
    let jetty = context.create_jetty(JettyOptions::default()).unwrap();
    let other = context.create_jetty(JettyOptions::default()).unwrap();
    let unused = register();
    for segment in [&unused, &register()] {
        other.post_receive(segment.slice(0..8), 1).unwrap();
    }
    drop(other);
    assert_eq!(unused.into_memory().unwrap().len(), 4096);

    let (first, last) = (register(), register());
    for segment in [&first, &last] {
        jetty.post_receive(segment.slice(8..16), 1).unwrap();
    }
    let number = jetty.number();
    for segment in [&first, &last] {
        assert_eq!(segment.posted_to(), Some(PostedTo::Jetty { number }));
    }
    let refused = first.into_memory();
    assert!(
        matches!(refused, Err(Error::Posted { to: PostedTo::Jetty { number: n } }) if n == number)
    );
    let text = refused.unwrap_err().to_string();
    assert!(text.contains(&format!("posted to Jetty {number}")), "{text}");
    drop(jetty);
    assert_eq!(last.posted_to(), None);

    let options = MailboxOptions::default().address(0x1234).retired(1);
    let mailbox = context.create_mailbox(&options).unwrap();
    for id in 0..2 {
        mailbox.post(last.slice(0..8), id).unwrap();
    }
    let to = PostedTo::Mailbox { address: Some(0x1234) };
    assert_eq!(last.posted_to(), Some(to));
    for _ in 0..2 {
        mailbox.increment_epoch().unwrap();
        mailbox.wait(Duration::ZERO).unwrap();
    }
    // The mailbox keeps the buffer of one epoch.
    assert_eq!(last.posted_to(), Some(to));
    drop(mailbox);
    last.into_memory().unwrap();
}
