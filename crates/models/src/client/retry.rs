//! When a request is repeated, and how long is waited.

use std::time::Duration;

use crate::ModelError;

/// How often and after what delay a failed request is repeated.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// All attempts together.
    pub max_attempts: u32,
    /// The delay before the second attempt; doubled for each one after it.
    pub base: Duration,
    /// The longest delay of our own making.
    pub cap: Duration,
    /// The longest delay that a provider may ask for. If it asks for more, the request fails at once and says so:
    /// the user should not stare at a silent turn.
    pub longest_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(30),
            longest_retry_after: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// How long to wait before `attempt` (2 is the first repetition) after `error`; `None`: do not repeat.
    ///
    /// `chance` is in 0..=1. Up to a quarter is added to the delay, so that many clients which were refused together
    /// do not come back together; a provider's own `Retry-After` is never undercut.
    pub fn delay(&self, attempt: u32, error: &ModelError, chance: f64) -> Option<Duration> {
        if attempt > self.max_attempts || !error.is_transient() {
            return None;
        }
        let doublings = attempt.saturating_sub(2).min(16);
        let own = self.base.saturating_mul(1 << doublings).min(self.cap);
        let wait = match error.retry_after() {
            Some(asked) if asked > self.longest_retry_after => return None,
            Some(asked) => asked.max(own),
            None => own,
        };
        Some(wait + wait.mul_f64(0.25 * chance.clamp(0.0, 1.0)).min(self.cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProviderKind;

    fn limited(after: Option<u64>) -> ModelError {
        ModelError::RateLimited {
            provider: ProviderKind::OpenAi,
            status: 429,
            message: String::new(),
            retry_after: after.map(Duration::from_secs),
        }
    }

    #[test]
    fn delays_double_and_listen_to_the_provider() {
        let policy = RetryPolicy::default();
        let seconds =
            |attempt, after, chance| policy.delay(attempt, &limited(after), chance).map(|d| d.as_secs_f64());
        assert_eq!(seconds(2, None, 0.0), Some(1.0));
        assert_eq!(seconds(3, None, 0.0), Some(2.0));
        assert_eq!(seconds(4, None, 0.0), None, "three attempts in all");
        assert_eq!(seconds(2, Some(7), 0.0), Some(7.0));
        assert_eq!(seconds(2, Some(0), 0.0), Some(1.0), "no hammering");
        assert_eq!(seconds(2, None, 1.0), Some(1.25));
        assert_eq!(seconds(2, Some(600), 0.0), None, "too long to wait for");
    }

    #[test]
    fn only_what_may_pass_is_repeated() {
        let refused = ModelError::Unauthorised { provider: ProviderKind::OpenAi, status: 401, message: "no".into() };
        assert_eq!(RetryPolicy::default().delay(2, &refused, 0.0), None);
    }
}
