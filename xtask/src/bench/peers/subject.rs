//! The measurements of this part: what is measured, over what, and in which unit.

use std::fmt;

/// Work of `fairway perf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Native {
    /// WRITEs of 1 MiB.
    BulkMebibyte,
    /// WRITEs of 64 KiB.
    Bulk64K,
    /// SEND of 64 B to and fro.
    SendHalf,
    /// WRITE of 64 B, until it has completed.
    WriteRoundTrip,
    /// WRITEs of 8 B, many in flight.
    Write8,
    /// WRITEs of 64 B, many in flight.
    Write64,
}

/// Carrier of Fairway's packets, and of the verbs library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// Fairway's protocol over UDP.
    Fairway,
    /// Fairway's protocol over shared memory.
    SharedMemory,
    /// Fairway's protocol in frames past the kernel's network stack.
    Frames,
    /// RoCE over UDP.
    Roce,
}

/// Program of perftest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Perftest {
    Write64K,
    WriteMebibyte,
    Send64K,
    Write8,
    SendLatency,
    WriteLatency,
}

/// What an RDMA library is measured over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Over {
    /// The library's own TCP.
    Tcp,
    /// The library's own reliable datagrams over UDP.
    Udp,
    /// The library's own shared memory.
    SharedMemory,
    /// Fairway's verbs, over this carrier.
    Verbs(Carrier),
}

/// Program of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    Ucx,
    Libfabric,
    /// The OSU micro-benchmarks, over Open MPI.
    Osu,
}

/// Measured quantity of a library, for messages of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Half of a round trip.
    Latency(u64),
    /// Rate.
    Bandwidth(u64),
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Quantity {
    /// Bytes of a message.
    pub fn bytes(self) -> u64 {
        let (Quantity::Latency(bytes) | Quantity::Bandwidth(bytes)) = self;
        bytes
    }
}

/// A measurement: a row of the second table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// `fairway perf` over one of Fairway's own carriers.
    Fairway(Native, Carrier),
    /// perftest over the verbs library.
    Perftest(Perftest, Carrier),
    /// This number of kernel TCP streams.
    TcpStreams(usize),
    /// A TCP ping-pong of 64 B: half of the round trip.
    TcpPing,
    /// Raw UDP with segmentation offload.
    UdpBlast,
    /// A UDP ping-pong of 64 B: half of the round trip.
    UdpPing,
    /// Copying memory in pieces of 1 MiB.
    Copy,
    Iperf3,
    /// A library's own benchmark.
    Library(Library, Quantity, Over),
}

/// Unit of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Gigabits per second.
    Gbps,
    /// Microseconds.
    Microseconds,
    /// Millions of operations per second.
    Mops,
}

impl Unit {
    /// The unit's name, and that of the CPU time beside it.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Unit::Gbps => ("Gb/s", "CPU s per GB"),
            Unit::Microseconds => ("us", "CPU s per million messages"),
            Unit::Mops => ("M/s", "CPU s per million operations"),
        }
    }
}

/// The carriers between any two sides.
pub const ANYWHERE: [Carrier; 2] = [Carrier::Fairway, Carrier::Roce];

/// What the two sides of a place share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// One host.
    OneHost,
    /// One network, with an interface on either side.
    OneNetwork,
    /// Several networks.
    Several,
}

impl Between {
    /// The carrier that works only between such sides.
    pub fn carrier(self) -> Option<Carrier> {
        match self {
            Between::OneHost => Some(Carrier::SharedMemory),
            Between::OneNetwork => Some(Carrier::Frames),
            Between::Several => None,
        }
    }

    /// The carriers of the verbs library.
    pub fn verbs(self) -> impl Iterator<Item = Carrier> {
        ANYWHERE.into_iter().chain(self.carrier())
    }
}

impl Subject {
    /// All measurements, in the order in which they alternate.
    pub fn all(between: Between) -> Vec<Subject> {
        let mut subjects = vec![Subject::UdpBlast];
        let natives = [
            Native::BulkMebibyte,
            Native::Bulk64K,
            Native::SendHalf,
            Native::WriteRoundTrip,
            Native::Write8,
            Native::Write64,
        ];
        let bulk = [Native::BulkMebibyte, Native::Bulk64K];
        let native = |native| Subject::Fairway(native, Carrier::Fairway);
        // Bulk, then latency, then rates, so that compared ones are close to each other in time.
        subjects.extend(bulk.map(native));
        subjects.extend([Subject::TcpStreams(1), Subject::TcpStreams(4), Subject::Iperf3]);
        for carrier in between.verbs() {
            let bulk = [Perftest::Write64K, Perftest::WriteMebibyte, Perftest::Send64K];
            subjects.extend(bulk.map(|program| Subject::Perftest(program, carrier)));
        }
        subjects.extend([Subject::UdpPing, native(Native::SendHalf), Subject::TcpPing]);
        subjects.push(native(Native::WriteRoundTrip));
        for carrier in between.verbs() {
            let latency = [Perftest::SendLatency, Perftest::WriteLatency];
            subjects.extend(latency.map(|program| Subject::Perftest(program, carrier)));
        }
        subjects.extend([Native::Write8, Native::Write64].map(native));
        let rate = |carrier| Subject::Perftest(Perftest::Write8, carrier);
        subjects.extend(between.verbs().map(rate));
        if between == Between::OneHost {
            subjects.push(Subject::Copy);
        }
        if let Some(carrier) = between.carrier() {
            subjects.extend(natives.map(|native| Subject::Fairway(native, carrier)));
        }
        for library in [Library::Libfabric, Library::Ucx, Library::Osu] {
            for quantity in library.quantities() {
                let over = library.transports(between);
                let of = |over: &Over| Subject::Library(library, *quantity, *over);
                subjects.extend(over.iter().map(of));
            }
        }
        subjects
    }

    pub fn unit(self) -> Unit {
        match self {
            Subject::Fairway(Native::BulkMebibyte | Native::Bulk64K, _)
            | Subject::Perftest(
                Perftest::Write64K | Perftest::WriteMebibyte | Perftest::Send64K,
                _,
            )
            | Subject::TcpStreams(_)
            | Subject::UdpBlast
            | Subject::Copy
            | Subject::Iperf3
            | Subject::Library(_, Quantity::Bandwidth(_), _) => Unit::Gbps,
            Subject::Fairway(Native::Write8 | Native::Write64, _)
            | Subject::Perftest(Perftest::Write8, _) => Unit::Mops,
            Subject::Fairway(Native::SendHalf | Native::WriteRoundTrip, _)
            | Subject::Perftest(Perftest::SendLatency | Perftest::WriteLatency, _)
            | Subject::TcpPing
            | Subject::UdpPing
            | Subject::Library(_, Quantity::Latency(_), _) => Unit::Microseconds,
        }
    }
}

impl Library {
    /// What is measured of the library, over each transport.
    pub fn quantities(self) -> &'static [Quantity] {
        use Quantity::{Bandwidth, Latency};
        match self {
            Library::Ucx => &[
                Latency(8),
                Latency(4 * KIB),
                Latency(64 * KIB),
                Bandwidth(4 * KIB),
                Bandwidth(16 * KIB),
                Bandwidth(64 * KIB),
                Bandwidth(MIB),
                Bandwidth(4 * MIB),
            ],
            Library::Libfabric => {
                &[Latency(64), Latency(4 * KIB), Bandwidth(64 * KIB), Bandwidth(MIB)]
            }
            Library::Osu => &[Latency(8), Bandwidth(64 * KIB)],
        }
    }

    /// What the library is measured over.
    pub fn transports(self, between: Between) -> Vec<Over> {
        let mut over = vec![Over::Tcp];
        if self == Library::Libfabric {
            over.push(Over::Udp);
        }
        if between == Between::OneHost && self != Library::Osu {
            over.push(Over::SharedMemory);
        }
        over.extend(ANYWHERE.map(Over::Verbs));
        over
    }

    /// The library's name.
    pub fn name(self) -> &'static str {
        match self {
            Library::Ucx => "UCX",
            Library::Libfabric => "libfabric",
            Library::Osu => "OSU over Open MPI",
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Carrier::Fairway => "Fairway over UDP",
            Carrier::SharedMemory => "Fairway over shared memory",
            Carrier::Frames => "Fairway over AF_XDP",
            Carrier::Roce => "RoCE",
        })
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Over::Tcp => f.write_str("TCP"),
            Over::Udp => f.write_str("UDP (reliable datagrams)"),
            Over::SharedMemory => f.write_str("its own shared memory"),
            Over::Verbs(carrier) => write!(f, "our verbs, {carrier}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Fairway(native, carrier) => {
                let work = match native {
                    Native::BulkMebibyte => "WRITE 1 MiB",
                    Native::Bulk64K => "WRITE 64 KiB",
                    Native::SendHalf => "SEND 64 B, half round trip",
                    Native::WriteRoundTrip => "WRITE 64 B, round trip",
                    Native::Write8 => "WRITE 8 B, many in flight",
                    Native::Write64 => "WRITE 64 B, many in flight",
                };
                write!(f, "fairway perf: {work}; {carrier}")
            }
            Subject::Perftest(program, carrier) => {
                let program = match program {
                    Perftest::Write64K => "ib_write_bw, 64 KiB",
                    Perftest::WriteMebibyte => "ib_write_bw, 1 MiB",
                    Perftest::Send64K => "ib_send_bw, 64 KiB",
                    Perftest::Write8 => "ib_write_bw, 8 B",
                    Perftest::SendLatency => "ib_send_lat, 8 B",
                    Perftest::WriteLatency => "ib_write_lat, 8 B",
                };
                write!(f, "{program}; {carrier}")
            }
            Subject::TcpStreams(1) => f.write_str("kernel TCP, one stream"),
            Subject::TcpStreams(count) => write!(f, "kernel TCP, {count} streams"),
            Subject::TcpPing => f.write_str("kernel TCP ping-pong of 64 B, half round trip"),
            Subject::UdpBlast => f.write_str("raw UDP blast with segmentation offload"),
            Subject::UdpPing => f.write_str("raw UDP ping-pong of 64 B, half round trip"),
            Subject::Copy => f.write_str("memcpy of 1 MiB"),
            Subject::Iperf3 => f.write_str("iperf3, one TCP stream"),
            Subject::Library(library, quantity, over) => {
                let size = match quantity.bytes() {
                    bytes if bytes >= MIB => format!("{} MiB", bytes / MIB),
                    bytes if bytes >= KIB => format!("{} KiB", bytes / KIB),
                    bytes => format!("{bytes} B"),
                };
                let quantity = match (library, quantity) {
                    (Library::Ucx, Quantity::Latency(_)) => format!("tag_lat {size}"),
                    (Library::Ucx, Quantity::Bandwidth(_)) => format!("tag_bw {size}"),
                    (Library::Libfabric, Quantity::Latency(_)) => {
                        format!("ping-pong of {size}, half round trip")
                    }
                    (Library::Libfabric, Quantity::Bandwidth(_)) => size,
                    (Library::Osu, Quantity::Latency(_)) => format!("osu_latency {size}"),
                    (Library::Osu, Quantity::Bandwidth(_)) => format!("osu_bw {size}"),
                };
                write!(f, "{}: {quantity}; {over}", library.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_occurs_once_and_has_a_name_of_its_own() {
        let several = Subject::all(Between::Several);
        for between in [Between::OneHost, Between::OneNetwork, Between::Several] {
            let all = Subject::all(between);
            let names: std::collections::BTreeSet<String> =
                all.iter().map(Subject::to_string).collect();
            assert_eq!(names.len(), all.len());
            assert!(several.iter().all(|subject| all.contains(subject)));
            assert_eq!(all.contains(&Subject::Copy), between == Between::OneHost);
            let of = |carrier| all.contains(&Subject::Fairway(Native::SendHalf, carrier));
            assert_eq!(of(Carrier::SharedMemory), between == Between::OneHost);
            assert_eq!(of(Carrier::Frames), between == Between::OneNetwork);
        }
    }
}
