use super::*;

#[test]
fn a_scenario_file_is_read() {
    let text = "# two tiers\nworkload incast\nnodes = 64\ntopology leaf-spine\nlink 100G\n\
                latency 500ns # short\nbytes 1M\nsenders 9\nmtu 8K\nchunk policy\necn threshold:64K\n\
                overflow trim\nrouting adaptive\npaths 16\npolicy cc=cubic\ncheck on\nend 5ms\n";
    let mut settings = Settings::default();
    settings.read(text).expect("a good file");
    let scenario = settings.build(3).expect("a scenario");
    assert_eq!((scenario.network.hosts, scenario.flows.len(), scenario.mtu), (64, 9, 8192));
    assert_eq!(scenario.network.links[0].megabits, 100_000);
    assert_eq!(scenario.queue.marking, Marking::Threshold { bytes: 65_536 });
    assert_eq!((scenario.queue.overflow, scenario.routing), (Overflow::Trim, Routing::Adaptive));
    assert_eq!((scenario.chunk, scenario.paths, scenario.seed), (None, 16, 3));
    assert_eq!((scenario.check, scenario.end_ps), (true, 5_000_000_000));
}

#[test]
fn what_is_wrong_is_named() {
    for (text, word) in [
        ("nodes 1", "hosts"),
        ("link 400", "as 400G"),
        ("latency 0us", "as 1us"),
        ("\nbanana 3", "line 2"),
        ("ecn red:9:3", "red:LOW:HIGH"),
        ("mtu 33K", "as 4K"),
        ("bytes 4G", "as 64M"),
    ] {
        let error = Settings::default().read(text).expect_err(text);
        assert!(error.contains(word), "{error}");
    }
    let mut settings = Settings::default();
    settings.read("nodes 16\nsenders 16\nworkload incast").expect("each for itself is fine");
    assert!(settings.build(1).expect_err("too many").contains("16 senders"));
}

/// The names that are documented are those that are understood.
#[test]
fn every_setting_is_known() {
    for (name, ..) in SETTINGS {
        let error = Settings::default().set(name, "?").expect_err("no value");
        assert!(error.starts_with(name), "{error}");
    }
}
