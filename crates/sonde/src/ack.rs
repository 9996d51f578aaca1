//! A hub's answers to a registration: `hub.ack`, `hub.reject`, `hub.update_available` (contract, "Registration";
//! field facts, sections 1 and 4).

use convoke_core::secret::SecretText;
use serde::{Deserialize, Serialize};

/// The payload of `hub.ack`. The keys come in the field's order; the contract's two are among them.
#[derive(Clone, Debug, Default)]
pub struct Ack {
    /// The agent's id; absent only with `error`.
    pub agent_id: Option<String>,
    /// Its certificate.
    pub cert_pem: Option<String>,
    /// Its private key, where the hub made it (the field's way).
    pub key_pem: Option<SecretText>,
    /// The hub's CA: what the hub's signatures are checked with.
    pub ca_cert_pem: Option<String>,
    /// Its API key, on enrolment by token.
    pub api_key: Option<SecretText>,
    /// A warning for the agent's owner.
    pub warning: Option<String>,
    /// The field's way to refuse.
    pub error: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cert_pem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_pem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_cert_pem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Ack {
    /// Writes the payload.
    pub fn encode(&self) -> String {
        let secret = |s: &Option<SecretText>| s.as_ref().map(|s| s.reveal().to_owned());
        let wire = Wire {
            agent_id: self.agent_id.clone(),
            cert_pem: self.cert_pem.clone(),
            key_pem: secret(&self.key_pem),
            ca_cert_pem: self.ca_cert_pem.clone(),
            api_key: secret(&self.api_key),
            warning: self.warning.clone(),
            error: self.error.clone(),
        };
        // A struct of texts always serialises.
        serde_json::to_string(&wire).unwrap_or_else(|_| "{}".into())
    }

    /// Reads the payload.
    pub fn decode(payload: &str) -> Result<Self, serde_json::Error> {
        let wire: Wire = serde_json::from_str(payload)?;
        Ok(Self {
            agent_id: wire.agent_id,
            cert_pem: wire.cert_pem,
            key_pem: wire.key_pem.map(SecretText::new),
            ca_cert_pem: wire.ca_cert_pem,
            api_key: wire.api_key.map(SecretText::new),
            warning: wire.warning,
            error: wire.error,
        })
    }
}

/// The payload of `hub.reject`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// For people.
    pub reason: String,
}

/// The payload of `hub.update_available`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateAvailable {
    /// The newest version.
    pub latest_version: String,
    /// The version that the agent reported.
    pub current_version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_the_fields_order_and_absent_ones_are_left_out() {
        let ack = Ack {
            agent_id: Some("i".into()),
            api_key: Some(SecretText::new("k")),
            ca_cert_pem: Some("c".into()),
            ..Ack::default()
        };
        assert_eq!(ack.encode(), r#"{"agentId":"i","caCertPem":"c","apiKey":"k"}"#);
        assert!(!format!("{ack:?}").contains("\"k\""), "a key does not print");
        let read = Ack::decode(r#"{"error":"Enrollment token rejected: Token expired"}"#).expect("reads");
        assert!(read.agent_id.is_none() && read.error.is_some());
    }
}
