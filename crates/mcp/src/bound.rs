//! Cutting what a machine answered to a size that an assistant can take. Texts and lists get shorter, shapes stay.

use serde::Serialize;
use serde_json::Value;

use super::hidden;

/// How often the limits are halved before the rest is dropped.
const ROUNDS: u32 = 24;

/// Cuts a value that takes `size` bytes when it is [`shown`] to at most `budget`. True when something was cut.
pub(super) fn shrink(value: &mut Value, size: usize, budget: usize) -> bool {
    if size <= budget {
        return false;
    }
    let (mut text, mut items) = (budget / 2, budget / 8);
    for _ in 0..ROUNDS {
        cut(value, text.max(32), items.max(1));
        if shown(value) <= budget {
            return true;
        }
        (text, items) = (text / 2, items / 2);
    }
    *value = Value::Null;
    true
}

fn cut(value: &mut Value, text: usize, items: usize) {
    match value {
        Value::String(s) if s.len() > text => {
            // The mark names what is missing, so that nobody takes the cut for the end.
            let kept = s.floor_char_boundary(text.saturating_sub(48));
            let missing = s.len() - kept;
            s.truncate(kept);
            s.push_str(&format!("… [{missing} bytes cut by the hub]"));
        }
        Value::Array(list) => {
            list.truncate(items);
            list.iter_mut().for_each(|v| cut(v, text, items));
        }
        Value::Object(map) => {
            if map.len() > items {
                *map = std::mem::take(map).into_iter().take(items).collect();
            }
            map.values_mut().for_each(|v| cut(v, text, items));
        }
        _ => {}
    }
}

/// How long something is as JSON text.
pub(super) fn written(value: &impl Serialize) -> usize {
    counted(value, <[u8]>::len)
}

/// How long it is as assistants are shown it: with the characters written out that nobody would see.
pub(super) fn shown(value: &impl Serialize) -> usize {
    // Pieces end where JSON escapes something, never within a character.
    counted(value, |piece| std::str::from_utf8(piece).map_or(usize::MAX, hidden::length))
}

fn counted(value: &impl Serialize, length: fn(&[u8]) -> usize) -> usize {
    struct Count(usize, fn(&[u8]) -> usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add((self.1)(bytes));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0, length);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn long_texts_and_lists_are_cut_and_say_so() {
        let mut value = json!({ "stdout": "ü".repeat(10_000), "exit_code": 0 });
        let size = written(&value);
        assert!(shrink(&mut value, size, 4096));
        assert!(written(&value) <= 4096);
        assert_eq!(value["exit_code"], 0);
        assert!(value["stdout"].as_str().is_some_and(|s| s.ends_with("cut by the hub]")), "{value}");
        let mut list =
            json!({ "entries": (0..10_000).map(|n| json!({ "name": n.to_string() })).collect::<Vec<_>>() });
        let size = written(&list);
        assert!(shrink(&mut list, size, 4096));
        assert!(list["entries"].as_array().is_some_and(|l| !l.is_empty() && l.len() < 10_000));
    }

    #[test]
    fn what_fits_stays() {
        let mut value = json!({ "a": [1, 2, 3] });
        let (before, size) = (value.clone(), written(&value));
        assert!(!shrink(&mut value, size, size));
        assert_eq!(value, before);
    }

    #[test]
    fn what_is_written_out_counts_as_it_is_shown() {
        let mut value = json!({ "stdout": "\u{200b}".repeat(1000) });
        assert_eq!((written(&value), shown(&value)), (3013, 6013));
        assert!(shrink(&mut value, 6013, 4096));
        let text = value.to_string();
        assert!(hidden::visible(&text).len() <= 4096, "{}", text.len());
        assert!(text.contains("cut by the hub"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".{0,200}".prop_map(Value::from)];
        leaf.prop_recursive(4, 200, 20, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                prop::collection::btree_map(".{0,20}", inner, 0..20)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_machine_sends_ends_within_the_budget(mut value in any_json(), budget in 64usize..2000) {
            let size = shown(&value);
            let was_cut = shrink(&mut value, size, budget);
            prop_assert_eq!(was_cut, size > budget);
            prop_assert!(shown(&value) <= budget);
            prop_assert!(hidden::visible(&value.to_string()).len() <= budget);
        }
    }
}
