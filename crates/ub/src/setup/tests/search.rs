//! The search for the longest packets, over paths that lose long ones, or some.

use alloc::vec::Vec;

use fairway_wire::{
    Duration, Instant, PADDED_HELLOS, Parameters, Psn, SETUP_LEN, SetupMessage, Tpn,
};

use super::{
    CLIENT, CLIENT_KEY, NONCE, SERVER, SERVER_KEY, T0, client_address, identity, limits,
    server_address,
};
use crate::setup::lengths::packet_length;
use crate::setup::{Attempt, Listener, OpenRequest, Outcome, Padded, Reaction};

const ONE_WAY: Duration = Duration::from_ms(5);
const DEADLINE: Duration = Duration::from_secs(5);

/// Limits and faults of a path.
struct Path {
    /// The longest datagrams that get through to the server, and back.
    there: usize,
    back: usize,
    /// Datagrams lost of 1,000, in each direction.
    loss: u64,
    random: u64,
    /// Time after which the client gives up.
    deadline: Duration,
}

impl Path {
    fn up_to(there: usize, back: usize) -> Path {
        Path { there, back, loss: 0, random: 1, deadline: DEADLINE }
    }

    fn passes(&mut self, length: usize, longest: usize) -> bool {
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        length <= longest && self.random % 1000 >= self.loss
    }
}

/// The result of a set-up.
struct Made {
    mtu_bytes: u16,
    took_ms: u64,
    datagrams: usize,
    /// Both ends have opened a channel with the same parameters.
    opened: Parameters,
}

fn able(mtu_bytes: u16) -> Parameters {
    Parameters { mtu_bytes, capabilities: PADDED_HELLOS, ..limits() }
}

fn client(mtu_bytes: u16, deadline: Duration) -> Attempt {
    let request = OpenRequest {
        server: server_address(),
        tpn: Tpn::new(5),
        first_psn: Psn::new(77),
        nonce: NONCE,
        joins: None,
        mtu_bytes,
        deadline: T0 + deadline,
        key: CLIENT_KEY,
    };
    Attempt::new(T0, &identity(CLIENT, able(mtu_bytes)), request)
}

/// Sets up a channel between a client and a server with these limits. `None` if it takes too long.
fn set_up(path: &mut Path, (ours, theirs): (u16, u16)) -> Option<Made> {
    let (mut client, mut server) =
        (client(ours, path.deadline), Listener::new(identity(SERVER, able(theirs)), [7; 32]));
    let mut flying: Vec<(Instant, bool, Padded)> = Vec::new();
    let (mut now, mut datagrams, mut opened) = (T0, 0, Vec::new());
    loop {
        if let Some(Outcome::Open { accept, .. }) = client.outcome() {
            let [opened] = opened[..] else { panic!("{} channels were opened", opened.len()) };
            assert_eq!(accept.agreed, opened, "both ends agree");
            let took_ms = now.since(T0).as_us() / 1000;
            return Some(Made { mtu_bytes: opened.mtu_bytes, took_ms, datagrams, opened });
        }
        for message in client.poll_transmit(now) {
            assert!(message.length >= SETUP_LEN);
            datagrams += 1;
            if path.passes(message.length, path.there) {
                flying.push((now + ONE_WAY, true, message));
            }
        }
        let arrivals = flying.iter().map(|(at, ..)| *at);
        now = arrivals.chain(client.poll_timeout()).reduce(Instant::min)?;
        let due: Vec<_> = flying.extract_if(.., |(at, ..)| now.is_at_or_after(*at)).collect();
        for (_, to_server, message) in due {
            if !to_server {
                client.handle_message(now, server_address(), &message.setup);
                continue;
            }
            let reaction = server.handle_message(now, client_address(), u16::MAX, &message.setup);
            let answer = match reaction {
                Reaction::Answer(answer) => answer,
                Reaction::Open(opening) => {
                    opened.push(opening.confirm.agreed);
                    let end = (Tpn::new(9), Psn::new(1000));
                    server.opened(now, &opening, end, SERVER_KEY)
                }
                Reaction::Ignore => continue,
            };
            let answer = message.answered(answer);
            assert!(answer.length <= message.length, "no answer is longer than its request");
            if path.passes(answer.length, path.back) {
                flying.push((now + ONE_WAY, false, answer));
            }
        }
    }
}

#[test]
fn path_without_loss_takes_two_round_trips_and_two_hellos() {
    for (ours, theirs) in [(4096, 4096), (8000, 1360), (1360, 8000), (32_768, 32_768), (64, 64)] {
        let made = set_up(&mut Path::up_to(65_507, 65_507), (ours, theirs)).unwrap();
        assert_eq!((made.mtu_bytes, made.datagrams), (ours.min(theirs), 2));
        assert_eq!(made.took_ms, 4 * ONE_WAY.as_us() / 1000);
    }
}

#[test]
fn longest_packets_that_get_through_both_ways_are_agreed_on() {
    let long = 65_507;
    // Link MTU in bytes with all headers of IPv6, and payload in bytes of packets that fit it.
    let links = [(9000, 8856), (4236, 4096), (1500, 1360), (1400, 1256), (1280, 1136), (576, 432)];
    for (link, expected) in links {
        let fits = link - 48;
        for (there, back) in [(fits, long), (long, fits), (fits, fits)] {
            let made = set_up(&mut Path::up_to(there, back), (16_384, 32_768)).unwrap();
            assert_eq!(made.mtu_bytes, expected, "there {there}, back {back}");
            assert!(made.took_ms < 500, "{} ms", made.took_ms);
            assert!(packet_length(made.opened.mtu_bytes) <= fits);
        }
    }
    let shortest = set_up(&mut Path::up_to(SETUP_LEN, SETUP_LEN), (4096, 4096)).unwrap();
    assert_eq!(shortest.mtu_bytes, 100);
}

/// The client's link takes 9,000 bytes, the server's 1,500, and nothing else is shorter.
#[test]
fn servers_limit_is_learned_from_its_short_answer() {
    let made = set_up(&mut Path::up_to(1500 - 48, 65_507), (8856, 1360)).unwrap();
    assert_eq!(made.mtu_bytes, 1360);
    assert!(made.took_ms <= 20 + 6 * ONE_WAY.as_us() / 1000, "{} ms", made.took_ms);
}

#[test]
fn loss_rarely_shortens_packets() {
    for (loss, shortened_max) in [(100, 2), (300, 40)] {
        let mut shortened = 0;
        let mut path = Path { loss, random: 0x9e37_79b9_7f4a_7c15, ..Path::up_to(65_507, 65_507) };
        for attempt in 0..1000 {
            let made = set_up(&mut path, (4096, 4096));
            // With much loss some set-ups exceed the client's time limit.
            let Some(made) = made else {
                assert!(loss > 100, "attempt {attempt} took too long");
                continue;
            };
            shortened += u32::from(made.mtu_bytes < 4096);
        }
        assert!(shortened <= shortened_max, "{shortened} of 1,000 at a loss of {loss} in 1,000");
        println!("a loss of {loss} in 1,000 each way: {shortened} of 1,000 shortened");
    }
}

/// An older server: it answers long HELLOs by short messages, or not at all.
#[test]
fn server_that_does_not_pad_is_taken_at_its_word() {
    for capabilities in [PADDED_HELLOS, 0] {
        let mut client = client(4096, DEADLINE);
        let limits = Parameters { capabilities, ..limits() };
        let mut server = Listener::new(identity(SERVER, limits), [7; 32]);
        let mut now = T0;
        let confirmed = loop {
            let messages = client.poll_transmit(now);
            if let Some(SetupMessage::Confirm(confirm)) =
                messages.first().map(|message| message.setup.message)
            {
                break confirm;
            }
            for message in messages {
                let received = message.length == SETUP_LEN || capabilities & PADDED_HELLOS != 0;
                let setup = &message.setup;
                if received
                    && let Reaction::Answer(answer) =
                        server.handle_message(now, client_address(), u16::MAX, setup)
                {
                    client.handle_message(now, server_address(), &answer);
                }
            }
            now = client.poll_timeout().expect("it goes on");
        };
        assert_eq!(confirmed.agreed.mtu_bytes, 4096);
        assert!(now.since(T0) <= Duration::from_ms(20));
    }
}

#[test]
fn half_of_a_short_time_to_connect_is_left_after_the_search() {
    let path = || Path::up_to(1400 - 48, 65_507);
    let patient = set_up(&mut path(), (4096, 4096)).unwrap();
    assert!(patient.took_ms > 300, "{} ms: all lengths get five tries", patient.took_ms);
    let mut hurried = Path { deadline: Duration::from_ms(150), ..path() };
    let hurried = set_up(&mut hurried, (4096, 4096)).unwrap();
    assert_eq!(hurried.mtu_bytes, patient.mtu_bytes);
    assert!(hurried.took_ms < 120, "{} ms", hurried.took_ms);
}
