-- What gateways keep beside the log and hold in memory: pins, questions to people, programs, and what sessions,
-- late calls and planes leave. What each column means is said in the schema for SQLite, whose tables these are;
-- of some the log's own script has those columns that a call is compared with.

-- `approved` is the digest that calls are compared with.
ALTER TABLE pins
    ADD COLUMN observed text NOT NULL, ADD COLUMN observed_version text NOT NULL,
    ADD COLUMN approved_text text, ADD COLUMN approved_version text,
    ADD COLUMN approved_by text NOT NULL, ADD COLUMN IF NOT EXISTS approved_at double precision,
    ADD COLUMN first_seen double precision NOT NULL, ADD COLUMN note text NOT NULL,
    ADD COLUMN approvals text NOT NULL, ADD COLUMN filed text NOT NULL,
    ADD COLUMN body_digest text NOT NULL, ADD COLUMN observed_identity text NOT NULL;

ALTER TABLE approvals
    ADD COLUMN fingerprint text NOT NULL, ADD COLUMN principal text NOT NULL,
    ADD COLUMN answered_by text NOT NULL, ADD COLUMN answered_by_id text NOT NULL,
    ADD COLUMN answered_at double precision, ADD COLUMN note text NOT NULL, ADD COLUMN asked bigint NOT NULL,
    ADD COLUMN asked_at double precision NOT NULL, ADD COLUMN question text NOT NULL;
CREATE INDEX approvals_by_fingerprint ON approvals (fingerprint);
CREATE INDEX approvals_by_principal ON approvals (principal, asked_at);

ALTER TABLE scripts
    ADD COLUMN principal text NOT NULL, ADD COLUMN began double precision NOT NULL, ADD COLUMN sealed text NOT NULL;
CREATE INDEX scripts_by_end ON scripts (expires_at);
CREATE TABLE parked_scripts (
    script text PRIMARY KEY REFERENCES scripts (id) ON DELETE CASCADE, sealed text NOT NULL
);

CREATE TABLE late_calls (
    id text PRIMARY KEY, decision_id text NOT NULL, expires_at double precision NOT NULL,
    progress text NOT NULL, sealed text NOT NULL
);
CREATE TABLE server_choices (
    made bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, principal text NOT NULL, number bigint NOT NULL,
    names text NOT NULL, but boolean NOT NULL, runs text NOT NULL, session text NOT NULL,
    UNIQUE (principal, number)
);
CREATE TABLE front_sessions_ended (session bytea PRIMARY KEY, ended_at double precision NOT NULL);
CREATE INDEX front_sessions_by_end ON front_sessions_ended (ended_at);
CREATE TABLE front_subscriptions (
    session bytea NOT NULL, uri text NOT NULL, since double precision NOT NULL, PRIMARY KEY (session, uri)
);
CREATE INDEX front_subscriptions_by_age ON front_subscriptions (since);
CREATE TABLE plane_debts (
    decision text PRIMARY KEY, run text NOT NULL, server text NOT NULL, tool text NOT NULL, record text NOT NULL,
    integrity text NOT NULL, confidentiality text NOT NULL, due double precision NOT NULL
);
CREATE TABLE baselines (subject text PRIMARY KEY, state bytea NOT NULL);

-- The life of the server. A crash of one of its processes or a failover empties this table, and the next life may give
-- numbers of transactions again that somebody has seen; when the server was started is no sign of the former.
CREATE UNLOGGED TABLE server_life (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    name text NOT NULL DEFAULT gen_random_uuid()::text
);

-- Returns what it is known by; it begins with whoever asks first.
CREATE FUNCTION life_1() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM server_life) THEN
        INSERT INTO server_life DEFAULT VALUES ON CONFLICT DO NOTHING;
    END IF;
    RETURN (SELECT pg_postmaster_start_time()::text || ' ' || l.name FROM server_life AS l);
END $$;

-- Which rows of what memories hold have changed, or gone, and in which transaction. A replica that knows what it
-- saw last reads those of transactions that were not committed then: no number is counted, which would make
-- changes wait for each other, and none is passed over, in whatever order they are committed.
CREATE TABLE state_news (
    by_transaction xid8 NOT NULL DEFAULT pg_current_xact_id(), kept_in text NOT NULL, key text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX state_news_by_transaction ON state_news (by_transaction);
CREATE INDEX state_news_by_age ON state_news (at);

CREATE FUNCTION note_news() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    one record; its_key text;
BEGIN
    IF TG_OP = 'DELETE' THEN one := OLD; ELSE one := NEW; END IF;
    IF TG_TABLE_NAME = 'pins' THEN
        its_key := concat_ws(E'\x1f', one.server, one.kind, encode(one.name, 'hex'), one.profile);
    ELSIF TG_TABLE_NAME = 'server_choices' THEN
        its_key := one.principal;
    ELSIF TG_TABLE_NAME = 'parked_scripts' THEN
        its_key := one.script;
    ELSIF TG_TABLE_NAME = 'plane_debts' THEN
        its_key := one.decision;
    ELSIF TG_TABLE_NAME IN ('front_sessions_ended', 'front_subscriptions') THEN
        its_key := encode(one.session, 'hex');
    ELSE
        its_key := one.id;
    END IF;
    INSERT INTO state_news (kept_in, key) VALUES (TG_TABLE_NAME, its_key);
    RETURN NULL;
END $$;
-- Of a run only what it has become is news, not where its calls are made.
CREATE TRIGGER runs_are_news AFTER INSERT OR UPDATE OF version, ended ON runs FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER pins_are_news AFTER INSERT OR UPDATE OR DELETE ON pins FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER approvals_are_news AFTER INSERT OR UPDATE OR DELETE ON approvals FOR EACH ROW EXECUTE FUNCTION note_news();
-- What a program has used up is in no memory.
CREATE TRIGGER scripts_are_news AFTER INSERT OR UPDATE OF ended OR DELETE ON scripts
FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER parked_scripts_are_news AFTER INSERT OR DELETE ON parked_scripts
FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER late_calls_are_news AFTER INSERT OR UPDATE OR DELETE ON late_calls
FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER server_choices_are_news AFTER INSERT OR DELETE ON server_choices
FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER front_sessions_ended_are_news AFTER INSERT OR DELETE ON front_sessions_ended
FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER front_subscriptions_are_news AFTER INSERT OR DELETE ON front_subscriptions
FOR EACH ROW EXECUTE FUNCTION note_news();
CREATE TRIGGER plane_debts_are_news AFTER INSERT OR DELETE ON plane_debts
FOR EACH ROW EXECUTE FUNCTION note_news();

-- Whoever has not looked for so long reads everything.
CREATE FUNCTION forget_news_1() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    forgotten bigint;
BEGIN
    DELETE FROM state_news WHERE at < clock_timestamp() - interval '1 hour';
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END $$;

REVOKE EXECUTE ON FUNCTION note_news, forget_news_1, life_1 FROM PUBLIC;

-- What a gateway may do with them, beside what `admit_gateway_1` gives: no pin and no program is ever taken out
-- by another way than its own end, and what is news it does not say itself.
CREATE PROCEDURE admit_state_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION forget_news_1, life_1 TO %I', role_name);
    EXECUTE format('GRANT SELECT ON state_news, server_life TO %I', role_name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON pins TO %I', role_name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON approvals, scripts, script_grants, parked_scripts,'
        ' late_calls, server_choices, front_sessions_ended, front_subscriptions, plane_debts, baselines TO %I', role_name);
END $$;
REVOKE EXECUTE ON PROCEDURE admit_state_1 FROM PUBLIC;
