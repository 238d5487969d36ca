//! The cells of the matrix, and their selection.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Rates, in Mb/s.
const RATES: [u32; 3] = [50, 200, 1000];
/// Round trips, in microseconds.
const ROUND_TRIPS_US: [u32; 3] = [200, 4000, 40_000];
/// Losses per million packets.
const LOSSES: [u32; 3] = [0, 1000, 10_000];
/// Queue lengths in per cent of the bandwidth-delay product.
const QUEUES: [u32; 3] = [25, 100, 400];
/// Minimum capacity of a queue in packets, however short the path.
pub const QUEUE_PACKETS_MIN: u32 = 16;

/// A network: the properties of the link to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub megabits: u32,
    pub round_trip_us: u32,
    /// Lost packets per million, in each direction.
    pub loss: u32,
    pub queue_percent: u32,
}

const fn cell(megabits: u32, round_trip_us: u32, loss: u32, queue_percent: u32) -> Cell {
    Cell { megabits, round_trip_us, loss, queue_percent }
}

/// The small selection: the most informative cells for the time that they take.
const SMALL: [Cell; 12] = [
    cell(50, 4000, 1000, 25),
    cell(50, 40_000, 0, 400),
    cell(200, 200, 0, 100),
    cell(200, 200, 10_000, 100),
    cell(200, 4000, 0, 25),
    cell(200, 4000, 0, 100),
    cell(200, 4000, 0, 400),
    cell(200, 4000, 10_000, 100),
    cell(200, 40_000, 0, 100),
    cell(200, 40_000, 10_000, 100),
    cell(1000, 200, 0, 100),
    cell(1000, 4000, 1000, 100),
];

impl Cell {
    /// Bandwidth-delay product in bytes.
    pub fn product_bytes(self) -> u64 {
        u64::from(self.megabits) * u64::from(self.round_trip_us) / 8
    }

    /// Capacity of the queue in bytes, for packets of at most `packet_bytes`.
    pub fn queue_bytes(self, packet_bytes: u32) -> u64 {
        let queue = self.product_bytes() * u64::from(self.queue_percent) / 100;
        queue.max(u64::from(QUEUE_PACKETS_MIN) * u64::from(packet_bytes))
    }

    pub fn round_trip(self) -> Duration {
        Duration::from_micros(self.round_trip_us.into())
    }

    /// The cell as columns of the table.
    pub fn columns(self) -> [String; 4] {
        [
            self.megabits.to_string(),
            shortest(self.round_trip_us, 1000),
            shortest(self.loss, 10_000),
            shortest(self.queue_percent, 100),
        ]
    }

    pub fn json(self) -> Value {
        json!({
            "mbps": self.megabits,
            "rtt_us": self.round_trip_us,
            "loss_per_million": self.loss,
            "queue_percent_of_product": self.queue_percent,
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rate, round_trip, loss, queue] = self.columns();
        write!(f, "{rate} Mb/s, {round_trip} ms, {loss} % loss, queue {queue}")
    }
}

/// A quotient without trailing zeros.
fn shortest(number: u32, by: u32) -> String {
    (f64::from(number) / f64::from(by)).to_string()
}

/// A list of values is invalid; the text describes valid ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellError(&'static str);

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "give {}", self.0)
    }
}

impl std::error::Error for CellError {}

/// Selected cells: the small selection, all 81, or those with the values that the user gives.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub full: bool,
    rates: Option<Vec<u32>>,
    round_trips_us: Option<Vec<u32>>,
    losses: Option<Vec<u32>>,
    queues: Option<Vec<u32>>,
}

impl Selection {
    /// Sets `--rate`, `--rtt`, `--loss` or `--queue`.
    ///
    /// # Errors
    /// The value is invalid; the error describes valid ones.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), CellError> {
        let (list, parts, least, most, takes) = match name {
            "--rate" => (&mut self.rates, 1.0, 1, 10_000, "Mb/s from 1 to 10000, as 50,200"),
            "--rtt" => {
                let takes = "milliseconds from 0.008 to 1000, as 0.2,40";
                (&mut self.round_trips_us, 1000.0, 8, 1_000_000, takes)
            }
            "--loss" => (&mut self.losses, 10_000.0, 0, 500_000, "percent up to 50, as 0,0.1"),
            _ => {
                let takes = "bandwidth-delay products from 0.01 to 100, as 0.25,1";
                (&mut self.queues, 100.0, 1, 10_000, takes)
            }
        };
        let one = |text: &str| {
            let number = (text.parse::<f64>().ok()? * parts).round();
            (f64::from(least)..=f64::from(most)).contains(&number).then_some(number as u32)
        };
        let values: Option<Vec<u32>> = value.split(',').map(one).collect();
        *list = Some(values.ok_or(CellError(takes))?);
        Ok(())
    }

    /// The cells, in the order in which they are measured.
    pub fn cells(&self) -> Vec<Cell> {
        let lists = [&self.rates, &self.round_trips_us, &self.losses, &self.queues];
        if !self.full && lists.iter().all(|list| list.is_none()) {
            return SMALL.to_vec();
        }
        let all = [&RATES, &ROUND_TRIPS_US, &LOSSES, &QUEUES];
        let [rates, round_trips_us, losses, queues] =
            std::array::from_fn(|at| lists[at].as_deref().unwrap_or(all[at]));
        let mut cells = Vec::new();
        for &megabits in rates {
            for &round_trip_us in round_trips_us {
                for &loss in losses {
                    cells.extend(
                        queues.iter().map(|&queue| cell(megabits, round_trip_us, loss, queue)),
                    );
                }
            }
        }
        cells
    }

    /// True if flows of this cell are also measured beside TCP. In the small selection only some
    /// are.
    pub fn is_shared(&self, cell: Cell) -> bool {
        let is_small = self.cells().len() == SMALL.len();
        !is_small || (cell.megabits == 200 && cell.loss == 0 && cell.queue_percent == 100)
    }
}

#[cfg(test)]
mod tests {
    use super::{Selection, cell};

    #[test]
    fn full_matrix_has_81_cells_and_small_form_12_of_them() {
        let full = Selection { full: true, ..Selection::default() }.cells();
        let small = Selection::default().cells();
        assert_eq!((full.len(), small.len()), (81, 12));
        assert!(small.iter().all(|cell| full.contains(cell)));
    }

    #[test]
    fn selection_with_one_value_of_each_kind_is_one_cell() {
        let mut selection = Selection::default();
        for (name, value) in
            [("--rate", "100"), ("--rtt", "0.2"), ("--loss", "0.1"), ("--queue", "0.5")]
        {
            selection.set(name, value).unwrap();
        }
        assert_eq!(selection.cells(), [cell(100, 200, 1000, 50)]);
        assert_eq!(selection.cells()[0].product_bytes(), 2500);
        assert_eq!(selection.cells()[0].queue_bytes(4300), 16 * 4300);
        for (name, value) in [("--rate", "0"), ("--rtt", "x"), ("--loss", "51"), ("--queue", "1,")]
        {
            assert!(selection.set(name, value).is_err(), "{name} {value}");
        }
    }
}
