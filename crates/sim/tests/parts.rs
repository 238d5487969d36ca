//! The number of partitions of a run, which may use as many cores, changes no time and no count,
//! for every topology and every other setting.

use fairway_sim::{Report, Settings, Simulation};

/// Networks of about 16 hosts, and the routings that each supports.
const NETWORKS: &[(&str, &[&str])] = &[
    ("topology fat-tree|nodes 16", TREE),
    ("topology fat-tree|nodes 54", &["ecmp", "adaptive"]),
    ("topology fat-tree|nodes 32|oversubscription 2", &["ecmp", "spray"]),
    ("topology leaf-spine|nodes 16|hosts-per-leaf 4", TREE),
    ("topology leaf-spine|nodes 24|hosts-per-leaf 8|oversubscription 2", &["adaptive"]),
    ("topology rail|nodes 16|hosts-per-leaf 4|rails 2", TREE),
    ("topology dual-plane|nodes 16", TREE),
    ("topology dual-plane|plane leaf-spine|nodes 16|hosts-per-leaf 4", TREE),
    ("topology torus|sizes 4x2x2", DIRECT),
    ("topology hyperx|sizes 4x4", DIRECT),
    ("topology dragonfly|dragonfly 4:1:5", DIRECT),
];
const TREE: &[&str] = &["ecmp", "source", "spray", "adaptive"];
const DIRECT: &[&str] = &["ecmp", "source", "spray", "adaptive", "dimension", "valiant", "ugal"];

/// Other settings; each runs with an incast beside a permutation, unless it has a workload.
const OTHERS: &[&str] = &[
    "pfc 60K:50K|ecn off",
    "shared-buffer 400K:500",
    "shared-buffer 400K:500|pfc 60K:50K",
    "overflow trim|queue 40K",
    "queue 40K|loss 1%",
    "switching cut-through",
    "split 2|burst 4|check off",
    "fail 1-@10us..60us|paths 4",
    "degrade 1-@5us:50G|delay 1-@20us:3us",
    "policy cc=dcqcn:line=400Gbps,path=p2c",
    "policy cc=eqds:line=400Gbps:window=64K",
    "stack roce|pfc 60K:50K|split 2",
    "stack roce-irn|loss 1%",
    "workload ring-allreduce",
    "workload tree-allreduce|rounds 2|ranks-per-node 2",
    "workload ring-allreduce|collectives flows",
    "workload tree-allreduce|collectives flows",
    "workload websearch|flows 40",
    "workload moe|tokens 8|experts 16:4|bytes 4K",
    "workload halo3d|grid 4x2x2|cells 30x30x30|check off",
    "workload sweep3d|grid 4x4|cells 16x16x16|layers 4|check off",
    "workload streams|stream 9-2 verb=read size=64K depth=4|end 60us|check off",
    "workload streams|stream 0-9 size=4K..64K count=3|stream 5-9 rate=50G|end 60us|check off",
];

fn run(lines: &str, parts: u32) -> Report {
    let mut settings = Settings::default();
    let usual = match lines {
        own if own.contains("allreduce") => "bytes 60K|check on",
        own if own.contains("workload") => "check on",
        _ => "workload incast-permutation|senders 9|bytes 60K|messages 1|check on",
    };
    // A RoCE queue pair has one path.
    let paths = if lines.contains("stack roce") { "" } else { "paths 16" };
    for text in [usual, paths, lines] {
        // The switch of host 1, whatever its number is.
        let text = text.replace("1-@", &format!("1-{}@", switch_of_host_1(lines)));
        settings.read(&text.replace('|', "\n")).expect("settings");
    }
    let scenario = settings.build(1).expect("a scenario");
    let report = Simulation::new(scenario, parts).expect("a run").run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{lines} in {parts}");
    report
}

fn switch_of_host_1(lines: &str) -> u32 {
    let mut settings = Settings::default();
    let network: Vec<&str> = lines.split('|').take_while(|line| !line.contains('@')).collect();
    settings.read(&network.join("\n")).expect("settings");
    let network = settings.build(1).expect("a scenario").network;
    network.links[network.first_port[1] as usize].to
}

#[test]
fn partitions_do_not_change_the_result_on_any_network() {
    for (network, routings) in NETWORKS {
        for routing in *routings {
            let lines = format!("{network}|routing {routing}");
            let alone = run(&lines, 1);
            for parts in [2, 3, 7] {
                assert!(run(&lines, parts) == alone, "{lines}: {parts} parts");
            }
        }
    }
}

#[test]
fn partitions_do_not_change_the_result_with_any_setting() {
    let networks = [
        "topology fat-tree|nodes 16",
        "topology leaf-spine|nodes 16|hosts-per-leaf 4|routing adaptive",
        "topology dual-plane|nodes 16",
        "topology dragonfly|dragonfly 4:1:5|routing ugal",
    ];
    for (network, other) in networks.iter().flat_map(|n| OTHERS.iter().map(move |o| (n, o))) {
        let lines = format!("{network}|{other}");
        let alone = run(&lines, 1);
        for parts in [2, 5] {
            assert!(run(&lines, parts) == alone, "{lines}: {parts} parts");
        }
    }
}

/// More partitions than the network can be divided into, and than there are cores.
#[test]
fn parts_may_be_empty() {
    let lines = "topology leaf-spine|nodes 16|hosts-per-leaf 4";
    assert!(run(lines, 64) == run(lines, 1));
}
