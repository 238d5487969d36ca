//! `fairway info --state`: size of all state, from the live types.

use fairway::Limits;
use fairway_ub::StateSize;
use serde_json::{Value, json};

use super::BUFFER_BYTES;
use crate::args::InfoOptions;

/// Size of the context of a RoCE RC queue pair in OpenURMA's accounting (half of it is padding),
/// without its queues: a model, not a measurement.
const QUEUE_PAIR_BYTES: u64 = 512;
/// Least number of a context's sockets by default.
const SOCKETS_MIN: usize = 4;
/// Default payload bytes of a packet, which is also the size of a slot in the staging buffer.
const PACKET_BYTES: u64 = 4096;

/// State records of each kind of object that an application creates: their purpose, and their JSON
/// key.
const MAILBOX: &[(&str, &str)] = &[
    ("mailbox", "mailbox_bytes"),
    ("buffer of a mailbox", "buffer_bytes"),
    ("puts of a remote Jetty to a mailbox", "stream_bytes"),
    ("gap in them", "gap_bytes"),
    ("puts of a Jetty to a remote mailbox", "sender_stream_bytes"),
];

/// The requested sizes as JSON.
pub(super) fn state(options: &InfoOptions) -> Value {
    let (jetties, hosts) = (options.jetties, options.hosts);
    // Pools that are smaller than the given numbers would make the result too small.
    let defaults = Limits::default();
    let limits = defaults
        .jetties(defaults.jetties.max(jetties as u32))
        .channels(defaults.channels.max(hosts as u32))
        .send_blocks(defaults.send_blocks.max(hosts as u32));
    let lines = limits.state(jetties, hosts, options.paths);
    let mut records: Vec<Value> = lines
        .iter()
        .map(|line| record(line.name, line.bytes as u64, line.count, line.pooled))
        .collect();
    records.push(record(
        "staging memory of a deferred packet",
        PACKET_BYTES,
        u64::from(limits.deferred),
        true,
    ));
    let sockets = fairway_wire::sockets_for(options.paths as u32).max(SOCKETS_MIN) as u64;
    records.push(record("socket buffer, requested", BUFFER_BYTES as u64, 2 * sockets, true));
    let sum = |pooled: bool| -> u64 {
        let records = records.iter().filter(|record| record["pooled"] == json!(pooled));
        records.filter_map(|record| record["total"].as_u64()).sum()
    };
    let together = sum(false) + sum(true);
    let each = each(&limits, &lines, options.paths);
    let pairs = jetties * hosts;
    let channel_bytes = each["tp_channel_bytes"].as_u64().unwrap_or_default();
    json!({
        "jetties": jetties,
        "hosts": hosts,
        "paths": options.paths,
        "each": each,
        "records": records,
        "owned_bytes": sum(false),
        "pooled_bytes": sum(true),
        "total_bytes": together,
        "model_queue_pair_bytes": QUEUE_PAIR_BYTES,
        "model_queue_pairs_total": QUEUE_PAIR_BYTES * pairs,
        "model_queue_pairs_ratio": (QUEUE_PAIR_BYTES * pairs) as f64 / together as f64,
        "channel_per_pair_total": channel_bytes * pairs,
        "channel_per_pair_ratio": (channel_bytes * pairs) as f64 / together as f64,
    })
}

fn record(name: &str, bytes: u64, count: u64, pooled: bool) -> Value {
    json!({ "name": name, "bytes": bytes, "count": count, "total": bytes * count, "pooled": pooled })
}

/// Size of one more Jetty, TP channel, segment or mailbox.
fn each(limits: &Limits, lines: &[StateSize], paths: u64) -> Value {
    let owned = |jetties, hosts| -> u64 {
        let lines = limits.state(jetties, hosts, paths);
        let lines = lines.iter().filter(|line| !line.pooled);
        lines.map(|line| line.bytes as u64 * line.count).sum()
    };
    let bytes = |name: &str| {
        lines.iter().find(|line| line.name == name).map_or(0, |line| line.bytes as u64)
    };
    let mut each = json!({
        "jetty_bytes": owned(1, 0),
        "jetty_order_bytes": bytes("order record of a Jetty"),
        "jetty_order_per_node_bytes": bytes("order record of a Jetty and node"),
        "tp_channel_bytes": owned(0, 1),
        "segment_bytes": bytes("segment"),
    });
    for (name, field) in MAILBOX {
        each[*field] = json!(bytes(name));
    }
    let share = |pool: u32| u64::from(pool / limits.mailboxes.max(1));
    let (buffers, streams) = (share(limits.mailbox_buffers), share(limits.put_streams));
    each["mailbox_share_buffers"] = json!(buffers);
    each["mailbox_share_streams"] = json!(streams);
    each["mailbox_share_bytes"] = json!(
        bytes("mailbox")
            + buffers * bytes("buffer of a mailbox")
            + streams * (bytes("puts of a remote Jetty to a mailbox") + bytes("gap in them"))
    );
    each
}

/// The sizes as text.
pub(super) fn state_text(value: &Value) -> String {
    each_text(value) + &records_text(value) + &comparison_text(value)
}

fn each_text(value: &Value) -> String {
    let each = &value["each"];
    let line = |name: &str, field: &str, rest: String| {
        format!("  {name:<12} {:>7} bytes{rest}\n", each[field].to_string())
    };
    let mut text = String::from("one of each, from the live types\n\n");
    text += &line(
        "Jetty",
        "jetty_bytes",
        format!(
            "; {} more once it requests order, and {} for each node it does so with",
            each["jetty_order_bytes"], each["jetty_order_per_node_bytes"]
        ),
    );
    text += &line(
        "TP channel",
        "tp_channel_bytes",
        format!(", with {} paths and all its tables", value["paths"]),
    );
    text += &line("segment", "segment_bytes", String::new());
    text += &line(
        "mailbox",
        "mailbox_bytes",
        format!(
            "; {} for each buffer, {} for each Jetty that puts to it, {} for each gap\n\
             {:28}(with {} buffers and {} Jetties, its share of the pools: {}),\n\
             {:28}{} at the sender, for each Jetty and remote mailbox",
            each["buffer_bytes"],
            each["stream_bytes"],
            each["gap_bytes"],
            "",
            each["mailbox_share_buffers"],
            each["mailbox_share_streams"],
            each["mailbox_share_bytes"],
            "",
            each["sender_stream_bytes"],
        ),
    );
    text
}

fn records_text(value: &Value) -> String {
    let mut text = format!(
        "\nstate of {} Jetties and {} hosts with {} paths each, with every buffer\n\n  \
         {:<36} {:>8} {:>9} {:>11}\n",
        value["jetties"], value["hosts"], value["paths"], "record", "bytes", "count", "total"
    );
    for line in value["records"].as_array().into_iter().flatten() {
        text += &format!(
            "  {:<36} {:>8} {:>9} {:>11}{}\n",
            line["name"].as_str().unwrap_or_default(),
            line["bytes"].to_string(),
            line["count"].to_string(),
            line["total"].to_string(),
            if line["pooled"] == json!(true) { "  shared" } else { "" },
        );
    }
    text += "\n";
    for (name, field) in
        [("owned", "owned_bytes"), ("shared", "pooled_bytes"), ("together", "total_bytes")]
    {
        text += &format!("  {name:<36} {:>30}\n", value[field].to_string());
    }
    text
}

fn comparison_text(value: &Value) -> String {
    let ratio = |field: &str| value[field].as_f64().unwrap_or_default();
    format!(
        "\nFor comparison, a model and no measurement: a queue pair for each Jetty and host\n  \
         {:<36} {:>30}  {:.1} times as much\n  {:<36} {:>30}  {:.1} times as much\n\n\
         The former is OpenURMA's accounting of a RoCE RC context (half of it padding), without \
         queues\nand buffers; the latter, our own TP channel of {} bytes for each pair.\n",
        format!("contexts of {QUEUE_PAIR_BYTES} bytes"),
        value["model_queue_pairs_total"].to_string(),
        ratio("model_queue_pairs_ratio"),
        "records of our own",
        value["channel_per_pair_total"].to_string(),
        ratio("channel_per_pair_ratio"),
        value["each"]["tp_channel_bytes"],
    )
}
