//! The golden frames are complete: every file is JSON, and every frame of a contract is there.

use serde_json::Value;

use super::Finding;
use super::house::House;

const KENNY: &str = "fixtures/kenny";

/// The frames of kenny's contract: who sends them, their type and, for a response, whether it is `ok`.
const KENNY_FRAMES: &[(&str, &str, Option<bool>)] = &[
    ("agent", "register", None),
    ("hub", "challenge", None),
    ("agent", "auth", None),
    ("hub", "policy", None),
    ("hub", "request", None),
    ("agent", "response", Some(true)),
    ("agent", "response", Some(false)),
    ("agent", "telemetry", None),
    ("agent", "log", None),
    ("agent", "ping", None),
    ("agent", "pong", None),
    ("hub", "ping", None),
    ("hub", "pong", None),
];

const YONEXUS: &str = "fixtures/yonexus";

/// The frames of Yonexus' contract: who sends them and their type. They travel behind `builtin::`, so they are no JSON.
const YONEXUS_FRAMES: &[(&str, &str)] = &[
    ("client", "hello"),
    ("server", "hello_ack"),
    ("server", "pair_request"),
    ("client", "pair_confirm"),
    ("server", "pair_success"),
    ("server", "pair_failed"),
    ("client", "auth_request"),
    ("server", "auth_success"),
    ("server", "auth_failed"),
    ("server", "re_pair_required"),
    ("client", "heartbeat"),
    ("server", "heartbeat_ack"),
    ("server", "status_update"),
    ("server", "disconnect_notice"),
    ("server", "error"),
];

const KIBITZ: &str = "fixtures/kibitz";

/// The frames of the relay: who sends them and their type.
const KIBITZ_FRAMES: &[(&str, &str)] = &[
    ("participant", "knock"),
    ("participant", "voice"),
    ("participant", "ping"),
    ("participant", "leave"),
    ("participant", "mod"),
    ("participant", "to"),
    ("relay", "hello"),
    ("relay", "id"),
    ("relay", "lobby"),
    ("relay", "roster"),
    ("relay", "ping"),
    ("relay", "kick"),
    ("relay", "reset"),
    ("relay", "from"),
    ("relay", "refused"),
    ("relay", "error"),
];

fn yonexus(house: &House) -> Vec<Finding> {
    let missing = |(sender, kind): &&(&str, &str)| {
        let (folder, start) = (format!("{YONEXUS}/{sender}/"), format!("builtin::{{\"type\":\"{kind}\""));
        !house.files.iter().any(|file| file.path.starts_with(&folder) && file.text.starts_with(&start))
    };
    let finding = |(sender, kind): &(&str, &str)| {
        Finding::in_file(&format!("{YONEXUS}/{sender}/"), format!("there is no `{kind}` frame"))
    };
    YONEXUS_FRAMES.iter().filter(missing).map(finding).collect()
}

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = yonexus(house);
    let mut frames = Vec::new();
    let fixtures = house.files.iter().filter(|file| file.path.starts_with("fixtures/"));
    for file in fixtures.filter(|file| file.has_extension(&["json"])) {
        match serde_json::from_str::<Value>(&file.text) {
            Ok(frame) => frames.push((file.path.as_str(), frame)),
            Err(why) => findings.push(Finding::at(&file.path, why.line(), format!("is no JSON: {why}"))),
        }
    }
    for (sender, kind) in KIBITZ_FRAMES {
        let folder = format!("{KIBITZ}/{sender}/");
        let is_it = |frame: &Value| frame.get("t").and_then(Value::as_str) == Some(kind);
        if !frames.iter().any(|(path, frame)| path.starts_with(&folder) && is_it(frame)) {
            findings.push(Finding::in_file(&folder, format!("there is no `{kind}` frame")));
        }
    }
    for (sender, kind, ok) in KENNY_FRAMES {
        let folder = format!("{KENNY}/{sender}/");
        let there = frames.iter().any(|(path, frame)| {
            path.starts_with(&folder)
                && frame.get("type").and_then(Value::as_str) == Some(kind)
                && ok.is_none_or(|ok| frame.get("ok").and_then(Value::as_bool) == Some(ok))
        });
        if !there {
            let which = ok.map(|ok| format!(" with `ok` {ok}")).unwrap_or_default();
            findings.push(Finding::in_file(&folder, format!("there is no `{kind}` frame{which}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Vec<(String, String)> {
        let frame = |(i, (sender, kind, ok)): (usize, &(&str, &str, Option<bool>))| {
            let ok = ok.map(|ok| format!(",\"ok\":{ok}")).unwrap_or_default();
            (format!("{KENNY}/{sender}/{i}.json"), format!("{{\"type\":\"{kind}\"{ok}}}"))
        };
        let yonexus = |(sender, kind): &(&str, &str)| {
            (format!("{YONEXUS}/{sender}/{kind}.txt"), format!("builtin::{{\"type\":\"{kind}\"}}"))
        };
        let kibitz = |(sender, kind): &(&str, &str)| {
            (format!("{KIBITZ}/{sender}/{kind}.json"), format!("{{\"t\":\"{kind}\"}}"))
        };
        let others = YONEXUS_FRAMES.iter().map(yonexus).chain(KIBITZ_FRAMES.iter().map(kibitz));
        KENNY_FRAMES.iter().enumerate().map(frame).chain(others).collect()
    }

    fn found(files: &[(String, String)]) -> usize {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        check(&House::of(&files)).len()
    }

    #[test]
    fn each_missing_frame_is_found() {
        assert_eq!(found(&complete()), 0);
        for index in 0..complete().len() {
            let mut files = complete();
            let left_out = files.remove(index);
            assert_eq!(found(&files), 1, "{left_out:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_json_is_found() {
        let mut files = complete();
        files.push(("fixtures/other/x.json".into(), "{".into()));
        assert_eq!(found(&files), 1);
    }
}
