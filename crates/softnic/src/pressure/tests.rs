use super::{Gauges, HostPressure, PressureWatch, busy_us, stalled_us};
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

const SOME: &str = "some avg10=96.34 avg60=95.06 avg300=85.98 total=26977279347\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
const STAT: &str = "cpu  400 100 300 5000 200 0 50 50 9 9\n\
                    cpu0 200 50 150 2500 100 0 25 25 0 0\n\
                    cpu1 200 50 150 2500 100 0 25 25 0 0\n\
                    intr 1 2 3\n";

/// A host of our own, in a folder of temporary files that goes when the test ends.
struct Host(PathBuf);

impl Host {
    fn new(name: &str) -> Host {
        let path = std::env::temp_dir().join(format!("fairway-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("pressure")).unwrap();
        Host(path)
    }

    fn wait(&self, resource: &str, total_us: u64) {
        let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n");
        // In one step: who reads meanwhile finds the old or the new.
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
    // 900 of 6,100 hundredths of two CPUs.
    assert_eq!(busy_us(STAT), Some(900 * 10_000 / 2));
    assert_eq!(busy_us("cpu 1 2 3"), None);
    assert_eq!(busy_us("intr 1"), None);
}

#[test]
fn pressure_begins_at_the_threshold_and_ends_at_half_of_it() {
    let host = Host::new("thresholds");
    let (mut cpu, mut memory) = (1_000_000, 5);
    host.wait("cpu", cpu);
    host.wait("memory", memory);
    let options = HostPressure { cpu_percent: Some(40), ..HostPressure::default() };
    let mut gauges = Gauges::new(&host.0, &options).unwrap();
    let second = Duration::from_secs(1);
    for (cpu_percent, memory_percent, expected) in [
        (39, 9, None),
        (40, 0, Some(true)),
        (21, 0, None),
        (19, 4, Some(false)),
        (0, 10, Some(true)),
        (0, 5, None),
        (0, 4, Some(false)),
        (100, 100, Some(true)),
    ] {
        cpu += cpu_percent * 10_000;
        memory += memory_percent * 10_000;
        host.wait("cpu", cpu);
        host.wait("memory", memory);
        assert_eq!(gauges.look(second), expected, "{cpu_percent} {memory_percent}");
    }
    // What is not there any more is no pressure.
    fs::remove_dir_all(host.0.join("pressure")).unwrap();
    assert_eq!(gauges.look(second), Some(false));
}

#[test]
fn without_stall_information_busy_cpus_tell_and_nothing_is_an_error() {
    let host = Host::new("without");
    let only_cpu = HostPressure { memory_percent: None, ..HostPressure::default() };
    let error = Gauges::new(&host.0, &only_cpu).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    fs::write(host.0.join("stat"), STAT).unwrap();
    let mut gauges = Gauges::new(&host.0, &only_cpu).unwrap();
    fs::write(host.0.join("stat"), STAT.replacen("cpu  400", "cpu  520", 1)).unwrap();
    // 120 more of 200 hundredths in a second of two CPUs.
    assert_eq!(gauges.look(Duration::from_secs(1)), Some(true));
    assert!(Gauges::new(&host.0, &HostPressure::default()).is_err(), "memory has no other count");
}

#[test]
fn a_thread_tells_of_changes() {
    let host = Host::new("thread");
    host.wait("cpu", 0);
    let options = HostPressure {
        memory_percent: None,
        period: Duration::from_millis(1),
        ..HostPressure::default()
    };
    let (tell, told) = mpsc::channel();
    let watch = PressureWatch::start(&host.0, &options, move |now| tell.send(now).unwrap());
    let watch = watch.unwrap();
    // An hour lost in one period, and none in those after it.
    host.wait("cpu", 3_600_000_000);
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true));
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(false));
    drop(watch);
    assert!(told.recv().is_err(), "it has ended");
}
