//! One stream over one slow link, with the timing and limits of live hosts: does a congestion
//! controller fill the link whatever its rate, round trip, queue and loss?
//!
//! `cargo test --release -p fairway-sim --test networks -- --ignored --nocapture` prints the whole
//! matrix; `POLICIES="cc=eqds:line=RATE"` selects other policies than `cc=cubic`, and `SEED=2`
//! other losses. `SEED=1,2,3` prints the least and the mean of three runs, and `RATES`,
//! `ROUND_TRIPS`, `LOSSES` and `QUEUES` are lists that replace those below.

use fairway_sim::{Clos, Marking, QueueSpec, Report, Scenario, Simulation, Stream, Verb};
use fairway_ub::policy::{CongestionSpec, CubicParameters, PolicySpec, Share};
use fairway_ub::{Limits, Profile};

const RATES_MBPS: [u64; 3] = [50, 200, 1000];
const ROUND_TRIPS_US: [u64; 3] = [200, 4000, 40_000];
/// Losses per 10,000 packets.
const LOSSES: [u64; 3] = [0, 10, 100];
/// Queues, in hundredths of a bandwidth-delay product.
const QUEUES: [u64; 3] = [25, 100, 400];
/// Minimum length of a queue: eight packets.
const QUEUE_MIN_BYTES: u64 = 32 * 1024;
const PICOSECONDS: u64 = 1_000_000_000_000;
/// The host at the slow link.
const RECEIVER: u32 = 7;

/// A link and its properties.
#[derive(Clone, Copy, Debug)]
struct Cell {
    megabits: u64,
    round_trip_us: u64,
    loss: u64,
    queue_percent: u64,
}

/// Result of a stream over the link.
struct Got {
    /// Throughput as a share of the link's rate, in thousandths; headers take 28.
    permille: u64,
    report: Report,
}

impl Cell {
    fn scenario(self, policy: &str) -> Scenario {
        let clos = Clos::three_tiers(8, 1).expect("a fat tree");
        // Six links in each direction.
        let latency_ps = self.round_trip_us * 1_000_000 / 12;
        let mut network = clos.build(10 * self.megabits, latency_ps);
        for link in network.links.iter_mut().filter(|link| link.to == RECEIVER) {
            link.megabits = self.megabits;
        }
        let mut scenario = Scenario::new(network, Vec::new());
        let product = self.megabits * self.round_trip_us / 8;
        let bytes = (product * self.queue_percent / 100).max(QUEUE_MIN_BYTES) as u32;
        let marking = Marking::Off;
        scenario.queue = QueueSpec { bytes, control_bytes: 1 << 20, marking, ..scenario.queue };
        scenario.paths = 8;
        scenario.chunk = None;
        scenario.policy = Some(policy.parse::<PolicySpec>().expect("a policy").into());
        scenario.profile = Some(Profile::default());
        scenario.window_packets = Some(Limits::default().window_packets);
        scenario.loss = ((self.loss << 32) / 10_000) as u32;
        scenario.end_ps = (self.round_trip_us * 150 / 1_000_000).max(2) * PICOSECONDS;
        scenario.measure_ps = scenario.end_ps / 4;
        scenario.streams.push(Stream {
            source: 0,
            destination: RECEIVER,
            verb: Verb::Write,
            bytes: 1 << 20,
            depth: 64,
            order: fairway_ub::OrderRequest::default(),
            start_ps: 0,
            end_ps: scenario.end_ps,
            megabits: None,
            share: Share::default(),
            hint: None,
            paths: None,
            policy: None,
        });
        scenario
    }

    fn rate(self) -> String {
        format!("{}Mbps", self.megabits)
    }

    fn run(self, policy: &str, seed: u64) -> Got {
        let scenario = Scenario { seed, ..self.scenario(policy) };
        let mut simulation = Simulation::new(scenario, 1).expect("a run");
        let report = simulation.run(u32::MAX, |_| ());
        let permille = report.streams[0].megabits() as u64 * 1000 / self.megabits;
        Got { permille, report }
    }
}

/// All combinations of these rates, round trips, losses and queues.
fn cells_of(rates: &[u64], round_trips: &[u64], losses: &[u64], queues: &[u64]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &megabits in rates {
        for &round_trip_us in round_trips {
            for &loss in losses {
                let cell = |&queue_percent| Cell { megabits, round_trip_us, loss, queue_percent };
                cells.extend(queues.iter().map(cell));
            }
        }
    }
    cells
}

/// All cells of the matrix.
fn cells() -> Vec<Cell> {
    cells_of(&RATES_MBPS, &ROUND_TRIPS_US, &LOSSES, &QUEUES)
}

/// Checks that the stream gets at least nine tenths of the line's rate and that fewer than one
/// packet in a thousand is retransmitted needlessly. In a policy, `RATE` stands for the link's.
fn check(policy: &str, cell: Cell) {
    let Got { permille, report } = cell.run(&policy.replace("RATE", &cell.rate()), 1);
    assert!(permille >= 900, "{policy}, {cell:?}: {permille} of 1000");
    let (sent, spurious) = (report.data_sent, report.spurious);
    assert!(spurious * 1000 <= sent, "{policy}, {cell:?}: {spurious} of {sent} for nothing");
}

#[test]
fn cubic_fills_a_link_of_200_megabits_whatever_its_distance_loss_and_queue() {
    for cell in cells().into_iter().filter(|cell| cell.megabits == 200) {
        check("cc=cubic", cell);
    }
}

/// A packet that is lost holds up the window of sequence numbers until it has been retransmitted,
/// and one that is lost again for another round trip. With windows of 4,096 packets, 0.9 of the
/// product of rate and round trip, a quarter of the rate was left here.
#[test]
fn cubic_fills_a_link_with_many_packets_in_flight_at_one_percent_loss() {
    let fast = Cell { megabits: 10_000, round_trip_us: 4_000, loss: 100, queue_percent: 100 };
    let scenario = Scenario { mtu: 1024, ..fast.scenario("cc=cubic") };
    let mut simulation = Simulation::new(scenario, 1).expect("a run");
    let permille = simulation.run(u32::MAX, |_| ()).streams[0].megabits() as u64 / 10;
    assert!(permille >= 800, "{permille} of 1000");
}

/// The default congestion controller, of a specification that names none.
#[test]
fn default_is_cubic() {
    let default: PolicySpec = "path=spray".parse().expect("a policy");
    assert_eq!(default.congestion, CongestionSpec::Cubic(CubicParameters::default()));
}

#[test]
fn eqds_fills_a_link_of_200_megabits_whatever_its_distance_loss_and_queue() {
    for cell in cells().into_iter().filter(|cell| cell.megabits == 200) {
        check("cc=eqds:line=RATE", cell);
    }
}

#[test]
fn cubic_fills_slow_and_fast_links_with_loss() {
    let lossy = |cell: &Cell| cell.megabits != 200 && cell.loss == 100;
    for cell in cells().into_iter().filter(lossy) {
        check("cc=cubic", cell);
    }
}

/// The numbers in an environment variable, separated by commas.
fn numbers(variable: &str, default: &[u64]) -> Vec<u64> {
    let parse = |text: String| {
        text.split(',').map(|number| number.parse().expect("numbers and commas")).collect()
    };
    std::env::var(variable).map_or_else(|_| default.to_vec(), parse)
}

#[test]
#[ignore = "prints the whole matrix"]
fn matrix() {
    let policies = std::env::var("POLICIES").unwrap_or_else(|_| String::from("cc=cubic"));
    let (seeds, rates) = (numbers("SEED", &[1]), numbers("RATES", &RATES_MBPS));
    let trips = numbers("ROUND_TRIPS", &ROUND_TRIPS_US);
    let (losses, queues) = (numbers("LOSSES", &LOSSES), numbers("QUEUES", &QUEUES));
    for policy in policies.split_whitespace() {
        println!(
            "{policy}: Mb/s, round trip in us, loss in 10,000, queue in %: of the line in 1000, \
             least and mean of the seeds; of all seeds: sent, again, for nothing, time-outs"
        );
        for cell in cells_of(&rates, &trips, &losses, &queues) {
            let Cell { megabits, round_trip_us, loss, queue_percent } = cell;
            let policy = policy.replace("RATE", &cell.rate());
            let all: Vec<Got> = seeds.iter().map(|seed| cell.run(&policy, *seed)).collect();
            let least = all.iter().map(|got| got.permille).min().unwrap_or(0);
            let mean = all.iter().map(|got| got.permille).sum::<u64>() / all.len() as u64;
            let sum = |count: fn(&Report) -> u64| all.iter().map(|got| count(&got.report)).sum();
            let [sent, again]: [u64; 2] =
                [sum(|report| report.data_sent), sum(|report| report.resent)];
            let [spurious, late]: [u64; 2] =
                [sum(|report| report.spurious), sum(|report| report.timeouts)];
            println!(
                "{megabits:5} {round_trip_us:6} {loss:4} {queue_percent:4}: {least:4} {mean:4}; \
                 {sent} {again} {spurious} {late}"
            );
        }
    }
}
