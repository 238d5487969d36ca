use super::*;

/// Follows every candidate from every host to every other. All of them arrive after at most
/// `diameter` links, and the longest way has exactly that many.
fn check(network: &Network) {
    let mut longest = 0;
    for from in 0..network.hosts {
        for to in (0..network.hosts).filter(|to| *to != from) {
            let start = network.links[network.first_port[from as usize] as usize].to;
            longest = longest.max(walk(network, start, to, 1));
        }
    }
    assert_eq!(longest, network.diameter(), "{:?}", network.shape);
    for (node, way) in ways(network).iter().enumerate().skip(network.hosts as usize) {
        for host in 0..network.hosts {
            let computed = network.toward(node as u32, host, 0, true);
            assert_eq!(way.toward(host), computed, "from {node} to {host} in {:?}", network.shape);
        }
    }
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
    // Any of the ways through a dragonfly: one for each pair, with the same choice at every switch.
    let entropy = to.wrapping_mul(0x9E37_79B9);
    let candidates = network.toward(node, to, entropy, true);
    let mut ends = vec![candidates.get(0), candidates.get(candidates.count() - 1)];
    ends.push(network.toward(node, to, entropy, false).get(0));
    ends.dedup();
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
    // As many links connect the halves as half the hosts have.
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
    // Each number that an error names has a tree, and none between them has.
    for (hosts, oversubscription) in
        [(3, 1), (5, 1), (7, 1), (9, 1), (1001, 1), (5, 2), (1000, 3), (u32::MAX, 1), (1, 64)]
    {
        let has_tree = |hosts: u64| Clos::three_tiers(hosts as u32, oversubscription).is_ok();
        let error = Clos::three_tiers(hosts, oversubscription).expect_err("no such tree");
        let TopologyError::ThreeTiers { below, above, .. } = error else { panic!("{error}") };
        assert!(below.into_iter().chain(above).all(has_tree), "{error}");
        let (first, last) = (below.unwrap_or(0) + 1, above.unwrap_or(below.unwrap_or(0)));
        assert!((first..last).all(|hosts| !has_tree(hosts)), "{error}");
        assert!(first <= u64::from(hosts) && above.is_none_or(|last| last > u64::from(hosts)));
    }
    let error = Clos::three_tiers(9, 1).expect_err("no such tree").to_string();
    assert!(error.contains("smaller one has 8, the next larger one 12"), "{error}");
    let error = Clos::three_tiers(1, 64).expect_err("no such tree").to_string();
    assert!(error.contains("the smallest one has 128"), "{error}");
}

#[test]
fn networks_that_are_too_large_are_refused_before_they_are_built() {
    let size = |wiring, hosts_per_switch| {
        Direct { hosts_per_switch, wiring }.check().map_err(|error| error.to_string())
    };
    let dragonfly = Wiring::Dragonfly { switches: 1000, global: 999, groups: 1000 };
    for (wiring, hosts_per_switch, words) in [
        (Wiring::Torus([1000; 3]), 1, "1000000000 hosts are too many: at most 262144 "),
        (Wiring::Torus([512, 512, 32]), 512, "4294967296 hosts are too many"),
        (Wiring::HyperX([1000, 1000, 1]), 1, "1000000 hosts are too many"),
        (Wiring::HyperX([500, 500, 1]), 1, "links are too many: at most 8388608 "),
        (dragonfly, 1, "1000000 hosts are too many"),
        (Wiring::Torus([u32::MAX; 3]), u32::MAX, "18446744073709551615 hosts are too many"),
    ] {
        let error = size(wiring, hosts_per_switch).expect_err("too large");
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(size(Wiring::Torus([64; 3]), 1), Ok(()));
    assert_eq!(size(Wiring::HyperX([128, 64, 1]), 32), Ok(()));
}

#[test]
fn leaves_and_spines() {
    let network = Clos::two_tiers(64, Some(16), 2).expect("4 leaves").build(400_000, 1);
    check(&network);
    assert_eq!(network.nodes(), 64 + 4 + 8);
    let rails = Clos { rails: 4, ..Clos::two_tiers(64, Some(8), 1).expect("8 leaves") };
    let network = rails.build(400_000, 1);
    check(&network);
    // The first hosts of different servers share a leaf.
    let leaf = |host: u32| network.links[network.first_port[host as usize] as usize].to;
    assert!(leaf(0) == leaf(4) && leaf(0) != leaf(1));
    assert!(Clos::two_tiers(10, Some(4), 1).is_err());
}

fn direct(hosts_per_switch: u32, wiring: Wiring) -> Network {
    Direct { hosts_per_switch, wiring }.build(400_000, 1_000_000)
}

/// Counts the links from one half of the switches to the other.
fn bisection(network: &Network) -> usize {
    let switches = network.nodes() - network.hosts;
    let half = network.hosts + switches / 2;
    let across = |link: &&Link| link.from >= network.hosts && link.from < half && link.to >= half;
    network.links.iter().filter(across).count()
}

#[test]
fn a_torus_has_two_neighbours_in_each_dimension() {
    let torus = direct(1, Wiring::Torus([4, 4, 4]));
    check(&torus);
    assert!(degrees(&torus)[64..].iter().all(|degree| *degree == 7));
    // Two rings of every column cross the middle.
    assert_eq!((torus.diameter(), bisection(&torus)), (2 + 6, 2 * 16));
    let odd = direct(2, Wiring::Torus([5, 2, 1]));
    check(&odd);
    assert!(degrees(&odd)[20..].iter().all(|degree| *degree == 2 + 2 + 1));
}

#[test]
fn a_hyperx_is_one_link_from_all_of_its_row() {
    let network = direct(4, Wiring::HyperX([4, 4, 1]));
    check(&network);
    assert!(degrees(&network)[64..].iter().all(|degree| *degree == 4 + 3 + 3));
    assert_eq!((network.diameter(), bisection(&network)), (4, 4 * 2 * 2));
    let cube = direct(2, Wiring::HyperX([2, 3, 4]));
    check(&cube);
    assert_eq!(cube.diameter(), 5);
}

#[test]
fn groups_of_a_dragonfly_are_all_linked() {
    for (switches, global, groups) in [(4, 2, 9), (4, 2, 5), (8, 1, 3)] {
        let network = direct(2, Wiring::Dragonfly { switches, global, groups });
        check(&network);
        let hosts = network.hosts as usize;
        let degree = (2 + switches - 1 + global) as usize;
        assert!(degrees(&network)[hosts..].iter().all(|found| *found == degree));
        let group = |node: u32| (node - network.hosts) / switches;
        for (a, b) in (0..groups).flat_map(|a| (0..groups).map(move |b| (a, b))) {
            let between = |link: &&Link| {
                let inside = link.from >= network.hosts && link.to >= network.hosts;
                inside && group(link.from) == a && group(link.to) == b
            };
            let links = network.links.iter().filter(between).count() as u32;
            let expected = switches * global / (groups - 1);
            assert!(a == b || links == expected, "{links} from {a} to {b}");
        }
    }
}

/// The reported distance equals the number of links that are walked.
#[test]
fn distances_are_those_of_the_ways() {
    for wiring in [
        Wiring::Torus([5, 3, 2]),
        Wiring::HyperX([3, 4, 2]),
        Wiring::Dragonfly { switches: 4, global: 2, groups: 9 },
    ] {
        let shape = Direct { hosts_per_switch: 1, wiring };
        let network = shape.build(400_000, 1);
        for (from, to) in (0..network.hosts).flat_map(|a| (0..network.hosts).map(move |b| (a, b))) {
            let (mut node, home) = (network.hosts + from, network.hosts + to);
            let entropy = from.wrapping_mul(0x9E37_79B9) ^ to;
            let mut links = 0;
            let said = shape.distance(node, home, entropy);
            while node != home {
                let port = network.toward(node, to, entropy, false).get(0);
                node = network.links[(network.first_port[node as usize] + port) as usize].to;
                links += 1;
            }
            assert_eq!(said, links, "{wiring:?}: {from} to {to}");
        }
    }
}
