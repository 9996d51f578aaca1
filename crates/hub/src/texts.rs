//! Texts that many have in common, each held once.
//!
//! Most machines of a fleet are well in the same way: ten thousand agents have some dozens of different lists of
//! statuses. Held once, a list stays in the processor's cache while a view of the fleet copies it for every agent that
//! has it; held ten thousand times, every copy comes from memory.

use std::collections::HashMap;
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

impl Texts {
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
