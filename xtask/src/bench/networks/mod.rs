//! One flow over emulated networks with a rate, a round trip, losses and a queue: TCP and Fairway's
//! congestion controls alternate, alone and beside a TCP flow.
//!
//! Each cell of the matrix has its own network (`fairway emulate --topology`, so it requires root):
//! a leaf-spine of four hosts, of which host 3 receives over the slowest link. All bytes that
//! Fairway moves are compared.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use super::transactions::Section;
use crate::programs::check_signals;

mod cells;
mod emulator;
mod flows;
mod running;
mod table;

pub use cells::Cell;
pub use emulator::Emulator;
use flows::{Controller, Flow, Sample};
pub use running::Running;

/// Default congestion controls, by their names in the table.
const CONTROLLERS: [&str; 3] = ["default", "cubic", "eqds"];
/// Congestion controls of TCP, in the order of the raw peer's numbers.
pub const TCP_CONTROLLERS: [&str; 4] = ["system", "reno", "cubic", "bbr"];

/// Selected measurements and their parameters.
#[derive(Clone, Debug)]
pub struct Choice {
    pub cells: cells::Selection,
    controllers: Vec<Controller>,
    /// Index in [`TCP_CONTROLLERS`].
    tcp_controller: usize,
    /// MTU of the hosts' interfaces.
    mtu: u32,
    /// Rate of all links but the slowest, as a multiple of its rate.
    speedup: u32,
    alone: bool,
    beside: bool,
    repeats: usize,
    /// Duration of a measurement; the default depends on the round trip.
    duration: Option<Duration>,
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            cells: cells::Selection::default(),
            controllers: CONTROLLERS.map(|name| Controller::Fairway(name.to_owned())).to_vec(),
            tcp_controller: 0,
            mtu: 4300,
            speedup: 4,
            alone: true,
            beside: true,
            repeats: 1,
            duration: None,
        }
    }
}

/// The options of this part, for error messages.
pub const OPTIONS: &str = "--rate, --rtt, --loss, --queue, --cc, --mode, --tcp, --mtu or --speedup";

impl Choice {
    /// Sets an option of this part. `Ok(false)` if it is not one of them.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> io::Result<bool> {
        let wrong = |remedy: &str| super::wrong(value, remedy);
        match name {
            "--rate" | "--rtt" | "--loss" | "--queue" => {
                self.cells.set(name, value).map_err(|error| wrong(&error.to_string()))?;
            }
            "--cc" => {
                let controllers: Option<Vec<Controller>> =
                    value.split(',').map(Controller::parse).collect();
                let remedy = "behind tcp: choose system, reno, cubic or bbr";
                self.controllers = controllers.ok_or_else(|| wrong(remedy))?;
            }
            "--mode" => {
                (self.alone, self.beside) = match value {
                    "alone" => (true, false),
                    "beside" => (false, true),
                    "both" => (true, true),
                    _ => return Err(wrong("choose alone, beside or both")),
                };
            }
            "--tcp" => {
                let number = TCP_CONTROLLERS.iter().position(|controller| *controller == value);
                self.tcp_controller =
                    number.ok_or_else(|| wrong("choose system, reno, cubic or bbr"))?;
            }
            "--mtu" => {
                let mtu = value.parse().ok().filter(|mtu| (1280..=9000).contains(mtu));
                self.mtu = mtu.ok_or_else(|| wrong("give 1280 to 9000 bytes"))?;
            }
            "--speedup" => {
                let speedup = value.parse().ok().filter(|speedup| (1..=100).contains(speedup));
                self.speedup = speedup.ok_or_else(|| wrong("give 1 to 100"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets the number and the duration of the measurements, if the user has given them.
    pub fn take(&mut self, repeats: Option<usize>, duration: Option<Duration>) {
        self.repeats = repeats.unwrap_or(self.repeats);
        self.duration = duration;
    }

    /// The flows of a cell, in the order in which they alternate.
    fn flows(&self, cell: Cell) -> Vec<Flow> {
        let controllers = || self.controllers.iter().cloned();
        let mut flows = Vec::new();
        if self.alone {
            flows.push(Flow { controller: Controller::Tcp, beside_tcp: false });
            flows.extend(controllers().map(|controller| Flow { controller, beside_tcp: false }));
        }
        if self.beside && (!self.alone || self.cells.is_shared(cell)) {
            flows.push(Flow { controller: Controller::Tcp, beside_tcp: true });
            flows.extend(controllers().map(|controller| Flow { controller, beside_tcp: true }));
        }
        flows
    }

    fn duration_for(&self, cell: Cell) -> Duration {
        self.duration.unwrap_or_else(|| (cell.round_trip() * 100).max(Duration::from_secs(2)))
    }

    /// A sentence with the parameters that the rows share.
    fn describe(&self) -> String {
        let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        let controller = match TCP_CONTROLLERS[self.tcp_controller] {
            "system" => system.unwrap_or_default().trim().to_owned(),
            name => name.to_owned(),
        };
        format!(
            "TCP is the kernel's with {controller}. Interfaces take {} bytes. Links but the receiver's are {} \
             times as fast. A queue has room for at least {} packets.",
            self.mtu,
            self.speedup,
            cells::QUEUE_PACKETS_MIN
        )
    }
}

/// Results of one flow of a cell.
struct Row {
    cell: Cell,
    flow: Flow,
    samples: Vec<Sample>,
    /// Errors of failed repetitions.
    errors: Vec<String>,
}

/// Measures all cells; the errors of a failed cell appear in the table.
pub fn run(choice: &Choice) -> io::Result<Section> {
    let cells = choice.cells.cells();
    let mut rows = Vec::new();
    let mut networks: Vec<Value> = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let place = format!("cell {} of {}, {cell}", number + 1, cells.len());
        let mut own: Vec<Row> =
            choice.flows(*cell).into_iter().map(|flow| Row::of(*cell, flow)).collect();
        match Emulator::start(*cell, choice.mtu, choice.speedup) {
            Ok(mut emulator) => {
                measure(choice, &emulator, &mut own, &place)?;
                let counters = emulator.stop().unwrap_or_else(|error| json!(error.to_string()));
                networks.push(json!({ "cell": cell.json(), "emulator": counters }));
            }
            Err(error) => {
                check_signals()?;
                eprintln!("{place}: {error}");
                own.iter_mut().for_each(|row| row.errors.push(error.to_string()));
            }
        }
        rows.extend(own);
    }
    let markdown = format!("{}\n\n{}", choice.describe(), table::markdown(&rows));
    let rows = table::json(&rows);
    let json = json!({ "setting": choice.describe(), "rows": rows, "networks": networks });
    Ok(Section { name: "networks", markdown, json })
}

/// Measures the flows of a cell in alternation.
fn measure(choice: &Choice, emulator: &Emulator, rows: &mut [Row], place: &str) -> io::Result<()> {
    for _ in 0..choice.repeats {
        for row in rows.iter_mut() {
            check_signals()?;
            let duration = choice.duration_for(row.cell);
            let outcome = row.flow.run(emulator, row.cell, choice.tcp_controller, duration);
            check_signals()?;
            match outcome {
                Ok(sample) => {
                    eprintln!("{place}: {}: {:.1} Mb/s", row.flow, sample.mbps);
                    row.samples.push(sample);
                }
                Err(error) => {
                    eprintln!("{place}: {}: {error}", row.flow);
                    row.errors.push(error.to_string());
                }
            }
        }
    }
    Ok(())
}

impl Row {
    fn of(cell: Cell, flow: Flow) -> Self {
        Row { cell, flow, samples: Vec::new(), errors: Vec::new() }
    }
}
