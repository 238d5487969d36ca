//! Takes one sample with the programs of others: perftest, iperf3, UCX, libfabric and the OSU
//! micro-benchmarks.

use std::io;
use std::path::Path;
use std::process::Command;

use super::interface::Interface;
use super::measure::{Bench, Figures};
use super::pair::{End, Pair, Ready};
use super::parse;
use super::subject::{Carrier, Library, Over, Perftest, Quantity};
use super::tools::{Libfabric, Osu, carrier_options};
use crate::clients::mpi;
use crate::peers::Side;
use crate::verbs::launch;

/// Number of round trips where a program counts them instead of measuring for a time: they take 0.1
/// to 1 s.
const SHORT_COUNT: u32 = 10_000;
/// Bytes of all messages of a bulk measurement, which take 0.1 to 4 s.
const BULK_BYTES: u64 = 10_000 << 16;
/// Most messages of it.
const BULK_COUNT: u64 = 40_000;
/// Most bulk messages of a ping-pong, and bytes of them all in one direction.
const BULK_PINGS: u64 = 2_000;
const BULK_PING_BYTES: u64 = 8 * (BULK_PINGS << 16);
const WARM_UP: u32 = 200;

/// The two sides of a program that is started twice.
struct Twice<'a> {
    program: &'a Path,
    arguments: Vec<String>,
    /// Arguments of the server and of the client alone.
    own: [Vec<String>; 2],
    environment: [Vec<(&'static str, String)>; 2],
    /// Options of `fairway run` for each side; `None` if the program runs without the library.
    verbs: Option<[Vec<String>; 2]>,
    port: u16,
    end: End,
}

impl Bench<'_> {
    /// Starts a program as server and as client, each pinned. Returns the client's output.
    fn twice(&self, twice: Twice<'_>) -> io::Result<String> {
        let sides = [&self.place.sides.listener, &self.place.sides.driver];
        let [server, client] = [0, 1].map(|end| self.side(&twice, sides[end], end));
        let client = Box::new(|_: &str| Ok(client));
        let ready = Ready::Listens(twice.port);
        let [_, text] = self.runner.pair(Pair { server, ready, end: twice.end, client })?;
        Ok(text)
    }

    fn side(&self, twice: &Twice<'_>, side: &Side, end: usize) -> Command {
        let mut command = self.pinned(side);
        if let Some(options) = &twice.verbs {
            command.arg(&self.tool).arg("run").args(&options[end]).arg("--");
        }
        command.arg(twice.program).args(&twice.arguments).args(&twice.own[end]);
        command.envs(twice.environment[end].iter().map(|(name, value)| (name, value)));
        command
    }

    /// Options of `fairway run` for both sides.
    fn verbs(carrier: Carrier, interfaces: [&Interface; 2]) -> [Vec<String>; 2] {
        interfaces.map(|interface| {
            let options = carrier_options(carrier).iter().map(|option| (*option).to_owned());
            options.chain(["--device".to_owned(), interface.address.clone()]).collect()
        })
    }

    fn interfaces(&self) -> [&Interface; 2] {
        [&self.interfaces.listener, &self.interfaces.driver]
    }

    /// A program of perftest.
    pub fn perftest(&self, program: Perftest, carrier: Carrier) -> io::Result<Figures> {
        let seconds = self.duration.as_secs().max(1).to_string();
        let timed = ["-D", &seconds];
        let count = SHORT_COUNT.to_string();
        let counted = ["-n", &count];
        let (name, bytes, options) = match program {
            Perftest::Write64K => ("ib_write_bw", "65536", [&timed[..], &["--report_gbits"]]),
            // As many messages in flight as `fairway perf` has.
            Perftest::WriteMebibyte => {
                ("ib_write_bw", "1048576", [&timed[..], &["--report_gbits", "-t", "16"]])
            }
            Perftest::Send64K => ("ib_send_bw", "65536", [&timed[..], &["--report_gbits"]]),
            Perftest::Write8 => ("ib_write_bw", "8", [&timed[..], &[]]),
            Perftest::SendLatency => ("ib_send_lat", "8", [&counted[..], &[]]),
            Perftest::WriteLatency => ("ib_write_lat", "8", [&counted[..], &[]]),
        };
        let port = launch::free_port()?;
        let port_text = port.to_string();
        let common = ["-F", "-m", "4096", "-s", bytes, "-p", &port_text];
        let text = self.twice(Twice {
            program: name.as_ref(),
            arguments: words(&[&common[..], options[0], options[1]].concat()),
            own: [vec![], vec![self.host()]],
            environment: [vec![], vec![]],
            verbs: Some(Self::verbs(carrier, self.interfaces())),
            port,
            end: End::Itself,
        })?;
        match program {
            Perftest::SendLatency | Perftest::WriteLatency => {
                let row = parse::perftest_latency(&text)?;
                let figures = Figures::small(row.typical, 2.0 * row.iterations);
                Ok(Figures { average_us: Some(row.average), tail_us: Some(row.tail), ..figures })
            }
            Perftest::Write8 => {
                let row = parse::perftest_bandwidth(&text)?;
                Ok(Figures::small(row.mops, row.iterations))
            }
            _ => {
                let row = parse::perftest_bandwidth(&text)?;
                let size: f64 = bytes.parse().map_err(io::Error::other)?;
                Ok(Figures::bulk(row.average, row.iterations * size))
            }
        }
    }

    /// The listener's address.
    fn host(&self) -> String {
        self.place.sides.listener.bind.to_string()
    }

    /// One TCP stream of iperf3.
    pub fn iperf3(&self) -> io::Result<Figures> {
        let program = there(&self.tools.iperf3)?;
        let port = launch::free_port()?;
        let seconds = self.duration.as_secs().max(1).to_string();
        let text = self.twice(Twice {
            program,
            arguments: words(&["-J", "-p", &port.to_string()]),
            own: [words(&["-s", "-1"]), words(&["-t", &seconds, "-c", &self.host()])],
            environment: [vec![], vec![]],
            verbs: None,
            port,
            end: End::Itself,
        })?;
        let (rate, bytes) = parse::iperf3(&text)?;
        Ok(Figures::bulk(rate, bytes))
    }

    /// A library's benchmark.
    pub fn library(&self, library: Library, quantity: Quantity, over: Over) -> io::Result<Figures> {
        match library {
            Library::Ucx => self.ucx(quantity, over),
            Library::Libfabric => self.libfabric(quantity, over),
            Library::Osu => self.osu(quantity, over),
        }
    }

    fn ucx(&self, quantity: Quantity, over: Over) -> io::Result<Figures> {
        let program = there(&self.tools.ucx)?;
        let port = launch::free_port()?;
        let (test, count) = match quantity {
            Quantity::Latency(_) => ("tag_lat", SHORT_COUNT),
            Quantity::Bandwidth(bytes) => ("tag_bw", (BULK_BYTES / bytes).min(BULK_COUNT) as u32),
        };
        let bytes = quantity.bytes().to_string();
        let (count_text, warm_up) = (count.to_string(), WARM_UP.min(count).to_string());
        let port_text = port.to_string();
        let arguments =
            ["-f", "-t", test, "-s", &bytes, "-n", &count_text, "-w", &warm_up, "-p", &port_text];
        let text = self.twice(Twice {
            program,
            arguments: words(&arguments),
            own: [vec![], vec![self.host()]],
            environment: self.interfaces().map(|interface| ucx_environment(over, interface, "")),
            verbs: match over {
                Over::Verbs(carrier) => Some(Self::verbs(carrier, self.interfaces())),
                _ => None,
            },
            port,
            end: End::Itself,
        })?;
        let (microseconds, rate) = parse::ucx(&text)?;
        Ok(match quantity {
            Quantity::Latency(_) => Figures::small(microseconds, 2.0 * f64::from(count)),
            Quantity::Bandwidth(bytes) => Figures::bulk(rate, bytes as f64 * f64::from(count)),
        })
    }

    fn libfabric(&self, quantity: Quantity, over: Over) -> io::Result<Figures> {
        let tools = there(&self.tools.libfabric)?;
        let port = launch::free_port()?;
        let pings = match quantity {
            Quantity::Latency(_) => SHORT_COUNT,
            Quantity::Bandwidth(bytes) => (BULK_PING_BYTES / bytes).min(BULK_PINGS) as u32,
        };
        let bytes_text = quantity.bytes().to_string();
        let interfaces = match (over, &self.interfaces.libfabric) {
            (Over::Verbs(_), Ok([listener, driver])) => [listener, driver],
            (Over::Verbs(_), Err(reason)) => return Err(io::Error::other(reason.clone())),
            _ => self.interfaces(),
        };
        let host = interfaces[0].address.clone();
        let provider = match over {
            Over::Tcp => "tcp",
            Over::Udp => "udp;ofi_rxd",
            Over::SharedMemory => "shm",
            Over::Verbs(_) => "verbs;ofi_rxm",
        };
        let pings_text = pings.to_string();
        let mut arguments = words(&["-p", provider, "-S", &bytes_text, "-I", &pings_text]);
        let (program, own, messages) = match (tools, quantity) {
            (Libfabric::Pingpong(program), _) => {
                arguments.extend(words(&["-e", "rdm"]));
                let port = port.to_string();
                (program, [words(&["-B", &port]), words(&["-P", &port, &host])], 2.0)
            }
            (Libfabric::Fabtests { latency, .. }, Quantity::Latency(_)) => {
                arguments.push(format!("-E={port}"));
                (latency, [vec![], vec![host]], 2.0)
            }
            (Libfabric::Fabtests { bandwidth, .. }, Quantity::Bandwidth(_)) => {
                arguments.extend(words(&["-o", "write", &format!("-E={port}")]));
                (bandwidth, [vec![], vec![host]], 1.0)
            }
        };
        let text = self.twice(Twice {
            program,
            arguments,
            own,
            environment: [vec![], vec![]],
            verbs: match over {
                Over::Verbs(carrier) => Some(Self::verbs(carrier, interfaces)),
                _ => None,
            },
            port,
            end: End::Itself,
        })?;
        let (microseconds, rate) = parse::libfabric(&text)?;
        Ok(match quantity {
            Quantity::Latency(_) => Figures::small(microseconds, messages * f64::from(pings)),
            Quantity::Bandwidth(bytes) => {
                Figures::bulk(rate, messages * f64::from(pings) * bytes as f64)
            }
        })
    }

    fn osu(&self, quantity: Quantity, over: Over) -> io::Result<Figures> {
        let tools = there(&self.tools.osu)?;
        let Osu { latency, bandwidth, mpirun } = tools;
        let bytes = quantity.bytes();
        let (program, iterations, warm_up) = match quantity {
            Quantity::Latency(_) => (latency, 5_000, 200),
            // Each iteration is a window of 64 messages.
            Quantity::Bandwidth(_) => (bandwidth, 50, 5),
        };
        let mut command = match over {
            Over::Verbs(carrier) => {
                let mut command = Command::new(&self.tool);
                let [options, _] = Self::verbs(carrier, self.interfaces());
                command.arg("run").args(options).arg("--").arg(mpirun);
                command
            }
            _ => Command::new(mpirun),
        };
        command.args(["-n", "2", "--map-by", "core", "--bind-to", "core"]);
        // No remote shells.
        command.args(["--mca", "plm", "isolated"]);
        if matches!(over, Over::Verbs(_)) {
            command.args(["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self"]);
            command.envs(ucx_environment(over, self.interfaces()[0], ",self"));
        } else {
            command.args(["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"]);
            command.args(["--mca", "btl_tcp_if_include", &self.interfaces()[0].name]);
        }
        command.envs(mpi::allow_root()).arg(&program.path);
        if program.sized {
            command.args(["-m", &format!("{bytes}:{bytes}")]);
        }
        command.args(["-i", &iterations.to_string(), "-x", &warm_up.to_string()]);
        // A program without the option measures larger sizes afterwards, which would take minutes.
        let suffices = |text: &str| !program.sized && parse::osu(text, bytes).is_ok();
        let figure = parse::osu(&self.runner.until(command, &suffices)?, bytes)?;
        let figures = match quantity {
            Quantity::Latency(_) => Figures::small(figure, 2.0 * f64::from(iterations)),
            Quantity::Bandwidth(bytes) => {
                Figures::bulk(figure * 8e-3, 64.0 * f64::from(iterations) * bytes as f64)
            }
        };
        // Without the option, the CPU time is that of smaller sizes as well.
        Ok(Figures { work: figures.work.filter(|_| program.sized), ..figures })
    }
}

/// UCX's choice of transports and devices; `more` is appended to the transports of the verbs.
fn ucx_environment(over: Over, interface: &Interface, more: &str) -> Vec<(&'static str, String)> {
    let (transports, device) = match over {
        Over::SharedMemory => return vec![("UCX_TLS", "posix,sysv,cma".to_owned())],
        Over::Tcp | Over::Udp => ("tcp".to_owned(), interface.name.clone()),
        Over::Verbs(_) => (format!("rc_verbs,ud_verbs{more}"), format!("{}:1", interface.device)),
    };
    vec![("UCX_TLS", transports), ("UCX_NET_DEVICES", device)]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A program that has been found, or the reason why it is not there as an error.
fn there<T>(found: &Result<T, String>) -> io::Result<&T> {
    found.as_ref().map_err(|reason| io::Error::other(reason.clone()))
}
