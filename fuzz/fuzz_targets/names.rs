//! Passes libFuzzer's inputs to `fairway_fuzz::names_and_quantities`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fairway_fuzz::names_and_quantities(input));
