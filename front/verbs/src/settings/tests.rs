use super::*;
use std::net::Ipv4Addr;

fn device() -> Device {
    Device {
        name: "fairway0".to_owned(),
        interface: "lo".to_owned(),
        index: 1,
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        interface_mtu: 65_536,
        hardware: [0; 6],
        running: true,
        speed_mbps: None,
    }
}

fn with(pairs: &[(&str, &str)]) -> Result<(ProviderKind, ProviderOptions)> {
    let source = |name: &str| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    provider(&source, &device())
}

#[test]
fn unset_variables_mean_the_defaults() {
    let (kind, options) = with(&[("FAIRWAY_PATHS", "")]).expect("fine");
    assert_eq!(kind, ProviderKind::Roce);
    assert!(options.segmentation && !options.dcqcn && options.emulate.is_none());
    assert_eq!(options.mtu, 4096);
}

#[test]
fn everything_can_be_set() {
    let (kind, options) = with(&[
        ("FAIRWAY_PROVIDER", "fairway"),
        ("FAIRWAY_SEGMENTATION", "0"),
        ("FAIRWAY_OUT_OF_ORDER", "1"),
        ("FAIRWAY_DCQCN", "on"),
        ("FAIRWAY_EMULATE", "loss=1%"),
        ("FAIRWAY_EMULATE_SEED", "7"),
        ("FAIRWAY_POLICY", "cc=swift"),
        ("FAIRWAY_WEIGHTS", "3=4"),
        ("FAIRWAY_PATHS", "16"),
    ])
    .expect("fine");
    assert_eq!(kind, ProviderKind::Fairway);
    assert!(!options.segmentation && options.dcqcn && options.out_of_order);
    assert_eq!(options.emulate.map(|(_, seed)| seed), Some(7));
    assert_eq!((options.policy.as_deref(), options.paths), (Some("cc=swift"), Some(16)));
    assert_eq!(options.service_levels.share(3).tenant_weight, 4);
}

#[test]
fn roce_takes_a_scheduler_alone() {
    for policy in ["sched=drr", "drr:quantum=8K", "sched=water-filling:line=10Gbps"] {
        let (_, options) = with(&[("FAIRWAY_POLICY", policy)]).expect("a scheduler");
        assert_eq!(options.policy.as_deref(), Some(policy));
    }
    for policy in ["cc=swift", "sched=drr,path=plb", "sched=nothing"] {
        let SettingError(text) = with(&[("FAIRWAY_POLICY", policy)]).unwrap_err();
        assert!(text.contains(policy) && text.contains("sched=drr"), "{text}");
    }
}

#[test]
fn earlier_name_of_the_provider_counts_unless_the_new_one_is_set() {
    let kind = |pairs: &[(&str, &str)]| with(pairs).unwrap().0;
    assert_eq!(kind(&[("FAIRWAY_CARRIER", "fairway")]), ProviderKind::Fairway);
    let both = [("FAIRWAY_CARRIER", "fairway"), ("FAIRWAY_PROVIDER", "roce")];
    assert_eq!(kind(&both), ProviderKind::Roce);
}

#[test]
fn wrong_settings_are_named_with_a_remedy() {
    for (name, value) in [
        ("FAIRWAY_PROVIDER", "tcp"),
        ("FAIRWAY_DCQCN", "maybe"),
        ("FAIRWAY_EMULATE", "loss=much"),
        ("FAIRWAY_PATHS", "0"),
        ("FAIRWAY_PATHS", "many"),
    ] {
        let SettingError(text) = with(&[(name, value)]).expect_err(name);
        assert!(text.starts_with(&format!("{name}={value}: ")), "{text}");
    }
    assert!(filter(&|_| Some("eth0,".to_owned())).is_err());
}

#[test]
fn the_library_never_lies_below_itself() {
    let datapath = |text| with(&[("FAIRWAY_DATAPATH", text)]).expect("fine").1.datapath;
    for text in ["rdma", "rdma:mlx5_0:1", "rdma-or-udp", "rdma-uc"] {
        assert_eq!(datapath(text), Some(DatapathKind::Auto), "{text}");
    }
    assert_eq!(datapath("udp"), Some(DatapathKind::Udp));
    assert!(with(&[("FAIRWAY_DATAPATH", "rdma:")]).is_err());
}
