//! The tables: a row for each operation and number of ranks, and a column for each size.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::places::Kind;
use crate::bench::table::Spread;

/// What is measured of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// `fairway collective`.
    Native,
    /// The same, with packets by UDP on this host.
    NativeUdp,
    /// `torch.distributed` with Fairway.
    Torch,
    /// The same with gloo.
    Gloo,
    /// The same with CUBIC instead of the system's congestion control.
    GlooCubic,
    /// Threads that only copy and add.
    Least,
}

impl Column {
    pub const ALL: [Column; 6] = [
        Column::Native,
        Column::NativeUdp,
        Column::Torch,
        Column::Gloo,
        Column::GlooCubic,
        Column::Least,
    ];

    /// The name that the option takes.
    pub const fn name(self) -> &'static str {
        match self {
            Column::Native => "native",
            Column::NativeUdp => "native-udp",
            Column::Torch => "torch",
            Column::Gloo => "gloo",
            Column::GlooCubic => "gloo-cubic",
            Column::Least => "least",
        }
    }

    /// The name in a table.
    pub const fn title(self) -> &'static str {
        match self {
            Column::Native => "`fairway collective`",
            Column::NativeUdp => "`fairway collective` by UDP",
            Column::Torch => "torch with Fairway",
            Column::Gloo => "torch with gloo",
            Column::GlooCubic => "torch with gloo over CUBIC",
            Column::Least => "least copies",
        }
    }
}

/// Place, operation, ranks and bytes.
pub type Cell = (Kind, &'static str, u32, u64);

/// All times in microseconds.
#[derive(Debug, Default)]
pub struct Samples(BTreeMap<Cell, BTreeMap<Column, Vec<f64>>>);

impl Samples {
    pub fn add(&mut self, cell: Cell, column: Column, us: f64) {
        self.0.entry(cell).or_default().entry(column).or_default().push(us);
    }

    fn median(&self, cell: &Cell, column: Column) -> Option<f64> {
        Some(Spread::of(self.0.get(cell)?.get(&column)?)?.median)
    }

    /// The smaller time of gloo, by whichever congestion control.
    fn gloo(&self, cell: &Cell) -> Option<f64> {
        let both = [Column::Gloo, Column::GlooCubic].map(|column| self.median(cell, column));
        both.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// How many times as long gloo takes as Fairway.
    fn gain(&self, cell: &Cell) -> Option<f64> {
        Some(self.gloo(cell)? / self.median(cell, Column::Torch)?)
    }

    /// How many times as long Fairway takes as what bounds it.
    fn excess(&self, cell: &Cell) -> Option<f64> {
        Some(self.median(cell, Column::Torch)? / self.bound(cell)?)
    }

    /// The time of the least copies, or that of the payload on a link.
    fn bound(&self, cell: &Cell) -> Option<f64> {
        let (kind, operation, ranks, bytes) = *cell;
        self.median(cell, Column::Least).or_else(|| kind.ideal_us(operation, ranks, bytes))
    }
}

/// The tables of all places.
pub fn markdown(repeats: usize, places: &[Kind], samples: &Samples) -> String {
    let mut text = String::new();
    for kind in places {
        let columns: Vec<_> = Column::ALL.into_iter().filter(|c| has(samples, *kind, *c)).collect();
        let unit = if kind.is_emulated() { "ms" } else { "us" };
        let mut names: Vec<_> = columns.iter().map(|column| column.title()).collect();
        if kind.is_emulated() {
            names.push("ideal");
        }
        text += &format!(
            "### Collective operations, {}\n\nTimes in {unit}, medians of {repeats}: {}.\n\n",
            kind.title(),
            names.join(", ")
        );
        text += &table(*kind, samples, |cell| {
            let times = columns.iter().map(|column| samples.median(cell, *column));
            let ideal = kind.is_emulated().then(|| samples.bound(cell));
            times.chain(ideal).map(|us| us.map_or("–".into(), |us| time(*kind, us))).collect()
        });
        text += "\nHow many times as long gloo takes as Fairway (the faster of its two, by torch), and \
                 Fairway as the bound, which is the time of the least copies or of the payload.\n\n";
        text += &table(*kind, samples, |cell| {
            let both = [samples.gain(cell), samples.excess(cell)];
            both.map(|ratio| ratio.map_or("–".into(), |ratio| format!("{ratio:.1}"))).to_vec()
        });
        text.push('\n');
    }
    text
}

fn has(samples: &Samples, kind: Kind, column: Column) -> bool {
    samples.0.iter().any(|(cell, times)| cell.0 == kind && times.contains_key(&column))
}

/// A time in the unit of a place.
fn time(kind: Kind, us: f64) -> String {
    match kind.is_emulated() {
        true => format!("{:.1}", us / 1000.0),
        false => thousands(&format!("{us:.0}")),
    }
}

/// Digits with separators of thousands.
fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A table with a column for each size.
fn table(kind: Kind, samples: &Samples, of: impl Fn(&Cell) -> Vec<String>) -> String {
    let cells = || samples.0.keys().filter(|cell| cell.0 == kind);
    let mut sizes: Vec<_> = cells().map(|cell| cell.3).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let titles: Vec<_> = sizes.iter().map(|bytes| size(*bytes)).collect();
    let lines = "---|".repeat(sizes.len());
    let mut text = format!("| operation | ranks | {} |\n|---|---|{lines}\n", titles.join(" | "));
    let mut rows: Vec<_> = cells().map(|cell| (cell.1, cell.2)).collect();
    rows.dedup();
    for (operation, ranks) in rows {
        let shown = sizes.iter().map(|bytes| of(&(kind, operation, ranks, *bytes)).join(", "));
        let shown = shown.collect::<Vec<_>>().join(" | ");
        text += &format!("| {operation} | {ranks} | {shown} |\n");
    }
    text
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// All cells, with every sample.
pub fn json(samples: &Samples) -> Value {
    let rows = samples.0.iter().map(|(cell, times)| {
        let (kind, operation, ranks, bytes) = *cell;
        let times: serde_json::Map<_, _> =
            times.iter().map(|(column, times)| (column.name().to_string(), json!(times))).collect();
        json!({
            "place": kind.name(), "operation": operation, "ranks": ranks, "bytes": bytes,
            "times_us": times, "ideal_us": kind.ideal_us(operation, ranks, bytes),
            "gloo_over_torch": samples.gain(cell), "torch_over_bound": samples.excess(cell),
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_times_and_ratios() {
        let mut samples = Samples::default();
        let host = (Kind::Host, "broadcast", 2, 1 << 20);
        for us in [900.0, 1000.0, 1234.0] {
            samples.add(host, Column::Torch, us);
        }
        samples.add(host, Column::Gloo, 3000.0);
        samples.add(host, Column::Least, 500.0);
        let network = (Kind::LeafSpine { loss: 0 }, "broadcast", 4, 1_000_000);
        samples.add(network, Column::Torch, 80_000.0);
        samples.add(network, Column::Gloo, 200_000.0);
        samples.add(network, Column::GlooCubic, 160_000.0);
        let text = markdown(3, &[Kind::Host, network.0], &samples);
        for line in [
            "| operation | ranks | 1 MiB |",
            "Times in us, medians of 3: torch with Fairway, torch with gloo, least copies.",
            "| broadcast | 2 | 1,000, 3,000, 500 |",
            "| broadcast | 2 | 3.0, 2.0 |",
            "| broadcast | 4 | 80.0, 200.0, 160.0, 40.0 |",
            "| broadcast | 4 | 2.0, 2.0 |",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert_eq!(json(&samples)[0]["gloo_over_torch"], 3.0);
        assert_eq!(time(Kind::Host, 1_234_567.0), "1,234,567");
        assert_eq!(time(Kind::Host, 12.0), "12");
    }
}
