//! Description of the machine on which the figures were measured.

use serde_json::{Value, json};

/// Describes this machine.
pub fn describe() -> Value {
    let read = |path: &str| {
        std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let information = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = information.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let number = |path: &str| read(path).parse::<u64>().ok();
    json!({
        "cpu": field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        "cores": cores,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "rmem_max": number("/proc/sys/net/core/rmem_max"),
        "wmem_max": number("/proc/sys/net/core/wmem_max"),
    })
}

/// The description as text.
pub fn markdown(machine: &Value) -> String {
    format!(
        "{} with {} cores, Linux {}, net.core.rmem_max {}. Each side is pinned to a core of its own.",
        machine["cpu"].as_str().unwrap_or_default(),
        machine["cores"],
        machine["kernel"].as_str().unwrap_or_default(),
        machine["rmem_max"],
    )
}
