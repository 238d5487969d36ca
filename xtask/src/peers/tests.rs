use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};

use super::roles::{run, summary};
use super::{gbps, numbers};

/// Sends each line to the test.
struct Lines(Sender<String>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(String::from_utf8_lossy(bytes).into_owned()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs both roles in threads of this process, on any core. Returns the last line of each.
fn play(listener: &str, driver: &str, settings: &str) -> [String; 2] {
    let arguments = |role: &str, to: &str| -> Vec<String> {
        format!("{role} any 127.0.0.1 {to} {settings}")
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    let (sender, lines) = channel();
    let args = arguments(listener, "127.0.0.1:0");
    let thread = std::thread::spawn(move || run(&args, &mut Lines(sender)));
    // A line may arrive in parts.
    let mut address = String::new();
    while !address.ends_with('\n') {
        address += &lines.recv().expect("an address");
    }
    let mut driven = Vec::new();
    run(&arguments(driver, address.trim()), &mut driven).expect("driver");
    thread.join().expect("join").expect("listener");
    [lines.iter().collect(), String::from_utf8(driven).expect("text")]
}

#[test]
fn a_blast_arrives() {
    let [sink, blast] = play("udp-sink", "udp-blast", "1400 40 20");
    let [received, _] = numbers(&sink).expect("result");
    let [sent, seconds] = numbers(&blast).expect("result");
    assert!(received > 0.0 && received <= sent && seconds > 0.0);
    assert_eq!(received % 1400.0, 0.0);
}

#[test]
fn a_stream_arrives_whole() {
    let [sink, stream] = play("tcp-sink", "tcp-stream", "262144 20");
    let [received, _] = numbers(&sink).expect("result");
    let [sent, _] = numbers(&stream).expect("result");
    assert_eq!(received, sent);
}

#[test]
fn a_ping_is_answered() {
    let [_, line] = play("udp-echo", "udp-ping", "64 5");
    let [min, p50, mean, p99, count, _lost] = numbers(&line).expect("result");
    assert!(0.0 < min && min <= p50 && p50 <= p99 && min <= mean && count >= 1.0);
}

#[test]
fn tcp_ping_is_answered() {
    let [_, line] = play("tcp-echo", "tcp-ping", "64 5");
    let [min, p50, mean, p99, count, lost] = numbers(&line).expect("result");
    assert!(0.0 < min && min <= p50 && p50 <= p99 && min <= mean && count >= 1.0);
    assert_eq!(lost, 0.0);
}

#[test]
fn memory_is_copied_in_whole_pieces() {
    let arguments = "copy any 127.0.0.1 127.0.0.1:0 1048576 5".split(' ').map(str::to_owned);
    let mut out = Vec::new();
    run(&arguments.collect::<Vec<_>>(), &mut out).expect("copy");
    let [bytes, seconds] = numbers(&String::from_utf8(out).expect("text")).expect("result");
    assert!(bytes >= 1_048_576.0 && bytes % 1_048_576.0 == 0.0 && seconds >= 0.005);
}

#[test]
fn times_are_summed_up() {
    let mut times: Vec<u32> = (1..=100).rev().map(|us| us * 1000).collect();
    let sum = summary(&mut times);
    assert_eq!((sum.min_us, sum.p50_us, sum.mean_us, sum.p99_us), (1.0, 51.0, 50.5, 100.0));
    assert_eq!(summary(&mut []).p99_us, 0.0);
    assert_eq!(gbps(1e9, 2.0), 4.0);
    assert!(numbers::<2>("1 2 3").is_err() && numbers::<1>("x").is_err());
}
