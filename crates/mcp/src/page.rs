//! Pages of a listing: as many entries as fit, and where the next page goes on. Who follows `next` sees every entry
//! once.

use serde_json::{Map, Value};

use super::bound;

/// What is said to a cursor that came from nowhere.
pub const UNKNOWN_CURSOR: &str = "the cursor is not valid";

/// Room for what is said beside the entries once it is known how many fit.
const BESIDE: usize = 256;
/// Members of one entry that are cut before all of it is.
const MAX_CUTS: usize = 8;

/// Which entries of a page stay when not all of them fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The first; the next page begins after what the last of them has in this field.
    First {
        /// The field.
        next: &'static str,
    },
    /// The last: these are the newest, and nothing follows them.
    Last,
}

/// Leaves as many entries of the list under `key` as `budget` bytes can show, and says so. An entry that is too long all
/// by itself is cut, and stands alone.
pub fn fit(page: &mut Value, key: &str, budget: usize, keep: Keep) {
    let Some(Value::Array(list)) = page.get_mut(key) else { return };
    let mut entries = std::mem::take(list);
    let room = budget.saturating_sub(bound::shown(page) + BESIDE);
    let mut used = 0;
    let mut fits = |entry: &&Value| {
        used += bound::shown(entry) + 1;
        used <= room
    };
    let kept = match keep {
        Keep::First { .. } => entries.iter().take_while(&mut fits).count(),
        Keep::Last => entries.iter().rev().take_while(&mut fits).count(),
    };
    if kept < entries.len() {
        page["truncated"] = true.into();
        match keep {
            Keep::First { next } => {
                entries.truncate(kept.max(1));
                if let Some(last) = entries.last().and_then(|entry| entry.get(next)) {
                    page["next"] = last.clone();
                }
            }
            Keep::Last => drop(entries.drain(..entries.len() - kept.max(1))),
        }
        if kept == 0 {
            for entry in &mut entries {
                cut(entry, room);
                if !entry.is_object() {
                    // Nothing of the entry fits; the page keeps its shape for clients that check it.
                    *entry = Value::Object(Map::new());
                }
            }
        }
    }
    page[key] = entries.into();
}

/// Cuts an entry down. Its longest members give way first: what is short is what an entry is known by.
fn cut(entry: &mut Value, room: usize) {
    for _ in 0..MAX_CUTS {
        let over = bound::shown(entry).saturating_sub(room);
        let longest = entry.as_object_mut().and_then(|members| {
            let sized = members.values_mut().map(|member| (bound::shown(member), member));
            sized.max_by_key(|(size, _)| *size)
        });
        match longest {
            Some((size, member)) if over > 0 => bound::shrink(member, size, size.saturating_sub(over)),
            _ => return,
        };
    }
    let size = bound::shown(entry);
    bound::shrink(entry, size, room);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seqs(page: &Value) -> Vec<u64> {
        let records = page["records"].as_array().expect("a list");
        records.iter().map(|record| record["seq"].as_u64().expect("a number")).collect()
    }

    /// Records 1 to 100 after that one.
    fn after(seq: u64) -> Value {
        let records: Vec<_> =
            (seq + 1..=100).map(|seq| json!({ "seq": seq, "text": "\u{200b}".repeat(30) })).collect();
        json!({ "records": records })
    }

    #[test]
    fn who_follows_next_sees_every_entry_once() {
        let (mut seen, mut next) = (Vec::new(), 0);
        loop {
            let mut page = after(next);
            fit(&mut page, "records", 4096, Keep::First { next: "seq" });
            assert!(bound::shown(&page) <= 4096);
            assert_eq!(page.get("truncated").is_some(), page.get("next").is_some());
            seen.extend(seqs(&page));
            match page.get("next") {
                Some(seq) => next = seq.as_u64().expect("a number"),
                None => break,
            }
        }
        assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    }

    #[test]
    fn of_the_newest_the_newest_stay() {
        let mut page = after(0);
        fit(&mut page, "records", 4096, Keep::Last);
        let seqs = seqs(&page);
        assert!(seqs.len() > 10 && seqs.len() < 100, "{}", seqs.len());
        assert_eq!((seqs.last(), &page["truncated"], page.get("next")), (Some(&100), &json!(true), None));
    }

    #[test]
    fn one_that_is_too_long_is_cut_and_does_not_stop_who_reads_on() {
        let mut page =
            json!({ "records": [{ "seq": 7, "text": "x".repeat(9000) }, { "seq": 8, "text": "y" }], "next": 8 });
        fit(&mut page, "records", 4096, Keep::First { next: "seq" });
        assert_eq!((seqs(&page), &page["next"]), (vec![7], &json!(7)));
        assert!(bound::shown(&page) <= 4096 && page["records"][0]["text"].to_string().contains("cut by the hub"));
    }

    #[test]
    fn what_is_short_stays_when_what_is_long_is_cut() {
        let agent = json!({ "id": "pc", "meta": { "a": "x".repeat(9000), "b": vec!["y"; 3000] }, "online": true, "tags": [] });
        let mut page = json!({ "agents": [agent] });
        fit(&mut page, "agents", 4096, Keep::First { next: "id" });
        let cut = &page["agents"][0];
        assert_eq!((&cut["id"], &cut["online"], &cut["tags"]), (&json!("pc"), &json!(true), &json!([])), "{cut}");
        assert!(cut["meta"].is_object() && bound::shown(&page) <= 4096, "{cut}");
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let mut page = json!({ "records": [{ "seq": 1 }], "next": 5 });
        let before = page.clone();
        fit(&mut page, "records", 4096, Keep::First { next: "seq" });
        assert_eq!(page, before);
    }
}
