//! Makes a result fit into a frame. A server of the field drops a frame over its limit without a word, and its caller
//! sees a time-out; so what is too large is cut here, and the result says that it was.

use serde_json::{Map, Value};

/// The limit for a hub that announces none: kenny servers of version 0.8 drop everything above it.
pub(crate) const UNTOLD_LIMIT: usize = 256 * 1024;
/// What the frame around a result takes at most: type, id, `ok`.
const ENVELOPE: usize = 160;
/// The mark in an object of which something was cut.
const MARK: &str = "truncated";
/// Texts are not cut below this, so that a truncated one still shows something.
const LEAST_TEXT: usize = 64;

/// Why a result cannot be made to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) size: usize,
    pub(crate) limit: usize,
}

/// The result as text that fits into a frame of `limit` bytes, cut where it must be.
///
/// Lists lose their end, texts theirs; the object they stand in gets `truncated: true`. Always the largest part goes
/// first, so that small fields survive. What means nothing in part (`image_b64`) is never cut.
pub(crate) fn fit(mut result: Value, limit: usize) -> Result<String, TooLarge> {
    let room = limit.saturating_sub(ENVELOPE);
    let mut text = result.to_string();
    let size = text.len();
    while text.len() > room {
        let excess = text.len() - room;
        if !cut_largest(&mut result, excess) {
            return Err(TooLarge { size, limit });
        }
        text = result.to_string();
    }
    Ok(text)
}

/// Cuts the largest list or text by at least `excess` bytes where it has them. False when nothing is left to cut.
fn cut_largest(value: &mut Value, excess: usize) -> bool {
    let Value::Object(map) = value else { return false };
    let Some(path) = largest(map) else { return false };
    let mut object = map;
    for key in &path[..path.len() - 1] {
        match object.get_mut(key) {
            Some(Value::Object(inner)) => object = inner,
            _ => return false,
        }
    }
    let key = &path[path.len() - 1];
    let cut = match object.get_mut(key) {
        Some(Value::Array(list)) => cut_list(list, excess),
        Some(Value::String(text)) => cut_text(text, excess),
        _ => false,
    };
    if cut {
        object.insert(MARK.to_owned(), Value::Bool(true));
    }
    cut
}

/// The way to the largest list or text that can be cut, through objects only.
fn largest(map: &Map<String, Value>) -> Option<Vec<String>> {
    fn walk(map: &Map<String, Value>, path: &mut Vec<String>, best: &mut Option<(usize, Vec<String>)>) {
        for (key, value) in map {
            path.push(key.clone());
            let size = match value {
                Value::Array(list) if !list.is_empty() => Some(value.to_string().len()),
                Value::String(text) if text.len() > LEAST_TEXT && key != "image_b64" => Some(text.len()),
                Value::Object(inner) if path.len() < 8 => {
                    walk(inner, path, best);
                    None
                }
                _ => None,
            };
            if let Some(size) = size.filter(|size| best.as_ref().is_none_or(|(most, _)| size > most)) {
                *best = Some((size, path.clone()));
            }
            path.pop();
        }
    }
    let mut best = None;
    walk(map, &mut Vec::new(), &mut best);
    best.map(|(_, path)| path)
}

fn cut_list(list: &mut Vec<Value>, excess: usize) -> bool {
    let mut gone = 0;
    while gone < excess
        && let Some(last) = list.pop()
    {
        gone += last.to_string().len() + 1;
    }
    gone > 0
}

fn cut_text(text: &mut String, excess: usize) -> bool {
    let before = text.len();
    // A byte of text takes one to six in JSON: what is kept is measured by what the whole takes.
    let written = Value::String(text.clone()).to_string().len();
    let share = written.saturating_sub(excess) as f64 / written as f64;
    let keep = (before as f64 * share) as usize;
    let keep = keep.min(before.saturating_sub(1)).max(LEAST_TEXT);
    text.truncate(text.floor_char_boundary(keep));
    text.len() < before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_untouched() {
        let result = json!({ "stdout": "x", "stderr": "", "exit_code": 0 });
        assert_eq!(fit(result.clone(), 1000), Ok(result.to_string()));
    }

    #[test]
    fn output_is_cut_and_says_so() {
        let result = json!({ "stdout": "ü".repeat(5000), "stderr": "small", "exit_code": 3 });
        let text = fit(result, 2000).expect("fits");
        assert!(text.len() <= 2000, "{}", text.len());
        let cut: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&cut["truncated"], &cut["stderr"], &cut["exit_code"]),
            (&json!(true), &json!("small"), &json!(3))
        );
        assert!(cut["stdout"].as_str().expect("a text").len() > 1000);
    }

    #[test]
    fn text_that_is_long_in_json_is_cut_to_about_what_fits() {
        let text = fit(json!({ "stdout": "y\n".repeat(500_000), "exit_code": 0 }), 256 * 1024).expect("fits");
        assert!((200_000..=256 * 1024).contains(&text.len()), "{}", text.len());
    }

    #[test]
    fn lists_lose_their_end_and_sections_are_marked_one_by_one() {
        let entries: Vec<Value> = (0..1000).map(|i| json!({ "name": format!("file-{i}"), "bytes": i })).collect();
        let cut: Value =
            serde_json::from_str(&fit(json!({ "entries": entries.clone() }), 4000).expect("fits")).expect("JSON");
        assert_eq!((&cut["truncated"], &cut["entries"][0]["name"]), (&json!(true), &json!("file-0")));

        let snapshot = json!({
            "disk": { "status": "ok", "summary": "fine" },
            "services": { "status": "ok", "summary": "many", "services": entries },
        });
        let cut: Value = serde_json::from_str(&fit(snapshot, 4000).expect("fits")).expect("JSON");
        assert_eq!(cut["services"]["truncated"], true);
        assert_eq!(cut["disk"], json!({ "status": "ok", "summary": "fine" }));
        assert_eq!(cut.as_object().map(Map::len), Some(2), "a snapshot has nothing but sections");
    }

    #[test]
    fn half_a_picture_is_no_picture() {
        let result = json!({ "image_b64": "A".repeat(10_000), "format": "png" });
        assert_eq!(fit(result, 4000), Err(TooLarge { size: 10_031, limit: 4000 }));
    }

    proptest! {
        #[test]
        fn what_comes_out_fits_or_is_refused(texts in prop::collection::vec(".{0,400}", 0..8), limit in 400usize..3000) {
            let mut map = Map::new();
            for (i, text) in texts.iter().enumerate() {
                map.insert(format!("k{i}"), if i % 2 == 0 { json!(text) } else { json!({ "l": [text, i, text] }) });
            }
            if let Ok(text) = fit(Value::Object(map), limit) {
                prop_assert!(text.len() + 100 <= limit);
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            }
        }
    }
}
