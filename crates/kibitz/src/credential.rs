//! Tokens that somebody else issued (contract, section 5): credits that a room may require of agents, and workload
//! identities that a standing policy admits. Both are JWTs under keys that the issuer publishes (RS256; of workloads ES256,
//! too); the room asks nobody, it only verifies.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admission::{Refused, binding_nonce};
use crate::key::{MAX_TOKEN, PublicKey, Verifier};

/// How far the clocks of issuer and room may be apart, in seconds.
const LEEWAY_S: i64 = 60;
/// How long after its credit ran out an agent is removed, in seconds.
pub const REAP_LEEWAY_S: i64 = 90;
/// Most keys of one issuer that are looked at.
const MAX_KEYS: usize = 32;

/// A key that an issuer published.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    kid: Option<String>,
    of: KeyOf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyOf {
    /// RS256.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// ES256.
    P256(PublicKey),
}

/// The keys that an issuer published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jwks(Vec<Key>);

impl Jwks {
    /// Reads a JWK set. What is no key for signatures with RS256 or ES256 is left out.
    pub fn read(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_str(text).ok()?;
        Some(Self(set.keys.iter().filter_map(key).take(MAX_KEYS).collect()))
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn key(jwk: &Value) -> Option<Key> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let number = |name| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
    let is_for = |alg: &str| text("alg").is_none_or(|said| said == alg);
    if text("use").is_some_and(|usage| usage != "sig") {
        return None;
    }
    let of = match text("kty")? {
        "RSA" if is_for("RS256") => KeyOf::Rsa { n: number("n")?, e: number("e")? },
        "EC" if is_for("ES256") => KeyOf::P256(PublicKey::from_jwk(&jwk.to_string()).ok()?),
        _ => return None,
    };
    Some(Key { kid: text("kid").map(Into::into), of })
}

/// Where an issuer's keys are: with the policy itself, or at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// The address at which they are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
}

impl Keys {
    fn read(&self, verifier: &dyn Verifier) -> Result<Arc<Jwks>, NotYet> {
        match (&self.jwks, &self.jwks_uri) {
            (Some(pinned), _) => Ok(Arc::new(Jwks::read(&pinned.to_string()).unwrap_or_default())),
            (None, Some(address)) => verifier.published(address).ok_or(NotYet::Unknown),
            (None, None) => Ok(Arc::default()),
        }
    }
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// The issuer's keys are not known yet: it may be taken later.
    Unknown,
    /// It does not count.
    Refused(Refused),
}

impl From<Refused> for NotYet {
    fn from(why: Refused) -> Self {
        Self::Refused(why)
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
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

/// Verifies a JWT and its times. The algorithm is not the token's to choose.
fn verified(text: &str, jwks: &Jwks, elliptic: bool, now: i64, verifier: &dyn Verifier) -> Result<Claims, Refused> {
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
    let is_known = header.alg == "RS256" || (elliptic && header.alg == "ES256");
    if !is_known || !is_jwt || header.crit.is_some() {
        return Err(Refused::Purpose);
    }
    let signature = bytes(signature)?;
    let fits = |key: &&Key| header.kid.is_none() || key.kid.is_none() || key.kid == header.kid;
    let good = |key: &Key| match (&key.of, header.alg.as_str()) {
        (KeyOf::Rsa { n, e }, "RS256") => verifier.verify_rsa(n, e, signed.as_bytes(), &signature),
        (KeyOf::P256(key), "ES256") => <&[u8; 64]>::try_from(&*signature)
            .is_ok_and(|signature| verifier.verify(key, signed.as_bytes(), signature)),
        _ => false,
    };
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
    /// The issuers' keys.
    #[serde(flatten)]
    pub keys: Keys,
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
    room: &str,
    now: i64,
    verifier: &dyn Verifier,
) -> Result<Credit, NotYet> {
    let jwks = policy.keys.read(verifier)?;
    let claims = verified(text, &jwks, false, now, verifier)?;
    issued_by(&claims, &policy.issuers)?;
    if policy.kind.is_some() && claims.k != policy.kind {
        return Err(Refused::Purpose.into());
    }
    // One that names no room could be spent in all of them at once.
    if claims.room.as_deref() != Some(room) {
        return Err(Refused::Room.into());
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
    /// Its keys.
    #[serde(flatten)]
    pub keys: Keys,
    /// For whom its tokens must be made.
    pub audience: String,
    /// What claims must be: exact, or with one `*` at the end. `sub` is among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, String>,
    /// The token must be bound to the certificate that is shown, by its `nonce`.
    #[serde(default)]
    pub bound: bool,
    /// What its agents may; absent: what every agent may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caps: Option<crate::grant::Grant>,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
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

/// Whether this is a token of an issuer's, and no invite: those have two parts.
pub fn is_jwt(text: &str) -> bool {
    text.bytes().filter(|b| *b == b'.').count() == 2
}

/// Reads a workload's token for a room and a connection.
pub fn check_workload(
    text: &str,
    policy: &IssuerPolicy,
    room: &str,
    fingerprint: &str,
    now: i64,
    verifier: &dyn Verifier,
) -> Result<Workload, NotYet> {
    let jwks = policy.keys.read(verifier)?;
    let claims = verified(text, &jwks, true, now, verifier)?;
    issued_by(&claims, std::slice::from_ref(&policy.issuer))?;
    let is_it = |aud: &Value| aud.as_str() == Some(&policy.audience);
    let for_us = match &claims.aud {
        Some(Value::Array(list)) => list.iter().any(is_it),
        Some(one) => is_it(one),
        None => false,
    };
    if !for_us {
        return Err(Refused::Purpose.into());
    }
    let subject = claims.sub.filter(|sub| !sub.is_empty()).ok_or(Refused::Malformed)?;
    let of = |name: &str| if name == "sub" { Some(subject.clone().into()) } else { claims.rest.get(name).cloned() };
    let fits = |(name, wanted): (&String, &String)| match of(name) {
        Some(Value::Array(list)) => list.iter().any(|one| is_like(one, wanted)),
        Some(one) => is_like(&one, wanted),
        None => false,
    };
    if !policy.claims.iter().all(fits) {
        return Err(Refused::UnknownKey.into());
    }
    let nonce = binding_nonce(fingerprint, room);
    // A token that says what it is bound to is held to it, whether the policy asks for that or not.
    if claims.nonce.as_ref().map_or(policy.bound, |said| *said != nonce) {
        return Err(Refused::Connection.into());
    }
    let exp = claims.exp.map(seconds).unwrap_or_default();
    Ok(Workload { issuer: policy.issuer.clone(), subject, exp })
}

/// Whether a claim is what a policy wants of it.
fn is_like(claim: &Value, wanted: &str) -> bool {
    let text = match claim {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => claim.to_string(),
        _ => return false,
    };
    match wanted.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The signature is good if it is the word of the key, or of an elliptic one 64 of the same.
    struct Words;

    impl Verifier for Words {
        fn verify(&self, _: &PublicKey, _: &[u8], signature: &[u8; 64]) -> bool {
            signature == b"e".repeat(64).as_slice()
        }

        fn verify_rsa(&self, modulus: &[u8], _: &[u8], _: &[u8], signature: &[u8]) -> bool {
            modulus == signature
        }

        fn published(&self, address: &str) -> Option<Arc<Jwks>> {
            (address == "https://ci/jwks").then(|| Arc::new(Jwks::read(&jwks().to_string()).expect("a set")))
        }
    }

    fn jwks() -> Value {
        let key = |kid: &str, word: &str| json!({ "kty": "RSA", "kid": kid, "n": URL_SAFE_NO_PAD.encode(word), "e": "AQAB" });
        let number = URL_SAFE_NO_PAD.encode([1; 32]);
        let elliptic = json!({ "kty": "EC", "crv": "P-256", "kid": "3", "x": number, "y": number });
        json!({ "keys": [key("1", "one"), key("2", "two"), elliptic, { "kty": "oct", "k": "AQAB" }] })
    }

    fn pinned() -> Keys {
        Keys { jwks_uri: None, jwks: Some(jwks()) }
    }

    fn token(header: &Value, claims: &Value, word: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", part(&header.to_string()), part(&claims.to_string()), part(word))
    }

    fn header() -> Value {
        json!({ "alg": "RS256", "typ": "JWT", "kid": "2" })
    }

    fn refused(why: NotYet) -> Refused {
        match why {
            NotYet::Refused(why) => why,
            NotYet::Unknown => panic!("the keys are known"),
        }
    }

    #[test]
    fn a_credit_counts_for_its_room_until_it_ends() {
        let policy =
            CreditPolicy { issuers: vec!["https://pay".into()], keys: pinned(), kind: Some("credit".into()) };
        let claims =
            json!({ "iss": "https://pay", "sub": "a", "k": "credit", "room": "r", "exp": 1_000, "iat": 940 });
        let check =
            |text: &str, room: &str, now: i64| check_credit(text, &policy, room, now, &Words).map_err(refused);
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
        let policy = CreditPolicy { issuers: vec!["https://pay".into()], keys: pinned(), kind: None };
        let check = |header: &Value, word| {
            check_credit(&token(header, &claims, word), &policy, "r", 950, &Words).map_err(refused)
        };
        assert!(check(&json!({ "alg": "RS256" }), "one").is_ok(), "no `kid`: any key");
        assert_eq!(check(&header(), "one"), Err(Refused::UnknownKey), "of another `kid`");
        assert_eq!(check(&header(), "three"), Err(Refused::UnknownKey));
        for bad in [json!({ "alg": "none" }), json!({ "alg": "HS256" }), json!({ "alg": "RS256", "crit": ["x"] })] {
            assert_eq!(check(&bad, "one"), Err(Refused::Purpose), "{bad}");
        }
        for text in ["", "a", "a.b", "a.b.c", &"x".repeat(9_000)] {
            assert_eq!(check_credit(text, &policy, "r", 950, &Words).map_err(refused), Err(Refused::Malformed));
        }
    }

    #[test]
    fn a_policy_admits_the_workloads_that_it_names() {
        let mut policy = IssuerPolicy {
            issuer: "https://ci".into(),
            keys: Keys { jwks_uri: Some("https://ci/jwks".into()), jwks: None },
            audience: "rooms".into(),
            claims: [("sub".into(), "repo:acme/*".into()), ("ref".into(), "main".into())].into(),
            bound: false,
            caps: None,
            label: None,
        };
        let claims = |sub: &str, aud: Value, nonce: Option<&str>| json!({ "iss": "https://ci", "sub": sub, "aud": aud, "exp": 1_000, "nonce": nonce, "ref": ["x", "main"] });
        let check = |policy: &IssuerPolicy, claims: &Value| {
            let text = token(&header(), claims, "two");
            let checked = check_workload(&text, policy, "r", "aa:bb", 950, &Words).map_err(refused);
            checked.map(|workload| workload.subject)
        };
        let (rooms, acme) = (json!("rooms"), "repo:acme/x");
        assert_eq!(check(&policy, &claims(acme, rooms.clone(), None)).as_deref(), Ok(acme));
        assert_eq!(check(&policy, &claims(acme, json!(["x", "rooms"]), None)).as_deref(), Ok(acme));
        assert_eq!(check(&policy, &claims("repo:evil/x", rooms.clone(), None)), Err(Refused::UnknownKey));
        let other = |name: &str| {
            let mut claims = claims(acme, rooms.clone(), None);
            claims["ref"] = json!(name);
            claims
        };
        assert_eq!(check(&policy, &other("mainly")), Err(Refused::UnknownKey));
        assert_eq!(check(&policy, &other("main")).as_deref(), Ok(acme));
        assert_eq!(check(&policy, &claims(acme, json!("else"), None)), Err(Refused::Purpose));
        assert_eq!(check(&policy, &claims(acme, Value::Null, None)), Err(Refused::Purpose));
        let nonce = binding_nonce("aa:bb", "r");
        policy.bound = true;
        assert_eq!(check(&policy, &claims(acme, rooms.clone(), None)), Err(Refused::Connection));
        assert_eq!(check(&policy, &claims(acme, rooms.clone(), Some(&nonce))).as_deref(), Ok(acme));
        policy.bound = false;
        assert_eq!(check(&policy, &claims(acme, rooms, Some("x"))), Err(Refused::Connection));
    }
    #[test]
    fn workloads_may_be_signed_with_es256_and_credits_may_not_and_keys_may_come_later() {
        let elliptic = json!({ "alg": "ES256", "kid": "3" });
        let policy = IssuerPolicy {
            issuer: "https://ci".into(),
            keys: pinned(),
            audience: "rooms".into(),
            claims: BTreeMap::new(),
            bound: false,
            caps: None,
            label: None,
        };
        let claims = json!({ "iss": "https://ci", "sub": "a", "aud": "rooms", "room": "r", "exp": 1_000 });
        let text = token(&elliptic, &claims, &"e".repeat(64));
        assert!(is_jwt(&text) && !is_jwt("a.b"));
        let check = |text: &str, keys: Keys| {
            let policy = IssuerPolicy { keys, ..policy.clone() };
            check_workload(text, &policy, "r", "aa:bb", 950, &Words).map(|workload| workload.exp)
        };
        assert_eq!(check(&text, pinned()), Ok(1_000));
        assert_eq!(check(&token(&elliptic, &claims, "e"), pinned()), Err(Refused::UnknownKey.into()));
        let confused = token(&json!({ "alg": "ES256", "kid": "2" }), &claims, &"e".repeat(64));
        assert_eq!(check(&confused, pinned()), Err(Refused::UnknownKey.into()), "an RSA key is no elliptic one");
        let credits = CreditPolicy { issuers: vec!["https://ci".into()], keys: pinned(), kind: None };
        assert_eq!(check_credit(&text, &credits, "r", 950, &Words), Err(Refused::Purpose.into()));
        let elsewhere = Keys { jwks_uri: Some("https://not/yet".into()), jwks: None };
        assert_eq!(check(&text, elsewhere), Err(NotYet::Unknown));
        assert_eq!(check(&text, Keys::default()), Err(Refused::UnknownKey.into()));
    }
}
