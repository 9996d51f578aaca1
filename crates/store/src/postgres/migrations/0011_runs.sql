CREATE TABLE runs (
    id BYTEA PRIMARY KEY,
    agent BIGINT NOT NULL REFERENCES agents (num) ON DELETE CASCADE,
    runbook TEXT NOT NULL,
    caller BYTEA NOT NULL,
    at BIGINT NOT NULL,
    status TEXT NOT NULL,
    titles TEXT NOT NULL,
    summary TEXT NOT NULL,
    result TEXT NOT NULL
);
CREATE INDEX runs_agent ON runs (agent, runbook, at);
CREATE INDEX runs_at ON runs (at);
