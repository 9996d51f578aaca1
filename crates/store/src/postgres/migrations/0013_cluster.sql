-- Several hubs at work on one database: leases, links, and the numbered changes that each of them follows.

ALTER TABLE hubs ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE hubs ADD COLUMN pin BYTEA;
-- Until when nobody may take it for gone, by this server's clock; 0 for one that runs alone or has stopped.
ALTER TABLE hubs ADD COLUMN lease_until BIGINT NOT NULL DEFAULT 0;
-- The number of the last change that this hub has put in force.
ALTER TABLE hubs ADD COLUMN in_force BIGINT NOT NULL DEFAULT 0;

CREATE SEQUENCE link_epochs;
CREATE TABLE links (
    peer TEXT COLLATE "C" PRIMARY KEY,
    epoch BIGINT NOT NULL,
    hub_id TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    facts TEXT NOT NULL
);
CREATE INDEX links_hub ON links (hub_id);

CREATE TABLE change_count (num BIGINT NOT NULL);
INSERT INTO change_count VALUES (0);
CREATE TABLE changes (num BIGINT PRIMARY KEY, what TEXT NOT NULL, id TEXT NOT NULL, hub_id TEXT NOT NULL);

-- Numbers a change. It runs when its transaction commits, and holds the one row of `change_count` until that has happened:
-- so numbers are in the order of commits, without gaps, and no other lock is waited for while it is held.
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    next BIGINT;
    found JSONB := CASE WHEN TG_OP = 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
BEGIN
    UPDATE change_count SET num = num + 1 RETURNING num INTO next;
    INSERT INTO changes VALUES
        (next, TG_ARGV[0], coalesce(found ->> TG_ARGV[1], ''), coalesce(current_setting('convoke.hub', true), ''));
    PERFORM pg_notify('convoke_changes', '');
    RETURN NULL;
END $$;

DO $$
DECLARE
    watched RECORD;
BEGIN
    FOR watched IN SELECT * FROM (VALUES
        ('links', 'link', 'peer', 'true'),
        ('agents', 'agent', 'id', '(OLD.trust, OLD.public_key, OLD.tags, OLD.enrolled_at, OLD.meta, OLD.protocol_version)
            IS DISTINCT FROM (NEW.trust, NEW.public_key, NEW.tags, NEW.enrolled_at, NEW.meta, NEW.protocol_version)'),
        ('joined', 'join', 'tunnel', 'true'),
        ('sonde_agents', 'sonde', 'agent', 'true'),
        ('sonde_tokens', 'sonde_token', 'hash', 'true'),
        ('tokens', 'token', 'name', 'OLD.revoked_at IS DISTINCT FROM NEW.revoked_at'),
        ('paused_tokens', 'token', 'id', 'true'),
        ('users', 'user', 'name', 'true'),
        ('sessions', 'session', 'id', 'true'),
        ('passkeys', 'passkey', 'id', 'true'),
        ('deny_rules', 'policy', 'id', 'true'),
        ('confirm_rules', 'policy', 'id', 'true'),
        ('time_boxed_grants', 'grant', 'id', 'true'),
        ('clients', 'client', 'identifier', '(OLD.listed, OLD.trust, OLD.public_key, OLD.secret, OLD.old_secrets, OLD.pause_until,
            OLD.rotation_until, OLD.rotation_key, OLD.reset, OLD.paired_at) IS DISTINCT FROM (NEW.listed, NEW.trust, NEW.public_key, NEW.secret,
            NEW.old_secrets, NEW.pause_until, NEW.rotation_until, NEW.rotation_key, NEW.reset, NEW.paired_at)'),
        ('pairings', 'client', 'client', 'true'),
        ('rules', 'rule', 'id', 'true'),
        ('rooms', 'room', 'name', 'true'),
        ('notice_channels', 'channel', 'id', 'true')
    ) AS watched (tab, what, id, condition)
    LOOP
        EXECUTE format('CREATE CONSTRAINT TRIGGER note_coming AFTER INSERT OR DELETE ON %I DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION note_change(%L, %L)', watched.tab, watched.what, watched.id);
        EXECUTE format('CREATE CONSTRAINT TRIGGER note_change AFTER UPDATE ON %I DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (%s) EXECUTE FUNCTION note_change(%L, %L)',
            watched.tab, watched.condition, watched.what, watched.id);
    END LOOP;
END $$;
