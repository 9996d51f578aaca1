//! What a stranger shows to be let into a room: assertions, invites, manifests, keys.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| convoke_kibitz::admission::exercise(bytes));
