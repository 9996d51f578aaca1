//! ECDSA P-256, as rooms and agents use it, and what a room asks its hub about who wants in.

use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::grant::Role;
use convoke_core::id::{SessionId, TokenId};
use convoke_core::secret::SecretBytes;
use convoke_gate::clock;
use convoke_gate::operators::{Caller, Token};
use convoke_kibitz::credential::Jwks;
use convoke_kibitz::key::{PublicKey, Signer, Verifier};
use convoke_kibitz::room::Caller as RoomCaller;

use super::peer;
use crate::Wires;

/// A room's own key: it signs invites and the manifest.
pub(super) struct RoomKey {
    pair: EcdsaKeyPair,
    public: PublicKey,
}

impl std::fmt::Debug for RoomKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl RoomKey {
    /// A new one, and how it is kept.
    pub(super) fn generate() -> Option<(Self, SecretBytes)> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).ok()?;
        let kept = SecretBytes::new(document.as_ref());
        Some((Self::open(&kept)?, kept))
    }

    /// One that was kept.
    pub(super) fn open(kept: &SecretBytes) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, kept.reveal()).ok()?;
        let public = PublicKey::from_sec1(pair.public_key().as_ref()).ok()?;
        Some(Self { pair, public })
    }
}

impl Signer for RoomKey {
    fn public_key(&self) -> PublicKey {
        self.public
    }

    fn sign(&self, bytes: &[u8]) -> Option<[u8; 64]> {
        self.pair.sign(&SystemRandom::new(), bytes).ok()?.as_ref().try_into().ok()
    }
}

/// What a room asks its hub about whoever wants in.
#[derive(Debug)]
pub(super) struct Desk<'a>(pub(super) &'a Wires);

impl Verifier for Desk<'_> {
    fn verify(&self, key: &PublicKey, bytes: &[u8], signature: &[u8; 64]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.sec1()).verify(bytes, signature).is_ok()
    }

    fn verify_rsa(&self, modulus: &[u8], exponent: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        let key = RsaPublicKeyComponents { n: modulus, e: exponent };
        key.verify(&RSA_PKCS1_2048_8192_SHA256, bytes, signature).is_ok()
    }

    fn published(&self, address: &str) -> Option<Arc<Jwks>> {
        self.0.rooms.published.keys(self.0, address)
    }

    fn operator(&self, room: &str, operator: &str) -> Option<RoomCaller> {
        let token = by_pass(self.0, operator)?.token;
        let enters =
            token.grant.check_door(Door::Room).is_ok() && token.grant.check_reach::<String>(&peer(room), &[]).is_ok();
        enters.then(|| operator_in(room, &token))
    }
}

/// The operator that a pass names, as long as they are one.
pub(super) fn by_pass(hub: &Wires, operator: &str) -> Option<Caller> {
    let (token, session) = operator.split_once('/').map_or((operator, None), |(token, s)| (token, Some(s)));
    let (token, now) = (hub.operators.find(token.parse::<TokenId>().ok()?)?, clock::now());
    let session = match session {
        Some(session) => {
            let session = hub.operators.people.session(session.parse::<SessionId>().ok()?, now)?;
            session.user().filter(|user| *user == token.id)?;
            Some(session)
        }
        None => None,
    };
    let caller = Caller { token, session, door: Door::Room, address: std::net::Ipv4Addr::UNSPECIFIED.into() };
    caller.is_active(now).then_some(caller)
}

/// How a pass names its operator: by the token, or by user and session, and ends with either.
pub(super) fn name_in_pass(caller: &Caller) -> String {
    match &caller.session {
        Some(session) => format!("{}/{}", caller.token.id, session.id),
        None => caller.token.id.to_string(),
    }
}

/// The name under which an operator's speaking in a room is allowed: `scopes.tools` may name it.
const SAY: &str = "room_say";

/// What an operator may in a room by their token: looking is everyone's, speaking needs what an `interact` call needs,
/// moderating is an admin's.
pub(super) fn operator_in(room: &str, token: &Token) -> RoomCaller {
    RoomCaller::Operator {
        id: token.id.to_string(),
        name: token.name.clone(),
        host: token.grant.role == Role::Admin,
        speaks: token.grant.check_call::<String>(Effect::Interact, SAY, &peer(room), &[]).is_ok(),
    }
}

/// Whether the numbers of a key are a point on the curve: one that is not would never let anybody in.
pub(super) fn is_point(key: &PublicKey) -> bool {
    aws_lc_rs::signature::ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.sec1()).is_ok()
}
