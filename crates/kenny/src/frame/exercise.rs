//! The bodies of the fuzz targets, here so that a property test on a stable toolchain runs the same code.

use super::{AgentFrame, HubFrame, MAX_ERROR_MESSAGE, MAX_NAME, MAX_SECTIONS, response_id};

/// Feeds arbitrary bytes to the decoder of agents' frames and checks what it promises about its limits.
pub fn exercise_agent_frame(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let id = response_id(text);
    match AgentFrame::decode(text) {
        Ok(AgentFrame::Response(response)) => {
            assert_eq!(id, Some(response.id), "the quick scan and the decoder disagree about the id");
            assert_eq!(response.ok, response.error.is_none());
            assert!(!response.ok || response.result.is_some());
            if let Err(error) = response.outcome() {
                assert!(error.message.chars().count() <= MAX_ERROR_MESSAGE);
                assert!(error.code.as_str().chars().count() <= MAX_NAME);
            }
        }
        Ok(AgentFrame::Telemetry(telemetry)) => assert!(telemetry.snapshot.len() <= MAX_SECTIONS),
        Ok(AgentFrame::Unknown { kind }) => assert!(kind.chars().count() <= MAX_NAME),
        Ok(_) => {}
        // An error text goes to logs and to the peer: it must stay short whatever the payload was.
        Err(error) => assert!(error.to_string().len() <= 1024),
    }
}

/// Feeds arbitrary bytes to the decoder of hubs' frames; what it accepts must survive being written and read again.
pub fn exercise_hub_frame(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match HubFrame::decode(text) {
        Ok(frame) => {
            let written = frame.encode();
            let again = HubFrame::decode(&written).expect("what the encoder writes, the decoder reads");
            assert_eq!(again.encode(), written);
        }
        Err(error) => assert!(error.to_string().len() <= 1024),
    }
}
