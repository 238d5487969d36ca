use super::gauges::Gauges;
use super::system::{Buses, busy_us, stalled_percent, stalled_us};
use super::{HostPressure, HostResource, HostSignals, PressureWatch};
use fairway_port::UdpPort;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

const SOME: &str = "some avg10=96.34 avg60=95.06 avg300=85.98 total=26977279347\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
const STAT: &str = "cpu  400 100 300 5000 200 0 50 50 9 9\n\
                    cpu0 200 50 150 2500 100 0 25 25 0 0\n\
                    cpu1 200 50 150 2500 100 0 25 25 0 0\n\
                    intr 1 2 3\n";

/// A simulated host, in a folder of temporary files that is removed when the test ends.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Host {
        let path = std::env::temp_dir().join(format!("fairway-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("pressure")).unwrap();
        Host(path)
    }

    fn wait(&self, resource: &str, total_us: u64) {
        let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n");
        // The file is replaced atomically: a reader finds the old text or the new one.
        let file = self.0.join("pressure").join(resource);
        fs::write(file.with_extension("new"), text).unwrap();
        fs::rename(file.with_extension("new"), file).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn counts_are_read() {
    assert_eq!(stalled_us(SOME), Some(26_977_279_347));
    assert_eq!(stalled_us("full avg10=0.00 total=7"), None);
    assert_eq!(stalled_us("some avg10=0.00 total=x"), None);
    // The CPUs were busy for 900 hundredths of a second, of 6,100 on two CPUs.
    assert_eq!(busy_us(STAT), Some(900 * 10_000 / 2));
    assert_eq!(busy_us("cpu 1 2 3"), None);
    assert_eq!(busy_us("intr 1"), None);
}

fn time_only(cpu: Option<u8>, memory: Option<u8>) -> HostPressure {
    HostPressure { cpu_percent: cpu, memory_percent: memory, ..HostPressure::NOTHING }
}

fn percent(signals: &HostSignals, resource: HostResource) -> u8 {
    signals.get(resource).expect("a reading").percent
}

#[test]
fn pressure_begins_at_the_threshold_and_ends_below_half_of_it() {
    let host = Host::new("thresholds");
    let (mut cpu, mut memory) = (1_000_000, 5);
    host.wait("cpu", cpu);
    host.wait("memory", memory);
    let mut gauges = Gauges::new(&host.0, Vec::new(), &time_only(Some(40), Some(10))).unwrap();
    let second = Duration::from_secs(1);
    for (cpu_percent, memory_percent, expected) in [
        (39, 9, [false, false]),
        (40, 0, [true, false]),
        // The two shortages begin and end independently.
        (21, 9, [true, false]),
        (20, 10, [true, true]),
        (19, 5, [false, true]),
        (39, 4, [false, false]),
        (0, 10, [false, true]),
        (100, 100, [true, true]),
    ] {
        cpu += cpu_percent * 10_000;
        memory += memory_percent * 10_000;
        host.wait("cpu", cpu);
        host.wait("memory", memory);
        let signals = gauges.assess(second);
        let both = [HostResource::Cpu, HostResource::Memory];
        let short = both.map(|resource| signals.get(resource).unwrap().is_short);
        assert_eq!(short, expected, "{cpu_percent} {memory_percent}");
        let seen = both.map(|resource| u64::from(percent(&signals, resource)));
        assert_eq!(seen, [cpu_percent, memory_percent]);
        assert_eq!(signals.concerns_peers(), short.contains(&true));
    }
    // A missing source counts as no pressure.
    fs::remove_dir_all(host.0.join("pressure")).unwrap();
    assert!(!gauges.assess(second).concerns_peers());
}

#[test]
fn without_stall_information_busy_cpus_count() {
    let host = Host::new("without");
    let only_cpu = time_only(Some(50), None);
    let error = Gauges::new(&host.0, Vec::new(), &only_cpu).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    fs::write(host.0.join("stat"), STAT).unwrap();
    let mut gauges = Gauges::new(&host.0, Vec::new(), &only_cpu).unwrap();
    fs::write(host.0.join("stat"), STAT.replacen("cpu  400", "cpu  520", 1)).unwrap();
    // The CPUs were busy for 120 more of 200 hundredths, in a second of two CPUs.
    let signals = gauges.assess(Duration::from_secs(1));
    assert_eq!(percent(&signals, HostResource::Cpu), 60);
    assert!(signals.concerns_peers());
    let error = Gauges::new(&host.0, Vec::new(), &time_only(None, Some(1))).unwrap_err();
    assert!(error.to_string().contains("leave memory out"), "{error}");
}

/// A port with small queues, and senders that fill them; both are the kernel's.
fn gauges_of(port: &UdpPort) -> Gauges {
    let options = HostPressure {
        receive_queue_percent: Some(50),
        transmit_queue_percent: Some(40),
        ..HostPressure::NOTHING
    };
    Gauges::new(PathBuf::new().as_path(), vec![port.queue_watch().unwrap()], &options).unwrap()
}

fn port() -> UdpPort {
    UdpPort::bind_one((Ipv4Addr::LOCALHOST, 0).into(), 64 * 1024).unwrap()
}

/// Returns the socket itself, by another descriptor.
fn socket(port: &UdpPort) -> UdpSocket {
    port.socket_fd(0).try_clone_to_owned().unwrap().into()
}

fn sampled(gauges: &mut Gauges, samples: u32) -> HostSignals {
    (0..samples).for_each(|_| gauges.sample());
    gauges.assess(Duration::from_millis(100))
}

#[test]
fn a_receive_queue_that_fills_is_pressure_until_it_is_drained() {
    let port = port();
    let mut gauges = gauges_of(&port);
    let none = sampled(&mut gauges, 3);
    assert_eq!(percent(&none, HostResource::ReceiveQueue), 0);
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let queue = port.queue_watch().unwrap();
    let fill = || queue.read().next().unwrap().unwrap();
    while fill().receive_percent() < 80 {
        sender.send_to(&[1; 1000], port.local_addrs()[0]).unwrap();
    }
    assert_eq!(fill().dropped, 0);
    let full = sampled(&mut gauges, 4);
    assert!((80..100).contains(&percent(&full, HostResource::ReceiveQueue)), "{full:?}");
    assert!(full.concerns_peers() && !full.concerns_transmit());
    // The queue is full in half of the samples, so the mean is still above half of the threshold.
    gauges.sample();
    let (receiver, mut buffer) = (socket(&port), [0; 2048]);
    while receiver.recv(&mut buffer).is_ok() {}
    let half = sampled(&mut gauges, 1);
    assert!((25..60).contains(&percent(&half, HostResource::ReceiveQueue)), "{half:?}");
    assert!(half.concerns_peers());
    // The kernel subtracts one packet from the queue late; then another round empties it.
    sender.send_to(&[1; 1000], port.local_addrs()[0]).unwrap();
    receiver.recv(&mut buffer).unwrap();
    let drained = sampled(&mut gauges, 4);
    assert!(!drained.concerns_peers(), "{drained:?}");
}

#[test]
fn drops_of_a_receive_queue_count_as_a_full_queue_once() {
    let port = port();
    let mut gauges = gauges_of(&port);
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for _ in 0..2000 {
        sender.send_to(&[1; 1000], port.local_addrs()[0]).unwrap();
    }
    let (receiver, mut buffer) = (socket(&port), [0; 2048]);
    while receiver.recv(&mut buffer).is_ok() {}
    // The queue was not sampled while it was full.
    let dropped = sampled(&mut gauges, 1);
    assert_eq!(percent(&dropped, HostResource::ReceiveQueue), 100);
    assert!(dropped.concerns_peers());
    let after = sampled(&mut gauges, 1);
    assert!(percent(&after, HostResource::ReceiveQueue) < 25 && !after.concerns_peers());
}

#[test]
fn a_transmit_queue_that_fills_concerns_this_side_only() {
    let port = port();
    let mut gauges = gauges_of(&port);
    assert!(!sampled(&mut gauges, 2).concerns_transmit());
    let sender = socket(&port);
    sender.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
    more(&sender, &[0; 60_000]);
    let full = sampled(&mut gauges, 2);
    assert!(full.concerns_transmit() && !full.concerns_peers(), "{full:?}");
    assert!(percent(&full, HostResource::TransmitQueue) >= 40);
}

/// Begins a datagram, which the kernel keeps until it is complete.
fn more(socket: &UdpSocket, data: &[u8]) {
    use std::os::fd::AsRawFd;
    // SAFETY: `data` outlives the call.
    let sent =
        unsafe { libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_MORE) };
    assert_eq!(sent, data.len() as isize, "{}", std::io::Error::last_os_error());
}

#[test]
fn bus_counters_are_read_where_the_driver_has_them() {
    let counters = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let plain = counters(&[("rx_packets", 77)]);
    let telling = counters(&[
        ("outbound_pci_stalled_rd", 12),
        ("outbound_pci_stalled_wr", 34),
        ("outbound_pci_stalled_wr_events", 99),
    ]);
    assert_eq!(stalled_percent(&plain), None);
    assert_eq!(stalled_percent(&telling), Some(34));
    assert_eq!(stalled_percent(&counters(&[("outbound_pci_stalled_rd", u64::MAX)])), Some(100));
    let error = Buses::among(&vec![("eth0".into(), plain.clone())]).unwrap_err();
    assert!(error.to_string().contains("leave pcie out"), "{error}");
    let found = Buses::among(&vec![("eth0".into(), plain), ("no-such-nic".into(), telling)]);
    // The interface is gone by now, and counts as not waiting.
    assert_eq!(found.unwrap().percent(), 0);
}

#[test]
fn thread_reports_each_period() {
    let host = Host::new("thread");
    host.wait("cpu", 0);
    let options = HostPressure { period: Duration::from_millis(1), ..time_only(Some(50), None) };
    let (report, reports) = mpsc::channel();
    // The receiving end may have been dropped.
    let notify = move |signals: HostSignals| _ = report.send(signals.concerns_peers());
    let watch = PressureWatch::start(&host.0, Vec::new(), &options, notify).unwrap();
    let timeout = Duration::from_secs(60);
    assert_eq!(reports.recv_timeout(timeout), Ok(false));
    // An hour is lost in one period, and none in those after it.
    host.wait("cpu", 3_600_000_000);
    while reports.recv_timeout(timeout) == Ok(false) {}
    assert_eq!(reports.recv_timeout(timeout), Ok(false));
    drop(watch);
    while reports.recv().is_ok() {}
}
