//! Sizes of the protocol state of both stacks, taken from the live types of the engines: contexts
//! alone, and including the buffers that operations need.
//!
//! The sizes of contexts alone do not follow one rule: for UB they are those of the paper's three
//! structures, for RoCE that of the whole queue pair. Their ratio is 6,372 for 1,024 applications
//! and hosts; with whole channels and Jetties on UB's side it is about 630.

use crate::config::Config;
use crate::error::ConfigError;
use fairway_roce as roce;
use fairway_ub::{Limits, StateSize};

/// Operations that an application may have in flight, and receives that it keeps posted to each of
/// its endpoints.
pub const DEPTH: u32 = 16;

/// Largest numbers of applications, of remote hosts, and of pairs of both, that can be counted.
const SIDE_MAX: u64 = 1 << 16;
const PAIRS_MAX: u64 = 1 << 27;

/// Bytes of state of one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Name of the stack and of the state that is counted.
    pub name: &'static str,
    /// Bytes for all applications and remote hosts.
    pub bytes: u64,
}

fn total(lines: &[StateSize], counts: impl Fn(&StateSize) -> bool) -> u64 {
    lines.iter().filter(|line| counts(line)).map(|line| line.bytes as u64 * line.count).sum()
}

/// State for `config.jetties` applications and `config.connections` remote hosts.
///
/// The first entries are the paper's layouts, without and with their padding (Table 4): Jetty 15
/// and 20 bytes, TP channel 52 and 56, queue pair 248 and 512 (its explicit pad array), segment 32
/// in both stacks. The others are Fairway's: contexts alone, and contexts with every buffer, that
/// is [`DEPTH`] operations per application, its receives (which RoCE keeps for each queue pair,
/// unless they are shared), windows, tables, completions.
///
/// # Errors
/// If the numbers are 0 or too large; the error names the limit.
pub fn state(config: &Config) -> Result<Vec<Size>, ConfigError> {
    let [apps, hosts] = [config.jetties, config.connections].map(u64::from);
    let pairs = apps * hosts;
    let counts = [
        ("jetties", apps, SIDE_MAX),
        ("connections", hosts, SIDE_MAX),
        ("queue pairs", pairs, PAIRS_MAX),
    ];
    for (name, value, high) in counts {
        if !(1..=high).contains(&value) {
            return Err(ConfigError::Range { name, value, low: 1, high });
        }
    }
    let depth = u64::from(DEPTH);
    let under_way = (apps * depth) as u32;
    let ub = Limits::new()
        .jetties(apps as u32)
        .channels(hosts as u32)
        .segments(apps as u32)
        .messages(under_way)
        .arrivals(under_way)
        .receives(under_way)
        .completions(2 * under_way)
        .window_packets(128)
        .send_blocks((under_way / 16).max(hosts as u32))
        .bitmap_blocks(2 * hosts as u32)
        .paths(1)
        .withheld(DEPTH)
        .message_slots(DEPTH)
        .read_slots(DEPTH)
        .order_records(apps as u32)
        // State without a counterpart in the other stack is left out.
        .bypass_answers(0)
        .deferred(0)
        .groups(0)
        .mailboxes(0)
        .mailbox_buffers(0)
        .put_streams(0);
    let lines = ub.state(apps, hosts, 1);
    let contexts = ["Jetty", "TP channel, hot", "segment"];
    let ub_contexts = total(&lines, |line| contexts.contains(&line.name));
    let ub_whole = total(&lines, |_| true);
    let roce = |receives: u64| {
        let limits = roce::Limits {
            segments: apps as u32,
            receive_queues: pairs as u32,
            sends: under_way,
            receives: receives as u32,
            pending: under_way,
            completions: 2 * under_way,
            read_depth: DEPTH as u8,
            ..roce::Limits::default()
        };
        limits.state(pairs)
    };
    let own = roce(pairs * depth);
    let contexts = ["queue pair", "segment"];
    let size = |name, bytes| Size { name, bytes };
    Ok(vec![
        size("ub_paper_fields", 15 * apps + 32 * apps + 52 * hosts),
        size("ub_paper_padded", 20 * apps + 32 * apps + 56 * hosts),
        size("roce_paper_fields", 248 * pairs + 32 * apps),
        size("roce_paper_padded", 512 * pairs + 32 * apps),
        size("ub_contexts", ub_contexts),
        size("roce_contexts", total(&own, |line| contexts.contains(&line.name))),
        size("ub_every_buffer", ub_whole),
        size("roce_every_buffer", total(&own, |_| true)),
        size("roce_shared_receives", total(&roce(apps * depth), |_| true)),
    ])
}
