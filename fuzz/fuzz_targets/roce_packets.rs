//! Passes libFuzzer's inputs to `fairway_fuzz::roce_packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fairway_fuzz::roce_packets(input));
