//! Loss detectors, schedulers and receiver credit as modules: each decides as the built-in policy
//! from whose source it is made, and each that fails is replaced.

mod common;

use common::{BASE, Folder, example, module, only_fault, open, policies, without_faults};
use fairway_policy::{
    ChunkRequest, CongestionControl, CreditRequest, FlowId, LossDetector, LossSample, PathView,
    PolicySet, RateRegisters, Scheduler, Share,
};
use fairway_sandbox::probe::Sequence;
use fairway_sandbox::{Hook, Reason};
use fairway_wire::{Duration, Instant};

const MTU: u32 = 4096;
const FLOWS: u32 = 12;

// Loss detectors.

/// The decisions of a loss detector under thousands of events.
fn verdicts(detector: &mut dyn LossDetector, seed: u64) -> Vec<(bool, bool, u64)> {
    let mut sequence = Sequence::new(seed);
    let mut verdicts = Vec::new();
    for _ in 0..3000 {
        let ack = sequence.ack();
        detector.on_ack(ack.now, ack.smoothed_rtt, ack.acked_packets);
        if sequence.below(6) == 0 {
            let late = sequence.late();
            detector.on_reordering(&late);
        }
        let lost = detector.is_lost(&sequence.evidence());
        let overdue = detector.overdue_after(ack.smoothed_rtt).map_or(0, |after| after.as_ps());
        verdicts.push((lost, detector.compares_across_paths(), overdue));
    }
    verdicts
}

#[test]
fn rack_as_a_module_is_the_built_in_rack() {
    let module = policies(&format!("loss={}", example("rust/rack.wasm")));
    let (mut lost, mut windows) = (0, std::collections::BTreeSet::new());
    for seed in 0..10 {
        let own = verdicts(&mut *module.build(MTU).loss, seed);
        assert_eq!(own, verdicts(&mut *policies("loss=rack").build(MTU).loss, seed));
        lost += own.iter().filter(|verdict| verdict.0).count();
        windows.extend(own.iter().map(|verdict| verdict.2));
    }
    assert!((1000..29_000).contains(&lost) && windows.len() > 100, "{lost} lost");
    let [report] = &module.reports()[..] else { panic!("one module") };
    assert_eq!((report.started, report.faults), (10, 0));
}

#[test]
fn loss_detector_that_fails_in_any_hook_is_replaced_by_the_default() {
    let is_lost = "(func (export \"is_lost\") (result i32) i32.const 1)";
    let cases = [
        ("(func (export \"is_lost\") (result i32) unreachable)", Hook::IsLost),
        ("(func (export \"is_lost\") (result i32) (loop (br 0)) i32.const 0)", Hook::IsLost),
        ("(func (export \"on_reordering\") unreachable)", Hook::OnReordering),
        ("(func (export \"on_progress\") (param i64 i64) (loop (br 0)))", Hook::OnProgress),
        (
            "(func (export \"overdue_after\") (param i64) (result i64) unreachable)",
            Hook::OverdueAfter,
        ),
    ];
    for (hook, name) in cases {
        let hooks =
            if name == Hook::IsLost { hook.to_owned() } else { format!("{is_lost} {hook}") };
        let policies = open(&["loss"], &hooks);
        let mut set = policies.build(MTU);
        let (mut twin, mut sequence) = (common::policies("").build(MTU), Sequence::new(3));
        let (ack, late, evidence) = (sequence.ack(), sequence.late(), sequence.evidence());
        // From the failing event on, including it, the default decides.
        let has_failed = || policies.reports()[0].faults > 0;
        set.loss.on_ack(ack.now, ack.smoothed_rtt, ack.acked_packets);
        if has_failed() {
            twin.loss.on_ack(ack.now, ack.smoothed_rtt, ack.acked_packets);
        }
        let _ = set.loss.overdue_after(ack.smoothed_rtt);
        set.loss.on_reordering(&late);
        if has_failed() {
            twin.loss.on_reordering(&late);
        }
        let first = set.loss.is_lost(&evidence);
        assert_eq!(first, twin.loss.is_lost(&evidence), "{hook}");
        assert_eq!((only_fault(&policies).0, set.loss.name()), (name, "path-order"), "{hook}");
        for n in 0..500 {
            let evidence = sequence.evidence();
            assert_eq!(set.loss.is_lost(&evidence), twin.loss.is_lost(&evidence), "{hook}: {n}");
        }
        assert_eq!(set.loss.compares_across_paths(), twin.loss.compares_across_paths());
        assert_eq!(policies.reports()[0].faults, 1, "{hook}");
    }
}

#[test]
fn loss_detector_cannot_have_packets_overdue_at_once_nor_never() {
    let rtt = Duration::from_us(100);
    for (answer, expected) in [
        ("(i64.const 0)", Some(rtt)),
        ("(i64.const 0x7fffffffffffffff)", Some(rtt.times(16))),
        ("(i64.const -1)", None),
        ("(i64.mul (local.get 0) (i64.const 3))", Some(rtt.times(3))),
    ] {
        let hooks = format!(
            "(func (export \"is_lost\") (result i32) i32.const 0)
            (func (export \"overdue_after\") (param i64) (result i64) {answer})"
        );
        let policies = open(&["loss"], &hooks);
        assert_eq!(policies.build(MTU).loss.overdue_after(rtt), expected, "{answer}");
    }
}

// Schedulers.

/// Drives a scheduler through starts, ends, changed shares and transmit events, and returns all
/// rates and quanta after each, and the bytes from which on it needs events.
fn registers(
    scheduler: &mut dyn Scheduler,
    seed: u64,
    mut between: impl FnMut(u32),
) -> Vec<(u64, Option<u32>, u32)> {
    let rates = RateRegisters::new(FLOWS);
    let mut sequence = Sequence::new(seed);
    let mut all = Vec::new();
    let mut alive = [false; FLOWS as usize];
    for n in 0..1500 {
        between(n);
        let flow = FlowId(sequence.below(u64::from(FLOWS)) as u32);
        let share = Share {
            tenant: sequence.below(3) as u16,
            weight: 1 + sequence.below(4) as u16,
            tenant_weight: sequence.below(3) as u16,
        };
        let sample = sequence.transmit();
        match (sequence.below(12), alive[flow.index()]) {
            (0, true) => {
                alive[flow.index()] = false;
                scheduler.flow_ended(sample.now, flow, &rates);
            }
            (1, true) => scheduler.share_changed(sample.now, flow, share, &rates),
            (2, true) => scheduler.on_hint(sample.now, flow, sequence.below(9), &rates),
            (_, true) => scheduler.on_transmit(flow, &sample, &rates),
            (_, false) => {
                alive[flow.index()] = true;
                scheduler.flow_started(sample.now, flow, share, &rates);
            }
        }
        all.extend((0..FLOWS).map(FlowId).map(|flow| {
            let quantum = scheduler.quantum_bytes(flow).filter(|_| alive[flow.index()]);
            (rates.get(flow), quantum, scheduler.event_bytes())
        }));
    }
    all
}

#[test]
fn schedulers_as_modules_are_the_built_in_ones() {
    for (file, parameters, built_in) in [
        ("filling", ":line=10Gbps", "water-filling:line=10Gbps"),
        (
            "filling",
            ":line=10Gbps:step=50Mbps:min=2Mbps",
            "water-filling:line=10Gbps:step=50Mbps:min=2Mbps",
        ),
        ("filling", "", "water-filling"),
        ("drr", "", "drr"),
        ("drr", ":quantum=9K", "drr:quantum=9K"),
    ] {
        let file = example(&format!("rust/{file}.wasm"));
        let module = policies(&format!("sched={file}{parameters}"));
        let built_in = policies(&format!("sched={built_in}"));
        let mut own = module.scheduler_of_nic(FLOWS).expect("a module");
        let mut other = built_in.scheduler_of_nic(FLOWS).expect("no greedy");
        assert_eq!(own.event_bytes(), other.event_bytes());
        let (own, other) = (registers(&mut *own, 5, |_| ()), registers(&mut *other, 5, |_| ()));
        for (n, (own, other)) in own.iter().zip(&other).enumerate() {
            assert_eq!(own, other, "{file}{parameters}: register {n}");
        }
        let different: std::collections::BTreeSet<_> = own.iter().collect();
        assert!(different.len() > 20, "{file}: the rates or quanta change");
        without_faults(&module);
    }
}

/// A scheduler that gives every flow 1 MB/s and turns of 5,000 bytes.
const EVEN: &str = r#"
    (func (export "fairway_rates") (result i32) i32.const 32768)
    (func (export "flow_started") (param i64 i32) (result i32)
        (i64.store (i32.const 32768) (i64.const 1000000))
        (i32.store (i32.const 32776) (local.get 1))
        (i32.store (i32.const 32780) (i32.const 5000))
        (;started;)
        i32.const 1)
    (func (export "flow_ended") (param i64 i32) (result i32) i32.const 0)"#;

#[test]
fn scheduler_that_fails_lifts_every_limit() {
    let cases = [
        ("unreachable", Hook::FlowStarted, Reason::Trap("unreachable code was reached")),
        ("(loop (br 0))", Hook::FlowStarted, Reason::OutOfFuel),
        ("(i32.store (i32.const 32776) (i32.const 4))", Hook::Rates, Reason::NoSuchFlow(4)),
        ("(return (i32.const 5))", Hook::Rates, Reason::BadList(5)),
        ("(return (i32.const -1))", Hook::Rates, Reason::BadList(u32::MAX)),
    ];
    let now = Instant::from_ps(1000);
    for (body, hook, reason) in cases {
        // It fails when the third flow begins.
        let body =
            format!("(if (i32.eq (local.get 1) (i32.const 2)) (then {body}))").replace("\n", " ");
        let policies = open(&["sched"], &EVEN.replace("(;started;)", &body));
        let mut scheduler = policies.scheduler_of_nic(4).expect("a module");
        let rates = RateRegisters::new(4);
        for flow in [0, 1] {
            scheduler.flow_started(now, FlowId(flow), Share::default(), &rates);
            assert_eq!(
                (rates.get(FlowId(flow)), rates.quantum(FlowId(flow))),
                (1_000_000, Some(5000))
            );
        }
        scheduler.flow_started(now, FlowId(2), Share::default(), &rates);
        assert_eq!(only_fault(&policies), (hook, reason), "{body}");
        assert_eq!(scheduler.name(), "greedy");
        for flow in 0..4 {
            assert_eq!(rates.get(FlowId(flow)), RateRegisters::UNLIMITED, "{body}");
            assert_eq!(
                (rates.quantum(FlowId(flow)), scheduler.quantum_bytes(FlowId(flow))),
                (None, None)
            );
        }
        let _ = registers(&mut *scheduler, 1, |_| ());
    }
    // A rate that would stop a flow is raised to 1 Mb/s.
    let policies = open(&["sched"], &EVEN.replace("1000000", "0"));
    let rates = RateRegisters::new(4);
    let mut scheduler = policies.scheduler_of_nic(4).expect("a module");
    scheduler.flow_started(now, FlowId(0), Share::default(), &rates);
    assert_eq!(rates.get(FlowId(0)), 125_000);
}

#[test]
fn new_scheduler_learns_of_all_flows_and_ends_the_reign_of_the_fallback() {
    let folder = Folder::new();
    let bytes = |text: &str| module(&BASE.replace("(;more;)", text));
    let file = folder.put("sched.wasm", &bytes(&EVEN.replace("(;started;)", "unreachable")));
    let policies = policies(&format!("sched={file}"));
    let mut scheduler = policies.scheduler_of_nic(4).expect("a module");
    let (rates, now) = (RateRegisters::new(4), Instant::from_ps(9));
    for flow in [0, 1] {
        scheduler.flow_started(now, FlowId(flow), Share::default(), &rates);
    }
    assert_eq!((scheduler.name(), rates.get(FlowId(0))), ("greedy", RateRegisters::UNLIMITED));
    policies.swap(fairway_sandbox::Role::Scheduler, &bytes(EVEN)).expect("it starts");
    scheduler.flow_started(now, FlowId(2), Share::default(), &rates);
    assert_eq!(scheduler.name(), "wasm");
    let all: Vec<u64> = (0..4).map(|flow| rates.get(FlowId(flow))).collect();
    assert_eq!(all, [1_000_000, 1_000_000, 1_000_000, RateRegisters::UNLIMITED]);
}

// Receiver credit.

type CreditState = (u64, u64, u64, Option<CreditRequest>, Option<u64>);

/// Drives a sender that spends credit.
fn credit(policy: &mut dyn CongestionControl, seed: u64) -> Vec<CreditState> {
    let mut sequence = Sequence::new(seed);
    let mut states = Vec::new();
    let (mut backlog, mut owed) = (0_u64, 0_u64);
    for _ in 0..3000 {
        let ack = sequence.ack();
        let now = ack.now;
        match sequence.below(6) {
            0 => backlog += sequence.below(300_000),
            1 if owed > 0 => {
                let part = owed.min(1 + sequence.below(40_000));
                owed -= part;
                policy.on_credit(now, part as u32);
            }
            2 => policy.on_loss(&sequence.loss()),
            3 => policy.on_ack(&ack),
            _ if policy.allowance_bytes() > 0 && backlog > 0 => {
                let bytes = backlog.min(16 * u64::from(MTU));
                backlog -= bytes;
                policy.on_sent(now, bytes as u32, backlog);
            }
            _ => {}
        }
        let request = policy.credit_request(now, backlog);
        if let Some(request) = request {
            owed = owed.max(request.total_bytes.min(1 << 20));
        }
        states.push((
            policy.window_bytes(),
            policy.allowance_bytes(),
            policy.credit_ahead_bytes(),
            request,
            policy.credit_request_at().map(|at| at.as_ps()),
        ));
    }
    states
}

#[test]
fn eqds_as_a_module_is_the_built_in_eqds() {
    let file = example("rust/eqds.wasm");
    for parameters in ["", ":window=64K:quantum=16K:ahead=8K:max=1M:timeout=90us"] {
        let module = policies(&format!("cc={file}{parameters}"));
        let built_in = policies(&format!("cc=eqds{parameters}"));
        let (mut own, mut other) = (module.build(MTU), built_in.build(MTU));
        let same = |a: &PolicySet, b: &PolicySet| {
            a.congestion.paces_within_window() == b.congestion.paces_within_window()
        };
        assert!(same(&own, &other));
        let states = credit(&mut *own.congestion, 4);
        for (n, (a, b)) in states.iter().zip(credit(&mut *other.congestion, 4)).enumerate() {
            assert_eq!(*a, b, "{parameters}: event {n}");
        }
        assert!(states.iter().any(|state| state.1 == 0), "credit was used up");
        assert!(states.iter().filter(|state| state.3.is_some()).count() > 20, "and requested");
        without_faults(&module);
    }
}

/// Hooks of a congestion control that spends credit and never has any.
const MISER: &str = r#"
    (func (export "on_ack")) (func (export "on_loss"))
    (func (export "on_sent") (param i64 i32 i64) (;sent;))
    (func (export "credit_request") (param i64 i64) (result i32) (;request;) i32.const 0)"#;

#[test]
fn module_that_allows_nothing_is_taken_out_of_use_after_a_second() {
    let policies = open(&["cc"], MISER);
    let mut set = policies.build(MTU);
    let at = |ms: u64| Instant::ZERO + Duration::from_ms(5000 + ms);
    assert_eq!(set.congestion.allowance_bytes(), 0);
    assert_eq!(set.congestion.credit_request(at(0), 0), None, "nothing waits");
    assert_eq!(set.congestion.credit_request_at(), None);
    assert_eq!(set.congestion.credit_request(at(1), 5000), None);
    assert_eq!(set.congestion.credit_request_at(), Some(at(1001)), "the protocol asks again then");
    assert_eq!(set.congestion.credit_request(at(1000), 5000), None);
    assert_eq!((set.congestion.name(), set.congestion.allowance_bytes()), ("wasm", 0));
    let _ = set.congestion.credit_request(at(1001), 5000);
    assert_eq!(only_fault(&policies), (Hook::CreditRequest, Reason::Stalled));
    assert_eq!((set.congestion.name(), set.congestion.allowance_bytes()), ("cubic", u64::MAX));
    assert_eq!(set.congestion.credit_request_at(), None);
}

/// The protocol's clock does not move while it calls a policy whose time has come.
#[test]
fn module_is_called_again_after_the_event_and_before_it_counts_as_stalled() {
    let now = Instant::ZERO + Duration::from_secs(5);
    let (soon, stall) = (now + Duration::from_us(1), now + Duration::from_secs(1));
    let ahead = |ps: u64| (now.as_ps() + ps, Some(now + Duration::from_ps(ps)));
    let past = |at: u64| (at, Some(soon));
    let never = |at: u64| (at, None);
    for (request_at, own) in [
        past(1),
        past(now.as_ps() - 1),
        past(now.as_ps()),
        ahead(1),
        ahead(7_000_000),
        ahead(3_000_000_000_000),
        never(0),
        never(1 << 63),
        never(u64::MAX),
    ] {
        let store = format!("(i64.store (i32.const 1064) (i64.const {request_at}))");
        let policies = open(&["cc"], &MISER.replace("(;request;)", &store));
        let mut set = policies.build(MTU);
        assert_eq!(set.congestion.credit_request(now, 0), None);
        assert_eq!(set.congestion.credit_request_at(), own, "{request_at}: nothing waits");
        assert_eq!(set.congestion.credit_request(now, 5000), None);
        let first = own.map_or(stall, |own| own.min(stall));
        assert_eq!(set.congestion.credit_request_at(), Some(first), "{request_at}");
        // As the protocol does, in steps of 10 ms at least.
        let mut at = now;
        for _ in 0..200 {
            let Some(next) = set.congestion.credit_request_at() else { break };
            assert!(at.is_before(next), "{request_at}: time passes");
            at = next.max((at + Duration::from_ms(10)).min(stall));
            let _ = set.congestion.credit_request(at, 5000);
        }
        assert_eq!(at, stall, "{request_at}");
        assert_eq!(only_fault(&policies), (Hook::CreditRequest, Reason::Stalled));
    }
}

/// A module that names the next picosecond again and again would take 10^12 calls to stall.
#[test]
fn module_in_haste_is_called_once_in_a_microsecond() {
    let store = "(i64.store (i32.const 1064) (i64.add (local.get 0) (i64.const 1)))";
    let policies = open(&["cc"], &MISER.replace("(;request;)", store));
    let mut set = policies.build(MTU);
    let start = Instant::ZERO + Duration::from_secs(5);
    let (mut at, mut calls) = (start, 0);
    while at.since(start) < Duration::from_us(1000) && calls < 10_000 {
        let _ = set.congestion.credit_request(at, 5000);
        at = set.congestion.credit_request_at().expect("a time");
        calls += 1;
    }
    assert!((1000..1100).contains(&calls), "{calls} calls in a millisecond");
}

#[test]
fn sender_of_credit_that_fails_in_any_hook_is_replaced_by_the_default() {
    for (place, hook) in [("(;sent;)", Hook::OnSent), ("(;request;)", Hook::CreditRequest)] {
        for body in ["unreachable", "(loop (br 0))"] {
            let policies = open(&["cc"], &MISER.replace(place, body));
            let mut set = policies.build(MTU);
            set.congestion.on_sent(Instant::from_ps(5), 4096, 100);
            assert_eq!(set.congestion.credit_request(Instant::from_ps(6), 100), None);
            assert_eq!(only_fault(&policies).0, hook, "{body}");
            assert_eq!(
                (set.congestion.name(), set.congestion.allowance_bytes()),
                ("cubic", u64::MAX)
            );
        }
    }
}

// One instance for several kinds.

/// The path is the number of acknowledgements so far; the window grows with each chosen path.
const BOTH: &str = r#"
    (func (export "on_ack")
        (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1))))
    (func (export "on_loss") (;loss;))
    (func (export "choose_path") (param i32) (result i32)
        (i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) (i64.const 50000)))
        (i32.load (i32.const 512)))
    (func (export "is_lost") (result i32) (i32.load (i32.const 512)))"#;

#[test]
fn kinds_of_one_file_share_an_instance() {
    let policies = open(&["cc", "path", "loss"], BOTH);
    let mut set = policies.build(MTU);
    let mut other = policies.build(MTU);
    let (mut sequence, mut paths) = (Sequence::new(1), [PathView::default(); 8]);
    let request = sequence.chunk(&mut paths);
    assert_eq!(
        (set.path.choose(&paths, &request), set.loss.is_lost(&sequence.evidence())),
        (0, false)
    );
    set.congestion.on_ack(&sequence.ack());
    set.congestion.on_ack(&sequence.ack());
    assert_eq!(set.congestion.window_bytes(), 50_000, "what the path choice has decided");
    assert_eq!(
        (set.path.choose(&paths, &request), set.loss.is_lost(&sequence.evidence())),
        (2, true)
    );
    assert_eq!(other.path.choose(&paths, &request), 0, "another channel has its own");
    let [report] = &policies.reports()[..] else { panic!("one instance for all") };
    assert_eq!((report.started, report.faults), (2, 0));
    let text = policies.to_string();
    let items = report.item.split(',').filter(|item| text.contains(item)).count();
    assert_eq!(items, 3, "{text} names all kinds of {}", report.item);
    // Different parameters are different policies.
    let folder = Folder::new();
    let file = folder.put("both.wasm", &module(&BASE.replace("(;more;)", BOTH)));
    let apart = common::policies(&format!("cc={file}:a=1,path={file}"));
    assert_eq!(apart.reports().len(), 2);
    let alone = common::policies(&format!("cc={file},path={file}")).with_path(Default::default());
    assert_eq!(alone.to_string(), format!("cc=wasm:{file},path=reps,loss=path-order,sched=greedy"));
}

#[test]
fn fault_in_one_kind_ends_the_others_of_the_instance() {
    let policies = open(&["cc", "path"], &BOTH.replace("(;loss;)", "unreachable"));
    let mut set = policies.build(MTU);
    let loss = LossSample { now: Instant::from_ps(7), ..LossSample::default() };
    set.congestion.on_loss(&loss);
    assert_eq!((set.congestion.name(), set.path.name()), ("cubic", "reps"));
    let paths = [PathView { usable: true, ..PathView::default() }; 4];
    let request = ChunkRequest { now: Instant::from_ps(9), bytes: 1, random: 2 };
    assert_eq!([0, 1].map(|_| set.path.choose(&paths, &request)), [0, 1]);
    assert_eq!(only_fault(&policies), (Hook::OnLoss, Reason::Trap("unreachable code was reached")));
    // A new module takes over both.
    let good = module(&BASE.replace("(;more;)", BOTH));
    policies.swap(fairway_sandbox::Role::Path, &good).expect("it starts");
    set.congestion.on_ack(&Sequence::new(1).ack());
    assert_eq!((set.congestion.name(), set.path.name()), ("wasm", "wasm"));
    assert_eq!(set.path.choose(&paths, &request), 1);
    // One that decides only one of the kinds does not.
    let half = module(&BASE.replace("(;more;)", &BOTH.replace("choose_path", "other")));
    assert!(policies.swap(fairway_sandbox::Role::Congestion, &half).is_err());
}

// The square root.

#[test]
fn modules_have_the_square_root_of_the_host() {
    let hooks = r#"(func (export "on_ack")
            (i64.store (i32.const 1024) (call $root (i64.load (i32.const 1112)))))
        (func (export "on_loss"))"#;
    let import = "(module (import \"fairway\" \"isqrt\" (func $root (param i64) (result i64)))";
    let folder = Folder::new();
    let text = BASE.replace("(module", import).replace("(;more;)", hooks);
    let file = folder.put("root.wasm", &module(&text));
    let mut set = policies(&format!("cc={file}")).build(1);
    let mut sequence = Sequence::new(9);
    for shift in 0..60 {
        let value = sequence.below(u64::MAX) >> shift;
        let mut sample = sequence.ack();
        sample.bytes_in_flight = value;
        set.congestion.on_ack(&sample);
        assert_eq!(set.congestion.window_bytes(), value.isqrt().max(2), "{value}");
    }
}
