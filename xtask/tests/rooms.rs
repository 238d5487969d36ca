//! The rooms of the design and the only imports allowed between them.

use std::process::Command;

/// The rooms that each room may import directly.
const ARROWS: &[(&str, &[&str])] = &[
    ("fairway-wire", &[]),
    ("fairway-policy", &["fairway-wire"]),
    ("fairway-device", &["fairway-wire", "fairway-policy"]),
    ("fairway-ub", &["fairway-wire", "fairway-policy", "fairway-device"]),
    ("fairway-roce", &["fairway-wire", "fairway-policy", "fairway-device"]),
    ("fairway-sandbox", &["fairway-wire", "fairway-policy"]),
    ("fairway-ring", &[]),
    ("fairway-ibverbs", &[]),
    ("fairway-port", &["fairway-wire", "fairway-ibverbs"]),
    ("fairway-runtime", &["fairway-wire", "fairway-device", "fairway-port", "fairway-ring"]),
    ("fairway-observe", &["fairway-runtime", "fairway-port", "fairway-ub"]),
    (
        "fairway",
        &[
            "fairway-wire",
            "fairway-policy",
            "fairway-observe",
            "fairway-ub",
            "fairway-roce",
            "fairway-device",
            "fairway-port",
            "fairway-ring",
            "fairway-runtime",
            "fairway-sandbox",
        ],
    ),
    (
        "fairway-rdma",
        &[
            "fairway-ub",
            "fairway-roce",
            "fairway-device",
            "fairway-port",
            "fairway-runtime",
            "fairway",
        ],
    ),
    ("fairway-collectives", &[]),
    ("fairway-communicator", &["fairway-collectives", "fairway"]),
    ("fairway-storm", &["fairway-ub", "fairway-device"]),
    (
        "fairway-sim",
        &["fairway-ub", "fairway-roce", "fairway-device", "fairway-sandbox", "fairway-collectives"],
    ),
    ("fairway-nicmodel", &["fairway-ub", "fairway-roce", "fairway-device"]),
    (
        "fairway-cli",
        &[
            "fairway-wire",
            "fairway-policy",
            "fairway-ub",
            "fairway-port",
            "fairway",
            "fairway-rdma",
            "fairway-communicator",
            "fairway-sim",
            "fairway-nicmodel",
            "fairway-sandbox",
        ],
    ),
    // Checks of the fuzz targets: not a room of the design, but it may import only these.
    (
        "fairway-fuzz",
        &["fairway-device", "fairway-ub", "fairway-roce", "fairway", "fairway-rdma", "fairway-cli"],
    ),
    (
        "fairway-verbs",
        &[
            "fairway-wire",
            "fairway-device",
            "fairway-ibverbs",
            "fairway",
            "fairway-rdma",
            "fairway-roce",
        ],
    ),
    (
        "fairway-rdmacm",
        &["fairway-wire", "fairway", "fairway-rdma", "fairway-roce", "fairway-verbs"],
    ),
    ("fairway-rvma", &["fairway"]),
    ("fairway-python", &["fairway", "fairway-communicator"]),
    ("fairway-nccl", &["fairway"]),
];

/// Rooms whose code may use nothing but the standard `core` and `alloc`.
const WITHOUT_DEPENDENCIES: &[&str] =
    &["fairway-wire", "fairway-policy", "fairway-device", "fairway-ub", "fairway-roce"];

fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

fn imports(package: &serde_json::Value) -> Vec<(String, bool)> {
    let dependencies = package["dependencies"].as_array().expect("a list of dependencies");
    dependencies
        .iter()
        .map(|entry| {
            let name = entry["name"].as_str().expect("a name").to_owned();
            (name, entry["kind"].as_str() == Some("dev"))
        })
        .collect()
}

#[test]
fn only_the_arrows_of_the_design_are_drawn() {
    let packages = packages();
    for (room, _) in ARROWS {
        let exists = packages.iter().any(|package| package["name"] == *room);
        assert!(exists, "{room} has arrows and does not exist");
    }
    let mut seen = 0;
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        // Development tasks are not part of the design's rooms.
        if name == "xtask" || name == "fairway-tidy" {
            continue;
        }
        let (_, allowed) = ARROWS
            .iter()
            .find(|(room, _)| *room == name)
            .unwrap_or_else(|| panic!("{name} is no room of the design: draw its arrows here"));
        seen += 1;
        for (import, dev) in imports(&package) {
            let ours = import == "fairway" || import.starts_with("fairway-");
            assert!(
                !ours || allowed.contains(&import.as_str()),
                "{name} imports {import}: the design draws no such arrow"
            );
            assert!(
                ours || dev || !WITHOUT_DEPENDENCIES.contains(&name),
                "{name} depends on {import}: the core rooms depend on nothing"
            );
        }
    }
    assert!(seen >= 8, "only {seen} rooms found");
}

#[test]
fn the_core_rooms_are_no_std_and_without_unsafe() {
    for room in ["wire", "policy", "device", "ub", "roce"] {
        let path = format!("{}/../crates/{room}/src/lib.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the room has a lib.rs");
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            assert!(text.contains(attribute), "{room} lacks {attribute}");
        }
    }
}
