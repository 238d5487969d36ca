//! The same programs between two guests whose kernels implement RoCE (soft-RoCE), over a bridge.
//!
//! Another tool provides the guests, as for `xtask interop`. Without virtualisation they are
//! emulated, and their figures mostly show the speed of the emulator.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{BULK, figures, value};
use crate::bench::table::Spread;
use crate::interop::{GUEST, Guests};
use crate::programs::check_signals;

/// A measurement: its name, the program with its arguments, and the column of its row.
type Measure = (&'static str, &'static str, usize);

const MEASURES: &[Measure] = &[
    ("WRITE 64 KiB, Gb/s", "ib_write_bw -n 200 --report_gbits", 3),
    ("READ 64 KiB, Gb/s", "ib_read_bw -n 200 --report_gbits", 3),
    ("SEND 64 KiB, Gb/s", "ib_send_bw -n 200 --report_gbits", 3),
    ("WRITE 8 B, us", "ib_write_lat -s 8 -n 500", 4),
    ("SEND 8 B, us", "ib_send_lat -s 8 -n 500", 4),
    ("READ 8 B, us", "ib_read_lat -s 8 -n 500", 4),
];

/// Impairments that each guest applies to the packets that it sends. The kernel cannot displace
/// packets by 64 places; the closest is to send every 64th packet before the delayed ones.
const NETWORKS: &[(&str, Option<&str>)] = &[
    ("clean", None),
    ("1 % loss", Some("loss 1%")),
    ("1 ms, every 64th before its turn", Some("delay 1ms reorder 100% gap 64")),
];

/// Port at which the listening guest is checked.
const PORT: u16 = 18_515;

/// Measures everything `repeats` times, in alternation.
pub fn run(script: &Path, repeats: usize) -> io::Result<(String, Value)> {
    let guests = Guests::boot_many(script, 2)?;
    let mut samples = vec![vec![Vec::new(); NETWORKS.len()]; MEASURES.len()];
    let mut notes = Vec::new();
    for repeat in 0..repeats {
        for (column, (network, impairment)) in NETWORKS.iter().enumerate() {
            impair(&guests, *impairment)?;
            for (row, measure) in MEASURES.iter().enumerate() {
                check_signals()?;
                eprint!("\rguests: {} of {repeats}: {}, {network:<40}", repeat + 1, measure.0);
                match sample(&guests, measure) {
                    Ok(value) => samples[row][column].push(value),
                    Err(error) => notes.push(format!("{}, {network}: {error}", measure.0)),
                }
            }
        }
    }
    eprint!("\r{:90}\r", "");
    Ok(show(&samples, &notes))
}

fn impair(guests: &Guests, impairment: Option<&str>) -> io::Result<()> {
    for guest in [1, 2] {
        // There may be no rule to delete.
        guests.run_in(guest, "tc qdisc del dev eth0 root 2>/dev/null || true")?;
        if let Some(spec) = impairment {
            guests.run_in(guest, &format!("tc qdisc add dev eth0 root netem {spec}"))?;
        }
    }
    Ok(())
}

fn sample(guests: &Guests, (_, program, column): &Measure) -> io::Result<f64> {
    let size = if program.contains("-s ") { String::new() } else { format!(" -s {BULK}") };
    // Soft-RoCE's first GID is the link-local address.
    let command = format!("{program}{size} -F -x 1 -p {PORT}");
    let job = guests.spawn_in(1, &command)?;
    let asked =
        wait_for_listener(guests).and_then(|()| guests.run_in(2, &format!("{command} {GUEST}")));
    if asked.is_err() {
        // The server would wait for ever.
        guests.kill(&job)?;
    }
    let served = guests.wait_for(&job);
    let text = asked?;
    served?;
    value(&figures(&text)?, *column)
}

fn wait_for_listener(guests: &Guests) -> io::Result<()> {
    let wanted = format!(":{PORT:04X} ");
    for _ in 0..100 {
        let sockets = guests.run_in(1, "cat /proc/net/tcp /proc/net/tcp6")?;
        if sockets.lines().any(|line| line.contains(&wanted) && line.contains(" 0A ")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(io::Error::other(format!("no program listens at port {PORT} of the first guest")))
}

fn show(samples: &[Vec<Vec<f64>>], notes: &[String]) -> (String, Value) {
    let names: Vec<&str> = NETWORKS.iter().map(|(name, _)| *name).collect();
    let mut text = format!(
        "| soft-RoCE between two guests | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    let mut list = Vec::new();
    for ((name, ..), row) in MEASURES.iter().zip(samples) {
        let cells: Vec<String> = row
            .iter()
            .map(|samples| Spread::of(samples).map_or_else(String::new, Spread::show))
            .collect();
        text += &format!("| {name} | {} |\n", cells.join(" | "));
        list.push(json!({ "what": name, "networks": names, "samples": row }));
    }
    for note in notes {
        text += &format!("\nfailed: {note}\n");
    }
    (text, json!({ "rows": list, "failed": notes }))
}
