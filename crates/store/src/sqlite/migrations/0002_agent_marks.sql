-- What changes with every snapshot and every connection, apart from what an agent is. A row has a few bytes, so the
-- marks of ten thousand agents lie in a few dozen pages; in `agents` each change rewrote a page that held little else.
CREATE TABLE agent_marks (
    num INTEGER PRIMARY KEY REFERENCES agents (num) ON DELETE CASCADE,
    last_seen INTEGER,
    latest_snapshot INTEGER
) STRICT;
INSERT INTO agent_marks
    SELECT num, last_seen, latest_snapshot FROM agents WHERE last_seen IS NOT NULL OR latest_snapshot IS NOT NULL;
ALTER TABLE agents DROP COLUMN last_seen;
ALTER TABLE agents DROP COLUMN latest_snapshot;
