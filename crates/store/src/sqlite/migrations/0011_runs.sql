-- What runbooks gave: the latest few of each on each agent. `titles` is what was found that needs a look, `result` what
-- each probe gave.
CREATE TABLE runs (
    id BLOB PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agents (num) ON DELETE CASCADE,
    runbook TEXT NOT NULL,
    caller BLOB NOT NULL,
    at INTEGER NOT NULL,
    status TEXT NOT NULL,
    titles TEXT NOT NULL,
    summary TEXT NOT NULL,
    result TEXT NOT NULL
) STRICT;
CREATE INDEX runs_agent ON runs (agent, runbook, at);
CREATE INDEX runs_at ON runs (at);
