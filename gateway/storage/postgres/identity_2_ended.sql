-- How often rights of anybody have ended, or it was said anew who they are, as SQLite's schema has it: what calls
-- rest on. A client that registers itself has ended nothing, and may be anybody's.

ALTER TABLE identity_version ADD COLUMN people bigint NOT NULL DEFAULT 0;

CREATE FUNCTION turn_people() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    turned bigint;
BEGIN
    IF coalesce(current_setting('douane.people', true), '') = '' THEN
        UPDATE identity_version SET people = people + 1 RETURNING people INTO turned;
        PERFORM set_config('douane.people', turned::text, true);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER revoked_grants_end AFTER UPDATE OF revoked_at ON grants
FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION turn_people();
CREATE TRIGGER revoked_tokens_end AFTER INSERT ON revoked_tokens
FOR EACH ROW EXECUTE FUNCTION turn_people();
CREATE TRIGGER people_end AFTER INSERT OR DELETE ON users
FOR EACH ROW EXECUTE FUNCTION turn_people();
CREATE TRIGGER changed_people_end AFTER UPDATE ON users FOR EACH ROW
WHEN ((OLD.issuer, OLD.subject, OLD.groups, OLD.disabled) IS DISTINCT FROM (NEW.issuer, NEW.subject, NEW.groups, NEW.disabled))
EXECUTE FUNCTION turn_people();
CREATE TRIGGER registered_clients_are_other AFTER INSERT ON clients
FOR EACH ROW WHEN (NEW.kind = 'registered') EXECUTE FUNCTION turn_people();
CREATE TRIGGER removed_clients_end AFTER DELETE ON clients
FOR EACH ROW EXECUTE FUNCTION turn_people();
CREATE TRIGGER changed_clients_end AFTER UPDATE ON clients FOR EACH ROW
WHEN ((OLD.name, OLD.kind, OLD.grants, OLD.resources, OLD.scopes, OLD.groups, OLD.trusted_host, OLD.holds_key)
    IS DISTINCT FROM (NEW.name, NEW.kind, NEW.grants, NEW.resources, NEW.scopes, NEW.groups, NEW.trusted_host, NEW.holds_key))
EXECUTE FUNCTION turn_people();

-- Triggers call them, and nobody else.
REVOKE EXECUTE ON FUNCTION turn_people, turn_identity, end_answers_of_grant, end_answers_of_client, end_answers_of_removed,
    end_answers_of_disabled FROM PUBLIC;
