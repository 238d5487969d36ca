//! Passes libFuzzer's inputs to `fairway_fuzz::decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fairway_fuzz::decode(input));
