//! Collective operations: Fairway beside gloo, by turns, on this host, over a veth network and over
//! emulated networks.
//!
//! gloo, and Fairway as a backend of torch, run by `front/python/tools/gloo_bench.py` with a Python
//! that has torch (`--torch PATH`, see `front/python/tools/torch_env.py`) and the package fairway;
//! without it, `fairway collective` is measured alone. All report the time at the slowest rank.
//! Beside them is what bounds every library: on this host, the time of threads that only copy; over
//! links with a rate, the time of the payload at that rate.

mod bridge;
mod least;
mod places;
mod programs;
mod report;

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use super::transactions::Section;
use crate::programs::check_signals;
use places::{Kind, Place};
use programs::Work;
use report::{Column, Samples};

/// The operations, of which the first five are measured unless others are named.
const OPERATIONS: [&str; 6] =
    ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", TRAINING];
/// A step of training by torch's `DistributedDataParallel`; the bytes are those of the parameters.
const TRAINING: &str = "training-step";
/// Bytes of a buffer on this host, and over a network.
const SIZES: &[u64] = &[1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26];
const NETWORK_SIZES: &[u64] = &[1 << 16, 1 << 20, 1 << 23];
/// Calls that are timed on this host, and over a network.
const ITERATIONS: u32 = 20;
const NETWORK_ITERATIONS: u32 = 3;

/// The options that [`Choice::set`] takes.
pub const OPTIONS: &str =
    "--torch, --networks, --operations, --ranks, --bytes, --columns, --iterations";

/// What is measured.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The Python with torch, if there is one.
    torch: Option<PathBuf>,
    places: Vec<Kind>,
    operations: Vec<&'static str>,
    ranks: Vec<u32>,
    /// `None`: those of the place.
    sizes: Option<Vec<u64>>,
    /// `None`: those that the place has.
    columns: Option<Vec<Column>>,
    /// Calls that are timed; `None`: those of the place.
    iterations: Option<u32>,
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            torch: None,
            places: vec![Kind::Host],
            operations: OPERATIONS[..5].to_vec(),
            ranks: vec![2, 4],
            sizes: None,
            columns: None,
            iterations: None,
        }
    }
}

impl Choice {
    /// True if a column is measured at a place.
    fn has(&self, column: Column, kind: Kind, has_package: bool) -> bool {
        let is_possible = match column {
            Column::Native => true,
            Column::NativeUdp | Column::Least => kind == Kind::Host,
            Column::Torch => has_package,
            Column::Gloo => self.torch.is_some(),
            Column::GlooCubic => self.torch.is_some() && kind.is_network(),
        };
        let is_wanted = match &self.columns {
            Some(columns) => columns.contains(&column),
            None => column != Column::NativeUdp && (column != Column::Native || !kind.is_network()),
        };
        is_possible && is_wanted
    }

    /// Sets an option. Returns false if there is none with this name.
    ///
    /// # Errors
    /// The value is invalid; the error describes valid ones.
    pub fn set(&mut self, name: &str, value: &str) -> io::Result<bool> {
        let wrong = |valid: String| {
            let text = format!("{name} {value:?}: give {valid}, separated by commas");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let parts = || value.split(',');
        match name {
            "--torch" => self.torch = Some(value.into()),
            "--networks" => {
                let names = Kind::ALL.map(Kind::name).join(", ");
                let places: Result<Vec<Kind>, _> = parts().map(str::parse).collect();
                self.places = places.map_err(|_| wrong(format!("some of {names}")))?;
            }
            "--operations" => {
                let known = |part| OPERATIONS.into_iter().find(|name| *name == part);
                let operations: Option<Vec<_>> = parts().map(known).collect();
                let names = OPERATIONS.join(", ");
                self.operations = operations.ok_or_else(|| wrong(format!("some of {names}")))?;
            }
            "--columns" => {
                let known = |part: &str| Column::ALL.into_iter().find(|one| one.name() == part);
                let columns: Option<Vec<_>> = parts().map(known).collect();
                let names = Column::ALL.map(Column::name).join(", ");
                self.columns = Some(columns.ok_or_else(|| wrong(format!("some of {names}")))?);
            }
            "--iterations" => {
                let number = value.parse().ok().filter(|number| *number > 0);
                self.iterations = Some(number.ok_or_else(|| wrong("a number".to_string()))?);
            }
            "--ranks" => {
                let count = |part: &str| part.parse().ok().filter(|n| (2..=64).contains(n));
                let ranks: Option<Vec<u32>> = parts().map(count).collect();
                self.ranks = ranks.ok_or_else(|| wrong("numbers from 2 to 64".to_string()))?;
            }
            "--bytes" => {
                let size = |part: &str| part.parse().ok().filter(|bytes| *bytes >= 256);
                let sizes: Option<Vec<u64>> = parts().map(size).collect();
                let sizes = sizes.ok_or_else(|| wrong("numbers from 256 on".to_string()))?;
                self.sizes = Some(sizes);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Runs all measurements, `repeats` times by turns.
pub fn run(repeats: usize, choice: &Choice) -> io::Result<Section> {
    let has_package = choice.torch.as_deref().is_some_and(programs::has_fairway);
    let started = Instant::now();
    let runs = repeats * choice.places.len() * choice.ranks.len();
    let mut samples = Samples::default();
    let mut done = 0;
    for repeat in 0..repeats {
        for kind in &choice.places {
            for ranks in &choice.ranks {
                let place = Place::make(*kind, *ranks)?;
                let turn =
                    format!("{}, {ranks} ranks, turn {} of {repeats}", kind.name(), repeat + 1);
                for column in Column::ALL {
                    check_signals()?;
                    if choice.has(column, *kind, has_package) {
                        let seconds = started.elapsed().as_secs();
                        eprintln!("{seconds:>5} s, {turn}: {}", column.title());
                        measure(&place, *ranks, column, choice, &mut samples)?;
                    }
                }
                done += 1;
                let left = started.elapsed().as_secs_f64() * (runs - done) as f64 / done as f64;
                eprintln!("{done} of {runs} runs done, about {left:.0} s left");
            }
        }
    }
    let markdown = report::markdown(repeats, &choice.places, &samples);
    Ok(Section { name: "collectives", markdown, json: report::json(&samples) })
}

/// Measures all operations and sizes by one column.
fn measure(
    place: &Place,
    ranks: u32,
    column: Column,
    choice: &Choice,
    samples: &mut Samples,
) -> io::Result<()> {
    let (sizes, iterations) = match place.kind.is_emulated() {
        true => (NETWORK_SIZES, NETWORK_ITERATIONS),
        false => (SIZES, ITERATIONS),
    };
    let sizes = choice.sizes.as_deref().unwrap_or(sizes);
    let iterations = choice.iterations.unwrap_or(iterations);
    let without_training: Vec<_> =
        choice.operations.iter().copied().filter(|operation| *operation != TRAINING).collect();
    let all = Work { operations: &choice.operations, ranks, sizes, iterations };
    let work = Work { operations: &without_training, ..all };
    let python = choice.torch.as_deref().unwrap_or("python3".as_ref());
    let times = match column {
        Column::Native => programs::native(place, work, &[])?,
        Column::NativeUdp => programs::native(place, work, &["--datapath", "udp"])?,
        Column::Torch => programs::torch(place, all, python, "fairway")?,
        Column::Gloo => programs::torch(place, all, python, "gloo")?,
        Column::GlooCubic => {
            place.set_congestion_control(ranks, Some("cubic"))?;
            let times = programs::torch(place, all, python, "gloo");
            place.set_congestion_control(ranks, None)?;
            times?
        }
        Column::Least => least(work),
    };
    for (operation, bytes, us) in times {
        samples.add((place.kind, operation, ranks, bytes), column, us);
    }
    Ok(())
}

/// The times of threads that only copy.
fn least(work: Work<'_>) -> programs::Times {
    let each = |operation| work.sizes.iter().map(move |size| (operation, *size));
    let cells = work.operations.iter().copied().flat_map(each);
    let time = |(operation, size): (&'static str, u64)| {
        Some((operation, size, least::time_us(operation, work.ranks, size, work.iterations)?))
    };
    cells.filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_select_and_wrong_ones_name_what_there_is() {
        let mut choice = Choice::default();
        assert!(choice.set("--networks", "host,loss-0.1").expect("known"));
        assert_eq!(choice.places, [Kind::Host, Kind::LeafSpine { loss: 1000 }]);
        assert!(choice.set("--operations", "all-to-all").expect("known"));
        assert!(choice.set("--bytes", "1024,65536").expect("numbers"));
        assert!(choice.set("--iterations", "7").expect("a number"));
        assert!(choice.has(Column::Least, Kind::Host, false));
        assert!(!choice.has(Column::Least, Kind::Veth, false));
        assert!(choice.set("--columns", "gloo,gloo-cubic").expect("known"));
        assert!(!choice.has(Column::Least, Kind::Host, false));
        assert!(!choice.has(Column::Gloo, Kind::Host, true), "there is no Python");
        assert!(!choice.set("--cc", "swift").expect("another part's"));
        for (name, value, part) in [
            ("--networks", "torus", "slow-path"),
            ("--operations", "scan", "broadcast"),
            ("--ranks", "1", "from 2"),
            ("--bytes", "x", "from 256"),
            ("--columns", "nccl", "gloo-cubic"),
            ("--iterations", "0", "a number"),
        ] {
            let error = choice.set(name, value).expect_err("refused").to_string();
            assert!(error.contains(part) && error.contains(value), "{error}");
        }
    }
}
