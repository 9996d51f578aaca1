-- Keys of agents that were revoked or replaced: whoever has a copy of one must not be let in by it again, even if an
-- agent that never made a new one presents it with a new token. Kept when the agent is removed.
CREATE TABLE retired_keys (key BLOB PRIMARY KEY, agent TEXT NOT NULL) STRICT, WITHOUT ROWID;
