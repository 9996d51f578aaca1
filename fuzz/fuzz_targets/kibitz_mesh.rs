#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| convoke_kibitz::mesh::pack::exercise(bytes));
