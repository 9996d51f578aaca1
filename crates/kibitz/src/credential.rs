//! Tokens that somebody else issued (contract, section 5): credits that a room may require of agents, and workload
//! identities that a standing policy admits. Both are JWTs, signed with RS256 under keys that the issuer publishes; the
//! room asks nobody, it only verifies.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admission::{Refused, binding_nonce};
use crate::key::MAX_TOKEN;

/// How far the clocks of issuer and room may be apart, in seconds.
const LEEWAY_S: i64 = 60;
/// How long after its credit ran out an agent is removed, in seconds.
pub const REAP_LEEWAY_S: i64 = 90;
/// Most keys of one issuer that are looked at.
const MAX_KEYS: usize = 32;

/// Checks signatures of RSA keys.
pub trait RsaVerifier: Send + Sync {
    /// Whether this is the signature (RSASSA-PKCS1-v1_5 with SHA-256) over these bytes. The numbers are big-endian.
    fn verify(&self, modulus: &[u8], exponent: &[u8], bytes: &[u8], signature: &[u8]) -> bool;
}

/// A key that an issuer published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RsaKey {
    kid: Option<String>,
    n: Vec<u8>,
    e: Vec<u8>,
}

/// The keys that an issuer published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jwks(Vec<RsaKey>);

impl Jwks {
    /// Reads a JWK set. What is no RSA key for signatures is left out.
    pub fn read(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_str(text).ok()?;
        let key = |jwk: &Value| {
            let text = |name: &str| jwk.get(name).and_then(Value::as_str);
            let number = |name| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
            let fits = text("kty") == Some("RSA")
                && text("alg").is_none_or(|alg| alg == "RS256")
                && text("use").is_none_or(|usage| usage == "sig");
            let (n, e) = (number("n")?, number("e")?);
            fits.then(|| RsaKey { kid: text("kid").map(Into::into), n, e })
        };
        Some(Self(set.keys.iter().filter_map(key).take(MAX_KEYS).collect()))
    }
}

/// The claims that are looked at.
#[derive(Debug, Deserialize)]
struct Claims {
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    sub: Option<String>,
    #[serde(default)]
    aud: Option<Value>,
    #[serde(default)]
    exp: Option<f64>,
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    iat: Option<f64>,
    #[serde(default)]
    k: Option<String>,
    #[serde(default)]
    room: Option<String>,
    #[serde(default)]
    nonce: Option<String>,
}

/// Verifies a JWT and its times. The algorithm is not the token's to choose.
fn verified(text: &str, jwks: &Jwks, now: i64, rsa: &dyn RsaVerifier) -> Result<Claims, Refused> {
    #[derive(Deserialize)]
    struct Header {
        alg: String,
        #[serde(default)]
        typ: Option<String>,
        #[serde(default)]
        kid: Option<String>,
        #[serde(default)]
        crit: Option<Value>,
    }
    if text.len() > MAX_TOKEN {
        return Err(Refused::Malformed);
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(Refused::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(Refused::Malformed)?;
    let bytes = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Malformed);
    let header: Header = serde_json::from_slice(&bytes(header)?).map_err(|_| Refused::Malformed)?;
    let is_jwt = header.typ.as_deref().is_none_or(|typ| typ.eq_ignore_ascii_case("JWT"));
    if header.alg != "RS256" || !is_jwt || header.crit.is_some() {
        return Err(Refused::Purpose);
    }
    let signature = bytes(signature)?;
    let fits = |key: &&RsaKey| header.kid.is_none() || key.kid.is_none() || key.kid == header.kid;
    let good = |key: &RsaKey| rsa.verify(&key.n, &key.e, signed.as_bytes(), &signature);
    if !jwks.0.iter().filter(fits).any(good) {
        return Err(Refused::UnknownKey);
    }
    let claims: Claims = serde_json::from_slice(&bytes(claims)?).map_err(|_| Refused::Malformed)?;
    let exp = claims.exp.map(seconds).ok_or(Refused::Stale)?;
    if now >= exp.saturating_add(LEEWAY_S) {
        return Err(Refused::Stale);
    }
    let begins = claims.nbf.into_iter().chain(claims.iat).map(seconds).max();
    if begins.is_some_and(|begins| begins > now.saturating_add(LEEWAY_S)) {
        return Err(Refused::Ahead);
    }
    Ok(claims)
}

#[expect(clippy::cast_possible_truncation, reason = "a time with a fraction is cut, and bounded by the cast")]
const fn seconds(time: f64) -> i64 {
    time as i64
}

/// What a room requires of agents that pay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreditPolicy {
    /// Whose credits count.
    pub issuers: Vec<String>,
    /// The claim `k` that they must have, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A credit in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Who pays.
    pub sub: String,
    /// Until when, in seconds since 1970.
    pub exp: i64,
}

impl Credit {
    /// Whether its holder is to be removed.
    pub const fn is_lapsed(&self, now: i64) -> bool {
        now >= self.exp.saturating_add(REAP_LEEWAY_S)
    }
}

/// Reads a credit for this room.
pub fn check_credit(
    text: &str,
    policy: &CreditPolicy,
    jwks: &Jwks,
    room: &str,
    now: i64,
    rsa: &dyn RsaVerifier,
) -> Result<Credit, Refused> {
    let claims = verified(text, jwks, now, rsa)?;
    issued_by(&claims, &policy.issuers)?;
    if policy.kind.is_some() && claims.k != policy.kind {
        return Err(Refused::Purpose);
    }
    // One that names no room could be spent in all of them at once.
    if claims.room.as_deref() != Some(room) {
        return Err(Refused::Room);
    }
    let sub = claims.sub.filter(|sub| !sub.is_empty()).ok_or(Refused::Malformed)?;
    Ok(Credit { sub, exp: claims.exp.map(seconds).unwrap_or_default() })
}

fn issued_by(claims: &Claims, issuers: &[String]) -> Result<(), Refused> {
    let known = claims.iss.as_ref().is_some_and(|iss| issuers.contains(iss));
    if known { Ok(()) } else { Err(Refused::UnknownKey) }
}

/// A standing policy: whoever this issuer vouches for may come in as an agent, without a step for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerPolicy {
    /// The issuer.
    pub issuer: String,
    /// Where it publishes its keys.
    pub jwks_uri: String,
    /// For whom its tokens must be made.
    pub audience: String,
    /// Which subjects: exact, or with one `*` at the end.
    #[serde(default)]
    pub subjects: Vec<String>,
    /// The token must be bound to the certificate that is shown, by its `nonce`.
    #[serde(default)]
    pub bound: bool,
    /// What its agents may; absent: what every agent may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caps: Option<crate::grant::Grant>,
}

/// An agent that an issuer vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The issuer.
    pub issuer: String,
    /// Whom it vouches for.
    pub subject: String,
    /// Until when, in seconds since 1970.
    pub exp: i64,
}

/// Reads a workload's token for a room and a connection.
pub fn check_workload(
    text: &str,
    policy: &IssuerPolicy,
    jwks: &Jwks,
    room: &str,
    fingerprint: &str,
    now: i64,
    rsa: &dyn RsaVerifier,
) -> Result<Workload, Refused> {
    let claims = verified(text, jwks, now, rsa)?;
    issued_by(&claims, std::slice::from_ref(&policy.issuer))?;
    let is_it = |aud: &Value| aud.as_str() == Some(&policy.audience);
    let for_us = match &claims.aud {
        Some(Value::Array(list)) => list.iter().any(is_it),
        Some(one) => is_it(one),
        None => false,
    };
    if !for_us {
        return Err(Refused::Purpose);
    }
    let subject = claims.sub.filter(|sub| !sub.is_empty()).ok_or(Refused::Malformed)?;
    let fits = |wanted: &String| match wanted.strip_suffix('*') {
        Some(start) => subject.starts_with(start),
        None => *wanted == subject,
    };
    if !policy.subjects.is_empty() && !policy.subjects.iter().any(fits) {
        return Err(Refused::UnknownKey);
    }
    let nonce = binding_nonce(fingerprint, room);
    // A token that says what it is bound to is held to it, whether the policy asks for that or not.
    if claims.nonce.as_ref().map_or(policy.bound, |said| *said != nonce) {
        return Err(Refused::Connection);
    }
    let exp = claims.exp.map(seconds).unwrap_or_default();
    Ok(Workload { issuer: policy.issuer.clone(), subject, exp })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The signature is good if it is the word of the key.
    struct Words;

    impl RsaVerifier for Words {
        fn verify(&self, modulus: &[u8], _: &[u8], _: &[u8], signature: &[u8]) -> bool {
            modulus == signature
        }
    }

    fn jwks() -> Jwks {
        let key = |kid: &str, word: &str| json!({ "kty": "RSA", "kid": kid, "n": URL_SAFE_NO_PAD.encode(word), "e": "AQAB" });
        let elliptic = json!({ "kty": "EC", "n": "AQAB", "e": "AQAB" });
        let set = json!({ "keys": [key("1", "one"), key("2", "two"), elliptic] });
        Jwks::read(&set.to_string()).expect("a set")
    }

    fn token(header: &Value, claims: &Value, word: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", part(&header.to_string()), part(&claims.to_string()), part(word))
    }

    fn header() -> Value {
        json!({ "alg": "RS256", "typ": "JWT", "kid": "2" })
    }

    #[test]
    fn a_credit_counts_for_its_room_until_it_ends() {
        let policy = CreditPolicy { issuers: vec!["https://pay".into()], kind: Some("credit".into()) };
        let claims =
            json!({ "iss": "https://pay", "sub": "a", "k": "credit", "room": "r", "exp": 1_000, "iat": 940 });
        let check = |text: &str, room: &str, now: i64| check_credit(text, &policy, &jwks(), room, now, &Words);
        let good = token(&header(), &claims, "two");
        assert_eq!(check(&good, "r", 1_059), Ok(Credit { sub: "a".into(), exp: 1_000 }));
        assert_eq!(check(&good, "r", 1_060), Err(Refused::Stale));
        assert_eq!(check(&good, "r", 800), Err(Refused::Ahead));
        assert_eq!(check(&good, "other", 950), Err(Refused::Room));
        let with = |change: fn(&mut Value)| {
            let mut claims = claims.clone();
            change(&mut claims);
            check(&token(&header(), &claims, "two"), "r", 950)
        };
        assert_eq!(with(|c| c["iss"] = json!("https://evil")), Err(Refused::UnknownKey));
        assert_eq!(with(|c| c["k"] = json!("other")), Err(Refused::Purpose));
        assert_eq!(with(|c| c["room"] = Value::Null), Err(Refused::Room));
        assert_eq!(with(|c| c["exp"] = Value::Null), Err(Refused::Stale));
        assert_eq!(with(|c| c["sub"] = json!("")), Err(Refused::Malformed));
        let credit = check(&good, "r", 950).expect("counts");
        assert!(!credit.is_lapsed(1_089) && credit.is_lapsed(1_090));
    }

    #[test]
    fn the_algorithm_and_the_key_are_not_the_tokens_to_choose() {
        let claims = json!({ "iss": "https://pay", "sub": "a", "room": "r", "exp": 1_000 });
        let policy = CreditPolicy { issuers: vec!["https://pay".into()], kind: None };
        let check =
            |header: &Value, word| check_credit(&token(header, &claims, word), &policy, &jwks(), "r", 950, &Words);
        assert!(check(&json!({ "alg": "RS256" }), "one").is_ok(), "no `kid`: any key");
        assert_eq!(check(&header(), "one"), Err(Refused::UnknownKey), "of another `kid`");
        assert_eq!(check(&header(), "three"), Err(Refused::UnknownKey));
        for bad in [json!({ "alg": "none" }), json!({ "alg": "HS256" }), json!({ "alg": "RS256", "crit": ["x"] })] {
            assert_eq!(check(&bad, "one"), Err(Refused::Purpose), "{bad}");
        }
        for text in ["", "a", "a.b", "a.b.c", &"x".repeat(9_000)] {
            assert_eq!(check_credit(text, &policy, &jwks(), "r", 950, &Words), Err(Refused::Malformed));
        }
    }

    #[test]
    fn a_policy_admits_the_workloads_that_it_names() {
        let mut policy = IssuerPolicy {
            issuer: "https://ci".into(),
            jwks_uri: "https://ci/jwks".into(),
            audience: "rooms".into(),
            subjects: vec!["repo:acme/*".into(), "exact".into()],
            bound: false,
            caps: None,
        };
        let claims = |sub: &str, aud: Value, nonce: Option<&str>| json!({ "iss": "https://ci", "sub": sub, "aud": aud, "exp": 1_000, "nonce": nonce });
        let check = |policy: &IssuerPolicy, claims: &Value| {
            let text = token(&header(), claims, "two");
            check_workload(&text, policy, &jwks(), "r", "aa:bb", 950, &Words).map(|workload| workload.subject)
        };
        let (rooms, acme) = (json!("rooms"), "repo:acme/x");
        assert_eq!(check(&policy, &claims(acme, rooms.clone(), None)).as_deref(), Ok(acme));
        assert_eq!(check(&policy, &claims("exact", json!(["x", "rooms"]), None)).as_deref(), Ok("exact"));
        assert_eq!(check(&policy, &claims("exactly", rooms.clone(), None)), Err(Refused::UnknownKey));
        assert_eq!(check(&policy, &claims(acme, json!("else"), None)), Err(Refused::Purpose));
        assert_eq!(check(&policy, &claims(acme, Value::Null, None)), Err(Refused::Purpose));
        let nonce = binding_nonce("aa:bb", "r");
        policy.bound = true;
        assert_eq!(check(&policy, &claims(acme, rooms.clone(), None)), Err(Refused::Connection));
        assert_eq!(check(&policy, &claims(acme, rooms.clone(), Some(&nonce))).as_deref(), Ok(acme));
        policy.bound = false;
        assert_eq!(check(&policy, &claims(acme, rooms, Some("x"))), Err(Refused::Connection));
    }
}
