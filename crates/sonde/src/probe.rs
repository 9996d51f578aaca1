//! `probe.request`, `probe.response` and `probe.error` (contract, "Probes"; field facts, section 8).

use std::borrow::Cow;

use convoke_core::effect::Effect;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// The contract's default time limit.
pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// Longest time limit that is taken from a request.
pub const MAX_TIMEOUT_MS: u64 = 3_600_000;
/// Longest name of a probe.
pub const MAX_PROBE_NAME: usize = 255;

/// Error codes of `probe.error`. The contract gives the first two as examples.
pub mod code {
    /// No pack has the probe.
    pub const NOT_FOUND: &str = "PROBE_NOT_FOUND";
    /// It took too long.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// A parameter does not fit the manifest.
    pub const INVALID_PARAMS: &str = "INVALID_PARAMS";
    /// The agent's own ceiling forbids it.
    pub const UNAUTHORIZED: &str = "UNAUTHORIZED";
    /// The request itself cannot be read.
    pub const INVALID_REQUEST: &str = "INVALID_REQUEST";
    /// The agent has as many probes under way as it runs.
    pub const BUSY: &str = "BUSY";
    /// The result does not fit a frame.
    pub const TOO_LARGE: &str = "RESULT_TOO_LARGE";
    /// The probe ran and failed.
    pub const FAILED: &str = "PROBE_FAILED";
}

/// The payload of `probe.request`.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Fully qualified: `system.disk.usage`.
    pub probe: Cow<'a, str>,
    /// A JSON object.
    pub params: Option<&'a RawValue>,
    /// Milliseconds.
    pub timeout_ms: u64,
    /// `api` or a runbook's id.
    pub requested_by: Cow<'a, str>,
    /// A runbook's id, in the field's schema.
    pub runbook_id: Option<Cow<'a, str>>,
    /// The id that the answer must repeat. Absent from very old hubs.
    pub request_id: Option<Cow<'a, str>>,
}

impl<'a> Request<'a> {
    /// Reads the payload.
    pub fn decode(payload: &'a str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(borrow)]
            probe: Cow<'a, str>,
            #[serde(borrow)]
            params: Option<&'a RawValue>,
            timeout: Option<f64>,
            #[serde(borrow, default)]
            requested_by: Cow<'a, str>,
            #[serde(borrow)]
            runbook_id: Option<Cow<'a, str>>,
            #[serde(borrow)]
            request_id: Option<Cow<'a, str>>,
        }
        let wire: Wire<'a> = serde_json::from_str(payload).map_err(|why| why.to_string())?;
        if wire.probe.is_empty() || wire.probe.len() > MAX_PROBE_NAME {
            return Err(format!("`probe` must have 1 to {MAX_PROBE_NAME} characters"));
        }
        let params = wire.params.filter(|p| p.get() != "null");
        if params.is_some_and(|p| !p.get().starts_with('{')) {
            return Err("`params` is not an object".into());
        }
        let timeout_ms = match wire.timeout {
            None => DEFAULT_TIMEOUT_MS,
            Some(ms) if ms.is_finite() && ms >= 1.0 => (ms as u64).min(MAX_TIMEOUT_MS),
            Some(_) => return Err("`timeout` must be a number of milliseconds above 0".into()),
        };
        Ok(Self {
            probe: wire.probe,
            params,
            timeout_ms,
            requested_by: wire.requested_by,
            runbook_id: wire.runbook_id,
            request_id: wire.request_id,
        })
    }

    /// Writes the payload, keys in the order in which the field's hub sends them; `params` is left out when empty.
    pub fn encode(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            probe: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            params: Option<&'a RawValue>,
            timeout: u64,
            requested_by: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            runbook_id: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            request_id: Option<&'a str>,
        }
        let wire = Wire {
            probe: &self.probe,
            params: self.params,
            timeout: self.timeout_ms,
            requested_by: &self.requested_by,
            runbook_id: self.runbook_id.as_deref(),
            request_id: self.request_id.as_deref(),
        };
        serde_json::to_string(&wire).unwrap_or_else(|_| "{}".into())
    }
}

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// With a result.
    Success,
    /// With an error.
    Error,
    /// Not in time.
    Timeout,
    /// It may not run here.
    Unauthorized,
}

impl Status {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Unauthorized => "unauthorized",
        }
    }
}

/// The agent that ran a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The agent's version.
    pub agent_version: String,
    /// The pack.
    pub pack_name: String,
    /// Its version.
    pub pack_version: String,
    /// The probe's effect.
    pub capability_level: Effect,
}

/// An answer, from `probe.response` or `probe.error` in whichever shape it came.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The probe it is about.
    pub probe: Cow<'a, str>,
    /// How it ended.
    pub status: Status,
    /// The result; of an error, `{"error": text}` or what the agent gave.
    pub data: Option<Cow<'a, RawValue>>,
    /// How long it took, as the agent says.
    pub duration_ms: Option<f64>,
    /// The request it answers.
    pub request_id: Option<Uuid>,
    /// Whether it named a request at all, even by something that is no id of ours.
    pub names_a_request: bool,
    /// The agent that ran it. Absent from the contract's `probe.error`.
    pub metadata: Option<Metadata>,
    /// The error's text.
    pub error: Option<String>,
    /// The error's code, in the contract's shape.
    pub code: Option<String>,
}

impl<'a> Answer<'a> {
    /// Reads the payload of either type. `failed` says it came as `probe.error`: then a result is not one, whatever
    /// its status says.
    pub fn decode(payload: &'a str, failed: bool) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(borrow)]
            probe: Cow<'a, str>,
            status: Option<Status>,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
            duration_ms: Option<f64>,
            #[serde(borrow)]
            request_id: Option<Cow<'a, str>>,
            metadata: Option<Metadata>,
            error: Option<String>,
            code: Option<String>,
        }
        let wire: Wire<'a> = serde_json::from_str(payload).map_err(|why| why.to_string())?;
        if !failed {
            // What the field's hub demands of a response. The contract demands the same of it.
            if wire.status.is_none() {
                return Err("`status` is missing".into());
            }
            if wire.metadata.is_none() {
                return Err("`metadata` is missing".into());
            }
        }
        let status = match wire.status {
            Some(Status::Success) | None if failed => match wire.code.as_deref() {
                Some(code::TIMEOUT) => Status::Timeout,
                Some(code::UNAUTHORIZED) => Status::Unauthorized,
                _ => Status::Error,
            },
            Some(status) => status,
            None => Status::Error,
        };
        let error = (status != Status::Success).then(|| {
            let in_data = || wire.data.and_then(|data| error_in(data.get()));
            wire.error.clone().or_else(in_data).unwrap_or_else(|| format!("the probe ended with {}", status.name()))
        });
        let data = match (wire.data, &error) {
            (Some(data), _) => Some(Cow::Borrowed(data)),
            (None, Some(error)) => {
                let text = format!("{{\"error\":{}}}", crate::envelope::text(error));
                RawValue::from_string(text).ok().map(Cow::Owned)
            }
            (None, None) => None,
        };
        Ok(Self {
            probe: wire.probe,
            status,
            data,
            duration_ms: wire.duration_ms,
            names_a_request: wire.request_id.is_some(),
            request_id: wire.request_id.and_then(|id| Uuid::try_parse(&id).ok()),
            metadata: wire.metadata,
            error,
            code: wire.code,
        })
    }
}

impl Answer<'_> {
    /// The same, without the text it was read from.
    pub fn into_owned(self) -> Answer<'static> {
        Answer {
            probe: self.probe.into_owned().into(),
            data: self.data.map(|d| Cow::Owned(d.into_owned())),
            status: self.status,
            duration_ms: self.duration_ms,
            request_id: self.request_id,
            names_a_request: self.names_a_request,
            metadata: self.metadata,
            error: self.error,
            code: self.code,
        }
    }
}

fn error_in(data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Data {
        error: String,
    }
    serde_json::from_str::<Data>(data).ok().map(|d| d.error)
}

/// An answer as our agent writes it.
#[derive(Clone, Debug)]
pub struct AnswerOut<'a> {
    /// The probe.
    pub probe: &'a str,
    /// How it ended.
    pub status: Status,
    /// The result, or of an error what belongs to it.
    pub data: Option<&'a RawValue>,
    /// The duration.
    pub duration_ms: u64,
    /// The request's own word for itself, repeated.
    pub request_id: Option<&'a str>,
    /// The agent and version that ran it.
    pub metadata: &'a Metadata,
    /// The error's text.
    pub error: Option<&'a str>,
    /// The error's code.
    pub code: Option<&'a str>,
}

impl AnswerOut<'_> {
    /// Writes the payload. An error has the fields of both shapes at once, since each hub skips what it does not know.
    pub fn encode(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            probe: &'a str,
            status: Status,
            data: &'a RawValue,
            duration_ms: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            request_id: Option<&'a str>,
            metadata: &'a Metadata,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<&'a str>,
        }
        let of_error = self.error.map(|error| format!("{{\"error\":{}}}", crate::envelope::text(error)));
        let of_error = of_error.and_then(|text| RawValue::from_string(text).ok());
        let wire = Wire {
            probe: self.probe,
            status: self.status,
            data: self.data.or(of_error.as_deref()).unwrap_or(RawValue::NULL),
            duration_ms: self.duration_ms,
            request_id: self.request_id,
            metadata: self.metadata,
            error: self.error,
            code: self.code,
        };
        serde_json::to_string(&wire).unwrap_or_else(|_| "{}".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11";

    #[test]
    fn a_request_is_written_in_the_fields_order_and_reads_back() {
        let params = RawValue::from_string(r#"{"b":1,"a":2}"#.into()).expect("JSON");
        let request = Request {
            probe: "system.disk.usage".into(),
            params: Some(&params),
            timeout_ms: 30_000,
            requested_by: "api".into(),
            runbook_id: None,
            request_id: Some(ID.into()),
        };
        let text = request.encode();
        assert_eq!(
            text,
            format!(
                r#"{{"probe":"system.disk.usage","params":{{"b":1,"a":2}},"timeout":30000,"requestedBy":"api","requestId":"{ID}"}}"#
            )
        );
        let read = Request::decode(&text).expect("reads back");
        assert_eq!((read.timeout_ms, read.params.map(RawValue::get)), (30_000, Some(r#"{"b":1,"a":2}"#)));
        for bad in
            [r#"{"probe":""}"#, r#"{"probe":"x","params":[]}"#, r#"{"probe":"x","timeout":0}"#, r#"{"params":{}}"#]
        {
            assert!(Request::decode(bad).is_err(), "{bad}");
        }
        assert_eq!(
            Request::decode(r#"{"probe":"x","params":null}"#).expect("lenient").timeout_ms,
            DEFAULT_TIMEOUT_MS
        );
    }

    #[test]
    fn errors_of_both_shapes_come_out_alike() {
        let contract =
            format!(r#"{{"probe":"x.y","error":"no such probe","code":"PROBE_NOT_FOUND","requestId":"{ID}"}}"#);
        let field = format!(
            r#"{{"probe":"x.y","status":"error","data":{{"error":"no such probe"}},"durationMs":3,"requestId":"{ID}","metadata":{{"agentVersion":"0.2.11","packName":"unknown","packVersion":"0.0.0","capabilityLevel":"observe"}}}}"#
        );
        for text in [&contract, &field] {
            let answer = Answer::decode(text, true).expect(text);
            assert_eq!(answer.status, Status::Error);
            assert_eq!(answer.error.as_deref(), Some("no such probe"));
            assert_eq!(answer.data.map(|d| d.get().to_owned()).as_deref(), Some(r#"{"error":"no such probe"}"#));
            assert_eq!(answer.request_id, Uuid::try_parse(ID).ok());
        }
        let timeout = contract.replace("PROBE_NOT_FOUND", "TIMEOUT");
        assert_eq!(Answer::decode(&timeout, true).expect("reads").status, Status::Timeout);
        let lying = field.replace("\"error\",\"data\"", "\"success\",\"data\"");
        assert_eq!(Answer::decode(&lying, true).expect("reads").status, Status::Error);
    }

    #[test]
    fn a_response_needs_what_the_schema_demands() {
        let good = r#"{"probe":"p","status":"success","data":{"b":1,"a":2},"durationMs":1.5,"metadata":{"agentVersion":"1","packName":"p","packVersion":"1","capabilityLevel":"observe"}}"#;
        let answer = Answer::decode(good, false).expect("reads");
        assert_eq!(answer.data.map(|d| d.get().to_owned()).as_deref(), Some(r#"{"b":1,"a":2}"#), "order is kept");
        assert!(!answer.names_a_request);
        for bad in [
            good.replace("\"success\"", "\"great\""),
            good.replace("\"observe\"", "\"root\""),
            good.replace(",\"packName\":\"p\"", ""),
            good.replace("\"status\":\"success\",", ""),
        ] {
            assert!(Answer::decode(&bad, false).is_err(), "{bad}");
        }
        let odd = good.replace("\"durationMs\"", "\"requestId\":\"mine\",\"durationMs\"");
        let odd = Answer::decode(&odd, false).expect("reads");
        assert!(odd.names_a_request && odd.request_id.is_none(), "an id that is none of ours is no fallback");
    }

    #[test]
    fn ours_has_the_fields_of_both_shapes() {
        let metadata = Metadata {
            agent_version: "1".into(),
            pack_name: "p".into(),
            pack_version: "1".into(),
            capability_level: Effect::Observe,
        };
        let out = AnswerOut {
            probe: "p.x",
            status: Status::Timeout,
            data: None,
            duration_ms: 5,
            request_id: Some(ID),
            metadata: &metadata,
            error: Some("took too long"),
            code: Some(code::TIMEOUT),
        };
        let text = out.encode();
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&value["data"]["error"], &value["error"]), (&"took too long".into(), &"took too long".into()));
        assert_eq!(Answer::decode(&text, true).expect("reads back").status, Status::Timeout);
    }
}
