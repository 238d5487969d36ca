//! Runs a range of seeds: `soak FROM TO`.
#![allow(missing_docs)]
use fairway_fabric::storm::{Options, run};
use fairway_fabric::Fault;
use fairway_engine::{Canary, DropReason};
fn main() {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let trace = std::env::args().any(|a| a == "--trace");
    if std::env::args().any(|a| a == "--canary") {
        std::panic::set_hook(Box::new(|_| {}));
        for canary in Canary::ALL {
            let caught = (arguments[0]..arguments[1]).find_map(|seed| run(seed, Options { trace: None, canary: Some(canary) }).err());
            match caught { Some(f) => println!("{canary:?}: seed {} {}", f.seed, f.message.chars().take(200).collect::<String>()), None => println!("{canary:?}: NOT CAUGHT") }
        }
        return;
    }
    let (mut fine, mut bad) = (0, 0);
    let mut sums = (0, 0, 0);
    let mut faults = [0u64; Fault::COUNT]; let mut drops = [0u64; DropReason::COUNT]; let mut st = [0u64; 10];
    let mut worst: Vec<(u64, u128)> = Vec::new();
    for seed in arguments[0]..arguments[1] {
        let sink: Option<Box<dyn std::io::Write>> = if trace { Some(Box::new(std::io::stdout())) } else { None };
        let t = std::time::Instant::now();
        match run(seed, Options { trace: sink, canary: None }) {
            Ok(report) => { fine += 1; sums.0 += report.operations; sums.1 += report.packets; sums.2 += report.resent;
              for (a,b) in faults.iter_mut().zip(report.faults) { *a += b }
              for (a,b) in drops.iter_mut().zip(report.drops) { *a += b }
              for (a,b) in st.iter_mut().zip(report.statuses) { *a += b }
            }
            Err(failure) => { bad += 1; let t = failure.to_string(); println!("{}", &t[..t.len().min(900)]); if bad > 15 { break; } }
        }
        worst.push((seed, t.elapsed().as_millis()));
    }
    worst.sort_by_key(|w| std::cmp::Reverse(w.1)); worst.truncate(10);
    println!("fine {fine} bad {bad} ops/packets/resent {sums:?}\nslow {worst:?}");
    for (f, n) in Fault::ALL.iter().zip(faults) { print!("{f:?} {n}, "); } println!();
    for (f, n) in DropReason::ALL.iter().zip(drops) { print!("{f:?} {n}, "); } println!();
    println!("{st:?}");
}
