//! Who may say yes to calls that wait: so that somebody alone is told before they wait in vain.

use std::collections::BTreeSet;

use anyhow::Result;
use convoke_api::Client;
use convoke_api::people::UserView;
use convoke_api::tokens::TokenView;
use convoke_core::grant::Right;

use super::pages::Pages;
use super::{NO_QUERY, typed};

/// The persons who may approve. Nothing where this token may not see who that is.
pub(super) async fn persons(client: &Client) -> Option<BTreeSet<String>> {
    // Asked for without the right to it, the journal would have a refusal.
    let who: serde_json::Value = client.get("/api/session", &NO_QUERY).await.ok()?;
    let rights = who["rights"].as_array()?;
    if ![Right::Users, Right::Tokens].iter().all(|right| rights.iter().any(|has| has == right.name())) {
        return None;
    }
    let (users, tokens) = listed(client).await.ok()?;
    let users = users.into_iter().filter(|user| user.scopes.approve == Some(true)).map(|user| user.name);
    let is_one = |token: &TokenView| token.scopes.approve == Some(true) && token.state == "active";
    let tokens = tokens.into_iter().filter(is_one).map(|token| token.owner.unwrap_or(token.name));
    Some(users.chain(tokens).collect())
}

async fn listed(client: &Client) -> Result<(Vec<UserView>, Vec<TokenView>)> {
    let of = async |path, key| Pages::new(client, path, key, &serde_json::json!({}), None)?.all().await;
    let users = of("/api/users", "users").await?.iter().map(|user| typed(user)).collect::<Result<_>>()?;
    let tokens = of("/api/tokens", "tokens").await?.iter().map(|token| typed(token)).collect::<Result<_>>()?;
    Ok((users, tokens))
}

/// What is wrong with too few of them, and what to do about it.
pub(super) fn too_few(persons: &BTreeSet<String>) -> Option<String> {
    let add = "add another with `convoke users add NAME --role operator --approve`";
    match (persons.len(), persons.first()) {
        (0, _) => Some(format!("nobody may approve calls; {add}")),
        (1, Some(only)) => {
            Some(format!("only {only} may approve calls, and nobody could approve what {only} asks for; {add}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_too_few() {
        let persons = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert!(too_few(&persons(&[])).is_some_and(|text| text.contains("nobody may")));
        assert!(too_few(&persons(&["anna"])).is_some_and(|text| text.contains("what anna asks")));
        assert_eq!(too_few(&persons(&["anna", "bert"])), None);
    }
}
