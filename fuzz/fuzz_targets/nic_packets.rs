//! Passes libFuzzer's inputs to `fairway_fuzz::nic_packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fairway_fuzz::nic_packets(input));
