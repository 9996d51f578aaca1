//! Images that come with a turn. The wording of the refusals is the contract's; clients show it as it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::rpc::RpcError;

/// What is accepted.
pub const MIME_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Per image, decoded.
pub const MAX_BYTES: usize = 10 * 1024 * 1024;

/// An image that passed.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// Base64 as it came.
    pub data: String,
    /// One of [`MIME_TYPES`].
    pub mime_type: String,
    /// Its name.
    pub alt: Option<String>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("mime_type", &self.mime_type)
            .field("base64_bytes", &self.data.len())
            .finish_non_exhaustive()
    }
}

impl Image {
    /// The part of a message that it becomes.
    pub fn part(&self) -> Value {
        let mut part = Map::new();
        part.insert("type".into(), "image".into());
        part.insert("data".into(), self.data.clone().into());
        part.insert("mimeType".into(), self.mime_type.clone().into());
        if let Some(alt) = &self.alt {
            part.insert("alt".into(), alt.clone().into());
        }
        Value::Object(part)
    }
}

/// Reads the `attachments` of `turns/start`.
pub fn parse(attachments: Option<Value>) -> Result<Vec<Image>, RpcError> {
    match attachments {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items.into_iter().map(image).collect(),
        Some(_) => Err(RpcError::invalid_params("attachments must be an array")),
    }
}

fn image(item: Value) -> Result<Image, RpcError> {
    let refuse = |text: String| Err(RpcError::invalid_params(text));
    let Value::Object(mut item) = item else {
        return refuse("attachment must be an object".into());
    };
    let text = |item: &Map<String, Value>, key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = text(&item, "type").unwrap_or_else(|| "unknown".into());
    if kind != "image" {
        return refuse(format!("Unsupported attachment type: {kind}"));
    }
    let mime_type = ["mimeType", "mime_type", "media_type"].iter().find_map(|key| text(&item, key));
    let mime_type = mime_type.unwrap_or_else(|| "unknown".into()).to_ascii_lowercase();
    if !MIME_TYPES.contains(&mime_type.as_str()) {
        return refuse(format!("Unsupported image MIME type: {mime_type}"));
    }
    let declared = ["sizeBytes", "size_bytes"].iter().find_map(|key| item.get(*key)).and_then(Value::as_f64);
    if declared.is_some_and(|bytes| bytes > MAX_BYTES as f64) {
        return refuse("Image attachment is too large".into());
    }
    let alt = text(&item, "name").filter(|name| !name.is_empty());
    let Some(Value::String(data)) = item.remove("data") else {
        return refuse("Image attachment data must be valid base64".into());
    };
    if data.starts_with("data:") {
        return refuse("Image attachment data must be raw base64".into());
    }
    // Four characters are three bytes: what is too long is not even decoded.
    let padding = data.bytes().rev().take(2).take_while(|byte| *byte == b'=').count();
    if data.len() / 4 * 3 > MAX_BYTES + padding {
        return refuse("Image attachment is too large".into());
    }
    match STANDARD.decode(&data) {
        Ok(bytes) if bytes.len() > MAX_BYTES => refuse("Image attachment is too large".into()),
        Ok(bytes) if !bytes.is_empty() => Ok(Image { data, mime_type, alt }),
        _ => refuse("Image attachment data must be valid base64".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(attachments: Value) -> String {
        parse(Some(attachments)).unwrap_err().message
    }

    #[test]
    fn refusals_are_worded_as_the_contract_has_them() {
        let image = |data: &str| json!([{ "type": "image", "data": data, "mimeType": "image/png" }]);
        assert_eq!(refused(json!("x")), "attachments must be an array");
        assert_eq!(refused(json!(["x"])), "attachment must be an object");
        assert_eq!(refused(json!([{}])), "Unsupported attachment type: unknown");
        assert_eq!(refused(json!([{ "type": "file" }])), "Unsupported attachment type: file");
        assert_eq!(refused(json!([{ "type": "image" }])), "Unsupported image MIME type: unknown");
        assert_eq!(
            refused(json!([{ "type": "image", "mimeType": "Image/JPG", "data": "AA==" }])),
            "Unsupported image MIME type: image/jpg"
        );
        assert_eq!(refused(image("")), "Image attachment data must be valid base64");
        assert_eq!(refused(image("A")), "Image attachment data must be valid base64");
        assert_eq!(refused(image("AAAA\n")), "Image attachment data must be valid base64");
        assert_eq!(refused(image("data:image/png;base64,AAAA")), "Image attachment data must be raw base64");
        let declared =
            json!([{ "type": "image", "data": "AA==", "mime_type": "image/png", "size_bytes": 10_485_761 }]);
        assert_eq!(refused(declared), "Image attachment is too large");
    }

    #[test]
    fn ten_mebibytes_pass_and_one_byte_more_does_not() {
        for (bytes, passes) in [(MAX_BYTES, true), (MAX_BYTES + 1, false), (MAX_BYTES + 3, false)] {
            let data = STANDARD.encode(vec![0u8; bytes]);
            let got = parse(Some(json!([{ "type": "image", "data": data, "mimeType": "image/png" }])));
            assert_eq!(got.is_ok(), passes, "{bytes}");
        }
    }

    #[test]
    fn an_image_becomes_a_part() {
        let image = json!([{ "type": "image", "data": "AA==", "media_type": "IMAGE/PNG", "name": "a.png" }]);
        let part = parse(Some(image)).unwrap()[0].part();
        assert_eq!(part, json!({ "type": "image", "data": "AA==", "mimeType": "image/png", "alt": "a.png" }));
        assert_eq!(parse(None).unwrap(), []);
    }
}
