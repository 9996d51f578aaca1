//! One sign-in, from the browser's address to tokens.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_core::secret::SecretText;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::callback::{Callback, Visit};
use super::endpoint::TokenEndpoint;
use super::{OAuthConfig, OAuthError, Tokens};
use crate::Http;

/// What is asked for at the account's server.
const SCOPE: &str = "openid profile email offline_access api.connectors.read api.connectors.invoke";

/// How a login stands.
#[derive(Clone, Debug)]
pub enum LoginState {
    /// Waiting for the browser or a pasted code.
    Pending,
    /// Signed in.
    Completed(Tokens),
    /// It will not happen any more.
    Failed(OAuthError),
}

/// A sign-in under way. Cheap to clone; when the last clone goes, the callback's port is closed.
#[derive(Clone, Debug)]
pub struct Login {
    shared: Arc<Shared>,
    state: watch::Receiver<LoginState>,
    /// Ends the waiting task with the last clone.
    _guard: Arc<DropGuard>,
}

/// What the waiting task and pasted codes both need.
#[derive(Debug)]
struct Shared {
    authorization_url: String,
    redirect_uri: String,
    oauth_state: String,
    verifier: SecretText,
    endpoint: TokenEndpoint,
    state: watch::Sender<LoginState>,
    cancelled: CancellationToken,
    /// A code is good for one use, so codes are exchanged one after another.
    exchanging: Mutex<()>,
}

impl Login {
    /// Opens the callback's port and begins to wait.
    pub async fn start(http: Http, config: OAuthConfig, timeout: Duration) -> Result<Self, OAuthError> {
        let endpoint = TokenEndpoint::new(http, &config)?;
        let callback = Callback::open(config.port).await?;
        let redirect_uri = format!("http://localhost:{}/auth/callback", callback.port());
        let verifier = SecretText::new(random::<64>()?);
        let oauth_state = random::<32>()?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.reveal().as_bytes()));
        let mut address = endpoint.address("/oauth/authorize");
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &config.client_id)
            .append_pair("redirect_uri", &redirect_uri)
            .append_pair("scope", SCOPE)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("id_token_add_organizations", "true")
            .append_pair("codex_cli_simplified_flow", "true")
            .append_pair("state", &oauth_state)
            .append_pair("originator", &config.originator);
        let (state, watched) = watch::channel(LoginState::Pending);
        let (cancelled, dropped) = (CancellationToken::new(), CancellationToken::new());
        let shared = Arc::new(Shared {
            authorization_url: address.into(),
            redirect_uri,
            oauth_state,
            verifier,
            endpoint,
            state,
            cancelled,
            exchanging: Mutex::new(()),
        });
        let (waiting, gone) = (shared.clone(), dropped.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = gone.cancelled() => {}
                () = waiting.wait(callback, timeout) => {}
            }
        });
        Ok(Self { shared, state: watched, _guard: Arc::new(dropped.drop_guard()) })
    }

    /// The address for the user's browser.
    pub fn authorization_url(&self) -> &str {
        &self.shared.authorization_url
    }

    /// Where the browser comes back to.
    pub fn redirect_uri(&self) -> &str {
        &self.shared.redirect_uri
    }

    /// How it stands.
    pub fn state(&self) -> LoginState {
        self.state.borrow().clone()
    }

    /// Takes a code, or the whole address that the browser came back to. If what was pasted is wrong, the login stays
    /// pending, so that it can be pasted again.
    pub async fn submit(&self, pasted: &str) -> Result<Tokens, OAuthError> {
        if !self.shared.is_pending() {
            return Err(OAuthError::NotPending);
        }
        let code = read_pasted(pasted, &self.shared.oauth_state)?;
        let _one_at_a_time = self.shared.exchanging.lock().await;
        if !self.shared.is_pending() {
            return Err(OAuthError::NotPending);
        }
        let tokens = self.shared.exchange(&code).await?;
        self.shared.end(LoginState::Completed(tokens.clone()));
        Ok(tokens)
    }

    /// Ends it.
    pub fn cancel(&self) {
        self.shared.cancelled.cancel();
        self.shared.end(LoginState::Failed(OAuthError::Cancelled));
    }

    /// Waits until it has ended. May be awaited by many and at any time.
    pub async fn outcome(&self) -> Result<Tokens, OAuthError> {
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| !matches!(state, LoginState::Pending)).await;
        match ended.as_deref() {
            Ok(LoginState::Completed(tokens)) => Ok(tokens.clone()),
            Ok(LoginState::Failed(why)) => Err(why.clone()),
            Ok(LoginState::Pending) | Err(_) => Err(OAuthError::Cancelled),
        }
    }
}

impl Shared {
    /// Waits for the browser, for as long as it may take.
    async fn wait(&self, callback: Callback, timeout: Duration) {
        let mut pending = self.state.subscribe();
        let ended = tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Some(LoginState::Failed(OAuthError::Cancelled)),
            // A pasted code was faster.
            _ = pending.wait_for(|state| !matches!(state, LoginState::Pending)) => None,
            ended = self.serve(callback) => Some(ended),
            () = tokio::time::sleep(timeout) => Some(LoginState::Failed(OAuthError::TimedOut(timeout))),
        };
        if let Some(ended) = ended {
            self.end(ended);
        }
    }

    async fn serve(&self, mut callback: Callback) -> LoginState {
        loop {
            let Visit { query, reply } = callback.next().await;
            let of = |key: &str| query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
            // Any page that the user looks at can send the browser here. Without this login's own state it is not
            // heard, and the login goes on waiting.
            if of("state") != Some(self.oauth_state.as_str()) {
                reply.refuse("This address does not belong to the sign-in that is under way.").await;
                continue;
            }
            if let Some(error) = of("error") {
                let why = of("error_description").unwrap_or(error).to_owned();
                reply.refuse("The sign-in was refused. You can close this page.").await;
                return LoginState::Failed(OAuthError::Refused(why));
            }
            let Some(code) = of("code").filter(|code| !code.is_empty()) else {
                reply.refuse("There is no code in this address.").await;
                continue;
            };
            let _one_at_a_time = self.exchanging.lock().await;
            return match self.exchange(&SecretText::new(code)).await {
                Ok(tokens) => {
                    reply.welcome().await;
                    LoginState::Completed(tokens)
                }
                Err(why) => {
                    reply.refuse("The sign-in did not work. The program that began it knows why.").await;
                    LoginState::Failed(why)
                }
            };
        }
    }

    async fn exchange(&self, code: &SecretText) -> Result<Tokens, OAuthError> {
        self.endpoint.exchange(code, &self.verifier, &self.redirect_uri).await
    }

    fn is_pending(&self) -> bool {
        matches!(*self.state.borrow(), LoginState::Pending)
    }

    /// The first end counts.
    fn end(&self, ended: LoginState) {
        self.state.send_if_modified(|state| {
            let is_first = matches!(state, LoginState::Pending);
            if is_first {
                *state = ended;
            }
            is_first
        });
    }
}

/// The code in what was pasted: itself, or in an address, whose state must then be this login's.
fn read_pasted(pasted: &str, expected_state: &str) -> Result<SecretText, OAuthError> {
    let pasted = pasted.trim();
    let pairs: Vec<(String, String)> = match Url::parse(pasted) {
        Ok(address) if matches!(address.scheme(), "http" | "https") => address.query_pairs().into_owned().collect(),
        // The part behind the question mark.
        _ if pasted.contains("code=") => {
            url::form_urlencoded::parse(pasted.trim_start_matches('?').as_bytes()).into_owned().collect()
        }
        _ if pasted.is_empty() => return Err(OAuthError::MissingCode),
        _ => return Ok(SecretText::new(pasted)),
    };
    let of = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let code = of("code").filter(|code| !code.is_empty()).ok_or(OAuthError::MissingCode)?;
    match of("state") {
        Some(state) if state == expected_state => Ok(SecretText::new(code)),
        _ => Err(OAuthError::StateMismatch),
    }
}

/// Random bytes as text for an address.
fn random<const N: usize>() -> Result<String, OAuthError> {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).map_err(|why| OAuthError::NoRandomness(why.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_in_whatever_was_pasted() {
        let check = |pasted: &str, expected: Result<&str, &str>| {
            let read = read_pasted(pasted, "s1").map(|code| code.reveal().to_owned()).map_err(|why| why.to_string());
            assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned), "{pasted}");
        };
        check("abc", Ok("abc"));
        check("  abc\n", Ok("abc"));
        check("http://localhost:1455/auth/callback?code=abc&state=s1", Ok("abc"));
        check("code=a%2Bb&state=s1", Ok("a+b"));
        check("?code=abc&state=s1", Ok("abc"));
        check("http://localhost:1455/auth/callback?code=abc&state=s2", Err("OAuth state mismatch"));
        check("http://localhost:1455/auth/callback?code=abc", Err("OAuth state mismatch"));
        check("http://localhost:1455/auth/callback?state=s1", Err("Missing authorization code"));
        check("http://localhost:1455/auth/callback?code=&state=s1", Err("Missing authorization code"));
        check("", Err("Missing authorization code"));
    }
}
