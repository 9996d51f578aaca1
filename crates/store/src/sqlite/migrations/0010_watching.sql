-- What an agent's health was and when it changed. `sections` is the status of each; `since` says of those that are not
-- well since when and what they were before. The newest before the time for which history is kept stays.
CREATE TABLE health_changes (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents (num) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    overall TEXT NOT NULL,
    sections TEXT NOT NULL,
    since TEXT NOT NULL
) STRICT;
CREATE INDEX health_changes_agent ON health_changes (agent, at);
-- A yes for a time: this assistant, this tool, this machine.
CREATE TABLE time_boxed_grants (
    id BLOB PRIMARY KEY,
    assistant BLOB NOT NULL,
    approver BLOB NOT NULL,
    tool TEXT NOT NULL,
    agent TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
-- Where a person's notices go. `target` is sealed.
CREATE TABLE notice_channels (
    id BLOB PRIMARY KEY,
    user BLOB NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    target BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX notice_channels_user ON notice_channels (user);
-- What was handed to a channel, or was about to be: it is not sent again after a restart.
CREATE TABLE notices_sent (
    channel BLOB NOT NULL REFERENCES notice_channels (id) ON DELETE CASCADE,
    handle TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (channel, handle)
) STRICT, WITHOUT ROWID;
CREATE INDEX notices_sent_at ON notices_sent (at);
