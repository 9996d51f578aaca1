//! A room's standing policies and credits, as the API has them.

use convoke_api::rooms::{Admission, Credits, GrantChange, Issuer};
use convoke_core::time::Timestamp;
use convoke_doors::ApiError;
use convoke_doors::error::clip;
use convoke_gate::notices::address;
use convoke_kibitz::admission::MAX_LABEL;
use convoke_kibitz::credential::{CreditPolicy, IssuerPolicy, Jwks, Keys};
use convoke_kibitz::grant::{Capability, Grant, Kind};
use convoke_kibitz::room::{Charter, MAX_ISSUERS};
use serde_json::Value;

use super::jwks;
use super::routes::granted;
use crate::Wires;

/// Longest text of a policy.
const MAX_TEXT: usize = 512;
/// Claims of one policy.
const MAX_CLAIMS: usize = 16;
/// Largest set of keys that is kept with a room, as JSON.
const MAX_JWKS: usize = 32 * 1024;

/// What somebody wrote, if it can be kept.
pub(super) fn read(hub: &Wires, body: Admission) -> Result<(Vec<IssuerPolicy>, Option<CreditPolicy>), ApiError> {
    if body.issuers.len() > MAX_ISSUERS {
        return Err(ApiError::bad_request(format!("`issuers` takes at most {MAX_ISSUERS}")));
    }
    let issuers = body.issuers.into_iter().map(|issuer| policy(hub, issuer)).collect::<Result<Vec<_>, _>>()?;
    Ok((issuers, body.credits.map(|credits| paid(hub, credits)).transpose()?))
}

fn policy(hub: &Wires, issuer: Issuer) -> Result<IssuerPolicy, ApiError> {
    let Issuer { issuer, jwks_uri, jwks, audience, claims, bound, caps, label } = issuer;
    if claims.len() > MAX_CLAIMS {
        return Err(ApiError::bad_request(format!("`claims` takes at most {MAX_CLAIMS}")));
    }
    for (name, wanted) in &claims {
        text("claims", name)?;
        text("claims", wanted)?;
    }
    if label.as_ref().is_some_and(|l| l.chars().count() > MAX_LABEL || l.chars().any(char::is_control)) {
        return Err(ApiError::bad_request(format!("`label` takes at most {MAX_LABEL} characters, on one line")));
    }
    Ok(IssuerPolicy {
        keys: keys(hub, jwks_uri, jwks)?,
        issuer: text("issuer", &issuer).map(|()| issuer)?,
        audience: text("audience", &audience).map(|()| audience)?,
        claims,
        bound,
        caps: caps.map(|caps| granted(&caps, &Grant::default_of(Kind::Agent))).transpose()?,
        label,
    })
}

fn paid(hub: &Wires, credits: Credits) -> Result<CreditPolicy, ApiError> {
    let Credits { issuers, jwks_uri, jwks, kind } = credits;
    if issuers.is_empty() || issuers.len() > MAX_ISSUERS {
        return Err(ApiError::bad_request(format!("`credits.issuers` takes 1 to {MAX_ISSUERS}")));
    }
    issuers.iter().chain(&kind).try_for_each(|issuer| text("credits", issuer))?;
    Ok(CreditPolicy { issuers, keys: keys(hub, jwks_uri, jwks)?, kind })
}

fn text(field: &str, text: &str) -> Result<(), ApiError> {
    let fits = !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(ApiError::bad_request(format!("`{field}` takes 1 to {MAX_TEXT} characters, on one line")))
    }
}

fn keys(hub: &Wires, jwks_uri: Option<String>, jwks: Option<Value>) -> Result<Keys, ApiError> {
    match (&jwks_uri, &jwks) {
        (Some(uri), None) => {
            text("jwks_uri", uri)?;
            address::check(uri, &hub.settings.rooms.jwks_hosts)
                .map_err(|why| ApiError::bad_request(format!("`jwks_uri` `{}`: {}", clip(uri), jwks::words(&why))))?;
        }
        (None, Some(pinned)) => {
            let written = pinned.to_string();
            let usable = written.len() <= MAX_JWKS && Jwks::read(&written).is_some_and(|keys| !keys.is_empty());
            if !usable {
                return Err(ApiError::bad_request(format!(
                    "`jwks` takes a JWK set with a key for RS256 or ES256, of at most {MAX_JWKS} bytes"
                )));
            }
        }
        _ => return Err(ApiError::bad_request("give either `jwks_uri` or `jwks`")),
    }
    Ok(Keys { jwks_uri, jwks })
}

/// What a room has, as it would be written.
pub(super) fn view(charter: &Charter) -> Admission {
    let issuer = |policy: &IssuerPolicy| Issuer {
        issuer: policy.issuer.clone(),
        jwks_uri: policy.keys.jwks_uri.clone(),
        jwks: policy.keys.jwks.clone(),
        audience: policy.audience.clone(),
        claims: policy.claims.clone(),
        bound: policy.bound,
        caps: policy.caps.as_ref().map(written),
        label: policy.label.clone(),
    };
    let credits = |policy: &CreditPolicy| Credits {
        issuers: policy.issuers.clone(),
        jwks_uri: policy.keys.jwks_uri.clone(),
        jwks: policy.keys.jwks.clone(),
        kind: policy.kind.clone(),
    };
    Admission {
        issuers: charter.issuers.iter().map(issuer).collect(),
        credits: charter.credits.as_ref().map(credits),
    }
}

fn written(grant: &Grant) -> GrantChange {
    let names = |perceives: bool| {
        let side = grant.named().filter(move |capability| capability.perceives() == perceives);
        Some(side.map(Capability::name).map(str::to_owned).collect())
    };
    let expires_at = grant.expires_at.map(|at| Timestamp::from_millis(at.saturating_mul(1000)));
    GrantChange { perceive: names(true), act: names(false), expires_at, default: false }
}
