-- What each table promises is in docs/storage.md. Times are milliseconds since 1970.

-- Facts about the store itself: hub_id, key_id, created_at.
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE secrets (name TEXT PRIMARY KEY, sealed BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: a number is never used again, so that what is left of a removed agent cannot become another's.
CREATE TABLE agents (
    num INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    trust TEXT NOT NULL,
    public_key BLOB,
    tags TEXT NOT NULL DEFAULT '[]',
    protocol_version TEXT,
    created_at INTEGER NOT NULL,
    enrolled_at INTEGER,
    last_seen INTEGER,
    latest_snapshot INTEGER,
    meta TEXT
) STRICT;

CREATE TABLE enrol_tokens (
    hash BLOB PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents (num) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    replaces_key INTEGER NOT NULL,
    used_key BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX enrol_tokens_agent ON enrol_tokens (agent);

-- No index but the key: an agent's snapshots are a list from agents.latest_snapshot along `previous`, so that keeping
-- one touches no page of an index. The body comes last, so that a walk or a prune does not read it.
CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL,
    previous INTEGER,
    received_at INTEGER NOT NULL,
    collected_at TEXT NOT NULL,
    health TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- AUTOINCREMENT: readers page by id, so an id must not come back after a prune.
CREATE TABLE logs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at INTEGER NOT NULL,
    agent TEXT,
    source TEXT NOT NULL,
    level TEXT NOT NULL,
    at TEXT NOT NULL,
    target TEXT NOT NULL,
    message TEXT NOT NULL,
    fields TEXT
) STRICT;
CREATE INDEX logs_agent ON logs (agent) WHERE agent IS NOT NULL;

-- What a removed agent left behind, taken away in small pieces.
CREATE TABLE sweeps (
    agent_num INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    snapshot INTEGER,
    last_log INTEGER NOT NULL
) STRICT;

-- Revoked tokens stay: a name is never used twice.
CREATE TABLE tokens (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used INTEGER
) STRICT;

CREATE TABLE deny_rules (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL) STRICT;
CREATE TABLE confirm_rules (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL) STRICT;

CREATE TABLE calls (
    id BLOB PRIMARY KEY,
    caller BLOB NOT NULL,
    idempotency_key TEXT,
    target TEXT NOT NULL,
    tool TEXT NOT NULL,
    args_digest TEXT NOT NULL,
    door TEXT NOT NULL,
    timeout_ms INTEGER,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    keep_until INTEGER NOT NULL,
    args BLOB,
    outcome TEXT
) STRICT;
CREATE UNIQUE INDEX calls_idempotency ON calls (caller, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX calls_keep_until ON calls (keep_until);

CREATE TABLE approvals (
    id BLOB PRIMARY KEY,
    call BLOB NOT NULL UNIQUE REFERENCES calls (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    decided_by BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_state ON approvals (state, created_at);

-- `body` is the canonical bytes that `hash` is over. The other columns repeat what the filters ask for;
-- `convoke audit verify` checks that they agree with the body.
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    kind TEXT NOT NULL,
    target TEXT,
    tool TEXT,
    call_id BLOB,
    body TEXT NOT NULL
) STRICT;

-- For every 512 records, what may be among them; see skip.rs. Block n ends with the record (n + 1) * 512.
CREATE TABLE journal_skips (block INTEGER PRIMARY KEY, bits BLOB NOT NULL) STRICT;

CREATE TABLE checkpoints (
    seq INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    at INTEGER NOT NULL,
    public_key BLOB NOT NULL,
    signature BLOB NOT NULL
) STRICT;

-- Calls with an `intent` and no `outcome`.
CREATE TABLE open_intents (call_id BLOB PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
