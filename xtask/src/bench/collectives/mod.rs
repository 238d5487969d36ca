//! Collective operations: Fairway beside gloo, by turns, on this host and over emulated networks.
//!
//! gloo, and Fairway as a backend of torch, run by `front/python/tools/gloo_bench.py` with a Python
//! that has torch (`--torch PATH`, see `front/python/tools/torch_env.py`) and the package fairway;
//! without it, `fairway collective` is measured alone. All report the time at the slowest rank.

mod places;
mod programs;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::table::Spread;
use super::transactions::Section;
use crate::programs::check_signals;
use places::{Kind, Place};
use programs::Work;

const OPERATIONS: [&str; 6] =
    ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", TRAINING];
/// A step of training by torch's `DistributedDataParallel`; the bytes are those of the parameters.
const TRAINING: &str = "training-step";
/// Bytes of a buffer on this host, and over a network.
const SIZES: &[u64] = &[1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26];
const NETWORK_SIZES: &[u64] = &[1 << 10, 1 << 16, 1 << 20, 1 << 23];
/// Calls that are timed on this host, and over a network.
const ITERATIONS: u32 = 20;
const NETWORK_ITERATIONS: u32 = 5;
/// The columns: `fairway collective`, the same by UDP, torch with Fairway, and torch with gloo.
const COLUMNS: [&str; 4] = ["native", "native-udp", "torch", "gloo"];

/// The options that [`Choice::set`] takes.
pub const OPTIONS: &str = "--torch, --networks, --operations, --ranks, --bytes";

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
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            torch: None,
            places: vec![Kind::Host],
            operations: OPERATIONS.to_vec(),
            ranks: vec![2, 4],
            sizes: None,
        }
    }
}

impl Choice {
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

/// Place, operation, ranks, bytes and column.
type Cell = (Kind, &'static str, u32, u64, &'static str);
type Samples = BTreeMap<Cell, Vec<f64>>;

/// Runs all measurements, `repeats` times by turns.
pub fn run(repeats: usize, choice: &Choice) -> io::Result<Section> {
    let has_package = choice.torch.as_deref().is_some_and(programs::has_fairway);
    let mut samples = Samples::new();
    for kind in &choice.places {
        for repeat in 0..repeats {
            let place = Place::make(*kind)?;
            for operation in &choice.operations {
                for ranks in &choice.ranks {
                    check_signals()?;
                    let name = kind.name();
                    let number = repeat + 1;
                    eprint!("\r{name}, {number} of {repeats}: {operation:<14} {ranks} ranks ");
                    measure(&place, (operation, *ranks), choice, has_package, &mut samples)?;
                }
            }
        }
    }
    eprint!("\r{:70}\r", "");
    Ok(section(repeats, choice, &samples))
}

/// Measures one operation by all columns, one after the other.
fn measure(
    place: &Place,
    (operation, ranks): (&'static str, u32),
    choice: &Choice,
    has_package: bool,
    samples: &mut Samples,
) -> io::Result<()> {
    let is_network = place.kind.is_network();
    let (sizes, iterations) = match is_network {
        true => (NETWORK_SIZES, NETWORK_ITERATIONS),
        false => (SIZES, ITERATIONS),
    };
    let sizes = choice.sizes.as_deref().unwrap_or(sizes);
    let work = Work { operation, ranks, sizes, iterations };
    let mut columns = Vec::new();
    if operation != TRAINING {
        columns.push(("native", programs::native(place, work, &[])?));
    }
    if operation != TRAINING && !is_network {
        columns.push(("native-udp", programs::native(place, work, &["--datapath", "udp"])?));
    }
    if let Some(python) = &choice.torch {
        if has_package {
            columns.push(("torch", programs::torch(place, work, python, "fairway")?));
        }
        columns.push(("gloo", programs::torch(place, work, python, "gloo")?));
    }
    for (column, times) in columns {
        for (size, us) in times {
            samples.entry((place.kind, operation, ranks, size, column)).or_default().push(us);
        }
    }
    Ok(())
}

fn section(repeats: usize, choice: &Choice, samples: &Samples) -> Section {
    let (mut markdown, mut rows) = (String::new(), Vec::new());
    for kind in &choice.places {
        markdown += &format!(
            "### Collective operations, {}: us, median of {repeats} (least–most)\n\n\
             | operation | ranks | bytes | `fairway collective` | the same, UDP | torch, Fairway \
             | torch, gloo | gloo over Fairway |\n|---|---|---|---|---|---|---|---|\n",
            kind.title()
        );
        let mut cells: Vec<_> = samples
            .keys()
            .filter(|cell| cell.0 == *kind)
            .map(|cell| (cell.1, cell.2, cell.3))
            .collect();
        cells.dedup();
        for (operation, ranks, size) in cells {
            let of = |column| Spread::of(samples.get(&(*kind, operation, ranks, size, column))?);
            let columns = COLUMNS.map(of);
            let shown = columns.map(|column| column.map_or("–".into(), Spread::show)).join(" | ");
            let [native, udp, torch, gloo] =
                columns.map(|column| column.map(|spread| spread.median));
            let ratio = gloo.zip(torch).map(|(gloo, torch)| gloo / torch);
            let shown_ratio = ratio.map_or("–".into(), |ratio| format!("{ratio:.2}"));
            markdown += &format!("| {operation} | {ranks} | {size} | {shown} | {shown_ratio} |\n");
            rows.push(json!({
                "place": kind.name(), "operation": operation, "ranks": ranks, "bytes": size,
                "native_us": native, "native_udp_us": udp, "torch_us": torch, "gloo_us": gloo,
                "gloo_over_torch": ratio,
            }));
        }
        markdown.push('\n');
    }
    Section { name: "collectives", markdown, json: Value::from(rows) }
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
        assert!(!choice.set("--cc", "swift").expect("another part's"));
        for (name, value, part) in [
            ("--networks", "torus", "slow-path"),
            ("--operations", "scan", "broadcast"),
            ("--ranks", "1", "from 2"),
            ("--bytes", "x", "from 256"),
        ] {
            let error = choice.set(name, value).expect_err("refused").to_string();
            assert!(error.contains(part) && error.contains(value), "{error}");
        }
    }
}
