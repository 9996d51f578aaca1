//! What a stranger sends after the upgrade, before any protocol of ours.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| convoke_ws::exercise(bytes));
