//! Settings from the environment. They are read when a NIC is opened.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use fairway::{Builder, Context, Limits, Profile, ProtocolDuration, Spec};

use crate::limits::{CONNECTIONS, MESSAGE_SLOTS, QUEUE_DEPTH, SEGMENTS};
use crate::selection::{Family, Filter};
use crate::status::{Failure, Result};

/// Silence after which a peer is declared dead, if the environment names none.
const PEER_TIMEOUT_MS: u64 = 10_000;
/// Keep-alives sent before a silent peer is declared dead.
const PROBES: u64 = 6;

/// Selects the interfaces that are devices.
pub(crate) fn filter() -> Filter {
    let names = ["FAIRWAY_NCCL_IFNAME", "NCCL_SOCKET_IFNAME"];
    Filter::new(names.into_iter().find_map(variable).as_deref())
}

/// The address family to prefer.
pub(crate) fn family() -> Family {
    match variable("NCCL_SOCKET_FAMILY").as_deref() {
        Some("AF_INET6") => Family::V6,
        _ => Family::V4,
    }
}

/// Speed of every device in Mb/s, instead of what the system reports.
pub(crate) fn speed_mbps() -> Result<Option<i32>> {
    in_range("FAIRWAY_NCCL_SPEED", 1..=i32::MAX, "set it to 1 to 2147483647, in Mb/s")
}

/// A builder of contexts, and all settings except the address.
pub(crate) fn builder() -> Result<Builder> {
    let connections = in_range("FAIRWAY_NCCL_CONNECTIONS", 1..=8192, "set it to 1 to 8192")?;
    let remedy = "set it to 100 to 86400000, in ms";
    let timeout = in_range("FAIRWAY_NCCL_PEER_TIMEOUT_MS", 100..=86_400_000, remedy)?;
    let mut builder = Context::builder()
        .limits(limits(connections.unwrap_or(CONNECTIONS)))
        .profile(profile(timeout.unwrap_or(PEER_TIMEOUT_MS)))
        // Connections are idle for as long as the program computes.
        .evict_idle(None);
    if let Some(paths) = in_range("FAIRWAY_PATHS", 1..=256, "set it to 1 to 256")? {
        builder = builder.paths(paths);
    }
    if let Some(policy) = variable("FAIRWAY_POLICY") {
        builder = builder.policy_named(&policy);
    }
    let seed = parsed("FAIRWAY_EMULATE_SEED")?.unwrap_or(1);
    if let Some(spec) = parsed::<Spec>("FAIRWAY_EMULATE")? {
        builder = builder.emulate(spec, seed);
    }
    Ok(builder)
}

fn limits(connections: u32) -> Limits {
    let defaults = Limits::default();
    // Each connection has one Jetty and one channel here. Some more are for listeners, and for
    // connections that are about to be closed.
    let jetties = connections + 64;
    // Peers of one address may take three quarters of the channels.
    let channels = connections + connections / 3 + 32;
    let at_least = |number: u32, default: u32| number.max(default);
    defaults
        .channels(at_least(channels, defaults.channels))
        .jetties(jetties)
        .completion_queues(jetties + 64)
        .completions(at_least(jetties * QUEUE_DEPTH, defaults.completions))
        .receives(at_least(jetties * QUEUE_DEPTH, defaults.receives))
        .segments(at_least(connections * SEGMENTS, defaults.segments))
        .message_slots(MESSAGE_SLOTS)
        .arrivals(at_least(channels * MESSAGE_SLOTS + 1, defaults.arrivals))
        .mailboxes(1)
        .mailbox_buffers(1)
}

fn profile(peer_timeout_ms: u64) -> Profile {
    let keep_alive = (peer_timeout_ms / PROBES).max(1);
    Profile::new()
        .keep_alive(ProtocolDuration::from_ms(keep_alive))
        .peer_dead(ProtocolDuration::from_ms(peer_timeout_ms))
}

/// Longest duration of an attempt to connect.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?;
    Some(value.to_string_lossy().trim().to_owned()).filter(|value| !value.is_empty())
}

fn parsed<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>> {
    let Some(text) = variable(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error| Failure::argument(format!("{name}={text}: {error}")))
}

fn in_range<T>(name: &str, range: std::ops::RangeInclusive<T>, remedy: &str) -> Result<Option<T>>
where
    T: FromStr<Err: Display> + PartialOrd + Display,
{
    let Some(text) = variable(name) else { return Ok(None) };
    match text.parse() {
        Ok(value) if range.contains(&value) => Ok(Some(value)),
        Ok(_) => Err(Failure::argument(format!("{name}={text}: {remedy}"))),
        Err(error) => Err(Failure::argument(format!("{name}={text}: {error}; {remedy}"))),
    }
}
