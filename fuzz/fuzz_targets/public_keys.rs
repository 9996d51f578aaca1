//! The public keys that agents and clients send before they are known.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(key) = convoke_kenny::enrol::parse_key(text) {
        let text = convoke_kenny::wire_bytes::encode(key.as_bytes());
        assert_eq!(convoke_kenny::enrol::parse_key(&text), Ok(key));
    }
    if let Ok(key) = convoke_yonexus::key::parse(text) {
        assert_eq!(convoke_yonexus::key::parse(&convoke_yonexus::key::encode(&key)), Ok(key));
    }
});
