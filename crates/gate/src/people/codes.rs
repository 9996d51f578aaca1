//! One-time codes (TOTP, RFC 6238): six digits, 30 seconds, SHA-1, as every app has them. A code is good once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use convoke_core::id::TokenId;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use totp_rs::{Builder, Secret, Totp};

use crate::clock;

/// How long a new secret waits for the first code of it.
const WAITS: Duration = Duration::from_secs(10 * 60);
/// Most new secrets that wait.
const MAX_WAITING: usize = 1000;

/// Secrets that are not in use yet, and codes that were.
#[derive(Debug, Default)]
pub struct Codes(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    waiting: HashMap<TokenId, (SecretBytes, Timestamp)>,
    /// The step of the last code of each user: that one and older ones are used up.
    used: HashMap<TokenId, u64>,
}

/// A new secret, for the user's app.
#[derive(Debug)]
pub struct NewSecret {
    /// To be typed.
    pub text: SecretText,
    /// To be shown as a picture (`otpauth://…`).
    pub uri: SecretText,
}

fn totp(secret: &SecretBytes, user: &str) -> Option<Totp> {
    let secret = Secret::from(secret.reveal());
    // A colon ends the issuer in such an address; names have none.
    let builder = Builder::new().with_secret(secret).with_skew(1).with_account_name(user);
    builder.with_issuer(Some("Convoke")).build().ok()
}

impl Codes {
    /// A new secret for a user. It is in use once they show a code of it.
    pub fn begin(&self, id: TokenId, user: &str) -> Option<NewSecret> {
        let secret = SecretBytes::new(clock::random::<20>());
        let totp = totp(&secret, user)?;
        let now = clock::now();
        let new =
            NewSecret { text: SecretText::new(totp.secret().to_base32()), uri: SecretText::new(totp.to_url().ok()?) };
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.waiting.retain(|_, (_, until)| now < *until);
        if inner.waiting.len() >= MAX_WAITING && !inner.waiting.contains_key(&id) {
            return None;
        }
        inner.waiting.insert(id, (secret, now.after(WAITS)));
        Some(new)
    }

    /// The new secret of a user, if this is a code of it.
    pub fn confirm(&self, id: TokenId, code: &str) -> Option<SecretBytes> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        let (secret, _) = inner.waiting.get(&id).filter(|(_, until)| now < *until)?.clone();
        let step = check(&secret, code, now)?;
        inner.waiting.remove(&id);
        inner.used.insert(id, step);
        Some(secret)
    }

    /// Whether this is a code that was not used yet. It is, from now on.
    pub fn is_right(&self, id: TokenId, secret: &SecretBytes, code: &str) -> bool {
        let Some(step) = check(secret, code, clock::now()) else { return false };
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.used.get(&id).is_some_and(|used| step <= *used) {
            return false;
        }
        inner.used.insert(id, step);
        true
    }

    /// A user is no more, or has no codes any more.
    pub fn forget(&self, id: TokenId) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.waiting.remove(&id);
        inner.used.remove(&id);
    }
}

/// The step of a code, if it is one of now or of 30 seconds around.
fn check(secret: &SecretBytes, code: &str, now: Timestamp) -> Option<u64> {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let seconds = u64::try_from(now.millis() / 1000).ok()?;
    totp(secret, "")?.check(&code, seconds)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn code(secret: &SecretBytes, at: Timestamp) -> String {
        let seconds = u64::try_from(at.millis() / 1000).expect("after 1970");
        totp(secret, "").expect("a secret").generate(seconds).to_string()
    }

    #[test]
    fn a_code_is_good_once() {
        let (codes, id) = (Codes::default(), TokenId::new(Uuid::from_u128(1)));
        let secret = SecretBytes::new(*b"12345678901234567890");
        let now = clock::now();
        let early = code(&secret, Timestamp::from_millis(now.millis() - 30_000));
        assert!(codes.is_right(id, &secret, &code(&secret, now)));
        assert!(!codes.is_right(id, &secret, &code(&secret, now)));
        assert!(!codes.is_right(id, &secret, &early), "nor one before it");
        assert!(!codes.is_right(TokenId::new(Uuid::from_u128(2)), &secret, "12"));
    }

    #[test]
    fn a_code_is_the_one_that_the_standard_has() {
        // RFC 6238, appendix B, the last six of its eight digits.
        let secret = SecretBytes::new(*b"12345678901234567890");
        assert_eq!(code(&secret, Timestamp::from_millis(59_000)), "287082");
        assert_eq!(code(&secret, Timestamp::from_millis(1_111_111_109_000)), "081804");
    }

    #[test]
    fn a_secret_is_in_use_once_a_code_of_it_was_shown() {
        let (codes, id) = (Codes::default(), TokenId::new(Uuid::from_u128(1)));
        let new = codes.begin(id, "anna").expect("room for it");
        assert!(new.uri.reveal().starts_with("otpauth://totp/Convoke:anna?secret="), "{}", new.uri.reveal());
        let secret = SecretBytes::new(Secret::try_from_base32(new.text.reveal()).expect("base32").as_ref());
        assert!(codes.confirm(id, "000").is_none());
        let right = code(&secret, clock::now());
        assert_eq!(codes.confirm(id, &right), Some(secret.clone()));
        assert!(codes.confirm(id, &right).is_none(), "once");
        assert!(!codes.is_right(id, &secret, &right), "and that code was used");
    }
}
