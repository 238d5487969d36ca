//! AF_XDP sockets and the program that redirects frames to them, in both of its modes.
//!
//! The test requires the superuser and the `ip` tool: the two ends of a cable are in a network
//! namespace of its own.

#[path = "../../fairway/tests/common/superuser.rs"]
mod superuser;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use fairway_port::Ecn;
use fairway_port::xdp::{FRAME_MAX, Flow, FrameSocket, Interface, Mode, Redirect};

/// Moves this thread to a new network namespace with a cable. Returns false if that is not
/// possible here.
fn lay_cable() -> bool {
    // SAFETY: no memory is passed.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return false;
    }
    let run = |words: &str| {
        let status = Command::new("ip").args(words.split(' ')).status();
        status.is_ok_and(|status| status.success())
    };
    run("link add near type veth peer name far")
        && run("addr add 10.80.0.1/24 dev near")
        && run("addr add 10.80.1.1/24 dev far")
        && run("link set near up")
        && run("link set far up")
}

/// Sends a frame.
fn send(near: &mut FrameSocket, frame: &[u8]) {
    let copy = |room: &mut [u8]| {
        room.copy_from_slice(frame);
        Ok::<_, Infallible>(())
    };
    assert!(near.push(frame.len(), copy).unwrap(), "there is room");
    near.flush().unwrap();
}

/// Waits for the next frame that is redirected, and returns it.
fn receive(far: &mut FrameSocket) -> Vec<u8> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(frame) = far.peek() {
            let frame = frame.to_vec();
            far.pop();
            return frame;
        }
        assert!(Instant::now() < deadline, "no frame was redirected");
        std::thread::yield_now();
    }
}

fn frame(flow: &Flow, length: usize, number: u8) -> Vec<u8> {
    let mut frame = vec![number; flow.header_bytes() + length];
    flow.complete(&mut frame, 0, Ecn::Capable);
    frame
}

/// The checksum that the kernel puts in a packet whose checksum an adapter is to complete.
fn sum_of_pseudo_header(frame: &[u8], is_v4: bool) -> [u8; 2] {
    let (addresses, length) = if is_v4 { (26..34, 38..40) } else { (22..54, 58..60) };
    let words = frame[addresses].chunks(2).chain([&frame[length], &[0, 17]]);
    let mut sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (sum as u16).to_be_bytes()
}

/// Frames that only the kernel may handle: other protocols and ports, fragments, options, what is
/// too short, and what has no checksum and so may be several packets.
fn frames_for_the_kernel(flow: &Flow, other_port: &Flow, is_v4: bool) -> Vec<Vec<u8>> {
    let sound = frame(flow, 100, 1);
    let with = |place: usize, value: u8| {
        let mut changed = sound.clone();
        changed[place] = value;
        changed
    };
    let mut all = vec![frame(other_port, 100, 1), with(12, 0x88), sound[..30].to_vec()];
    let checksum = flow.header_bytes() - 2;
    for value in [[0, 0], sum_of_pseudo_header(&sound, is_v4)] {
        let mut changed = sound.clone();
        changed[checksum..checksum + 2].copy_from_slice(&value);
        all.push(changed);
    }
    match is_v4 {
        // Other protocol, options, more fragments, a fragment's offset, other address.
        true => all.extend([with(23, 6), with(14, 0x46), with(20, 0x20), with(21, 1), with(33, 9)]),
        // An extension header, other address.
        false => all.extend([with(20, 44), with(53, 9)]),
    }
    all
}

/// Sends frames of both kinds, and checks which are redirected.
fn check(near: &mut FrameSocket, far: &mut FrameSocket, flows: &[(Flow, Flow, bool)]) {
    for (flow, other_port, is_v4) in flows {
        for round in 0..3 {
            for foreign in frames_for_the_kernel(flow, other_port, *is_v4) {
                send(near, &foreign);
            }
            let sound = frame(flow, 400 + usize::from(round), round);
            send(near, &sound);
            assert!(receive(far) == sound, "the frames before it were not redirected");
        }
        // More than there are places for frames, so that all are used again.
        for number in 0..5_000_u32 {
            let sound = frame(flow, 60, number as u8);
            send(near, &sound);
            assert!(receive(far) == sound, "frame {number}");
        }
    }
}

#[test]
fn packets_for_the_sockets_are_redirected_and_no_others() {
    if !lay_cable() {
        return superuser::skip("a network namespace with a cable");
    }
    let [near, far] = ["10.80.0.1", "10.80.1.1"]
        .map(|address| Interface::with_address(address.parse().unwrap()).unwrap());
    assert_eq!((near.name.as_str(), far.name.as_str()), ("near", "far"));
    let flow = |from: &str, to: &str| {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        Flow::new(near.mac, far.mac, address(from), address(to)).unwrap()
    };
    let flows = [
        (flow("10.80.0.1:9", "10.80.1.1:4800"), flow("10.80.0.1:9", "10.80.1.1:4801"), true),
        (flow("[fd80::1]:9", "[fd80::2]:4800"), flow("[fd80::1]:9", "[fd80::2]:4801"), false),
    ];
    for mode in [Mode::ZeroCopy, Mode::Copy] {
        // A virtual cable has no sockets without copies; its driver runs programs, though.
        let mut sender = FrameSocket::open(near.index, 0).unwrap();
        let mut receiver = FrameSocket::open(far.index, 0).unwrap();
        let redirect = Redirect::attach(far.index, mode).unwrap();
        redirect.add_socket(&receiver).unwrap();
        for address in ["10.80.1.1:4800", "[fd80::2]:4800"] {
            redirect.add_address(address.parse().unwrap()).unwrap();
        }
        assert!(Redirect::attach(far.index, mode).is_err(), "one program at a time");
        check(&mut sender, &mut receiver, &flows);
        assert_eq!(receiver.peek(), None);
    }
}

#[test]
#[should_panic(expected = "a frame of")]
fn longer_frames_than_the_limit_are_refused() {
    if !lay_cable() {
        superuser::skip("a network namespace with a cable");
        panic!("a frame of no length");
    }
    let near = Interface::with_address("10.80.0.1".parse().unwrap()).unwrap();
    let mut sender = FrameSocket::open(near.index, 0).unwrap();
    let _ = sender.push(FRAME_MAX + 1, |_| Ok::<_, Infallible>(()));
}
