use super::*;

/// Follows every choice of candidates from every host to every other: all of them arrive, after at
/// most `diameter` links, and the longest way has exactly that many.
fn check(network: &Network) {
    let mut longest = 0;
    for from in 0..network.hosts {
        for to in (0..network.hosts).filter(|to| *to != from) {
            let start = network.links[network.first_port[from as usize] as usize].to;
            longest = longest.max(walk(network, start, to, 1));
        }
    }
    assert_eq!(longest, network.diameter(), "{:?}", network.shape);
    for (port, link) in network.links.iter().enumerate() {
        let back = network.links[link.reverse as usize];
        assert_eq!((back.from, back.to, back.reverse), (link.to, link.from, port as u32));
    }
}

/// Takes the first and the last candidate at each switch.
fn walk(network: &Network, node: u32, to: u32, links: u32) -> u32 {
    if node == to {
        return links;
    }
    assert!(node >= network.hosts && links <= network.diameter(), "{node} on the way to {to}");
    let candidates = network.toward(node, to);
    let mut ends = vec![candidates.first];
    if candidates.count > 1 {
        ends.push(candidates.first + candidates.count - 1);
    }
    let ways = ends.into_iter().map(|port| {
        let port = network.first_port[node as usize] + port;
        assert!(network.ports_of(node).contains(&port), "{node} has no port {port}");
        walk(network, network.links[port as usize].to, to, links + 1)
    });
    ways.max().expect("a candidate")
}

fn degrees(network: &Network) -> Vec<usize> {
    (0..network.nodes()).map(|node| network.ports_of(node).len()).collect()
}

#[test]
fn a_full_fat_tree_is_one_of_equal_switches() {
    let network = Clos::three_tiers(128, 1).expect("k = 8").build(400_000, 1_000_000);
    check(&network);
    assert_eq!(network.nodes(), 128 + 32 + 32 + 16);
    assert!(degrees(&network)[128..].iter().all(|degree| *degree == 8));
    assert!(degrees(&network)[..128].iter().all(|degree| *degree == 1));
    // Between the halves run as many links as half the hosts have.
    let pod = |node: u32| network.part_of(node, 2);
    let tops = network.nodes() - 16;
    let cut = |link: &&Link| link.from < tops && link.to >= tops && pod(link.from) == 0;
    assert_eq!(network.links.iter().filter(cut).count(), 64);
}

#[test]
fn fat_trees_may_be_partial_and_oversubscribed() {
    for (hosts, oversubscription) in [(1024, 1), (512, 4), (16, 1), (54, 1), (64, 2), (96, 3)] {
        let clos = Clos::three_tiers(hosts, oversubscription).expect("a tree");
        assert_eq!(clos.hosts_per_leaf, oversubscription * clos.uplinks);
        let network = clos.build(100_000, 500_000);
        assert_eq!(network.hosts, hosts);
        if hosts <= 128 {
            check(&network);
        }
    }
    let error = Clos::three_tiers(1001, 1).expect_err("no such tree");
    assert!(error.contains("686") && error.contains("1024"), "{error}");
}

#[test]
fn leaves_and_spines() {
    let network = Clos::two_tiers(64, Some(16), 2).expect("4 leaves").build(400_000, 1);
    check(&network);
    assert_eq!(network.nodes(), 64 + 4 + 8);
    let rails = Clos { rails: 4, ..Clos::two_tiers(64, Some(8), 1).expect("8 leaves") };
    let network = rails.build(400_000, 1);
    check(&network);
    // The first hosts of servers share a leaf.
    let leaf = |host: u32| network.links[network.first_port[host as usize] as usize].to;
    assert!(leaf(0) == leaf(4) && leaf(0) != leaf(1));
    assert!(Clos::two_tiers(10, Some(4), 1).is_err());
}
