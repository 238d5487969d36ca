//! `fairway info`: properties of this program and this machine.

use std::net::Ipv4Addr;

use fairway::Limits;
use fairway_port::{UdpConfig, UdpPort};
use serde_json::{Value, json};

use crate::args::InfoOptions;
use crate::failure::Failure;
use crate::process;

mod state;

use state::{state, state_text};

/// Send buffer size, and receive buffer size, that a context requests for each socket.
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
        }, {
            "name": "shm",
            "reaches": "programs of this user on this host",
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
            "order_records": limits.order_records,
            "bypass_answers": limits.bypass_answers,
            "deferred": limits.deferred,
            "groups": limits.groups,
            "mailboxes": limits.mailboxes,
            "mailbox_buffers": limits.mailbox_buffers,
            "put_streams": limits.put_streams,
            "flows": limits.flows,
        },
    }))
}

fn general_text(value: &Value) -> String {
    let udp = &value["datapaths"][0];
    let offered = |name: &str| if udp[name] == json!(true) { "yes" } else { "no" };
    let mut text = format!(
        "fairway {}, {} cores\n\ndatapaths\n  udp   segmentation offload {}, receive offload {}, \
         up to {} packets per call\n        buffers granted: send {}, receive {} (requested {}",
        value["version"].as_str().unwrap_or_default(),
        value["cores"],
        offered("segmentation_offload"),
        offered("receive_offload"),
        udp["segments_max"],
        udp["send_buffer_bytes"],
        udp["receive_buffer_bytes"],
        BUFFER_BYTES,
    );
    text += &format!("; net.core.rmem_max {})\n", udp["rmem_max"]);
    text += "  shm   reaches programs of this user on this host\n\nlimits (defaults)\n";
    for (name, value) in value["limits"].as_object().into_iter().flatten() {
        text += &format!("  {name:<20} {value:>8}\n");
    }
    text + "\nThe Jetties of a context share its completions: each takes as many as it is deep.\n\
         At the default depth of 1,024 there is room for 64 Jetties, at a depth of 64 for 1,024.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_shown_under_the_name_by_which_it_is_set() {
        let limits = format!("{:?}", Limits::default());
        let fields = limits.split(['{', ',', '}']).filter_map(|part| part.split_once(": "));
        let fields = fields.map(|(name, _)| name.trim());
        let expected: Vec<&str> = fields
            // These two are no numbers of records: a context has an engine for each thread.
            .filter(|name| !["engines", "allocates_on_use"].contains(name))
            .collect();
        let value = general().expect("a socket");
        let shown = value["limits"].as_object().expect("limits");
        assert!(expected.len() > 20, "{expected:?}");
        for name in &expected {
            assert!(shown.contains_key(*name), "no {name} in {shown:?}");
        }
        assert_eq!(shown.len(), expected.len());
    }
}
