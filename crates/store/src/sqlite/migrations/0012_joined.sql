-- The only key that a client may present while an operator allows another one.
ALTER TABLE clients ADD COLUMN rotation_key BLOB;
-- Peers that are a machine's second tunnel, or that an admin keeps apart from it. `how`: proven, admin, apart.
CREATE TABLE joined (
    tunnel TEXT PRIMARY KEY,
    machine TEXT NOT NULL,
    how TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
