-- Rooms. `body` is what the room's authority keeps: who may come, agent keys, grants, kicks. `key` is the private half of
-- the key that signs its invites and its manifest, sealed.
CREATE TABLE rooms (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    key BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
