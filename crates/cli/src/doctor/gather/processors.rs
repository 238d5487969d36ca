//! The clock, cores and CPU quota.

use std::hint::black_box;
use std::time::Instant;

use super::system::{line, text, words};
use crate::doctor::readings::{Clock, Processors};
use crate::process;

const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";
/// Number of clock readings in a batch, and number of batches. The fastest batch counts, because
/// others were interrupted.
const READS: u32 = 2000;
const BATCHES: usize = 20;

pub(super) fn clock() -> Clock {
    let batch = |_| {
        let start = Instant::now();
        for _ in 0..READS {
            black_box(Instant::now());
        }
        start.elapsed().as_nanos() as u64 / u64::from(READS)
    };
    Clock {
        source: line(&format!("{CLOCKS}/current_clocksource")),
        offered: words(&format!("{CLOCKS}/available_clocksource")),
        read_ns: (0..BATCHES).map(batch).min().unwrap_or_default(),
    }
}

pub(super) fn processors() -> Processors {
    // SAFETY: the call has no conditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    Processors {
        online: usize::try_from(online).unwrap_or(1),
        allowed: process::cores().len(),
        quota: quota(&text("/proc/self/cgroup").unwrap_or_default(), text),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    }
}

/// The smallest quota of the control groups of a process, in cores. `groups` is the text of
/// `/proc/self/cgroup`, and `read` reads files.
fn quota(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<f64> {
    let mut least: Option<f64> = None;
    let mut note = |quota: Option<f64>| {
        least = match (least, quota) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    };
    for group in groups.lines() {
        let mut fields = group.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let is_v2 = controllers.is_empty();
        if !is_v2 && !controllers.split(',').any(|controller| controller == "cpu") {
            continue;
        }
        let mut path = path.trim_end_matches('/');
        loop {
            note(if is_v2 {
                read(&format!("/sys/fs/cgroup{path}/cpu.max")).and_then(|text| share(&text))
            } else {
                let file =
                    |name: &str| read(&format!("/sys/fs/cgroup/cpu{path}/cpu.cfs_{name}_us"));
                let text = file("quota").zip(file("period"));
                text.and_then(|(quota, period)| {
                    share(&format!("{} {}", quota.trim(), period.trim()))
                })
            });
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    least
}

/// Converts `quota period` in microseconds to cores; `None` for `max` or -1.
fn share(text: &str) -> Option<f64> {
    let mut numbers = text.split_whitespace();
    let quota: f64 = numbers.next()?.parse().ok().filter(|quota| *quota > 0.0)?;
    let period: f64 = numbers.next()?.parse().ok().filter(|period| *period > 0.0)?;
    Some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        |path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn least_quota_of_the_groups_above_counts() {
        let read = files(&[
            ("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"),
            ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(quota("0::/a/b\n", read), Some(1.5));
    }

    #[test]
    fn quota_of_the_first_version_is_read() {
        let read = files(&[
            ("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(quota("4:memory:/x\n3:cpu,cpuacct:/x\n", read), Some(0.5));
    }

    #[test]
    fn groups_without_a_quota_set_none() {
        assert_eq!(quota("0::/\n", files(&[("/sys/fs/cgroup/cpu.max", "max 100000")])), None);
        assert_eq!(quota("", files(&[])), None);
        assert_eq!(quota("nonsense\n0::/\n", files(&[("/sys/fs/cgroup/cpu.max", "1")])), None);
    }
}
