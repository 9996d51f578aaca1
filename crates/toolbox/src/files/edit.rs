//! `edit_file`: exact replacements, on bytes, so that what is not text stays as it is.

use serde_json::Value;

use super::diff::change;
use super::{Located, Workspace};
use crate::Outcome;
use crate::arguments::Arguments;
use crate::limits::{FILE_BYTES, WRITE_BYTES};

/// The most replacements of one call.
const EDITS: usize = 200;

/// Replaces blocks of a file that was read. All of them or none.
pub(crate) fn edit_file(
    workspace: &Workspace,
    arguments: &Arguments,
    was_read: impl Fn(&Located) -> bool,
) -> Result<(Outcome, Located), String> {
    let path = arguments.text("path")?;
    let edits = read_edits(arguments)?;
    let place = workspace.locate(path).map_err(|why| why.to_string())?;
    workspace.file(&place).map_err(|why| why.to_string())?;
    if !was_read(&place) {
        return Err(format!("existing file must be read before editing: {path}"));
    }
    let (old, _) = workspace.bytes(&place, FILE_BYTES).map_err(|why| why.to_string())?;
    let new = apply(path, &old, &edits)?;
    if new.len() > WRITE_BYTES {
        return Err(format!("{path} would have {} bytes; limit is {WRITE_BYTES} bytes", new.len()));
    }
    workspace.replace(&place, &new).map_err(|why| why.to_string())?;
    let change = change(path, &old, &new);
    let content = format!("Edited {path}: replaced {} block(s)\n{}", edits.len(), change.diff);
    let outcome = Outcome {
        diff: Some(change.diff),
        changed_files: vec![path.to_owned()],
        first_changed_line: change.first_line,
        ..Outcome::text(content)
    };
    Ok((outcome, place))
}

/// One replacement.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    old: String,
    new: String,
}

fn read_edits(arguments: &Arguments) -> Result<Vec<Edit>, String> {
    let items = match arguments.0.get("edits") {
        Some(Value::Array(items)) if !items.is_empty() => items,
        Some(Value::Array(_)) | None => return Err("edits must not be empty".into()),
        Some(_) => return Err("edits must be an array".into()),
    };
    if items.len() > EDITS {
        return Err(format!("{} edits in one call; limit is {EDITS}", items.len()));
    }
    let one = |(index, item): (usize, &Value)| {
        let text = |snake: &str, camel: &str| {
            let found = item.get(snake).or_else(|| item.get(camel)).and_then(Value::as_str);
            found.map(str::to_owned).ok_or_else(|| format!("edit {}: {snake} must be a string", index + 1))
        };
        let (old, new) = (text("old_text", "oldText")?, text("new_text", "newText")?);
        if old.is_empty() {
            return Err(format!("edit {}: old_text must not be empty", index + 1));
        }
        if old == new {
            return Err(format!("edit {}: old_text and new_text are the same", index + 1));
        }
        Ok(Edit { old, new })
    };
    items.iter().enumerate().map(one).collect()
}

/// All replacements against the original content.
fn apply(path: &str, content: &[u8], edits: &[Edit]) -> Result<Vec<u8>, String> {
    let mut blocks = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let number = index + 1;
        let (start, old, new) = find(path, content, number, edit)?;
        blocks.push((start, start + old.len(), new, number));
    }
    blocks.sort_by_key(|(start, ..)| *start);
    for pair in blocks.windows(2) {
        let ((_, end, _, first), (start, _, _, second)) = (&pair[0], &pair[1]);
        if start < end {
            return Err(format!("edits {first} and {second} overlap in {path}; make them one"));
        }
    }
    let mut out = Vec::with_capacity(content.len());
    let mut at = 0;
    for (start, end, new, _) in &blocks {
        out.extend_from_slice(&content[at..*start]);
        out.extend_from_slice(new);
        at = *end;
    }
    out.extend_from_slice(&content[at..]);
    if out == content {
        return Err(format!("the edits change nothing in {path}"));
    }
    Ok(out)
}

/// Where the old text is: exactly once. In a file with Windows line ends it is also looked for with those, since models
/// write plain ones; the new text then gets them too.
fn find(path: &str, content: &[u8], number: usize, edit: &Edit) -> Result<(usize, Vec<u8>, Vec<u8>), String> {
    let mut old = edit.old.as_bytes().to_vec();
    let mut new = edit.new.as_bytes().to_vec();
    let mut places = positions(content, &old);
    let is_plain = edit.old.contains('\n') && !edit.old.contains("\r\n");
    let is_windows = content.windows(2).any(|pair| pair == b"\r\n");
    if places.is_empty() && is_plain && is_windows {
        let converted = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
        (old, new) = (converted(&edit.old), converted(&edit.new));
        places = positions(content, &old);
    } else if is_windows && !places.is_empty() && !edit.new.contains("\r\n") && only_windows(content) {
        // A block within one line may be replaced by several.
        new = edit.new.replace('\n', "\r\n").into_bytes();
    }
    match places.as_slice() {
        [start] => Ok((*start, old, new)),
        [] => Err(format!(
            "edit {number}: old_text was not found in {path}; it must match exactly, white space included"
        )),
        many => Err(format!(
            "edit {number}: old_text occurs {} times in {path}; add lines around it until it is unique",
            many.len()
        )),
    }
}

fn only_windows(content: &[u8]) -> bool {
    let all = content.iter().filter(|byte| **byte == b'\n').count();
    all == content.windows(2).filter(|pair| pair == b"\r\n").count()
}

/// Every place, also where two overlap.
fn positions(content: &[u8], wanted: &[u8]) -> Vec<usize> {
    if wanted.len() > content.len() {
        return Vec::new();
    }
    let first = wanted[0];
    let starts = (0..=content.len() - wanted.len()).filter(|at| content[*at] == first);
    starts.filter(|at| content[*at..].starts_with(wanted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edits(pairs: &[(&str, &str)]) -> Vec<Edit> {
        pairs.iter().map(|(old, new)| Edit { old: (*old).into(), new: (*new).into() }).collect()
    }

    fn check(content: &str, pairs: &[(&str, &str)], expected: Result<&str, &str>) {
        let applied = apply("f", content.as_bytes(), &edits(pairs)).map(|new| String::from_utf8(new).unwrap());
        match (applied, expected) {
            (Ok(new), Ok(expected)) => assert_eq!(new, expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (applied, expected) => panic!("{applied:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn blocks_are_replaced_exactly() {
        check("a b c", &[("b", "B")], Ok("a B c"));
        check("a b c", &[("c", "C"), ("a", "A")], Ok("A b C"));
        check("a b c", &[("a ", ""), ("b ", "x ")], Ok("x c"));
        check("a b c", &[("d", "D")], Err("edit 1: old_text was not found in f"));
        check("a b a", &[("a", "x")], Err("edit 1: old_text occurs 2 times in f"));
        check("aaa", &[("aa", "x")], Err("occurs 2 times"));
        check("abcd", &[("abc", "x"), ("cd", "y")], Err("edits 1 and 2 overlap in f"));
        check("ab", &[("a", "b"), ("b", "a")], Ok("ba"));
        check("abab!", &[("abab", "x")], Ok("x!"));
        check("", &[("a", "b")], Err("was not found"));
    }

    #[test]
    fn windows_line_ends_stay() {
        check("one\r\ntwo\r\nthree\r\n", &[("one\ntwo", "1\n2\n2b")], Ok("1\r\n2\r\n2b\r\nthree\r\n"));
        check("one\r\ntwo\r\n", &[("one\r\ntwo", "1")], Ok("1\r\n"));
        check("one\r\ntwo\r\n", &[("two", "2\n3")], Ok("one\r\n2\r\n3\r\n"));
        check("one\r\ntwo\n", &[("two", "2\n3")], Ok("one\r\n2\n3\n"));
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        let content = b"\xff\xfe before old after \xff";
        let new = apply("f", content, &edits(&[("old", "new")])).unwrap();
        assert_eq!(new, b"\xff\xfe before new after \xff");
    }

    #[test]
    fn edits_are_read_strictly() {
        let read = |edits: Value| {
            let arguments = serde_json::json!({ "edits": edits });
            read_edits(&Arguments(arguments.as_object().unwrap().clone())).unwrap_err()
        };
        assert_eq!(read(serde_json::json!([])), "edits must not be empty");
        assert_eq!(read(serde_json::json!("x")), "edits must be an array");
        assert_eq!(read(serde_json::json!([{ "old_text": "a" }])), "edit 1: new_text must be a string");
        let same = serde_json::json!([{ "old_text": "a", "new_text": "a" }]);
        assert_eq!(read(same), "edit 1: old_text and new_text are the same");
        assert_eq!(
            read(serde_json::json!([{ "old_text": "", "new_text": "a" }])),
            "edit 1: old_text must not be empty"
        );
    }

    proptest! {
        #[test]
        fn an_edit_undone_gives_the_file_back(before in "[a-z\n]{0,40}", after in "[a-z\n]{0,40}", new in "[0-9]{1,10}") {
            let content = format!("{before}OLD{after}");
            let edited = apply("f", content.as_bytes(), &edits(&[("OLD", &new)])).unwrap();
            let back = apply("f", &edited, &edits(&[(&new, "OLD")])).unwrap();
            prop_assert_eq!(back, content.into_bytes());
        }
    }
}
