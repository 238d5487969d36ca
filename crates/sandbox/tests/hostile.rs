//! Malicious or broken modules: none may panic or hang, and none is used any further.

mod common;

use common::{Folder, TEMPLATE, module, policies, with};
use fairway_policy::{ChunkRequest, PathView, PolicySet, PolicySpec};
use fairway_sandbox::probe::Sequence;
use fairway_sandbox::{Fault, Hook, LoadError, Module, Policies, Reason, SwapError};
use fairway_wire::Instant;

const ON_ACK: &str = "(i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) \
                      (i64.const 1000)))";

fn open(bytes: &[u8], kind: &str) -> Result<Policies, String> {
    let folder = Folder::new();
    let file = folder.put("hostile.wasm", bytes);
    format!("{kind}={file}").parse::<Policies>().map_err(|error| error.to_string())
}

/// Returns the fault of a module that starts but fails in an event, and the policies after it.
fn fault_of(bytes: &[u8]) -> (Fault, PolicySet) {
    let policies = open(bytes, "cc").expect("it starts");
    let mut set = policies.build(4096);
    let mut twin = PolicySpec::default().build(4096);
    let mut sequence = Sequence::new(7);
    for _ in 0..100 {
        let sample = sequence.ack();
        set.congestion.on_ack(&sample);
        twin.congestion.on_ack(&sample);
        // From the failing event on, including it, the default decides.
        assert_eq!(set.congestion.window_bytes(), twin.congestion.window_bytes());
        assert_eq!(set.congestion.chunk_bytes(1 << 30), twin.congestion.chunk_bytes(1 << 30));
    }
    let [report] = &policies.reports()[..] else { panic!("one module") };
    assert_eq!((report.started, report.faults), (1, 1));
    let (_, fault) = report.first_fault.clone().expect("a fault is reported");
    assert_eq!(set.congestion.name(), "cubic");
    (fault, set)
}

#[test]
fn the_template_itself_is_fine() {
    let policies = open(&module(TEMPLATE), "cc").expect("it starts");
    let mut set = policies.build(4096);
    assert_eq!(set.congestion.window_bytes(), 100_000);
    set.congestion.on_ack(&Sequence::new(1).ack());
    assert_eq!((set.congestion.window_bytes(), set.congestion.name()), (101_000, "wasm"));
    assert_eq!(policies.reports()[0].faults, 0);
}

#[test]
fn policy_that_fails_in_an_event_is_replaced_in_that_event() {
    let cases = [
        ("(loop (br 0))", Reason::OutOfFuel),
        ("unreachable", Reason::Trap("unreachable code was reached")),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", Reason::Trap("division by zero")),
        ("(i64.store (i32.const 65530) (i64.const 1))", Reason::Trap("memory out of bounds")),
        ("(i64.store (i32.const -8) (i64.const 1))", Reason::Trap("memory out of bounds")),
        (
            "(memory.fill (i32.const 0) (i32.const 0) (i32.const 65537))",
            Reason::Trap("memory out of bounds"),
        ),
        // Each fill is legal, and costs fuel in proportion to its bytes.
        (
            "(loop (memory.fill (i32.const 0) (i32.const 0) (i32.const 65536)) (br 0))",
            Reason::OutOfFuel,
        ),
        ("(loop (drop (memory.grow (i32.const 1))) (br 0))", Reason::OutOfFuel),
    ];
    for (body, reason) in cases {
        let (fault, _) = fault_of(&with(ON_ACK, body));
        assert_eq!(fault, Fault { hook: Hook::OnAck, reason }, "{body}");
    }
}

#[test]
fn calls_that_go_too_deep_or_need_too_much_stack_trap() {
    let recursion = "(call $deep)) (func $deep (call $deep)";
    let (fault, _) = fault_of(&with(ON_ACK, recursion));
    assert_eq!(fault.reason, Reason::Trap("stack overflow"));
    if common::is_compiled() {
        // Compiled code has no place for locals that are not used, and a wider stack.
        return;
    }
    let locals = "i64 ".repeat(120);
    let chain: String =
        (0..5).map(|at| format!("(func $f{at} (local {locals}) (call $f{}))", at + 1)).collect();
    let nested = format!("(call $f0)) {chain} (func $f5");
    let (fault, _) = fault_of(&with(ON_ACK, &nested));
    assert_eq!(fault.reason, Reason::Trap("stack overflow"));
    // A single function, by the results of instructions that are never executed.
    let values = format!("{}{}", "(i32.load (i32.const 0)) ".repeat(600), "drop ".repeat(600));
    let early = format!(
        "(call $wide (i32.const 1))) (func $wide (param i32)
        (if (local.get 0) (then return)) {values}"
    );
    let (fault, _) = fault_of(&with(ON_ACK, &early));
    assert_eq!(fault.reason, Reason::Trap("stack overflow"));
}

/// Calls of functions with many locals cost more than their single instruction.
#[test]
fn locals_do_not_escape_the_meter() {
    let wide = |locals: usize| {
        let locals = "i64 ".repeat(locals);
        with(ON_ACK, &format!("(loop (call $wide) (br 0))) (func $wide (local {locals})"))
    };
    let (fault, _) = fault_of(&wide(128));
    assert_eq!(fault.reason, Reason::OutOfFuel);
    for locals in [129, 1_900] {
        let error = Module::load(&wide(locals)).expect_err("too many locals");
        assert_eq!(error, LoadError::Locals(locals as u64));
        assert!(error.to_string().contains(&format!("{locals} locals, and at most 128")));
    }
}

#[test]
fn memory_grows_at_the_start_only_and_not_without_bound() {
    // During an event, no page is granted, and the module detects that.
    let grow = "(i64.store (i32.const 1024) (i64.extend_i32_s (memory.grow (i32.const 1))))";
    let policies = open(&with(ON_ACK, grow), "cc").expect("it starts");
    let mut set = policies.build(4096);
    set.congestion.on_ack(&Sequence::new(1).ack());
    // -1 as bytes exceeds the largest window.
    assert_eq!(set.congestion.window_bytes(), 1 << 40);
    // At the start, a loop that requests pages until none is granted gets 16 in total.
    let bomb = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        (i64.store (i32.const 1024) (i64.mul (i64.extend_i32_u (memory.size)) (i64.const 65536)))";
    let policies = open(&with("(i64.store (i32.const 1024) (i64.const 100000))", bomb), "cc")
        .expect("it starts");
    assert_eq!(policies.build(4096).congestion.window_bytes(), 1 << 20);
}

#[test]
fn policy_that_cannot_start_is_refused() {
    let abi = "(func (export \"fairway_policy_abi\") (result i32) i32.const 1)";
    let area = "(func (export \"fairway_area\") (result i32) i32.const 1024)";
    let init = "(i64.store (i32.const 1024) (i64.const 100000))\n        i32.const 0";
    let cases = [
        (abi, "(func (export \"fairway_policy_abi\") (result i32) i32.const 6)", "version 5"),
        (abi, "(func (export \"fairway_policy_abi\") (result i32) i32.const 0)", "says 0"),
        (
            abi,
            "(func (export \"fairway_policy_abi\") (result i32) (loop (br 0)) i32.const 1)",
            "fuel",
        ),
        (area, "(func (export \"fairway_area\") (result i32) i32.const 60000)", "no room"),
        (area, "(func (export \"fairway_area\") (result i32) i32.const -8)", "no room"),
        (area, "(func (export \"fairway_area\") (result i32) i32.const 0)", "no room"),
        (area, "(func (export \"fairway_area\") (result i32) i32.const 1025)", "no room"),
        (area, "(func (export \"fairway_area\") (result i32) unreachable)", "trapped"),
        (init, "i32.const 1", "refused the parameters"),
        (init, "unreachable", "trapped"),
        (init, "(loop (br 0)) i32.const 0", "fuel"),
        (
            init,
            "(i32.store (i32.const 13568) (i32.const 0x216f6e)) i32.const 1",
            "refused the parameters: no!",
        ),
        ("(;more;)", "(start $s) (func $s (loop (br 0)))", "OutOfFuel"),
        ("(;more;)", "(start $s) (func $s unreachable)", "cannot be started"),
        ("(;more;)", "(data (i32.const 65530) \"too far away\")", "cannot be started"),
        ("(;more;)", "(table 100000 funcref)", "cannot be started"),
        ("\"memory\") 1)", "\"memory\") 17)", "cannot be started"),
        ("\"memory\") 1)", "\"memory\") 65536)", "cannot be started"),
    ];
    for (old, new, text) in cases {
        let error = open(&with(old, new), "cc").expect_err(new);
        assert!(error.contains(text), "{new}: {error}");
    }
}

#[test]
fn file_without_a_policy_is_refused_before_it_runs() {
    let load = |bytes: &[u8]| Module::load(bytes).expect_err("no policy");
    let wrong = |old: &str, new: &str| load(&with(old, new));
    assert_eq!(load(&[0; fairway_sandbox::MODULE_BYTES_MAX + 1]), LoadError::TooLarge);
    assert!(matches!(load(b""), LoadError::Invalid(_)));
    assert!(matches!(load(b"\0asm\x01\0\0"), LoadError::Invalid(_)));
    // An empty module.
    assert_eq!(load(b"\0asm\x01\0\0\0"), LoadError::Missing("memory"));
    assert_eq!(wrong("(export \"memory\")", ""), LoadError::Missing("memory"));
    let renamed = wrong("\"fairway_init\"", "\"fairway_begin\"");
    assert_eq!(renamed, LoadError::Missing("fairway_init"));
    let types = wrong("(func (export \"on_ack\")", "(func (export \"on_ack\") (param i32)");
    assert!(matches!(types, LoadError::WrongType { name: "on_ack", .. }));
    let global = TEMPLATE.replace("(func (export \"on_loss\")", "(func");
    let global = global.replace("(;more;)", "(global (export \"on_loss\") i32 (i32.const 1))");
    let error = load(&module(&global));
    assert!(matches!(error, LoadError::WrongType { name: "on_loss", .. }));
    let import = TEMPLATE.replace("(module", "(module (import \"env\" \"now\" (func))");
    assert_eq!(load(&module(&import)), LoadError::Imports(String::from("env.now")));
    // The square root is a function of one type.
    for what in ["(func (param i32) (result i32))", "(func)", "(global i64)"] {
        let import = format!("(module (import \"fairway\" \"isqrt\" {what})");
        let text = TEMPLATE.replace("(module", &import);
        assert_eq!(load(&module(&text)), LoadError::Imports(String::from("fairway.isqrt")));
    }
    let nothing = TEMPLATE.replace("\"on_ack\"", "\"a\"").replace("\"choose_path\"", "\"c\"");
    assert_eq!(load(&module(&nothing)), LoadError::NoPolicy);
    for body in ["(drop (f64.add (f64.const 1) (f64.const 2)))", "(drop (f32.const 0))"] {
        assert!(matches!(wrong(ON_ACK, body), LoadError::Invalid(_)), "{body}: no floats");
    }
    let vector = wrong(ON_ACK, "(drop (v128.const i64x2 0 0))");
    assert!(matches!(vector, LoadError::Invalid(_)));
    let threads = TEMPLATE.replace("\"memory\") 1)", "\"memory\") 1 1 shared)");
    assert!(matches!(load(&module(&threads)), LoadError::Invalid(_)));
}

#[test]
fn names_in_a_module_reach_no_terminal_unescaped() {
    let load = |text: &str| Module::load(&module(text)).expect_err("no policy").to_string();
    let name = r"\1b[2J\0d\0aok\e2\80\ae";
    let import = format!("(module (import \"env\" \"{name}\" (func))");
    let imported = load(&TEMPLATE.replace("(module", &import));
    let exports = format!("(func (export \"{name}\")) (func (export \"{name}\")) (;more;)");
    let exported = load(&TEMPLATE.replace("(;more;)", &exports));
    for error in [imported, exported] {
        assert!(error.contains(r"\u{1b}[2J\r\nok\u{202e}"), "{error}");
        assert!(!error.contains(|c: char| c.is_control() || c == '\u{202e}'), "{error:?}");
    }
}

#[test]
fn modules_that_are_large_for_their_size_are_loaded_or_refused() {
    // 20,000 empty functions; 5,000 functions of 50,000 locals; a body of 30,000 blocks in blocks.
    let many = "(func)".repeat(20_000);
    let wide = "(func (local i64))".repeat(5_000);
    let deep = format!("(func {}{})", "(block ".repeat(30_000), ")".repeat(30_000));
    for more in [many, wide, deep] {
        let bytes = with("(;more;)", &more);
        if let Ok(loaded) = Module::load(&bytes) {
            assert_eq!(loaded.file_bytes(), bytes.len());
        }
    }
    let mut bomb = module(TEMPLATE);
    // A custom section whose length exceeds the file.
    bomb.extend([0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(matches!(Module::load(&bomb), Err(LoadError::Invalid(_))));
}

#[test]
fn a_path_that_there_is_not_ends_its_use() {
    let bytes = with("(result i32) i32.const 0)\n    (;more;)", "(result i32) i32.const 16)");
    let policies = open(&bytes, "path").expect("it starts");
    let mut set = policies.build(4096);
    let mut views = [PathView { usable: true, ..PathView::default() }; 32];
    views[16].usable = false;
    let request = ChunkRequest { now: Instant::from_ps(9), bytes: 1, random: 2 };
    // The path is one of 32; the protocol checks whether it is usable.
    assert_eq!(set.path.choose(&views, &request), 16);
    assert_eq!(set.path.choose(&views[..16], &request), 0, "the default begins");
    assert_eq!(set.path.choose(&views[..16], &request), 1);
    let fault = Fault { hook: Hook::ChoosePath, reason: Reason::NoSuchPath(16) };
    assert_eq!(policies.reports()[0].first_fault, Some((Instant::from_ps(9), fault)));
    assert_eq!(set.path.name(), "reps");
}

#[test]
fn fault_of_one_channel_does_not_affect_another() {
    // The module traps when its window has grown to 103,000.
    let body = format!(
        "{ON_ACK} (if (i64.eq (i64.load (i32.const 1024)) (i64.const 103000)) (then unreachable))"
    );
    let policies = open(&with(ON_ACK, &body), "cc").expect("it starts");
    let (mut one, mut other) = (policies.build(4096), policies.build(4096));
    let sample = Sequence::new(1).ack();
    for _ in 0..3 {
        one.congestion.on_ack(&sample);
    }
    other.congestion.on_ack(&sample);
    assert_eq!((one.congestion.name(), other.congestion.name()), ("cubic", "wasm"));
    assert_eq!(other.congestion.window_bytes(), 101_000);
    assert_eq!(policies.reports()[0].faults, 1);
}

#[test]
fn names_that_are_no_modules_are_refused() {
    let folder = Folder::new();
    let fine = folder.put("fine.wasm", &module(TEMPLATE));
    let there = folder.path().display();
    let cases = [
        format!("cc={there}/none.wasm"),
        format!("cc={there}"),
        format!("cc=wasm:{there}"),
        format!("loss={fine}"),
        format!("sched={fine}"),
        format!("probe={fine}"),
        format!("cc={fine},cc=swift"),
        format!("cc={fine},cc={fine}"),
        format!("cc={fine}:{}", "x".repeat(1025)),
        String::from("cc=wasm:nowhere-to-be-found"),
        String::from("cc=wasm:"),
        format!("cc={fine},path=magic"),
    ];
    for text in cases {
        let error = text.parse::<Policies>().expect_err(&text);
        assert!(!error.to_string().is_empty());
    }
    let only_path = TEMPLATE.replace("\"on_ack\"", "\"a\"");
    let file = folder.put("path.wasm", &module(&only_path));
    assert!(format!("cc={file}").parse::<Policies>().is_err());
    assert!(policies(&format!("path={file}")).has_modules());
    let swapped = policies(&format!("path={file}")).swap(fairway_sandbox::Role::Congestion, b"");
    assert_eq!(swapped, Err(SwapError::NoModule(fairway_sandbox::Role::Congestion)));
}

#[cfg(unix)]
#[test]
fn path_that_is_no_regular_file_is_refused_without_waiting() {
    assert!("cc=wasm:/dev/zero".parse::<Policies>().is_err());
    let error = Module::read(std::path::Path::new("/dev/zero")).expect_err("no file");
    assert!(matches!(error, LoadError::Io(_)));
}

/// Random bytes, and modules with some random bytes, are loaded and, if they load, run.
#[test]
fn fuzzed_bytes_never_panic_the_loader_nor_the_events() {
    let files = ["c/aimd.wasm", "c/p2c.wasm", "rust/aimd.wasm", "rust/swift.wasm"];
    let mut seeds: Vec<Vec<u8>> = files
        .iter()
        .map(|name| std::fs::read(common::example(name)).expect("an example"))
        .collect();
    seeds.push(module(TEMPLATE));
    let mut sequence = Sequence::new(3);
    let folder = Folder::new();
    let mut started = 0;
    for round in 0..3_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        match sequence.below(4) {
            0 => bytes.truncate(sequence.below(bytes.len() as u64) as usize),
            1 => bytes = (0..sequence.below(300)).map(|_| sequence.below(256) as u8).collect(),
            _ => {
                for _ in 0..=sequence.below(4) {
                    let at = sequence.below(bytes.len() as u64) as usize;
                    bytes[at] = sequence.below(256) as u8;
                }
            }
        }
        let Ok(loaded) = Module::load(&bytes) else { continue };
        let file = folder.put("fuzzed.wasm", &bytes);
        for role in loaded.roles() {
            let label = role.label();
            let Ok(policies) = format!("{label}={file}").parse::<Policies>() else { continue };
            started += 1;
            let mut set = policies.build(4096);
            let mut paths = [PathView::default(); 16];
            for event in sequence.clone().take(20) {
                event.deliver(&mut *set.congestion);
                assert!(set.congestion.window_bytes() >= 8192);
                let request = sequence.chunk(&mut paths);
                assert!(set.path.choose(&paths, &request) < paths.len());
            }
        }
    }
    // Some changed bytes are in code or data, and leave a module that starts.
    assert!(started > 50, "only {started} of the fuzzed modules started");
}
