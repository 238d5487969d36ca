use super::*;

fn device(interface: &str, addresses: &[&str]) -> Device {
    let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
    Device { addresses, ..unnamed(interface, 0) }
}

fn chosen(filter: &str) -> Vec<(String, usize)> {
    let found = vec![
        device("eth0", &["192.0.2.2", "2001:db8::2"]),
        device("eth1", &["192.0.2.3"]),
        device("docker0", &["172.17.0.1"]),
        device("lo", &["127.0.0.1", "::1"]),
    ];
    let filter: Filter = filter.parse().expect("a filter");
    let devices = filter.apply(found);
    devices.into_iter().map(|device| (device.interface, device.addresses.len())).collect()
}

fn pairs(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn filters_choose_by_name_and_address() {
    let all = pairs(&[("eth0", 2), ("eth1", 1), ("docker0", 1), ("lo", 2)]);
    assert_eq!(chosen(""), all);
    assert_eq!(chosen("eth"), all[..2]);
    assert_eq!(chosen("=eth"), []);
    assert_eq!(chosen("=eth1"), all[1..2]);
    assert_eq!(chosen("^docker,lo"), all[..2]);
    assert_eq!(chosen("lo,eth1"), pairs(&[("lo", 2), ("eth1", 1)]));
    assert_eq!(chosen("2001:db8::2, 127.0.0.1"), pairs(&[("eth0", 1), ("lo", 1)]));
    assert_eq!(chosen("192.0.2.77"), []);
}

#[test]
fn filters_refuse_empty_entries() {
    for text in ["eth0,", "^", "=", ",", "^docker,,lo"] {
        assert_eq!(text.parse::<Filter>(), Err(FilterError), "{text}");
    }
}

#[test]
fn packets_fit_the_interface() {
    assert_eq!(
        [65_536, 9000, 4200, 2300, 1500, 1280, 700, 68, 0].map(payload),
        [4096, 4096, 2048, 2048, 1024, 1024, 512, 256, 256]
    );
}

#[test]
fn the_loopback_interface_is_there_and_last() {
    let devices = list(&Filter::default()).expect("interfaces can be listed");
    let last = devices.last().expect("a device");
    assert!(last.addresses.iter().any(IpAddr::is_loopback), "{devices:?}");
    assert_eq!(last.mtu(), 4096);
    for (number, device) in devices.iter().enumerate() {
        assert_eq!(device.name, format!("fairway{number}"));
        assert_ne!(device.guid(), 0);
        assert!(device.addresses.is_sorted_by_key(IpAddr::is_ipv6));
    }
}

#[test]
fn addresses_that_are_looked_for_elsewhere_are_tentative() {
    let table = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
                 fe8000000000000000fc00fffe000001 04 40 20 c0     eth0\n\
                 fe8000000000000000fc00fffe000002 05 40 20 88     eth1\n\
                 fe8000000000000000fc00fffe000002 10 40 20 80    eth12\n";
    let tentative =
        |index, text: &str| is_tentative(table, index, &text.parse().expect("an address"));
    assert!(tentative(4, "fe80::fc:ff:fe00:1") && tentative(5, "fe80::fc:ff:fe00:2"));
    assert!(!tentative(4, "fd00::2") && !tentative(4, "fe80::3") && !tentative(4, "192.0.2.2"));
    // The same address at another interface.
    assert!(!tentative(16, "fe80::fc:ff:fe00:2"));
}

/// Checks the interfaces of this machine, whatever they are.
#[test]
fn link_local_addresses_come_last_and_make_no_device() {
    for device in list(&Filter::default()).expect("the devices") {
        let kinds: Vec<_> =
            device.addresses.iter().map(|ip| (ip.is_ipv6(), is_link_local(ip))).collect();
        assert!(kinds.is_sorted(), "{device:?}");
        assert!(!is_link_local(&device.addresses[0]), "{device:?}");
    }
}

#[test]
fn loopback_interface_is_fast_and_another_one_as_fast_as_its_driver_says() {
    let with_speed = |speed_mbps| Device { speed_mbps, ..device("eth0", &["192.0.2.2"]) };
    assert_eq!(with_speed(Some(25_000)).port_mbps(), 25_000);
    assert_eq!(with_speed(None).port_mbps(), UNKNOWN_MBPS);
    assert_eq!(device("lo", &["127.0.0.1", "::1"]).port_mbps(), IN_MEMORY_MBPS);
    assert_eq!(device("lo", &["::1"]).port_mbps(), IN_MEMORY_MBPS);
}

#[test]
fn virtual_cable_is_as_fast_as_memory_whatever_its_driver_says() {
    assert_eq!(credible_speed(Some(10_000), "veth"), Some(IN_MEMORY_MBPS));
    assert_eq!(credible_speed(Some(10_000), "ixgbe"), Some(10_000));
    assert_eq!(credible_speed(None, "virtio_net"), None);
}
