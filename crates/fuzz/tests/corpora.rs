//! Runs the fuzz functions on the inputs that are kept from fuzzing, without a fuzzer.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_input_of_every_corpus_passes() {
    for (name, run) in fairway_fuzz::TARGETS {
        let folder = root().join("fuzz/corpus").join(name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut inputs = 0;
        for entry in entries {
            let path = entry.expect("an entry").path();
            // The test harness prints this only if the input fails.
            println!("{}", path.display());
            run(&std::fs::read(&path).expect("a file"));
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no inputs");
    }
}

#[test]
fn random_inputs_pass() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for (_, run) in fairway_fuzz::TARGETS {
        for _ in 0..300 {
            let length = next() % 400;
            let input: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            run(&input);
        }
    }
}

#[test]
fn every_target_has_a_program() {
    let mut programs: Vec<String> = std::fs::read_dir(root().join("fuzz/fuzz_targets"))
        .expect("the programs")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    programs.sort();
    let mut names: Vec<&str> = fairway_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(programs, names);
}
