use super::*;
use std::net::Ipv4Addr;

fn interface(name: &str, is_loopback: bool) -> Interface {
    let name = CString::new(name).unwrap();
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Interface { name, address, pci_path: None, guid: 1, speed_mbps: 1, is_loopback }
}

fn names(all: &[&str], filter: Option<&str>) -> Vec<String> {
    let all = all.iter().map(|name| interface(name, *name == "lo")).collect();
    let found = selected(all, &Filter::new(filter));
    found.iter().map(|one| one.name.to_string_lossy().into_owned()).collect()
}

#[test]
fn names_select_interfaces_as_nccls_variable_does() {
    let all = ["lo", "eth0", "eth10", "docker0", "ib0"];
    assert_eq!(names(&all, None), ["eth0", "eth10", "ib0"]);
    assert_eq!(names(&all, Some("eth")), ["eth0", "eth10"]);
    assert_eq!(names(&all, Some("=eth0,ib0")), ["eth0", "ib0"]);
    assert_eq!(names(&all, Some("^eth,docker,lo")), ["ib0"]);
    assert_eq!(names(&all, Some("^=eth0,docker0,lo")), ["eth10", "ib0"]);
    assert_eq!(names(&all, Some("lo")), ["lo"]);
    assert_eq!(names(&["lo", "docker0"], None), ["lo"]);
    assert_eq!(names(&all, Some("wlan")), Vec::<String>::new());
}

#[test]
fn hardware_addresses_are_numbers() {
    assert_eq!(mac_number("02:fc:00:00:00:01"), 0x02fc_0000_0001);
    assert_eq!(mac_number("00:00:00:00:00:00"), 0);
    assert_eq!(mac_number(""), 0);
}

#[test]
fn a_path_ends_with_the_pci_function() {
    let of = |path: &str| pci_function(Path::new(path));
    let function = PathBuf::from("/sys/devices/pci0000:00/0000:00:1f.6");
    assert_eq!(of("/sys/devices/pci0000:00/0000:00:1f.6"), Some(function.clone()));
    assert_eq!(of("/sys/devices/pci0000:00/0000:00:1f.6/virtio0"), Some(function));
    assert_eq!(of("/sys/devices/virtual/net/lo"), None);
}
