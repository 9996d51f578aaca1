use convoke_core::confirm::{ConfirmRule, DEFAULT_RULE_ID};
use convoke_core::grant::{Role, Scopes};
use convoke_core::guard::{AppliesTo, Rule};
use convoke_core::id::TokenId;
use convoke_core::journal::Kind;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_store::{Lossy, StoreError, TokenRow};
use uuid::Uuid;

use super::{Backend, at, record, records};

pub(crate) fn token(n: u128, name: &str) -> TokenRow {
    TokenRow {
        id: TokenId::new(Uuid::from_u128(n)),
        name: name.into(),
        owner: None,
        hash: SecretText::new(format!("secret {n}")).hash(),
        role: Role::Operator,
        scopes: Scopes { tools: Some(vec!["fs_*".into()]), approve: Some(true), ..Scopes::default() },
        created_at: at(0),
        expires_at: Some(at(500)),
        revoked_at: None,
        last_used: None,
    }
}

pub(crate) async fn a_token_name_is_used_once(backend: &impl Backend) {
    let store = backend.open();
    store.put_token(token(1, "first"), record(Kind::Token)).await.expect("keeps");
    assert!(store.revoke_token(token(1, "").id, at(3), record(Kind::Token)).await.expect("revokes"));
    let again = store.put_token(token(2, "first"), record(Kind::Token)).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
    assert_eq!(records(&*store).await, 2, "a refused token leaves no record");
    store.put_token(token(2, "second"), record(Kind::Token)).await.expect("keeps");
    let names: Vec<_> = store.tokens().await.expect("reads").into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["first", "second"]);
}

pub(crate) async fn tokens_are_revoked_once_and_remember_their_use(backend: &impl Backend) {
    let store = backend.open();
    let first = token(1, "first");
    store.put_token(first.clone(), record(Kind::Token)).await.expect("keeps");
    store.enqueue(Lossy::TokenUsed(first.id, at(20))).await.expect("takes");
    store.enqueue(Lossy::TokenUsed(first.id, at(10))).await.expect("takes");
    assert!(store.revoke_token(first.id, at(30), record(Kind::Token)).await.expect("revokes"));
    assert!(!store.revoke_token(first.id, at(40), record(Kind::Token)).await.expect("answers"));
    assert!(!store.revoke_token(token(9, "").id, at(40), record(Kind::Token)).await.expect("answers"));
    store.close().await.expect("closes");
    let kept = backend.open().tokens().await.expect("reads").remove(0);
    assert!(kept.hash.matches(&first.hash));
    assert_eq!((kept.id, kept.role, kept.scopes), (first.id, first.role, first.scopes));
    assert_eq!((kept.created_at, kept.expires_at), (at(0), Some(at(500))));
    assert_eq!((kept.revoked_at, kept.last_used), (Some(at(30)), Some(at(20))));
}

fn rule(id: &str, pattern: &str) -> Rule {
    Rule { id: id.into(), applies_to: AppliesTo::Posix, pattern: pattern.into(), reason: "because".into() }
}

pub(crate) async fn rules_keep_their_order(backend: &impl Backend) {
    let store = backend.open();
    for id in ["z", "a", "m"] {
        store.put_deny_rule(&rule(id, "first"), record(Kind::Policy)).await.expect("keeps");
    }
    store.put_deny_rule(&rule("a", "second"), record(Kind::Policy)).await.expect("replaces");
    assert!(store.delete_deny_rule("z", record(Kind::Policy)).await.expect("removes"));
    assert!(!store.delete_deny_rule("z", record(Kind::Policy)).await.expect("answers"));
    assert_eq!(store.deny_rules().await.expect("reads"), [rule("a", "second"), rule("m", "first")]);
    assert_eq!(records(&*store).await, 5);
}

pub(crate) async fn a_new_store_has_the_default_confirm_rule(backend: &impl Backend) {
    let store = backend.open();
    assert_eq!(store.confirm_rules().await.expect("reads"), [ConfirmRule::default_rule()]);
    let own = ConfirmRule { id: "own".into(), tools: Some(vec!["shell_*".into()]), ..ConfirmRule::default() };
    store.put_confirm_rule(&own, record(Kind::Policy)).await.expect("keeps");
    assert!(store.delete_confirm_rule(DEFAULT_RULE_ID, record(Kind::Policy)).await.expect("removes"));
    store.close().await.expect("closes");
    let store = backend.open();
    assert_eq!(store.confirm_rules().await.expect("reads"), [own], "a default that was removed does not come back");
}

pub(crate) async fn secrets_are_kept(backend: &impl Backend) {
    let store = backend.open();
    assert_eq!(store.secret("ca").await.expect("reads"), None);
    store.put_secret("ca", &SecretBytes::new(*b"one")).await.expect("keeps");
    store.put_secret("ca", &SecretBytes::new(*b"two")).await.expect("replaces");
    store.close().await.expect("closes");
    assert_eq!(backend.open().secret("ca").await.expect("reads"), Some(SecretBytes::new(*b"two")));
}
