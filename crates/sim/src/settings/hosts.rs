//! Settings of hosts: how fast they take data out of their NICs.

use crate::error::SettingsError;
use crate::quantity::{bytes, rate, time};
use crate::scenario::{Drain, ReceiveQueue};
use crate::topology::Network;

/// Settings of hosts, as they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostSettings {
    drains: Vec<Drain>,
    /// `None`: the default.
    queue: Option<ReceiveQueue>,
}

impl HostSettings {
    /// Returns `None` if the setting is of another kind, and `Some(None)` if the value is invalid.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        Some(match name {
            "drain" => drain(value).map(|drain| self.drains.push(drain)),
            "receive-queue" => queue(value).map(|queue| self.queue = Some(queue)),
            _ => return None,
        })
    }

    /// Returns the periods in which hosts take data at a limited rate.
    ///
    /// # Errors
    /// Names a host that the network does not have, or a queue without such a period.
    pub(super) fn drains(&self, network: &Network) -> Result<Vec<Drain>, SettingsError> {
        let beyond = |drain: &&Drain| drain.host.is_some_and(|host| host >= network.hosts);
        if let Some(host) = self.drains.iter().find(beyond).and_then(|drain| drain.host) {
            let node = format!("host-{host}");
            let known = format!("host-0 to host-{}", network.hosts - 1);
            return Err(SettingsError::NoNode { node, known });
        }
        if self.queue.is_some() && self.drains.is_empty() {
            return Err(SettingsError::QueueWithoutDrain);
        }
        Ok(self.drains.clone())
    }

    /// The receive queue of hosts.
    pub(super) fn queue(&self) -> ReceiveQueue {
        self.queue.unwrap_or_default()
    }
}

/// Parses `HOST:RATE` or `HOST:RATE@TIME..TIME`, where the host is a number or `all`.
fn drain(text: &str) -> Option<Drain> {
    let (what, when) = text.split_once('@').unwrap_or((text, "0us"));
    let (host, megabits) = what.split_once(':')?;
    let host = match host.strip_prefix("host-").unwrap_or(host) {
        "all" => None,
        number => Some(number.parse().ok()?),
    };
    let (from, until) = when.split_once("..").unwrap_or((when, ""));
    let from_ps = time(from)?;
    let until_ps = if until.is_empty() { u64::MAX } else { time(until)? };
    let drain = Drain { host, megabits: rate(megabits)?, from_ps, until_ps };
    (from_ps < until_ps).then_some(drain)
}

/// Parses `SIZE` or `SIZE:PRESS:RELIEVE`.
fn queue(text: &str) -> Option<ReceiveQueue> {
    let mut parts = text.split(':');
    let size = bytes(parts.next()?).filter(|size| *size > 0)?;
    let (press_bytes, relieve_bytes) = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => (size / 4, size / 8),
        (Some(press), Some(relieve), None) => (bytes(press)?, bytes(relieve)?),
        _ => return None,
    };
    let fits = relieve_bytes <= press_bytes && press_bytes <= size;
    fits.then_some(ReceiveQueue { bytes: size, press_bytes, relieve_bytes })
}

#[cfg(test)]
mod tests {
    use super::{Drain, HostSettings, ReceiveQueue, drain, queue};

    #[test]
    fn values_are_read_and_wrong_ones_refused() {
        let period =
            Drain { host: Some(1), megabits: 25_000, from_ps: 2_000_000, until_ps: 4_000_000 };
        assert_eq!(drain("1:25G@2us..4us"), Some(period));
        assert_eq!(drain("host-1:25G@2us..4us"), Some(period));
        let always = Drain { host: None, megabits: 25_000, from_ps: 0, until_ps: u64::MAX };
        assert_eq!(drain("all:25G"), Some(always));
        assert_eq!(drain("all:25G@3us"), Some(Drain { from_ps: 3_000_000, ..always }));
        for wrong in ["", "25G", "all:", "1:25G@4us..4us", "leaf-1:25G", "1:25G@4", "1:0G"] {
            assert_eq!(drain(wrong), None, "{wrong}");
        }
        let quarters = ReceiveQueue { bytes: 8000, press_bytes: 2000, relieve_bytes: 1000 };
        assert_eq!(queue("8000"), Some(quarters));
        assert_eq!(queue("8000:2000:1000"), Some(quarters));
        for wrong in ["0", "8000:9000:1", "8000:10:11", "8000:10", "8000:3:2:1"] {
            assert_eq!(queue(wrong), None, "{wrong}");
        }
        assert_eq!(HostSettings::default().set("loss", "1%"), None);
    }
}
