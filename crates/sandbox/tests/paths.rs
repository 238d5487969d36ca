//! Path choices as modules: each decides as the built-in one from whose source it is made, and each
//! that fails is replaced.

mod common;

use common::{example, only_fault, open, policies, without_faults};
use fairway_policy::{ChunkRequest, PathChoice, PathView};
use fairway_sandbox::Hook;
use fairway_sandbox::probe::Sequence;
use fairway_wire::Instant;

const MTU: u32 = 4096;

/// Drives a path choice as a channel does: choices, acknowledgements and losses.
fn choices(choice: &mut dyn PathChoice, seed: u64) -> Vec<(bool, usize)> {
    let mut sequence = Sequence::new(seed);
    let mut paths = [PathView::default(); 8];
    let mut choices = Vec::new();
    for _ in 0..3000 {
        let mut request = sequence.chunk(&mut paths);
        for path in &mut paths {
            path.in_flight *= 3;
        }
        request.bytes = MTU;
        let room = choice.has_room(&paths);
        choices.push((room, choice.choose(&paths, &request)));
        let path = sequence.below(8) as usize;
        choice.on_ack(path, &sequence.path_ack());
        if sequence.below(6) == 0 {
            choice.on_loss(path, &sequence.loss());
        }
    }
    choices
}

#[test]
fn path_choices_as_modules_are_the_built_in_ones() {
    let of = |policy: &str| {
        let policies = policies(&format!("path={policy}"));
        let chosen = choices(&mut *policies.build(MTU).path, 8);
        without_faults(&policies);
        chosen
    };
    for (file, built_in, parameters) in [
        ("mprdma", "mp-rdma", &["", ":initial=4:max=12"][..]),
        ("reps", "reps", &["", ":late=avoid", ":explore=random", ":explore=random:late=avoid"]),
    ] {
        let file = example(&format!("rust/{file}.wasm"));
        let all: Vec<_> = parameters.iter().map(|given| of(&format!("{file}{given}"))).collect();
        for (own, given) in all.iter().zip(parameters) {
            assert_eq!(*own, of(&format!("{built_in}{given}")), "{built_in}{given}");
            assert!(own.iter().any(|(_, path)| *path == 7));
            assert_eq!(
                all.iter().filter(|other| *other == own).count(),
                1,
                "{given} has an effect"
            );
        }
    }
}

#[test]
fn path_choice_that_fails_in_any_hook_is_replaced_by_the_default() {
    let choose = "(func (export \"choose_path\") (param i32) (result i32) i32.const 0)";
    let cases = [
        ("(func (export \"has_room\") (param i32) (result i32) unreachable)", Hook::HasRoom),
        ("(func (export \"on_path_ack\") (param i32) (loop (br 0)))", Hook::OnPathAck),
        ("(func (export \"on_path_loss\") (param i32) unreachable)", Hook::OnPathLoss),
    ];
    for (hook, name) in cases {
        let policies = open(&["path"], &format!("{choose} {hook}"));
        let mut set = policies.build(MTU);
        let paths = [PathView { usable: true, ..PathView::default() }; 4];
        let mut sequence = Sequence::new(2);
        let _ = set.path.has_room(&paths);
        set.path.on_ack(1, &sequence.path_ack());
        set.path.on_loss(1, &sequence.loss());
        assert_eq!((only_fault(&policies).0, set.path.name()), (name, "reps"), "{hook}");
        assert!(set.path.has_room(&paths));
        let request = ChunkRequest { now: Instant::from_ps(9), bytes: 1, random: 2 };
        // It leaves out path 1 for some turns if it was notified of the loss there.
        let chosen = [0, 1, 2].map(|_| set.path.choose(&paths, &request));
        assert!([[0, 1, 2], [0, 2, 3]].contains(&chosen), "{hook}: {chosen:?}");
    }
}
