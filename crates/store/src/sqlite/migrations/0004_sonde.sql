-- Sonde agents, beside their rows in `agents`. A name belongs to one agent until an operator removes it.
CREATE TABLE sonde_agents (
    agent TEXT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
    name TEXT NOT NULL UNIQUE,
    key_hash BLOB NOT NULL UNIQUE,
    cert_pem TEXT,
    cert_fingerprint BLOB UNIQUE,
    own_key INTEGER NOT NULL DEFAULT 0,
    facts TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One-time enrolment tokens, by their hash. Used and lapsed ones stay for a day, so that who comes again is told why.
CREATE TABLE sonde_tokens (
    hash BLOB PRIMARY KEY,
    name TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER,
    used_by TEXT
) STRICT, WITHOUT ROWID;
