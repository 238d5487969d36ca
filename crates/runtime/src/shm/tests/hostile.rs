//! A process of the same user that breaks the rules of the ring or of the greeting.

use std::os::fd::AsFd;

use fairway_port::{Doorbell, ReceiveBuffer};

use super::*;
use crate::shm::attach::{self, Greeting, Received};

/// Returns a ring whose control words and records `deface` may write.
fn ring() -> (Writer, Reader) {
    let memory = make_file().unwrap();
    (Writer::new(&memory, false), Reader::new(&memory, false))
}

#[test]
fn counts_that_cannot_be_true_break_the_ring() {
    for written in [1, 63, RING_BYTES as u64 + 64, u64::MAX, 1 << 63] {
        let (mut writer, mut reader) = ring();
        writer.claim(written);
        assert!(reader.peek().is_err(), "{written} bytes written");
    }
    let (mut writer, mut reader) = ring();
    static PAYLOAD: [u8; 60_000] = [1; 60_000];
    let sent = train(b"h", &[&PAYLOAD]);
    reader.claim(64);
    let mut pushed = writer.push(0, &somewhere(), &sent);
    while matches!(pushed, Pushed::Yes { .. }) {
        // More has been read than was written.
        reader.claim(u64::MAX - 63);
        pushed = writer.push(0, &somewhere(), &sent);
    }
    assert_eq!(pushed, Pushed::Broken);
}

#[test]
fn heads_that_no_writer_makes_break_the_ring() {
    // Bytes of the head: kind, congestion bits, socket (2), length (4), segment size (4), and the
    // address from byte 16 on.
    let changes: [(usize, &[u8]); 9] = [
        (0, &[0]),
        (0, &[3]),
        (0, &[2]),
        (1, &[3]),
        (4, &[0, 0, 0, 0]),
        (4, &[0xFF, 0xFF, 0xFF, 0xFF]),
        (4, &[65, 0, 0, 0]),
        (8, &[0, 0, 0, 0]),
        (16, &[0xFF, 0xFF]),
    ];
    for (place, bytes) in changes {
        let (mut writer, mut reader) = ring();
        assert!(matches!(
            writer.push(0, &somewhere(), &train(b"hello", &[b" world"])),
            Pushed::Yes { .. }
        ));
        writer.deface(place, bytes);
        assert!(reader.peek().is_err(), "bytes {bytes:?} at {place}");
    }
}

#[test]
fn any_bytes_in_a_ring_are_either_a_record_or_break_it() {
    // A small generator of numbers, so that the test finds the same cases each time.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut records, mut broken) = (0, 0);
    let mut buffer = ReceiveBuffer::new();
    for _ in 0..20_000 {
        let (mut writer, mut reader) = {
            let memory = crate::memory::Memory::zeroed(super::super::ring::FILE_BYTES).unwrap();
            let memory = Arc::new(memory);
            (Writer::new(&memory, false), Reader::new(&memory, false))
        };
        writer.push(1, &somewhere(), &train(b"hello", &[b" world"]));
        for _ in 0..next() % 3 {
            let place = (next() % 48) as usize;
            let byte = [next() as u8 >> (next() % 8)];
            writer.deface(place, &byte);
        }
        writer.claim(64 * (1 + next() % 4));
        match reader.peek() {
            Ok(Some(_)) => {
                let arrival = reader.pop(&mut buffer).unwrap();
                assert!(arrival.len() <= fairway_port::TRAIN_BYTES_MAX);
                (0..arrival.segments())
                    .for_each(|index| assert!(!arrival.segment(index).is_empty()));
                records += 1;
            }
            Ok(None) => panic!("something was written"),
            Err(_) => broken += 1,
        }
    }
    assert!(records > 1000 && broken > 1000, "{records} records, {broken} broken rings");
}

/// Returns a greeting to socket 0 of `datapath`.
fn greeting_to(datapath: &SharedMemory) -> Greeting {
    Greeting { target: address_of(datapath, 0), addresses: vec![Some(somewhere())] }
}

#[test]
fn greeting_is_decoded_as_it_was_sent_and_other_bytes_end_the_connection() {
    let one = SharedMemory::alone(port()).unwrap();
    let mut greeting = greeting_to(&one);
    greeting.addresses.push(None);
    let (left, right) = std::os::unix::net::UnixStream::pair().unwrap();
    right.set_nonblocking(true).unwrap();
    assert!(matches!(attach::receive(&right), Received::Nothing));
    greeting.send(&left, &[]).unwrap();
    match attach::receive(&right) {
        Received::Greeting(received, files) => assert_eq!((received, files.len()), (greeting, 0)),
        _ => panic!("no greeting"),
    }
    std::io::Write::write_all(&mut &left, b"something else").unwrap();
    assert!(matches!(attach::receive(&right), Received::End));
    drop(left);
    assert!(matches!(attach::receive(&right), Received::End));
}

#[test]
fn offers_without_sound_memory_or_from_elsewhere_are_refused() {
    let mut datapath = SharedMemory::alone(port()).unwrap();
    let to: SocketAddr = datapath.port().local_addrs()[0];
    let bell = Doorbell::new().unwrap();
    let rung = bell.fd();
    let sound = make_file().unwrap();
    let short = crate::memory::Memory::shared(4096).unwrap();
    let (sound_file, short_file) = (sound.file().unwrap(), short.file().unwrap());
    let growing = tempfile();
    let elsewhere: SocketAddr = "198.51.100.7:4800".parse().unwrap();
    let own = greeting_to(&datapath);
    let foreign = Greeting { addresses: vec![Some(elsewhere.into())], ..own.clone() };
    let nameless = Greeting { addresses: vec![None], ..own.clone() };
    let misled = Greeting { target: somewhere(), ..own.clone() };
    let (_reader, pipe) = std::io::pipe().unwrap();
    let cases: [(&str, &Greeting, Vec<&dyn AsFd>); 8] = [
        ("no files", &own, vec![]),
        ("no bell", &own, vec![&sound_file]),
        ("a pipe as bell", &own, vec![&sound_file, &pipe]),
        ("a file that is too short", &own, vec![&short_file, &rung]),
        ("a file that can be truncated", &own, vec![&growing, &rung]),
        ("an address of another host", &foreign, vec![&sound_file, &rung]),
        ("no address", &nameless, vec![&sound_file, &rung]),
        ("an address that is not the datapath's", &misled, vec![&sound_file, &rung]),
    ];
    for (what, greeting, files) in cases {
        let stream = attach::connect(&to).expect("the datapath listens");
        greeting.send(&stream, &files).unwrap();
        datapath.attend();
        assert!(matches!(attach::receive(&stream), Received::End), "{what}");
        assert_eq!(datapath.ready(), None, "{what}");
    }
    let stream = attach::connect(&to).expect("the datapath listens");
    own.send(&stream, &[&sound_file, &rung]).unwrap();
    datapath.attend();
    assert!(matches!(attach::receive(&stream), Received::Greeting(..)), "a sound offer");
    assert_eq!(datapath.ready(), Some(0));
}

/// Returns a file of enough bytes that can be truncated.
fn tempfile() -> std::fs::File {
    use std::os::fd::FromRawFd;
    // SAFETY: the name is a C string, and the file that is made is ours alone.
    let file = unsafe {
        let file = libc::memfd_create(c"fairway-test".as_ptr(), libc::MFD_CLOEXEC);
        assert!(file >= 0);
        std::fs::File::from_raw_fd(file)
    };
    file.set_len(super::super::ring::FILE_BYTES as u64).unwrap();
    file
}

#[test]
fn connections_that_never_greet_do_not_keep_others_out() {
    let mut datapath = SharedMemory::alone(port()).unwrap();
    let to: SocketAddr = datapath.port().local_addrs()[0];
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(attach::connect(&to).expect("the datapath listens"));
        datapath.attend();
    }
    let mut one = SharedMemory::alone(port()).unwrap();
    assert!(one.transmit(NOW, 0, 0, &to.into(), &train(b"first", &[b""])).is_err());
    datapath.attend();
    one.attend();
    assert!(one.transmit(NOW, 0, 0, &to.into(), &train(b"second", &[b""])).is_ok());
}

#[test]
fn link_that_breaks_the_rules_ends_and_others_go_on() {
    let (mut one, mut other) = attached();
    let to: SocketAddr = other.port().local_addrs()[0];
    let (stream, bell) = (attach::connect(&to).expect("it listens"), Doorbell::new().unwrap());
    let memory = make_file().unwrap();
    let file = memory.file().unwrap();
    greeting_to(&other).send(&stream, &[&file, &bell.fd()]).unwrap();
    other.attend();
    let mut hostile = Writer::new(&memory, false);
    // There is no socket of this number.
    hostile.push(9, &somewhere(), &train(b"hello", &[b""]));
    one.transmit(NOW, 0, 0, &to.into(), &train(b"still here", &[b""])).unwrap();
    assert_eq!(receive_all(&mut other), [(0, b"still here".to_vec())]);
    assert!(matches!(attach::receive(&stream), Received::Greeting(..)));
    assert!(matches!(attach::receive(&stream), Received::End), "the link has ended");
}
