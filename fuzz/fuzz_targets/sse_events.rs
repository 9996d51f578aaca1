//! What a stranger streams, whole and in pieces.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| convoke_sse::exercise(bytes));
