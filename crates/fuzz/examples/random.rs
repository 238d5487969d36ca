//! Runs a fuzz target on random inputs, without a nightly toolchain:
//! `cargo run --release -p fairway-fuzz --example random -- nic_packets 100000 7`.
//!
//! The arguments are the target, the number of inputs (100,000), the seed of the first (1), and
//! folders. Without folders all bytes are random. With folders (`fuzz/corpus/nic_packets`) each
//! input is a file from them with random changes, which reaches deeper than random bytes do. An
//! input depends on its seed and on the files alone. A failing input is printed in hexadecimal
//! before the process ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

const LENGTH_MAX: usize = 256;
/// Maximum number of changes of one file.
const CHANGES_MAX: usize = 6;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("", String::as_str);
    let number =
        |at: usize, default| arguments.get(at).map_or(Some(default), |text| text.parse().ok());
    let target = fairway_fuzz::TARGETS.iter().find(|(known, _)| *known == name);
    let (Some((_, run)), Some(count), Some(first)) = (target, number(1, 100_000_u64), number(2, 1))
    else {
        let names: Vec<&str> = fairway_fuzz::TARGETS.iter().map(|(known, _)| *known).collect();
        eprintln!(
            "usage: random TARGET [INPUTS] [SEED] [FOLDER]..., with a target of: {}",
            names.join(", ")
        );
        return ExitCode::FAILURE;
    };
    let kept = match kept(arguments.get(3..).unwrap_or_default()) {
        Ok(kept) => kept,
        Err(error) => {
            eprintln!("a folder of inputs cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut input = Vec::with_capacity(2 * LENGTH_MAX);
    for seed in first..first.saturating_add(count) {
        write_input(seed, &kept, &mut input);
        if catch_unwind(AssertUnwindSafe(|| run(&input))).is_err() {
            let digits: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("seed {seed} fails with the input {digits}");
            return ExitCode::FAILURE;
        }
    }
    let source = if kept.is_empty() { String::new() } else { format!(" of {} files", kept.len()) };
    println!("{name}: {count} inputs{source} from seed {first} on passed");
    ExitCode::SUCCESS
}

/// Returns the files of some folders, in the order of their names.
fn kept(folders: &[String]) -> std::io::Result<Vec<Vec<u8>>> {
    let mut kept = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(Path::new(folder))?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, std::io::Error>>()?;
        paths.sort();
        for path in paths {
            kept.push(std::fs::read(path)?);
        }
    }
    Ok(kept)
}

fn write_input(seed: u64, kept: &[Vec<u8>], input: &mut Vec<u8>) {
    let mut random = Random::new(seed);
    input.clear();
    if kept.is_empty() {
        let length = random.below(LENGTH_MAX);
        input.extend((0..length).map(|_| random.byte()));
        return;
    }
    input.extend_from_slice(&kept[random.below(kept.len())]);
    for _ in 0..=random.below(CHANGES_MAX) {
        change(&mut random, kept, input);
        input.truncate(LENGTH_MAX);
    }
}

/// Makes one change of an input.
fn change(random: &mut Random, kept: &[Vec<u8>], input: &mut Vec<u8>) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(8)).min(input.len());
    match random.below(8) {
        0 | 1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.byte();
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            let bytes: [u8; 4] = std::array::from_fn(|_| random.byte());
            let count = 1 + random.below(4);
            input.splice(at..at, bytes[..count].iter().copied());
        }
        4 => drop(input.drain(at..end)),
        // Repeats some bytes, in place or elsewhere.
        5 => {
            let copy = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        // Appends the end of another file.
        6 => {
            let other = &kept[random.below(kept.len())];
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        // Inserts a part of another file.
        _ => {
            let other = &kept[random.below(kept.len())];
            let begin = random.below(other.len() + 1);
            let end = (begin + 1 + random.below(24)).min(other.len());
            input.splice(at..at, other[begin..end].iter().copied());
        }
    }
}

/// A generator of numbers that depend on a seed alone (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// Draws a number below `end`, which must not be 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
