//! The cost of loss and reordering as a golden table: a change of the protocol shows as a change of
//! text.

mod pair;

use fairway_device::random::Random;
use fairway_ub::wire::{Duration, Packet};
use fairway_ub::{Status, Transmit, Work};
use pair::{Fate, Pair, Settings};
use std::fmt::Write;

const LENGTH: u32 = 16 << 20;
const GOLDEN: &str = include_str!("loss_table.txt");

/// Returns one line: 16 MiB under loss in units of 0.1 %, and reordering by up to `reorder`
/// packets.
fn line(loss: u64, reorder: u64) -> String {
    let settings = Settings { paths: 4, memory: LENGTH as usize, ..Settings::default() };
    let mut pair = Pair::new(&settings);
    let remote = pair.remote(0, 0);
    // Differs from the sender's pattern, so that missing bytes are detected.
    pair.memory[1].bytes.fill(0);
    pair.post(0, 1, Work::Write { remote }, LENGTH);
    let mut random = Random::fork(loss, reorder);
    let packet_time = Duration::from_ns(3_400);
    let mut fate = |_: &Pair, _: usize, transmit: &Transmit| {
        if random.chance(loss as u32) {
            return Fate::Lose;
        }
        if reorder > 0 && matches!(transmit.packet, Packet::Data(_)) && random.chance(100) {
            return Fate::Delay(packet_time.times(random.range(1, reorder)));
        }
        Fate::Deliver
    };
    let start = pair.now;
    let done = pair.complete(0, Duration::from_secs(10), &mut fate);
    assert_eq!(done.status, Status::Success);
    assert!(pair.memory[0].bytes == pair.memory[1].bytes, "the bytes differ");
    let counters = pair.drivers[0].device().counters();
    format!(
        "{:>4}.{} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10}",
        loss / 10,
        loss % 10,
        reorder,
        counters.data_sent,
        counters.data_resent,
        counters.spurious,
        counters.timeouts,
        pair.now.since(start).as_us()
    )
}

#[test]
fn loss_and_reordering_cost_matches_the_table() {
    let mut table = String::from("16 MiB by WRITE, 10 Gbit/s, 20 us, 4 paths, default policies\n");
    let names = ["loss %", "reorder", "sent", "resent", "spurious", "timeouts", "us"];
    let [loss, reorder, sent, resent, spurious, timeouts, us] = names;
    let _ = writeln!(
        table,
        "{loss:>6} {reorder:>8} {sent:>8} {resent:>8} {spurious:>8} {timeouts:>8} {us:>10}"
    );
    for loss in [0, 1, 10, 50] {
        for reorder in [0, 16, 64] {
            let _ = writeln!(table, "{}", line(loss, reorder));
        }
    }
    if std::env::var_os("KEEP").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loss_table.txt");
        std::fs::write(path, &table).unwrap();
    }
    assert!(table == GOLDEN, "if this is meant, run again with KEEP=1 and commit:\n{table}");
}
