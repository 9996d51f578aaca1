-- Yonexus: clients with what the contract wants kept, rules, the inbox, and what waits for clients that are away.

-- Secrets, old secrets and the code are sealed. The rolling security windows are not kept: a restart clears them.
CREATE TABLE clients (
    identifier TEXT PRIMARY KEY,
    listed INTEGER NOT NULL,
    trust TEXT NOT NULL,
    public_key BLOB,
    secret BLOB,
    old_secrets BLOB,
    pause_until INTEGER,
    rotation_until INTEGER,
    reset TEXT,
    created_at INTEGER NOT NULL,
    paired_at INTEGER,
    last_auth INTEGER,
    last_seen INTEGER,
    liveness TEXT NOT NULL DEFAULT 'offline'
) STRICT, WITHOUT ROWID;

-- At most one live code per client.
CREATE TABLE pairings (
    client TEXT PRIMARY KEY REFERENCES clients (identifier) ON DELETE CASCADE,
    code BLOB NOT NULL,
    public_key BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    wrong INTEGER NOT NULL,
    notification TEXT NOT NULL,
    notified TEXT NOT NULL,
    approved INTEGER NOT NULL,
    address TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `secret` is what a webhook's calls are signed with, sealed.
CREATE TABLE rules (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL, secret BLOB) STRICT;

-- AUTOINCREMENT: readers page by id, so an id must not come back after a prune.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    rule TEXT NOT NULL,
    sender TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;
CREATE INDEX messages_rule ON messages (rule, id);

-- A message once, and a small row for each who has not got it yet. AUTOINCREMENT: the id travels with the message, and
-- who has seen it must be able to tell.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    rule TEXT NOT NULL,
    sender TEXT NOT NULL,
    with_id INTEGER NOT NULL,
    content TEXT NOT NULL
) STRICT;
CREATE INDEX outbox_expires ON outbox (expires_at);
CREATE TABLE deliveries (
    destination TEXT NOT NULL,
    message INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    PRIMARY KEY (destination, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_message ON deliveries (message);
