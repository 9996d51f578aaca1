-- The only key that a client may present while an operator allows another one.
ALTER TABLE clients ADD COLUMN rotation_key BLOB;
-- A second tunnel of a machine: `tunnel` is a peer of its own that stands for `machine`. `proven`: the machine's key signed it;
-- otherwise an admin joined them.
CREATE TABLE joined (
    tunnel TEXT PRIMARY KEY,
    machine TEXT NOT NULL UNIQUE,
    proven INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
