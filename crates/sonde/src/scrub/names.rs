//! Which names are names of secrets: by their words.

/// Words that make a name a secret's.
const SECRET_WORDS: &[&str] = &[
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "apikey",
    "privatekey",
    "secretkey",
    "accesskey",
    "accountkey",
    "authtoken",
    "accesstoken",
    "mysqlpwd",
    "pgpassword",
    "sshpass",
];
/// Single words that end in one of these are secrets too: `DBPASSWORD`, `clientsecret`.
const SECRET_ENDINGS: &[&str] = &["password", "passwd", "passphrase", "secret", "apikey", "privatekey", "authtoken"];
/// `…_key` is a secret, unless what stands before it says otherwise.
const HARMLESS_KEYS: &[&str] = &[
    "primary",
    "foreign",
    "unique",
    "sort",
    "partition",
    "public",
    "cache",
    "row",
    "column",
    "index",
    "shard",
    "group",
    "map",
    "object",
    "lookup",
    "routing",
    "composite",
    "candidate",
    "registry",
    "hot",
    "order",
    "natural",
    "surrogate",
    "cluster",
    "range",
    "hash",
    "translation",
    "dedup",
    "idempotency",
    "no",
    "any",
    "press",
    "arrow",
    "function",
];
/// What belongs to a secret's name without being the secret.
const ABOUT: &[&str] = &[
    "count", "total", "length", "size", "type", "name", "names", "id", "expiry", "expires", "ttl", "file", "path",
    "policy", "max", "min", "limit", "age",
];

/// Whether a value under this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let words = words(name);
    let Some(last) = words.last() else { return false };
    if ABOUT.contains(&last.as_str()) && words.len() > 1 {
        return false;
    }
    let one = |word: &String| {
        SECRET_WORDS.contains(&word.as_str())
            || SECRET_ENDINGS.iter().any(|end| word.len() > end.len() && word.ends_with(end))
    };
    if words.iter().any(one) {
        return true;
    }
    let key_at = words.iter().rposition(|word| word == "key" || word == "private");
    match key_at {
        Some(at) if words[at] == "private" => words.get(at + 1).is_some_and(|next| next == "key"),
        Some(at) => {
            let before = at.checked_sub(1).map(|i| words[i].as_str());
            before.is_some_and(|word| !HARMLESS_KEYS.contains(&word))
        }
        None => false,
    }
}

/// Whether even a number under this name is the secret itself.
pub(super) fn is_password(name: &str) -> bool {
    words(name).iter().any(|w| w.ends_with("password") || w == "passwd" || w == "pwd" || w == "passphrase")
}

/// `maxTokenAge` → max, token, age; `AWS_SECRET_ACCESS_KEY` → aws, secret, access, key.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let chars: Vec<char> = name.chars().take(128).collect();
    for (i, &c) in chars.iter().enumerate() {
        let starts = c.is_uppercase()
            && (i > 0 && chars[i - 1].is_lowercase()
                || i > 0 && chars[i - 1].is_uppercase() && chars.get(i + 1).is_some_and(|n| n.is_lowercase()));
        if (!c.is_alphanumeric() || starts) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_decide() {
        for secret in [
            "password",
            "PASSWORD",
            "DB_PASSWORD",
            "dbPassword",
            "MYSQL_ROOT_PASSWORD",
            "requirepass-password",
            "api_key",
            "apiKey",
            "API-KEY",
            "AWS_SECRET_ACCESS_KEY",
            "token",
            "authToken",
            "X-Auth-Token",
            "client_secret",
            "clientSecret",
            "STRIPE_KEY",
            "private_key",
            "privateKey",
            "credentials",
            "SSH_KEY",
            "Authorization",
            "AccountKey",
            "PGPASSWORD",
            "APIKey",
            "DBPASSWORD",
            "encryption.key",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for harmless in [
            "monkey",
            "key",
            "keys",
            "totalKeys",
            "keyboard",
            "primary_key",
            "publicKey",
            "hockey",
            "tokenize",
            "donkey",
            "tokenCount",
            "max_token_age",
            "secretary",
            "passenger",
            "private",
            "privateNetwork",
            "host",
            "",
            "cacheKey",
            "turkey",
            "password_file",
            "key_type",
            "secretName",
            "tokenExpires",
        ] {
            assert!(!is_secret(harmless), "{harmless}");
        }
    }
}
