use alloc::format;
use alloc::string::ToString;

use fairway_wire::Duration;

use super::*;
use crate::{Join, Leave};

fn spec(text: &str) -> PolicySpec {
    text.parse().expect("a good specification")
}

fn error(text: &str) -> PolicyError {
    text.parse::<PolicySpec>().expect_err("a bad specification")
}

fn swift_with(change: impl FnOnce(&mut SwiftParameters)) -> CongestionSpec {
    let mut swift = SwiftParameters::default();
    change(&mut swift);
    CongestionSpec::Swift(swift)
}

#[test]
fn empty_specification_is_the_default() {
    assert_eq!(spec(""), PolicySpec::default());
    assert_eq!(
        PolicySpec::default().to_string(),
        "cc=cubic,path=reps,loss=path-order,sched=greedy"
    );
}

#[test]
fn cubic_begins_with_more_for_a_peer_on_the_same_host() {
    let first_window = |text: &str, port_pairs| {
        let spec = spec(text).within_host(port_pairs);
        spec.build(1400).congestion.window_bytes()
    };
    assert_eq!(first_window("", 1), 65_536);
    assert_eq!(first_window("", 16), 655_360);
    assert_eq!(first_window("cubic:initial=100K", 16), 102_400, "as requested");
    assert_eq!(first_window("cubic:max=200K", 16), 204_800);
    assert_eq!(spec("swift").within_host(16), spec("swift"));
}

#[test]
fn kinds_may_be_left_out() {
    let given = spec("p2c");
    assert_eq!(
        given,
        PolicySpec {
            path: PathSpec::PowerOfTwo(PowerOfTwoParameters::default()),
            ..PolicySpec::default()
        }
    );
    assert_eq!(spec("fixed,receiver"), spec("loss=receiver,cc=fixed"));
    assert_eq!(spec(" cc=cubic , path=p2c "), given);
}

#[test]
fn parameters_are_read() {
    assert_eq!(spec("cc=fixed:4M").congestion, CongestionSpec::Fixed { window_bytes: 4 << 20 });
    let target = Duration::from_us(200);
    assert_eq!(spec("swift:target=200us").congestion, swift_with(|swift| swift.target = target));
    let many = "swift:range=1ms:ai=1408:min=16K:max=1G:initial=2M:loss=0";
    let wanted = swift_with(|swift| {
        swift.range = Duration::from_ms(1);
        swift.increase_bytes = 1408;
        swift.min_bytes = 16 << 10;
        swift.max_bytes = 1 << 30;
        swift.initial_bytes = 2 << 20;
        swift.tolerated_loss_permille = 0;
    });
    assert_eq!(spec(many).congestion, wanted);
}

#[test]
fn printed_specification_parses_to_the_same() {
    for text in [
        "cc=fixed,path=spray,loss=sack",
        "cc=fixed:4M,path=p2c,loss=receiver",
        "cc=fixed:1500,path=p2c,loss=path-order",
        "cc=fixed:1500,path=p2c:memory=on,loss=path-order",
        "cc=fixed:1500,path=reps:explore=random:late=avoid,loss=path-order",
        "cc=swift:target=200us,path=spray,loss=path-order",
        "cc=cubic,path=plb,loss=path-order",
        "cc=cubic:min=64K:max=1M:initial=128K:loss=20:jitter=50us,path=plb:threshold=250:idle=2:rounds=4,loss=sack",
        "cc=timely,path=spray,loss=sack",
        "cc=timely:low=300us:high=2ms:minrtt=100us:ai=1Gbps:alpha=20:beta=260:segment=16K:min=1bps:\
         max=400Gbps:initial=1500Mbps:window=1M:loss=0,path=p2c,loss=sack",
        "cc=dcqcn,path=spray,loss=path-order",
        "cc=dcqcn:line=10Gbps:min=1Kbps:ai=5Mbps:hai=50Mbps:g=16:timer=300us:bytes=1M:cnp=4us:\
         window=2M:loss=7,path=spray,loss=receiver",
        "cc=caqm:beta=300:ai=2:fast=250:initial=64K:min=4K:max=1M:loss=0,path=spray,loss=path-order",
        "cc=swift:target=1us:range=2us:hop=2us:endpoint=50us:fsmin=40K:fsmax=120K,path=spray,loss=sack",
        "cc=eqds,path=spray,loss=sack",
        "cc=eqds:line=10Gbps:quantum=16K:window=128K:ahead=32K:max=4M:timeout=1ms,path=p2c,loss=sack",
        "cc=homa:window=64K:quantum=4K:overcommit=2:cut1=1K:cut2=20K:cut3=90K:\
         max=1M:timeout=200us,path=spray,loss=sack",
        "cc=backpressure:line=10Gbps:min=1Mbps:ai=1Gbps:beta=300:window=1M:loss=0,path=plb,loss=sack",
        "cc=cubic,path=flowlet:gap=50us,loss=sack",
        "cc=cubic,path=least-rtt,loss=sack",
        "cc=fixed:8M,path=mp-rdma,loss=sack",
        "cc=fixed:8M,path=mp-rdma:initial=4:max=64:pick=p2c,loss=path-order",
        "cc=swift:target=1s:range=0ns:ai=1K:min=0:max=3G:initial=5:loss=7,path=p2c,loss=sack",
    ] {
        assert_eq!(spec(text).to_string(), format!("{text},sched=greedy"));
        assert_eq!(spec(&spec(text).to_string()), spec(text));
    }
}

#[test]
fn schedulers_have_rates_and_words() {
    for text in [
        "static",
        "static:line=10Gbps:min=1Gbps",
        "static:hints=weight",
        "drr:quantum=62K",
        "drr:quantum=62K:hints=weight",
        "water-filling",
        "water-filling:line=100Gbps:step=160Mbps:min=500Kbps:start=500Mbps:join=reset:leave=scale:\
         interval=10us:floor=0:hints=weight",
        "water-filling:start=0bps:join=halve",
    ] {
        let whole = format!("cc=fixed,path=p2c,loss=sack,sched={text}");
        assert_eq!(spec(&whole).to_string(), whole);
        assert_eq!(spec(&whole), spec(&format!("{text},fixed,p2c,sack")));
    }
    // Default values are not printed.
    let filling =
        "water-filling:line=auto:start=fair:join=scale:leave=reclaim:floor=1000:hints=ignore";
    assert_eq!(spec(filling), spec("sched=water-filling"));
    let SchedulerSpec::WaterFilling(filling) = spec("water-filling:join=halve").scheduler else {
        panic!("another scheduler");
    };
    assert_eq!((filling.join, filling.leave, filling.line_bits), (Join::Halve, Leave::Reclaim, 0));
    for name in ["greedy", "static", "water-filling", "drr"] {
        assert_eq!(spec(name).build_scheduler(4).name(), name);
    }
}

#[test]
fn signals_of_paths_have_names() {
    let text = "cc=nscc:target=9us:max=938952,path=reps:explore=random,loss=rack,sched=greedy";
    let given = spec(text);
    assert_eq!(given.to_string(), text);
    let set = given.build(4096);
    let names = (set.congestion.name(), set.path.name(), set.loss.name());
    assert_eq!(names, ("nscc", "reps", "rack"));
    assert_eq!(spec("bitmap").path, PathSpec::Bitmap);
    assert_eq!(spec("bitmap").build(4096).path.name(), "bitmap");
    for text in ["nscc:min=2M:max=1M", "nscc:hop=1us", "reps:explore=all", "bitmap:4", "rack:2"] {
        assert!(matches!(error(text), PolicyError::BadParameter { .. }), "{text}");
    }
}

#[test]
fn errors_list_the_known_names() {
    let known = "known are cc=fixed|swift|cubic|timely|dcqcn|caqm|eqds|homa|backpressure|nscc|hpcc; \
                  path=spray|p2c|plb|mp-rdma|bitmap|reps|least-rtt|flowlet; loss=path-order|sack|receiver|rack; \
                  sched=greedy|static|water-filling|drr; \
                  probe=off|periodic|sampled|anomaly";
    let unknown = error("reno");
    assert_eq!(unknown, PolicyError::UnknownName("reno".to_owned()));
    assert_eq!(format!("{unknown}"), format!("no policy is called \"reno\"; {known}"));
    assert_eq!(error("pace=swift"), PolicyError::UnknownKind("pace".to_owned()));
    assert_eq!(error("path=swift"), PolicyError::WrongKind("path=swift".to_owned()));
    assert_eq!(error("swift,fixed"), PolicyError::Twice(PolicyKind::Congestion));
    assert_eq!(error("swift,fixed").to_string(), "cc is given twice");
}

#[test]
fn bad_parameters_are_refused() {
    for text in [
        "fixed:0",
        "fixed:4X",
        "fixed:-4",
        "fixed:99999999999999999999",
        "fixed:20000000000G",
        "spray:2",
        "p2c:x=1",
        "p2c:memory=2",
        "reps:late=no",
        "sack:5",
        "swift:200us",
        "swift:target=200",
        "swift:target=0us",
        "swift:target=99999999999s",
        "swift:gain=2",
        "swift:loss=1001",
        "swift:max=2G:min=3G",
        "swift:max=2000G",
        "swift:target=µs",
        "cubic:beta=7",
        "cubic:min=2M:max=1M",
        "timely:low=1ms",
        "timely:minrtt=0ns",
        "timely:ai=10",
        "timely:ai=0Mbps",
        "timely:max=10Mbps",
        "dcqcn:g=0",
        "dcqcn:timer=0us",
        "dcqcn:bytes=0",
        "dcqcn:min=101Gbps",
        "dcqcn:line=2000000Gbps",
        "caqm:ai=0",
        "caqm:beta=1001",
        "swift:endpoint=0us",
        "eqds:quantum=0",
        "eqds:timeout=0us",
        "homa:overcommit=65",
        "homa:cut1=2M:cut2=1M",
        "homa:window=0",
        "backpressure:min=200Gbps",
        "backpressure:beta=1001",
        "mp-rdma:initial=2000",
        "mp-rdma:max=20000",
        "mp-rdma:pick=best",
        "greedy:line=1Gbps",
        "static:line=0bps",
        "static:line=10",
        "static:min=auto",
        "drr:quantum=0",
        "drr:quantum=127",
        "water-filling:join=double",
        "water-filling:start=0",
        "water-filling:floor=1001",
        "plb:rounds=2",
        "plb:idle",
        "flowlet:gap=50",
        "flowlet:idle=1",
    ] {
        assert!(matches!(error(text), PolicyError::BadParameter { .. }), "{text}");
    }
}

#[test]
fn specification_builds_the_policies_that_it_names() {
    for text in [
        "cc=swift,path=spray,loss=path-order",
        "cc=fixed,path=p2c,loss=sack",
        "cc=fixed,path=p2c,loss=receiver",
        "cc=cubic,path=plb,loss=sack",
        "cc=timely,path=plb,loss=sack",
        "cc=dcqcn,path=plb,loss=sack",
        "cc=caqm,path=plb,loss=sack",
        "cc=eqds,path=plb,loss=sack",
        "cc=homa,path=plb,loss=sack",
        "cc=backpressure,path=mp-rdma,loss=sack",
        "cc=fixed,path=least-rtt,loss=sack",
        "cc=fixed,path=flowlet,loss=sack",
    ] {
        let set = spec(text).build(1408);
        assert_eq!(format!("{set:?}"), format!("PolicySet({text})"));
    }
    let credit = |text: &str| spec(text).build_credit(4).map(|credit| credit.name());
    assert_eq!(
        [credit("eqds"), credit("homa"), credit("swift")],
        [Some("eqds"), Some("homa"), None]
    );
    assert_eq!(spec("fixed:4M").build(1408).congestion.window_bytes(), 4 << 20);
}

#[test]
fn probes_are_chosen_by_name() {
    let interval = Duration::from_us(100);
    for (text, expected, shown) in [
        ("probe=off", ProbeSpec::Off, ""),
        ("probe=periodic:100us", ProbeSpec::Periodic { interval }, ",probe=periodic:100us"),
        ("periodic", ProbeSpec::Periodic { interval: interval.times(10) }, ",probe=periodic:1ms"),
        ("probe=sampled", ProbeSpec::Sampled { bytes: 1 << 20 }, ",probe=sampled:1M"),
        ("sampled:4K", ProbeSpec::Sampled { bytes: 4096 }, ",probe=sampled:4K"),
        ("probe=anomaly", ProbeSpec::Anomaly { times: 2 }, ",probe=anomaly:2"),
        ("probe=anomaly:7", ProbeSpec::Anomaly { times: 7 }, ",probe=anomaly:7"),
    ] {
        let spec = spec(text);
        assert_eq!(spec.probe, expected, "{text}");
        let all = spec.to_string();
        assert_eq!(all, format!("{}{shown}", PolicySpec::default()));
        assert_eq!(all.parse::<PolicySpec>(), Ok(spec));
    }
    for text in ["probe=off:1", "periodic:9us", "periodic:x", "sampled:4095", "anomaly:0"] {
        assert!(matches!(error(text), PolicyError::BadParameter { .. }), "{text}");
    }
    assert!(error("anomaly:1001").to_string().contains("1 to 1000"));
}
