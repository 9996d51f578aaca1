//! Passkeys: the challenges that browsers are given, and the answers to them. A challenge is used once, lapses after five
//! minutes, and is kept in memory only.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use convoke_core::id::TokenId;
use convoke_core::time::Timestamp;
use convoke_store::PasskeyRow;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;
use webauthn_rs::prelude::{
    CreationChallengeResponse, DiscoverableAuthentication, Passkey, PasskeyAuthentication, PasskeyRegistration,
    PublicKeyCredential, RegisterPublicKeyCredential, RequestChallengeResponse, Webauthn, WebauthnBuilder,
    WebauthnError,
};

use super::User;
use crate::clock;
use crate::hub::Hub;
use crate::shares::network;

/// Most passkeys of one user.
pub const MAX_PASSKEYS: usize = 20;
/// How long a challenge is good.
const CHALLENGE: Duration = Duration::from_secs(5 * 60);
/// Most open challenges of one user, and of one address that signs in; a further one ends the oldest.
const MAX_OF_ONE: usize = 8;
/// Most open challenges of those who sign in.
const MAX_OPEN: usize = 4096;

/// Why there are no passkeys here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPasskeys {
    /// In words.
    pub why: String,
}

/// Whom a passkey is for: browsers bind it to this name.
#[derive(Debug)]
pub struct RelyingParty {
    id: String,
    verifier: Webauthn,
}

impl RelyingParty {
    /// That of this hub: the host of `hub.public_url`, else `localhost` on any port.
    pub fn of(hub: &Hub) -> Result<Self, NoPasskeys> {
        let own = if hub.tls { "https://localhost" } else { "http://localhost" };
        let public = hub.settings.hub.public_url.as_deref();
        Self::at(public, own)
    }

    fn at(public: Option<&str>, own: &str) -> Result<Self, NoPasskeys> {
        let text = public.unwrap_or(own);
        let no = |why: &str| NoPasskeys { why: format!("{why}; sign in with a password here") };
        let origin = Url::parse(text).map_err(|_| no("hub.public_url is not a URL"))?;
        let id = origin.domain().ok_or_else(|| {
            no(&format!("hub.public_url is {text}, and browsers take passkeys for a name only, not for an address"))
        })?;
        if origin.scheme() != "https" && id != "localhost" {
            return Err(no(&format!("hub.public_url is {text}, and browsers take passkeys over https only")));
        }
        let id = id.to_owned();
        let built = WebauthnBuilder::new(&id, &origin).and_then(|builder| {
            builder.allow_any_port(id == "localhost").rp_name("Convoke").timeout(CHALLENGE).build()
        });
        let verifier = built.map_err(|why| no(&format!("passkeys cannot be used for {text} ({why})")))?;
        Ok(Self { id, verifier })
    }

    /// The name.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A passkey in the store.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// For which name it was made.
    rp: String,
    passkey: Passkey,
}

/// For which name a passkey was made: it is good under that one only.
pub fn made_for(row: &PasskeyRow) -> Option<String> {
    serde_json::from_str::<Kept>(&row.body).ok().map(|kept| kept.rp)
}

/// What a browser is to answer.
#[derive(Debug)]
pub struct Challenge {
    /// Names it in the answer.
    pub id: String,
    /// For `navigator.credentials`, as JSON.
    pub options: Value,
}

#[derive(Debug)]
struct Open {
    id: String,
    until: Timestamp,
    of: Of,
    asked: Asked,
}

/// Who counts as having asked for a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    User(TokenId),
    Address(IpAddr),
}

#[derive(Debug)]
enum Asked {
    Register(Box<PasskeyRegistration>),
    StepUp(Box<PasskeyAuthentication>),
    SignIn(Box<DiscoverableAuthentication>),
}

/// The open challenges.
#[derive(Debug, Default)]
pub struct Challenges(Mutex<VecDeque<Open>>);

/// Why an answer was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// No such challenge is open.
    #[error("this challenge was used or has lapsed; ask for another one")]
    NoChallenge,
    /// Nobody has this passkey here.
    #[error("this hub does not know this passkey")]
    Unknown,
    /// It does not verify.
    #[error("the passkey's answer does not verify: {0}")]
    Wrong(#[from] WebauthnError),
    /// It has another form.
    #[error("this is not what a browser answers to the challenge: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Somebody showed a passkey.
#[derive(Debug)]
pub struct Shown {
    /// Whose it is.
    pub user: TokenId,
    /// It, as it is to be kept from now on.
    pub row: PasskeyRow,
}

impl Challenges {
    /// What a user's browser is to answer to make a passkey.
    pub fn register(&self, party: &RelyingParty, user: &User, have: &[PasskeyRow]) -> Result<Challenge, Refused> {
        let known = passkeys(party, have).iter().map(|(_, passkey)| passkey.cred_id().clone()).collect();
        let principal = &user.principal;
        let started = party.verifier.start_passkey_registration(
            principal.id.uuid(),
            &principal.name,
            &principal.name,
            Some(known),
        );
        let (options, state) = started?;
        let options = found_without_a_name(options)?;
        Ok(self.open(Of::User(principal.id), Asked::Register(Box::new(state)), options))
    }

    /// What a browser is to answer in which somebody is signed in.
    pub fn step_up(&self, party: &RelyingParty, user: TokenId, have: &[PasskeyRow]) -> Result<Challenge, Refused> {
        let known: Vec<_> = passkeys(party, have).into_iter().map(|(_, passkey)| passkey).collect();
        if known.is_empty() {
            return Err(Refused::Unknown);
        }
        let (options, state) = party.verifier.start_passkey_authentication(&known)?;
        Ok(self.open(Of::User(user), Asked::StepUp(Box::new(state)), asked(options)?))
    }

    /// What a browser is to answer to sign somebody in. It tells nobody who has a passkey.
    pub fn sign_in(&self, party: &RelyingParty, from: IpAddr) -> Result<Challenge, Refused> {
        let (options, state) = party.verifier.start_discoverable_authentication()?;
        Ok(self.open(Of::Address(network(from)), Asked::SignIn(Box::new(state)), asked(options)?))
    }

    /// The passkey that a user has made.
    pub fn registered(
        &self,
        party: &RelyingParty,
        user: TokenId,
        id: &str,
        name: String,
        answer: Value,
    ) -> Result<PasskeyRow, Refused> {
        let Some(Asked::Register(state)) = self.take(id, |of| of == Of::User(user)) else {
            return Err(Refused::NoChallenge);
        };
        let answer: RegisterPublicKeyCredential = serde_json::from_value(answer)?;
        let passkey = party.verifier.finish_passkey_registration(&answer, &state)?;
        let row = PasskeyRow { id: id_of(&passkey), user, name, body: String::new(), created_at: clock::now() };
        Ok(PasskeyRow { body: body(party, passkey)?, ..row })
    }

    /// Who has shown a passkey; `find` knows them by credential.
    pub fn shown(
        &self,
        party: &RelyingParty,
        signed_in: Option<TokenId>,
        id: &str,
        answer: Value,
        find: impl Fn(&str) -> Option<PasskeyRow>,
    ) -> Result<Shown, Refused> {
        let may = |of| matches!(of, Of::Address(_)) || signed_in.is_some_and(|user| of == Of::User(user));
        let Some(asked) = self.take(id, may) else { return Err(Refused::NoChallenge) };
        let answer: PublicKeyCredential = serde_json::from_value(answer)?;
        let row = find(&text_of(answer.get_credential_id())).ok_or(Refused::Unknown)?;
        let Kept { rp, mut passkey } = serde_json::from_str(&row.body)?;
        if rp != party.id {
            return Err(Refused::Unknown);
        }
        let result = match asked {
            Asked::StepUp(state) if signed_in == Some(row.user) => {
                party.verifier.finish_passkey_authentication(&answer, &state)?
            }
            Asked::SignIn(state) => {
                let (user, _) = party.verifier.identify_discoverable_authentication(&answer)?;
                if user != row.user.uuid() {
                    return Err(Refused::Unknown);
                }
                party.verifier.finish_discoverable_authentication_v2(&answer, *state, &passkey)?
            }
            Asked::StepUp(_) | Asked::Register(_) => return Err(Refused::NoChallenge),
        };
        passkey.update_credential(&result);
        let body = body(party, passkey)?;
        Ok(Shown { user: row.user, row: PasskeyRow { body, ..row } })
    }

    fn open(&self, of: Of, asked: Asked, options: Value) -> Challenge {
        let now = clock::now();
        let id = clock::token("").reveal().to_owned();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|one| now < one.until);
        if open.iter().filter(|one| one.of == of).count() >= MAX_OF_ONE
            && let Some(oldest) = open.iter().position(|one| one.of == of)
        {
            open.remove(oldest);
        }
        // Of those who are signed in there are a few each; only strangers can be many.
        if open.iter().filter(|one| matches!(one.of, Of::Address(_))).count() >= MAX_OPEN
            && let Some(oldest) = open.iter().position(|one| matches!(one.of, Of::Address(_)))
        {
            open.remove(oldest);
        }
        open.push_back(Open { id: id.clone(), until: now.after(CHALLENGE), of, asked });
        Challenge { id, options }
    }

    /// An open challenge of those who may answer it; it is open no more.
    fn take(&self, id: &str, may: impl Fn(Of) -> bool) -> Option<Asked> {
        let now = clock::now();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = open.iter().position(|one| one.id == id && now < one.until && may(one.of))?;
        open.remove(at).map(|one| one.asked)
    }
}

/// Those that are good under this name.
fn passkeys(party: &RelyingParty, rows: &[PasskeyRow]) -> Vec<(String, Passkey)> {
    let read = |row: &PasskeyRow| serde_json::from_str::<Kept>(&row.body).ok();
    let own = rows.iter().filter_map(read).filter(|kept| kept.rp == party.id);
    own.map(|kept| (id_of(&kept.passkey), kept.passkey)).collect()
}

fn body(party: &RelyingParty, passkey: Passkey) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Kept { rp: party.id.clone(), passkey })
}

fn id_of(passkey: &Passkey) -> String {
    text_of(passkey.cred_id().as_ref())
}

fn text_of(id: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(id)
}

/// A passkey that the browser finds by itself, so that nobody types a name to sign in.
fn found_without_a_name(options: CreationChallengeResponse) -> Result<Value, serde_json::Error> {
    let mut options = serde_json::to_value(options)?;
    let selection = &mut options["publicKey"]["authenticatorSelection"];
    selection["residentKey"] = json!("required");
    selection["requireResidentKey"] = json!(true);
    Ok(options)
}

/// A page decides itself when it asks.
fn asked(mut options: RequestChallengeResponse) -> Result<Value, serde_json::Error> {
    options.mediation = None;
    serde_json::to_value(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(public: Option<&str>) -> Result<String, String> {
        RelyingParty::at(public, "http://localhost").map(|party| party.id).map_err(|no| no.why)
    }

    #[test]
    fn a_passkey_is_for_a_name_and_never_for_an_address() {
        assert_eq!(party(None).as_deref(), Ok("localhost"));
        assert_eq!(party(Some("https://hub.example:8443")).as_deref(), Ok("hub.example"));
        for (url, part) in [
            ("https://192.0.2.7:7410", "not for an address"),
            ("http://[2001:db8::1]", "not for an address"),
            ("http://hub.example", "https only"),
        ] {
            let why = party(Some(url)).expect_err("none");
            assert!(why.contains(part) && why.contains(url), "{why}");
        }
    }

    #[test]
    fn challenges_of_one_address_end_no_one_elses() {
        let party = RelyingParty::at(None, "http://localhost").expect("a name");
        let challenges = Challenges::default();
        let [here, there] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        let kept = challenges.sign_in(&party, there).expect("asks").id;
        let first = challenges.sign_in(&party, here).expect("asks").id;
        for _ in 0..MAX_OF_ONE {
            challenges.sign_in(&party, here).expect("asks");
        }
        assert!(challenges.take(&first, |_| true).is_none(), "the oldest has ended");
        assert!(challenges.take(&kept, |_| true).is_some());
        assert!(challenges.take(&kept, |_| true).is_none(), "and is used once");
    }
}
