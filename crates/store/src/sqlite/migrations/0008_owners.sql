-- Whose token it is: who asked can never approve, by person.
ALTER TABLE tokens ADD COLUMN owner TEXT;
-- The runbook that asked for a probe, or `api`: told to the agent when the call runs after its approval.
ALTER TABLE calls ADD COLUMN requested_by TEXT;
