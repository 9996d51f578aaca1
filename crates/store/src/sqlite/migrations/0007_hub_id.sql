-- What belongs to a hub names it, so that a start takes up nothing of another hub that keeps its data here.
ALTER TABLE calls ADD COLUMN hub_id TEXT NOT NULL DEFAULT '';
UPDATE calls SET hub_id = (SELECT value FROM meta WHERE name = 'hub_id');
ALTER TABLE open_intents ADD COLUMN hub_id TEXT NOT NULL DEFAULT '';
UPDATE open_intents SET hub_id = (SELECT value FROM meta WHERE name = 'hub_id');
ALTER TABLE outbox ADD COLUMN hub_id TEXT NOT NULL DEFAULT '';
UPDATE outbox SET hub_id = (SELECT value FROM meta WHERE name = 'hub_id');

-- Which hub had the last link.
ALTER TABLE agent_marks ADD COLUMN hub_id TEXT;
UPDATE agent_marks SET hub_id = (SELECT value FROM meta WHERE name = 'hub_id') WHERE last_seen IS NOT NULL;
ALTER TABLE clients ADD COLUMN hub_id TEXT;
UPDATE clients SET hub_id = (SELECT value FROM meta WHERE name = 'hub_id') WHERE last_seen IS NOT NULL;

-- Filters of the journal: each index is also in the order of seq. Most records are calls, and those need no index.
DROP TABLE journal_skips;
CREATE INDEX journal_call ON journal (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX journal_target ON journal (target) WHERE target IS NOT NULL;
CREATE INDEX journal_tool ON journal (tool) WHERE tool IS NOT NULL;
CREATE INDEX journal_kind ON journal (kind) WHERE kind <> 'call';
