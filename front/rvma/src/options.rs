//! Network settings of a process, from the program, or else from the environment.

use std::ffi::{CStr, c_char};
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use fairway::{Builder, Context, Limits, Profile, ProtocolDuration, Spec};

use crate::status::{Failure, Result};
use crate::types::InitOptions;

/// Least number of registered segments, in addition to one per buffer; they are for operations.
const SEGMENTS: u32 = 65_536;
/// Processes that put into each window at the same time, on average, without delaying each other.
const SENDERS: u32 = 4;
/// Largest number of posted and kept buffers.
const BUFFERS_MAX: u32 = 1 << 19;
/// Keep-alives sent before a silent peer is declared dead.
const PROBES: u64 = 6;

/// Complete settings of `RVMA_Init`.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) builder: Builder,
    pub(crate) connect_timeout: Duration,
}

impl Settings {
    /// # Safety
    /// The strings of `options` are NULL or end with a NUL.
    pub(crate) unsafe fn new(options: &InitOptions) -> Result<Settings> {
        // SAFETY: as the caller vouches.
        let (bind, policy) =
            unsafe { (text(options.bind, "RVMA_BIND")?, text(options.policy, "RVMA_POLICY")?) };
        let port = number(options.port, "RVMA_PORT")?.unwrap_or(0);
        let mut builder = Context::builder().port(port).limits(limits(options)?);
        if let Some(bind) = bind {
            builder = builder.bind(parse::<IpAddr>("bind", &bind, "give a numeric IP address")?);
        }
        if let Some(sockets) = number(options.sockets, "RVMA_SOCKETS")? {
            builder = builder.sockets(usize::from(sockets));
        }
        if let Some(paths) = number(options.paths, "RVMA_PATHS")? {
            builder = builder.paths(paths);
        }
        if let Some(policy) = policy {
            builder = builder.policy_named(&policy);
        }
        if let Some(ms) = number(options.peer_timeout_ms, "RVMA_PEER_TIMEOUT_MS")? {
            builder = builder.profile(dead_after(u64::from(ms)));
        }
        if let Some(emulate) = variable("RVMA_EMULATE")? {
            let spec = parse::<Spec>("RVMA_EMULATE", &emulate, "see fairway help emulate")?;
            builder = builder.emulate(spec, number(0u64, "RVMA_SEED")?.unwrap_or(1));
        }
        let connect = number(options.connect_timeout_ms, "RVMA_CONNECT_TIMEOUT_MS")?;
        let connect_timeout = Duration::from_millis(u64::from(connect.unwrap_or(5000)));
        Ok(Settings { builder, connect_timeout })
    }
}

fn limits(options: &InitOptions) -> Result<Limits> {
    let defaults = Limits::default();
    let or = |value: u32, default| if value == 0 { default } else { value };
    let buffers = or(options.buffers, defaults.mailbox_buffers);
    let windows = or(options.windows, defaults.mailboxes);
    let limits = defaults
        .mailboxes(windows)
        .put_streams(defaults.put_streams.max(windows.saturating_mul(SENDERS)))
        .mailbox_buffers(buffers)
        .segments(buffers.saturating_add(SEGMENTS));
    if limits.mailboxes > 65_536 {
        return Err(Failure::argument("windows", limits.mailboxes, "use up to 65536"));
    }
    if buffers > BUFFERS_MAX {
        return Err(Failure::argument("buffers", buffers, "use up to 524288"));
    }
    Ok(limits)
}

fn dead_after(ms: u64) -> Profile {
    Profile::new()
        .keep_alive(ProtocolDuration::from_ms((ms / PROBES).max(1)))
        .peer_dead(ProtocolDuration::from_ms(ms))
}

/// A string that the program gives, or else the environment.
///
/// # Safety
/// `given` is NULL or ends with a NUL.
unsafe fn text(given: *const c_char, name: &str) -> Result<Option<String>> {
    if given.is_null() {
        return variable(name);
    }
    // SAFETY: as the caller vouches.
    let given = unsafe { CStr::from_ptr(given) };
    match given.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Failure::argument(name, format!("{given:?}"), "use plain text")),
    }
}

/// A number that the program gives, or the environment's if that is 0.
fn number<T: FromStr + PartialEq + Default>(given: T, name: &str) -> Result<Option<T>>
where
    T::Err: Display,
{
    if given != T::default() {
        return Ok(Some(given));
    }
    match variable(name)? {
        Some(text) => parse(name, &text, "use a number in range").map(Some),
        None => Ok(None),
    }
}

fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => Ok(Some(text)),
        Err(std::env::VarError::NotUnicode(text)) => {
            Err(Failure::argument(name, format!("{text:?}"), "use plain text"))
        }
        _ => Ok(None),
    }
}

fn parse<T: FromStr>(name: &str, text: &str, remedy: &str) -> Result<T>
where
    T::Err: Display,
{
    text.trim()
        .parse()
        .map_err(|error| Failure::argument(name, format!("{text:?} ({error})"), remedy))
}
