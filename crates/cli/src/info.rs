//! `fairway info`: what this program and this machine have to offer.

use std::net::Ipv4Addr;

use fairway_softnic::Limits;
use fairway_softnic::port::{UdpConfig, UdpPort};
use serde_json::{Value, json};

use crate::args::InfoOptions;
use crate::failure::Failure;
use crate::process;

/// What OpenURMA's accounting gives a queue pair: a model, nothing that was measured here.
const QUEUE_PAIR_BYTES: u64 = 512;
/// Socket buffers that a context asks for.
const BUFFER_BYTES: usize = 4 << 20;

/// Runs the command.
pub(crate) fn run(options: &InfoOptions) -> Result<(), Failure> {
    let value = if options.state { state(options) } else { general()? };
    let text = if options.json {
        format!("{value}\n")
    } else if options.state {
        state_text(&value)
    } else {
        general_text(&value)
    };
    process::print(&text)
}

fn general() -> Result<Value, Failure> {
    let config = UdpConfig {
        bind: Ipv4Addr::LOCALHOST.into(),
        first_port: 0,
        sockets: 1,
        buffer_bytes: BUFFER_BYTES,
    };
    let port = UdpPort::bind(&config)
        .map_err(|error| Failure::io("open a UDP socket on the loopback interface", &error))?;
    let (features, granted) = (port.features(), port.granted());
    let setting = |name: &str| {
        let path = format!("/proc/sys/net/core/{name}");
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok())
    };
    let limits = Limits::default();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cores": process::cores().len(),
        "datapaths": [{
            "name": "udp",
            "segmentation_offload": features.segmentation,
            "receive_offload": features.coalescing,
            "segments_max": features.segments_max,
            "unfragmented": features.unfragmented,
            "send_buffer_bytes": granted.send_bytes,
            "receive_buffer_bytes": granted.receive_bytes,
            "rmem_max": setting("rmem_max"),
            "wmem_max": setting("wmem_max"),
        }],
        "limits": {
            "channels": limits.channels,
            "jetties": limits.jetties,
            "segments": limits.segments,
            "completion_queues": limits.completion_queues,
            "completions": limits.completions,
            "messages": limits.messages,
            "receives": limits.receives,
            "arrivals": limits.arrivals,
            "window_packets": limits.window_packets,
            "send_blocks": limits.send_blocks,
            "bitmap_blocks": limits.bitmap_blocks,
            "message_slots": limits.message_slots,
            "read_slots": limits.read_slots,
            "paths": limits.paths,
            "withheld": limits.withheld,
        },
    }))
}

fn general_text(value: &Value) -> String {
    let udp = &value["datapaths"][0];
    let offered = |name: &str| if udp[name] == json!(true) { "yes" } else { "no" };
    let mut text = format!(
        "fairway {}, {} cores\n\ndatapaths\n  udp   segmentation offload {}, receive offload {}, \
         up to {} packets per call\n        buffers granted: send {}, receive {} (asked for {}",
        value["version"].as_str().unwrap_or_default(),
        value["cores"],
        offered("segmentation_offload"),
        offered("receive_offload"),
        udp["segments_max"],
        udp["send_buffer_bytes"],
        udp["receive_buffer_bytes"],
        BUFFER_BYTES,
    );
    text += &format!("; net.core.rmem_max {})\n\nlimits (defaults)\n", udp["rmem_max"]);
    for (name, value) in value["limits"].as_object().into_iter().flatten() {
        text += &format!("  {name:<20} {value:>8}\n");
    }
    text
}

fn state(options: &InfoOptions) -> Value {
    let (jetties, hosts) = (options.jetties, options.hosts);
    // Pools that are too small for the question would make the answer too small.
    let defaults = Limits::default();
    let limits = Limits {
        jetties: defaults.jetties.max(jetties as u32),
        channels: defaults.channels.max(hosts as u32),
        ..defaults
    };
    let lines = limits.state(jetties, hosts, options.paths);
    let sum = |pooled: bool| -> u64 {
        let lines = lines.iter().filter(|line| line.pooled == pooled);
        lines.map(|line| line.bytes as u64 * line.count).sum()
    };
    let records: Vec<Value> = lines
        .iter()
        .map(|line| {
            json!({
                "name": line.name,
                "bytes": line.bytes,
                "count": line.count,
                "total": line.bytes as u64 * line.count,
                "pooled": line.pooled,
            })
        })
        .collect();
    json!({
        "jetties": jetties,
        "hosts": hosts,
        "paths": options.paths,
        "records": records,
        "owned_bytes": sum(false),
        "pooled_bytes": sum(true),
        "total_bytes": sum(false) + sum(true),
        "model_queue_pair_bytes": QUEUE_PAIR_BYTES,
        "model_queue_pairs_total": QUEUE_PAIR_BYTES * jetties * hosts,
    })
}

fn state_text(value: &Value) -> String {
    let mut text = format!(
        "state of {} Jetties and {} hosts with {} paths each, from the live types\n\n  \
         {:<22} {:>8} {:>12} {:>14}\n",
        value["jetties"], value["hosts"], value["paths"], "record", "bytes", "count", "total"
    );
    for line in value["records"].as_array().into_iter().flatten() {
        text += &format!(
            "  {:<22} {:>8} {:>12} {:>14}{}\n",
            line["name"].as_str().unwrap_or_default(),
            line["bytes"].to_string(),
            line["count"].to_string(),
            line["total"].to_string(),
            if line["pooled"] == json!(true) { "  pool, shared" } else { "" },
        );
    }
    let total = |name: &str| value[name].as_u64().unwrap_or_default();
    text += &format!(
        "\n  {:<22} {:>36}\n  {:<22} {:>36}\n  {:<22} {:>36}\n",
        "owned",
        total("owned_bytes"),
        "pools",
        total("pooled_bytes"),
        "together",
        total("total_bytes"),
    );
    text += &format!(
        "\nFor comparison, a model and no measurement: a queue pair for each Jetty and host, of {} \
         bytes each\n(OpenURMA's accounting), {:>23}\n",
        QUEUE_PAIR_BYTES,
        total("model_queue_pairs_total"),
    );
    text
}
