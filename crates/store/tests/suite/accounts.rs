use convoke_core::grant::{Role, Scopes};
use convoke_core::id::{SessionId, TokenId};
use convoke_core::journal::Kind;
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_store::{Ends, LinkRow, PasskeyRow, PasswordHash, SessionRow, StoreError, UserRow};
use uuid::Uuid;

use super::{Backend, at, operators, record, records};

fn user(n: u128, name: &str) -> UserRow {
    UserRow {
        id: TokenId::new(Uuid::from_u128(n)),
        name: name.into(),
        role: Role::Admin,
        scopes: Scopes { approve: Some(true), ..Scopes::default() },
        password: Some(PasswordHash("$argon2id$".into())),
        totp: Some(SecretBytes::new(*b"the secret of one-time codes")),
        created_at: at(0),
    }
}

fn session(n: u128, user: Option<&UserRow>) -> SessionRow {
    SessionRow {
        id: SessionId::new(Uuid::from_u128(n)),
        user: user.map(|user| user.id),
        hash: SecretText::new(format!("cookie {n}")).hash(),
        created_at: at(10),
        expires_at: at(1000),
        stepped_up_at: at(10),
        address: "127.0.0.1".into(),
        browser: "a browser".into(),
    }
}

fn link(secret: &str, user: Option<&UserRow>) -> LinkRow {
    LinkRow { hash: SecretText::new(secret).hash(), user: user.map(|user| user.id), expires_at: at(100) }
}

fn passkey(id: &str, user: &UserRow) -> PasskeyRow {
    PasskeyRow { id: id.into(), user: user.id, name: "phone".into(), body: "{}".into(), created_at: at(5) }
}

pub(crate) async fn users_survive_a_restart_with_their_secrets(backend: &impl Backend) {
    let store = backend.open();
    let anna = user(1, "anna");
    store.add_user(anna.clone(), None, record(Kind::User)).await.expect("keeps");
    store.put_session(session(1, Some(&anna)), Some(record(Kind::Auth))).await.expect("keeps");
    store.put_session(session(2, None), None).await.expect("keeps");
    store.put_passkey(passkey("k", &anna), Some(record(Kind::User))).await.expect("keeps");
    assert_eq!(records(&*store).await, 3);
    store.close().await.expect("closes");
    let store = backend.open();
    let kept = store.users().await.expect("reads").remove(0);
    assert_eq!((kept.id, kept.role, kept.scopes), (anna.id, anna.role, anna.scopes));
    assert_eq!((kept.password, kept.totp, kept.created_at), (anna.password, anna.totp, at(0)));
    let sessions = store.sessions(at(20)).await.expect("reads");
    assert_eq!(sessions.iter().map(|s| s.user).collect::<Vec<_>>(), [Some(anna.id), None]);
    assert!(sessions[0].hash.matches(&session(1, None).hash));
    assert_eq!(store.passkeys().await.expect("reads")[0].user, anna.id);
    assert!(store.sessions(at(1000)).await.expect("reads").is_empty(), "they have ended");
}

pub(crate) async fn a_name_is_one_users_or_tokens(backend: &impl Backend) {
    let store = backend.open();
    store.add_user(user(1, "anna"), None, record(Kind::User)).await.expect("keeps");
    store.put_token(operators::token(7, "bot"), record(Kind::Token)).await.expect("keeps");
    for taken in ["anna", "bot"] {
        let refused = store.add_user(user(2, taken), None, record(Kind::User)).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    let refused = store.put_token(operators::token(8, "anna"), record(Kind::Token)).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(records(&*store).await, 2);
}

pub(crate) async fn a_changed_password_ends_sessions_and_links(backend: &impl Backend) {
    let store = backend.open();
    let (mut anna, bert) = (user(1, "anna"), user(2, "bert"));
    for user in [&anna, &bert] {
        store.add_user(user.clone(), None, record(Kind::User)).await.expect("keeps");
    }
    for (n, user) in [(1, &anna), (2, &anna), (3, &bert)] {
        store.put_session(session(n, Some(user)), None).await.expect("keeps");
    }
    store.put_link(link("one", Some(&anna)), record(Kind::User)).await.expect("keeps");
    anna.role = Role::Viewer;
    assert!(store.set_user(anna.clone(), Ends::Nothing, record(Kind::User)).await.expect("sets"));
    assert_eq!(store.sessions(at(20)).await.expect("reads").len(), 3);
    anna.password = Some(PasswordHash("$other".into()));
    let ends = Ends::AllBut(Some(session(2, None).id));
    assert!(store.set_user(anna.clone(), ends, record(Kind::User)).await.expect("sets"));
    let left: Vec<_> = store.sessions(at(20)).await.expect("reads").iter().map(|s| s.id).collect();
    assert_eq!(left, [session(2, None).id, session(3, None).id]);
    assert!(store.link(link("one", None).hash, at(20)).await.expect("reads").is_none());
    assert!(!store.set_user(user(9, "nobody"), Ends::Nothing, record(Kind::User)).await.expect("answers"));
    let kept = store.users().await.expect("reads").remove(0);
    assert_eq!((kept.role, kept.password), (Role::Viewer, anna.password));
}

pub(crate) async fn a_removed_user_takes_all_along(backend: &impl Backend) {
    let store = backend.open();
    let anna = user(1, "anna");
    store.add_user(anna.clone(), Some(link("one", Some(&anna))), record(Kind::User)).await.expect("keeps");
    store.put_session(session(1, Some(&anna)), None).await.expect("keeps");
    store.put_passkey(passkey("k", &anna), None).await.expect("keeps");
    for (n, name, owner) in [(1, "hers", Some("anna")), (2, "other", None)] {
        let token = convoke_store::TokenRow { owner: owner.map(Into::into), ..operators::token(n, name) };
        store.put_token(token, record(Kind::Token)).await.expect("keeps");
    }
    assert!(store.remove_user(anna.id, at(30), record(Kind::User)).await.expect("removes"));
    assert!(!store.remove_user(anna.id, at(30), record(Kind::User)).await.expect("answers"));
    assert!(store.users().await.expect("reads").is_empty());
    assert!(store.sessions(at(20)).await.expect("reads").is_empty());
    assert!(store.passkeys().await.expect("reads").is_empty());
    assert!(store.link(link("one", None).hash, at(20)).await.expect("reads").is_none());
    let revoked: Vec<_> = store.tokens().await.expect("reads").iter().map(|t| t.revoked_at).collect();
    assert_eq!(revoked, [Some(at(30)), None]);
}

pub(crate) async fn a_link_is_used_once_and_in_time(backend: &impl Backend) {
    let store = backend.open();
    let anna = user(1, "anna");
    store.add_user(anna.clone(), Some(link("one", Some(&anna))), record(Kind::User)).await.expect("keeps");
    let (hash, mine) = (link("one", None).hash, session(1, Some(&anna)));
    assert_eq!(store.link(hash, at(20)).await.expect("reads").and_then(|l| l.user), Some(anna.id));
    assert!(store.link(hash, at(100)).await.expect("reads").is_none());
    let late = SessionRow { created_at: at(100), ..mine.clone() };
    assert!(!store.use_link(hash, late, record(Kind::Auth)).await.expect("answers"));
    let other = session(1, None);
    assert!(!store.use_link(hash, other, record(Kind::Auth)).await.expect("answers"), "it is hers");
    assert!(store.use_link(hash, mine.clone(), record(Kind::Auth)).await.expect("uses"));
    let again = SessionRow { id: session(2, None).id, ..session(2, Some(&anna)) };
    assert!(!store.use_link(hash, again, record(Kind::Auth)).await.expect("answers"));
    assert_eq!(store.sessions(at(20)).await.expect("reads").len(), 1);
    assert_eq!(records(&*store).await, 2);
}

pub(crate) async fn a_new_link_voids_the_old(backend: &impl Backend) {
    let store = backend.open();
    store.put_link(link("first", None), record(Kind::User)).await.expect("keeps");
    store.put_link(link("second", None), record(Kind::User)).await.expect("keeps");
    let there = async |secret: &str| store.link(link(secret, None).hash, at(20)).await.expect("reads").is_some();
    assert!(!there("first").await && there("second").await);
    let anna = user(1, "anna");
    store.add_user(anna.clone(), Some(link("hers", Some(&anna))), record(Kind::User)).await.expect("keeps");
    assert!(!there("second").await, "there is a user now, so nobody is welcomed any more");
    store.put_link(link("hers again", Some(&anna)), record(Kind::User)).await.expect("keeps");
    assert!(!there("hers").await && there("hers again").await);
}

pub(crate) async fn a_cookie_is_changed_in_place(backend: &impl Backend) {
    let store = backend.open();
    let anna = user(1, "anna");
    store.add_user(anna.clone(), None, record(Kind::User)).await.expect("keeps");
    store.put_session(session(1, Some(&anna)), None).await.expect("keeps");
    let changed = SessionRow { hash: SecretText::new("new").hash(), ..session(1, Some(&anna)) };
    store.put_session(changed.clone(), None).await.expect("keeps");
    let kept = store.sessions(at(20)).await.expect("reads");
    assert!(kept.len() == 1 && kept[0].hash.matches(&changed.hash));
    assert!(store.end_session(changed.id, record(Kind::Auth)).await.expect("ends"));
    assert!(!store.end_session(changed.id, record(Kind::Auth)).await.expect("answers"));
}

pub(crate) async fn a_passkey_has_one_user(backend: &impl Backend) {
    let store = backend.open();
    let (anna, bert) = (user(1, "anna"), user(2, "bert"));
    for user in [&anna, &bert] {
        store.add_user(user.clone(), None, record(Kind::User)).await.expect("keeps");
    }
    store.put_passkey(passkey("k", &anna), None).await.expect("keeps");
    let refused = store.put_passkey(passkey("k", &bert), None).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    let used = PasskeyRow { body: r#"{"n":1}"#.into(), ..passkey("k", &anna) };
    store.put_passkey(used.clone(), None).await.expect("keeps");
    assert_eq!(store.passkeys().await.expect("reads")[0].body, used.body);
    assert!(!store.remove_passkey(bert.id, "k", record(Kind::User)).await.expect("answers"));
    assert!(store.remove_passkey(anna.id, "k", record(Kind::User)).await.expect("removes"));
}

pub(crate) async fn a_token_is_paused_and_goes_on(backend: &impl Backend) {
    let store = backend.open();
    let token = operators::token(1, "claude");
    store.put_token(token.clone(), record(Kind::Token)).await.expect("keeps");
    assert!(store.pause_token(token.id, true, record(Kind::Token)).await.expect("pauses"));
    assert!(!store.pause_token(token.id, true, record(Kind::Token)).await.expect("answers"));
    assert_eq!(store.paused_tokens().await.expect("reads"), [token.id]);
    assert!(store.pause_token(token.id, false, record(Kind::Token)).await.expect("goes on"));
    assert_eq!(store.paused_tokens().await.expect("reads"), []);
    assert_eq!(records(&*store).await, 3);
}
