//! The golden frames: each decodes as what it is and encodes to the same bytes.

use convoke_sonde::ack::{Ack, Reject, UpdateAvailable};
use convoke_sonde::envelope::{self, Envelope, MessageType};
use convoke_sonde::probe::{Answer, Request, Status};
use convoke_sonde::register::{Dialect, Register};

fn folder(name: &str) -> Vec<(String, String)> {
    convoke_testing::fixtures(&format!("sonde/{name}"))
}

#[test]
fn every_frame_decodes_and_encodes_to_the_same_bytes() {
    let mut seen = std::collections::HashSet::new();
    for (name, text) in folder("agent").into_iter().chain(folder("hub")) {
        let frame = Envelope::decode(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        seen.insert(frame.kind);
        let payload = frame.payload.get();
        struct Fixed(String);
        impl convoke_sonde::sign::Signer for Fixed {
            fn sign(&self, _: &[u8]) -> String {
                self.0.clone()
            }
        }
        let signer = Fixed(frame.signature.to_string());
        let again = envelope::encode(
            frame.id,
            frame.kind,
            frame.timestamp,
            frame.agent_id.as_deref(),
            Some(&signer),
            payload,
        );
        assert_eq!(again, text, "{name}");
        let rewritten = match frame.kind {
            MessageType::Register => {
                let register = Register::decode(payload).expect(&name);
                let expect = if name.ends_with("_field") { Dialect::Field } else { Dialect::Contract };
                assert_eq!((register.dialect, register.name.as_str()), (expect, "web-1"), "{name}");
                assert!(!register.attestation.is_empty(), "{name}");
                None
            }
            MessageType::Ack => Some(Ack::decode(payload).expect(&name).encode()),
            MessageType::Reject => {
                Some(serde_json::to_string(&serde_json::from_str::<Reject>(payload).expect(&name)).expect("writes"))
            }
            MessageType::UpdateAvailable => {
                let update: UpdateAvailable = serde_json::from_str(payload).expect(&name);
                Some(serde_json::to_string(&update).expect("writes"))
            }
            MessageType::ProbeRequest => Some(Request::decode(payload).expect(&name).encode()),
            MessageType::ProbeResponse | MessageType::ProbeError => {
                let failed = frame.kind == MessageType::ProbeError;
                let answer = Answer::decode(payload, failed).unwrap_or_else(|why| panic!("{name}: {why}"));
                let good = ["response", "response_without_request_id"].contains(&name.as_str());
                assert_eq!(answer.status == Status::Success, good, "{name}");
                None
            }
            MessageType::Heartbeat => None,
        };
        if let Some(rewritten) = rewritten {
            assert_eq!(rewritten, payload, "{name}");
        }
        envelope::exercise_agent_frame(text.as_bytes());
        envelope::exercise_hub_frame(text.as_bytes());
    }
    assert_eq!(seen.len(), MessageType::ALL.len(), "every type has a frame");
}

#[test]
fn what_is_no_message_is_refused() {
    for (name, text) in folder("malformed") {
        assert!(Envelope::decode(&text).is_err(), "{name}");
        envelope::exercise_agent_frame(text.as_bytes());
        envelope::exercise_hub_frame(text.as_bytes());
    }
}
