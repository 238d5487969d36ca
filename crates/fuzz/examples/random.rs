//! Runs a fuzz target on random inputs, without a nightly toolchain:
//! `cargo run --release -p fairway-fuzz --example random -- nic_packets 100000 7`.
//!
//! The arguments are the target, how many inputs (100,000), and the seed of the first (1). An input
//! that fails is printed in hexadecimal before the process ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

const LENGTH_MAX: u64 = 256;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("", String::as_str);
    let number =
        |at: usize, default| arguments.get(at).map_or(Some(default), |text| text.parse().ok());
    let target = fairway_fuzz::TARGETS.iter().find(|(known, _)| *known == name);
    let (Some((_, run)), Some(count), Some(first)) = (target, number(1, 100_000_u64), number(2, 1))
    else {
        let names: Vec<&str> = fairway_fuzz::TARGETS.iter().map(|(known, _)| *known).collect();
        eprintln!("usage: random TARGET [INPUTS] [SEED], with a target of: {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    for seed in first..first.saturating_add(count) {
        let input = input(seed);
        if catch_unwind(AssertUnwindSafe(|| run(&input))).is_err() {
            let digits: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("seed {seed} fails with the input {digits}");
            return ExitCode::FAILURE;
        }
    }
    println!("{name}: {count} inputs from seed {first} on passed");
    ExitCode::SUCCESS
}

/// Bytes that depend on the seed alone (xorshift64*).
fn input(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    };
    let length = next() % LENGTH_MAX;
    (0..length).map(|_| next() as u8).collect()
}
