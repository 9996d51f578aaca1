#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| convoke_sonde::envelope::exercise_hub_frame(bytes));
