//! Passes libFuzzer's inputs to `fairway_fuzz::copy_messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fairway_fuzz::copy_messages(input));
