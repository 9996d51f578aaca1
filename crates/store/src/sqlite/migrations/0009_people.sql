-- People who sign in. `password` is Argon2id in PHC form, `totp` is sealed.
CREATE TABLE users (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    scopes TEXT NOT NULL,
    password TEXT,
    totp BLOB,
    created_at INTEGER NOT NULL
) STRICT;
-- Tokens that are good for nothing until somebody goes on with them.
CREATE TABLE paused_tokens (id BLOB PRIMARY KEY REFERENCES tokens (id)) STRICT, WITHOUT ROWID;
-- Whether a rule asked for a second person's yes.
ALTER TABLE approvals ADD COLUMN second_person INTEGER NOT NULL DEFAULT 0;
-- Without a user: opened by the welcome link.
CREATE TABLE sessions (
    id BLOB PRIMARY KEY,
    user BLOB REFERENCES users (id) ON DELETE CASCADE,
    hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    stepped_up_at INTEGER NOT NULL,
    address TEXT NOT NULL,
    browser TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_user ON sessions (user);
-- Without a user: the welcome link.
CREATE TABLE sign_in_links (
    hash BLOB PRIMARY KEY,
    user BLOB REFERENCES users (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE passkeys (
    num INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    user BLOB NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX passkeys_user ON passkeys (user);
