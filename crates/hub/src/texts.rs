//! Texts that many have in common, each held once.
//!
//! The machines of a fleet are well and ill in much the same ways. Held once, a list of statuses stays in the processor's
//! cache while a view of the fleet copies it for every agent that has it; held ten thousand times, every copy comes from
//! memory. And where hardly two machines have the same list, they still have the same halves of it: what differs in one
//! half does not double what there is of the other.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

/// The texts that somebody has.
#[derive(Debug, Default)]
pub struct Texts(Mutex<Known>);

type Known = HashMap<Arc<str>, Entry, RandomState>;

#[derive(Debug)]
struct Entry {
    held: Arc<Held>,
    /// How many have it. Counted here, under the lock, so that the last to let go knows.
    holders: usize,
}

#[derive(Debug)]
struct Held {
    text: Arc<str>,
    among: Arc<Texts>,
}

/// A text that others may have too. It goes when the last of them lets go.
#[derive(Debug)]
pub struct Shared(Arc<Held>);

/// A list that others may have too, or one half of it.
#[derive(Debug)]
pub struct Halves([Shared; 2]);

impl Texts {
    /// That list, a JSON object of texts, in halves. Where it is cut decides only how much of it others have.
    pub fn halves(self: &Arc<Self>, list: &str) -> Halves {
        let (first, second) = list.split_at(middle(list));
        Halves([self.share(first), self.share(second)])
    }

    /// That text: the one that is held, if there is one.
    pub fn share(self: &Arc<Self>, text: &str) -> Shared {
        let mut known = self.known();
        if let Some(entry) = known.get_mut(text) {
            entry.holders += 1;
            return Shared(Arc::clone(&entry.held));
        }
        let text: Arc<str> = text.into();
        let held = Arc::new(Held { text: Arc::clone(&text), among: Arc::clone(self) });
        known.insert(text, Entry { held: Arc::clone(&held), holders: 1 });
        Shared(held)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the second half of the entries begins. By their number and not by their length: the same entries must come into
/// the same half, whatever is said in the others.
fn middle(list: &str) -> usize {
    const BETWEEN: &str = "\",\"";
    let after_half = list.matches(BETWEEN).count() / 2;
    list.match_indices(BETWEEN).nth(after_half).map_or(list.len(), |(at, _)| at + 2)
}

impl Halves {
    /// Puts the list there.
    pub fn push_to(&self, out: &mut String) {
        let Self([first, second]) = self;
        out.push_str(first);
        out.push_str(second);
    }
}

impl fmt::Display for Halves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|half| f.write_str(half))
    }
}

impl PartialEq<str> for Halves {
    fn eq(&self, list: &str) -> bool {
        let Self([first, second]) = self;
        list.strip_prefix(&**first) == Some(second)
    }
}

#[cfg(test)]
impl Halves {
    /// Where they are held.
    pub fn places(&self) -> [*const u8; 2] {
        [self.0[0].as_ptr(), self.0[1].as_ptr()]
    }
}

impl Deref for Shared {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut known = self.0.among.known();
        if let Some(entry) = known.get_mut(&self.0.text) {
            entry.holders -= 1;
            if entry.holders == 0 {
                known.remove(&self.0.text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_between_two_entries_and_comes_back_whole() {
        let cut = |list: &'static str| list.split_at(middle(list));
        assert_eq!(cut(r#"{"a":"ok","b":"ok","c":"ok"}"#), (r#"{"a":"ok","b":"ok","#, r#""c":"ok"}"#));
        assert_eq!(cut(r#"{"a":"ok","b":"ok"}"#), (r#"{"a":"ok","#, r#""b":"ok"}"#));
        assert_eq!(cut(r#"{"a\",\"b":"ok","c":"ok"}"#), (r#"{"a\",\"b":"ok","#, r#""c":"ok"}"#));
        for list in ["", "{}", r#"{"a":"ok"}"#] {
            assert_eq!(cut(list), (list, ""));
        }
        let texts = Arc::new(Texts::default());
        for list in ["{}", r#"{"a":"ok","b":"ok","c":"ok"}"#] {
            let (halves, mut out) = (texts.halves(list), String::new());
            halves.push_to(&mut out);
            assert_eq!(out, list);
            assert!(halves == *list && halves != *"{" && halves != *r#"{"a":"ok"}"#);
        }
    }

    #[test]
    fn lists_that_differ_share_the_half_in_which_they_do_not() {
        let texts = Arc::new(Texts::default());
        let statuses = ["ok", "warn", "crit"];
        let held: Vec<Halves> = statuses
            .iter()
            .flat_map(|a| statuses.map(|b| format!(r#"{{"a":"{a}","b":"{b}"}}"#)))
            .map(|list| texts.halves(&list))
            .collect();
        assert_eq!((held.len(), texts.known().len()), (9, 6));
    }

    #[test]
    fn a_text_is_held_once_and_as_long_as_somebody_has_it() {
        let texts = Arc::new(Texts::default());
        let (first, again, other) = (texts.share("well"), texts.share("well"), texts.share("ill"));
        assert_eq!((&*first, &*again, &*other), ("well", "well", "ill"));
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert_eq!(texts.known().len(), 2);
        drop(first);
        assert_eq!((&*again, texts.known().len()), ("well", 2));
        drop(again);
        assert_eq!(texts.known().keys().map(|text| &**text).collect::<Vec<_>>(), ["ill"]);
        drop(other);
        assert!(texts.known().is_empty());
    }
}
