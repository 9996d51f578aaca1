//! The hub's clock and randomness: the one place where the pure crates get theirs from.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use uuid::Uuid;

/// What the clocks show instead of the time, in milliseconds since 1970; 0 for the time.
static FAKE_MS: AtomicI64 = AtomicI64::new(0);
/// Where the fake steady clock begins.
static FAKE_START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Stops both clocks of this process at a time after 1970, for a test that moves them itself.
#[doc(hidden)]
pub fn set_for_tests(at: Timestamp) {
    FAKE_MS.store(at.millis(), Ordering::Release);
}

fn fake_ms() -> Option<i64> {
    Some(FAKE_MS.load(Ordering::Acquire)).filter(|ms| *ms != 0)
}

/// Now.
pub fn now() -> Timestamp {
    if let Some(ms) = fake_ms() {
        return Timestamp::from_millis(ms);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Now, on a clock that is never set back.
pub fn steady() -> Instant {
    match fake_ms() {
        Some(ms) => *FAKE_START + Duration::from_millis(ms.unsigned_abs()),
        None => Instant::now(),
    }
}

/// The time since the machine started, asleep or not: what a lease is counted on.
#[cfg(target_os = "linux")]
pub fn boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// The same where there is no such clock: several hubs run on Linux.
#[cfg(not(target_os = "linux"))]
pub fn boot() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Random bytes from the system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system's random source failed; keys and nonces would not be safe");
    bytes
}

/// A new random id.
pub fn uuid() -> Uuid {
    uuid::Builder::from_random_bytes(random()).into_uuid()
}

/// A new id that begins with the time, for what is listed by when it was made.
pub fn dated_uuid() -> Uuid {
    let millis = u64::try_from(now().millis()).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &random()).into_uuid()
}

/// A new token of 256 random bits. The prefix tells people and secret scanners what it is.
pub fn token(prefix: &str) -> SecretText {
    SecretText::new(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random::<32>())))
}
