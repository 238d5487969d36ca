//! Both engines decide the same, and take the same modules out of use for the same reasons.
#![cfg(feature = "compiled")]

mod common;

use std::time::{Duration, Instant as Clock};

use common::{Folder, TEMPLATE, decisions, example, module, policies, with};
use fairway_policy::{FlowId, PathView, PolicySet, RateRegisters, Share};
use fairway_sandbox::probe::Sequence;
use fairway_sandbox::{Engine, Fault, Hook, Module, Policies, Reason};

/// Names of the engines in a specification.
const BOTH: [&str; 2] = ["interpreted", "compiled"];

const ON_ACK: &str = "(i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) \
                      (i64.const 1000)))";

/// Checks that every instance was run by the engine that its item names, and none faulted.
fn none_faulted(all: &[Policies; 2]) {
    for (policies, engine) in all.iter().zip([Engine::Interpreted, Engine::Compiled]) {
        for report in policies.reports() {
            assert_eq!((report.engine, report.faults), (engine, 0), "{report}");
        }
    }
}

/// Returns the decisions of the policies of a channel about events of all kinds.
fn channel(set: &mut PolicySet, seed: u64, events: usize) -> Vec<u64> {
    let mut sequence = Sequence::new(seed);
    let windows = decisions(&mut *set.congestion, Sequence::new(seed + 1000).take(events));
    let mut decided: Vec<u64> = windows.into_iter().flatten().collect();
    let mut paths = [PathView::default(); 64];
    for n in 0..events {
        let request = sequence.chunk(&mut paths);
        decided.push(u64::from(set.path.has_room(&paths)));
        let path = set.path.choose(&paths, &request);
        decided.push(path as u64);
        match n % 3 {
            0 => set.path.on_loss(path, &sequence.loss()),
            _ => set.path.on_ack(path, &sequence.path_ack()),
        }
        let ack = sequence.ack();
        set.congestion.on_sent(ack.now, ack.acked_bytes, ack.bytes_in_flight);
        decided.push(set.congestion.allowance_bytes());
        if let Some(asked) = set.congestion.credit_request(ack.now, ack.bytes_in_flight) {
            decided.extend([asked.total_bytes, asked.resend.into(), asked.blocked.into()]);
        }
        if n % 5 == 0 {
            set.congestion.on_credit(ack.now, ack.acked_bytes);
            set.loss.on_reordering(&sequence.late());
        }
        set.loss.on_ack(ack.now, ack.smoothed_rtt, ack.acked_packets);
        let overdue = set.loss.overdue_after(ack.smoothed_rtt);
        decided.push(overdue.map_or(u64::MAX, |after| after.as_ps()));
        decided.push(set.loss.is_lost(&sequence.evidence()).into());
    }
    decided
}

#[test]
fn policies_of_channels_decide_the_same_in_both_engines() {
    let cases = [
        ("cc", "rust/swift.wasm"),
        ("cc", "rust/aimd.wasm"),
        ("cc", "rust/eqds.wasm"),
        ("cc", "c/aimd.wasm"),
        ("path", "c/p2c.wasm"),
        ("path", "rust/mprdma.wasm"),
        ("path", "rust/reps.wasm"),
        ("loss", "rust/rack.wasm"),
    ];
    for (label, file) in cases {
        let of = |engine| policies(&format!("{label}={engine}:{}", example(file)));
        for seed in 0..6 {
            let all = BOTH.map(of);
            let [one, other] = all.each_ref().map(|set| {
                let mtu = if seed % 2 == 0 { 4096 } else { 1024 };
                channel(&mut set.build(mtu), seed, 1500)
            });
            assert!(one == other, "{label}={file}: seed {seed}");
            let mut different = one.clone();
            different.sort_unstable();
            different.dedup();
            assert!(different.len() > 10, "{file} decides something: {}", different.len());
            none_faulted(&all);
        }
    }
}

#[test]
fn schedulers_set_the_same_rates_in_both_engines() {
    for file in ["rust/filling.wasm:line=10Gbps", "rust/drr.wasm"] {
        let (name, parameters) = file.split_once(':').unwrap_or((file, ""));
        let separator = if parameters.is_empty() { "" } else { ":" };
        let of =
            |engine| policies(&format!("sched={engine}:{}{separator}{parameters}", example(name)));
        let all = BOTH.map(of);
        let [one, other] = all.each_ref().map(|set| {
            let mut scheduler = set.scheduler_of_nic(8).expect("a scheduler");
            let (rates, mut sequence) = (RateRegisters::new(8), Sequence::new(21));
            let mut set = Vec::new();
            for n in 0..3000_u32 {
                let (flow, sample) = (FlowId(n % 8), sequence.transmit());
                let share = Share { weight: 1 + n as u16 % 3, ..Share::default() };
                match n {
                    0..8 => scheduler.flow_started(sample.now, flow, share, &rates),
                    1000..1004 => scheduler.share_changed(sample.now, flow, share, &rates),
                    2996.. => scheduler.flow_ended(sample.now, flow, &rates),
                    _ => scheduler.on_transmit(flow, &sample, &rates),
                }
                set.push((rates.get(flow), scheduler.quantum_bytes(flow)));
            }
            set
        });
        assert_eq!(one, other, "{file}");
        none_faulted(&all);
    }
}

/// Returns the module's fault in each engine, and checks that the default decides from then on.
fn faults(bytes: &[u8], engine: Engine) -> [Option<Fault>; 2] {
    let folder = Folder::new();
    let file = folder.put("hostile.wasm", bytes);
    let all = BOTH.map(|engine| policies(&format!("cc={engine}:{file}")));
    assert_eq!(all[1].reports()[0].engine, engine, "the compiler takes it, or not");
    all.map(|policies| {
        let mut set = policies.build(4096);
        set.congestion.on_ack(&Sequence::new(7).ack());
        let report = policies.reports().swap_remove(0);
        let name = set.congestion.name();
        assert_eq!(report.faults == 1, name == "cubic", "{name}: {report}");
        report.first_fault.map(|(_, fault)| fault)
    })
}

#[test]
fn modules_that_fail_in_an_event_fail_for_the_same_reason_in_both_engines() {
    let deep = "(call $deep)) (func $deep (call $deep)";
    let bodies = [
        "(loop (br 0))",
        "unreachable",
        "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
        "(drop (i64.rem_s (i64.const 1) (i64.const 0)))",
        "(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
        "(i64.store (i32.const 65530) (i64.const 1))",
        "(i64.store (i32.const -8) (i64.const 1))",
        "(i64.store offset=0xffffffff (i32.const -1) (i64.const 1))",
        "(drop (i32.load8_u (i32.const 65536)))",
        "(memory.fill (i32.const 0) (i32.const 0) (i32.const 65537))",
        "(memory.copy (i32.const 0) (i32.const 1) (i32.const 65536))",
        "(memory.copy (i32.const 60000) (i32.const 0) (i32.const 6000))",
        "(loop (memory.fill (i32.const 0) (i32.const 0) (i32.const 65536)) (br 0))",
        "(loop (memory.copy (i32.const 0) (i32.const 8) (i32.const 65000)) (br 0))",
        "(loop (drop (memory.grow (i32.const 1))) (br 0))",
        deep,
    ];
    for body in bodies {
        let [one, other] = faults(&with(ON_ACK, body), Engine::Compiled);
        assert_eq!(one, other, "{body}");
        assert!(one.is_some(), "{body}");
    }
    // An entry of a table that is null, outside, or of another type.
    for (index, more) in [(0, ""), (5, ""), (1, "(elem (i32.const 1) $n)")] {
        let call = format!("(call_indirect (type $t) (i32.const {index}))");
        let text = TEMPLATE.replace(ON_ACK, &call).replace(
            "(;more;)",
            &format!("(type $t (func)) (table 2 funcref) (func $n (param i64)) {more}"),
        );
        let [one, other] = faults(&module(&text), Engine::Compiled);
        assert_eq!(one, other, "{call} {more}");
        assert!(matches!(one, Some(Fault { hook: Hook::OnAck, reason: Reason::Trap(_) })));
    }
}

/// Filling and copying memory work, and use fuel by the byte in both engines: what fits is done,
/// and the same number of bytes in many calls ends in no fuel.
#[test]
fn filling_and_copying_memory_is_metered_by_the_byte_when_compiled() {
    let text = "(memory.fill (i32.const 1024) (i32.const 1) (i32.const 3))
        (memory.copy (i32.const 1027) (i32.const 1024) (i32.const 2))";
    let folder = Folder::new();
    let file = folder.put("fill.wasm", &with(ON_ACK, text));
    for engine in BOTH {
        let policies = policies(&format!("cc={engine}:{file}"));
        let mut set = policies.build(4096);
        set.congestion.on_ack(&Sequence::new(1).ack());
        assert_eq!(set.congestion.window_bytes(), 0x01_0101_0101, "{engine}");
        assert_eq!(policies.reports()[0].faults, 0);
    }
    // 400 calls: as instructions they would use a few thousand units.
    for work in
        ["memory.fill (i32.const 0) (i32.const 0)", "memory.copy (i32.const 0) (i32.const 0)"]
    {
        let body = format!(
            "(local $n i32) (loop ({work} (i32.const 60000))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $n) (i32.const 400))))"
        );
        for fault in faults(&with(ON_ACK, &body), Engine::Compiled) {
            assert_eq!(fault.map(|fault| fault.reason), Some(Reason::OutOfFuel), "{work}");
        }
    }
}

/// What the compiler cannot meter, or would take long for, is interpreted.
#[test]
fn modules_that_the_compiler_does_not_take_are_interpreted() {
    let grow = "(table $t 1 funcref) (func (drop (table.grow $t (ref.null func) (i32.const 1))))";
    let fill = "(table $t 1 funcref)
        (func (table.fill $t (i32.const 0) (ref.null func) (i32.const 1)))";
    let init = "(data $d \"abc\")
        (func (memory.init $d (i32.const 0) (i32.const 0) (i32.const 3)))";
    let long = format!("(func {})", "(drop (i64.load (i32.const 8)))".repeat(6_000));
    let many = format!("(func {})", "(drop (i64.load (i32.const 8)))".repeat(8)).repeat(3_000);
    for more in [grow, fill, init, &long, &many] {
        let loaded = Module::load_for(&with("(;more;)", more), Engine::Compiled).expect("fine");
        assert_eq!(loaded.engine(), Engine::Interpreted);
    }
    let loaded = Module::load_for(&module(TEMPLATE), Engine::Compiled).expect("fine");
    assert_eq!(loaded.engine(), Engine::Compiled);
}

/// Random bytes in modules: those that run decide the same. A module may run out of fuel in one
/// engine only, because both count it in their own units.
#[test]
fn fuzzed_modules_decide_the_same_in_both_engines() {
    let mut sequence = Sequence::new(5);
    let folder = Folder::new();
    let files = ["c/aimd.wasm", "rust/swift.wasm", "rust/aimd.wasm"];
    let seeds = files.map(|name| std::fs::read(example(name)).expect("an example"));
    let (mut compared, mut faulted) = (0, 0);
    for round in 0..3_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=sequence.below(4) {
            let at = sequence.below(bytes.len() as u64) as usize;
            bytes[at] = sequence.below(256) as u8;
        }
        let file = folder.put("fuzzed.wasm", &bytes);
        let of = |engine| format!("cc={engine}:{file}").parse::<Policies>();
        let (one, other) = (of(BOTH[0]), of(BOTH[1]));
        let reason = |policies: &Policies| {
            policies.reports().swap_remove(0).first_fault.map(|(_, fault)| fault.reason)
        };
        match (one, other) {
            (Ok(one), Ok(other)) => {
                let [first, second] = [&one, &other].map(|policies| {
                    let mut set = policies.build(4096);
                    decisions(&mut *set.congestion, sequence.clone().take(40))
                });
                let reasons = [reason(&one), reason(&other)];
                let by_limit = |reason: &Option<Reason>| {
                    matches!(reason, Some(Reason::OutOfFuel | Reason::Trap("stack overflow")))
                };
                if reasons.iter().any(by_limit) {
                    continue;
                }
                assert_eq!(reasons[0], reasons[1], "round {round}");
                assert_eq!(first, second, "round {round}");
                compared += 1;
                faulted += usize::from(reasons[0].is_some());
            }
            (Err(one), Err(other)) => {
                let text = |error: &fairway_sandbox::PoliciesError| {
                    error.to_string().replace("interpreted:", "").replace("compiled:", "")
                };
                if !text(&one).contains("fuel") {
                    assert_eq!(text(&one), text(&other), "round {round}");
                }
            }
            (one, other) => {
                let error = one.err().or(other.err()).expect("one of them failed").to_string();
                assert!(error.contains("fuel") || error.contains("OutOfFuel"), "{round}: {error}");
            }
        }
    }
    assert!(compared > 200 && faulted > 5, "{compared} modules ran, {faulted} faulted");
}

/// The compiler's time is bounded by the size of the file.
#[test]
fn hostile_modules_are_compiled_in_time() {
    // 250 locals that all live to the end; blocks in blocks; a table of branches.
    let live: String = (0..250)
        .map(|n| format!("(local.set {n} (i64.load (i32.const {})))", 8 * n))
        .chain((0..250).map(|n| format!("(i64.store (i32.const {}) (local.get {n}))", 16 * n)))
        .collect();
    let live = format!("(func (local {}) {live})", "i64 ".repeat(250)).repeat(20);
    let deep = format!("(func {}{})", "(block ".repeat(8_000), ")".repeat(8_000)).repeat(8);
    let targets = "0 ".repeat(15_000);
    let table = format!("(func (block (br_table {targets} (i32.const 0))))").repeat(8);
    let select = "(i32.add (select (local.get 0) (i32.const 1) (local.get 0)) ".repeat(2_000);
    let wide =
        format!("(func (param i32) (result i32) {select} (i32.const 1) {})", ")".repeat(2_000))
            .repeat(6);
    for (what, more) in [("live", live), ("deep", deep), ("table", table), ("wide", wide)] {
        let bytes = with("(;more;)", &more);
        let begin = Clock::now();
        let loaded = Module::load_for(&bytes, Engine::Compiled);
        let elapsed = begin.elapsed();
        let engine = loaded.as_ref().map(Module::engine);
        println!("{what}: {} bytes, {elapsed:?}, {engine:?}", bytes.len());
        assert!(elapsed < Duration::from_secs(20), "{what}: {elapsed:?}");
    }
}

/// The compiler installs no handlers of signals: a trap is an instruction that is checked before.
#[cfg(target_os = "linux")]
#[test]
fn compiled_modules_install_no_signal_handlers() {
    for body in ["(i64.store (i32.const -8) (i64.const 1))", "unreachable"] {
        let [_, fault] = faults(&with(ON_ACK, body), Engine::Compiled);
        assert!(fault.is_some());
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("it is Linux");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a line");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask");
    // SIGILL and SIGFPE. Rust's own runtime handles SIGSEGV and SIGBUS.
    assert_eq!(caught & (1 << 3 | 1 << 7), 0, "{caught:#x}");
}
