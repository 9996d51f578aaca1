//! Which names say that what they hold is a secret.

/// Parts of a name.
const PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "accountkey",
    "sharedkey",
    "encryptionkey",
    "masterkey",
    "authkey",
    "authorization",
    "cookie",
    "connectionstring",
    "keymaterial",
    "storepass",
    "keypass",
];

/// Whole names.
const WHOLE: &[&str] = &["pin", "auth", "sig", "signature", "psk", "pass", "pw", "pwd", "xamzsignature"];

/// What such a name ends with when it tells about a secret, or where one is.
const ABOUT: &[&str] = &[
    "stdin", "file", "filename", "path", "dir", "env", "ttl", "type", "length", "policy", "expiry", "expires", "url",
    "uri", "endpoint", "format", "name", "keyid", "count", "limit", "prompt", "manager", "helper", "tokens", "jar",
    "version", "age", "only", "change",
];

/// Longest name that is one.
const MAX_NAME: usize = 80;

/// Whether the value behind this name in a command, an address or a file is a secret.
pub(super) fn names_secret(name: &str) -> bool {
    if name.len() > MAX_NAME || matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if WHOLE.contains(&plain.as_str()) {
        return true;
    }
    if plain.contains("public") || ends_about(&plain) || name == "--secret-id" {
        return false;
    }
    let ends =
        plain.ends_with("pass") && !["bypass", "compass", "trespass", "surpass"].iter().any(|w| plain.ends_with(w));
    let key = name.len() > 4 && name.ends_with("_KEY");
    ends || key || plain.ends_with("pwd") || plain.ends_with("pw") || PARTS.iter().any(|part| plain.contains(part))
}

/// Whether a name ends like one that tells about a secret, or where one is: `credential.helper`.
pub(super) fn is_about_secret(name: &str) -> bool {
    ends_about(&name.to_ascii_lowercase())
}

fn ends_about(plain: &str) -> bool {
    ABOUT.iter().any(|about| plain.ends_with(about))
}
