-- People, clients, grants and sealed secrets. What each column means is said in the schema for SQLite, whose
-- tables these are: times are seconds since the epoch, yes and no are 1 and 0, lists are JSON.

CREATE TABLE clients (
    id text PRIMARY KEY,
    name text NOT NULL,
    kind text NOT NULL,
    auth_methods text NOT NULL,
    secret_hash text NOT NULL,
    jwks text NOT NULL,
    redirect_uris text NOT NULL,
    homepage text NOT NULL,
    grants text NOT NULL,
    resources text NOT NULL,
    scopes text NOT NULL,
    groups text NOT NULL,
    trusted_host integer NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    fresh_until double precision,
    holds_key integer NOT NULL
);

CREATE UNIQUE INDEX clients_by_name ON clients (name) WHERE kind = 'registered';

CREATE TABLE users (
    id text PRIMARY KEY,
    issuer text NOT NULL,
    subject text NOT NULL,
    name text NOT NULL,
    groups text NOT NULL,
    os_user text NOT NULL,
    password text NOT NULL,
    created_at double precision NOT NULL,
    created_by text NOT NULL,
    disabled integer NOT NULL,
    UNIQUE (issuer, subject)
);

CREATE UNIQUE INDEX users_by_os_user ON users (os_user) WHERE os_user <> '';

CREATE TABLE links (
    link_hash text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at double precision NOT NULL
);

CREATE TABLE sessions (
    id_hash text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    source_ip text NOT NULL,
    user_agent text NOT NULL,
    proven_at double precision NOT NULL
);

CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE transactions (
    id text PRIMARY KEY,
    browser_hash text NOT NULL,
    purpose text NOT NULL,
    request text,
    detail text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    finished_at double precision,
    user_id text NOT NULL,
    provider text NOT NULL,
    secrets text NOT NULL
);

CREATE TABLE consents (
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_id text NOT NULL,
    endpoint text NOT NULL,
    redirect_uri text NOT NULL,
    scopes text NOT NULL,
    given_at double precision NOT NULL
);

-- Two addresses are more than a key of an index may hold: that there is one is the job's to see to.
CREATE INDEX consents_by_user ON consents (user_id);
CREATE INDEX consents_by_client ON consents (client_id);

-- A grant names its person and client without a foreign key: it stays as evidence when they go.
CREATE TABLE grants (
    id text PRIMARY KEY,
    user_id text NOT NULL,
    client_id text NOT NULL,
    endpoint text NOT NULL,
    scopes text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    revoked_at double precision,
    reason text NOT NULL,
    doubted_at double precision
);

CREATE INDEX grants_by_user ON grants (user_id);
CREATE INDEX grants_by_client ON grants (client_id);
CREATE INDEX grants_revoked ON grants (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX grants_doubted ON grants (user_id) WHERE doubted_at IS NOT NULL AND revoked_at IS NULL;

CREATE TABLE codes (
    code_hash text PRIMARY KEY,
    grant_id text NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    client_id text NOT NULL,
    redirect_uri text NOT NULL,
    code_challenge text NOT NULL,
    expires_at double precision NOT NULL,
    used_at double precision,
    bound_to text NOT NULL,
    proven_at double precision NOT NULL
);

CREATE INDEX codes_by_grant ON codes (grant_id);

CREATE TABLE refresh_tokens (
    token_hash text PRIMARY KEY,
    grant_id text NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    client_id text NOT NULL,
    parent_hash text,
    issued_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    used_at double precision,
    successor text NOT NULL,
    generation integer NOT NULL,
    again_at double precision,
    bound_to text NOT NULL,
    lost_at double precision
);

CREATE INDEX refresh_tokens_by_grant ON refresh_tokens (grant_id);

CREATE TABLE devices (
    device_hash text PRIMARY KEY,
    user_code text NOT NULL UNIQUE,
    client_id text NOT NULL,
    endpoint text NOT NULL,
    scopes text NOT NULL,
    expires_at double precision NOT NULL,
    interval_s integer NOT NULL,
    polled_at double precision NOT NULL,
    status text NOT NULL,
    grant_id text NOT NULL
);

CREATE TABLE revoked_tokens (
    token_id text PRIMARY KEY,
    expires_at double precision NOT NULL
);

CREATE TABLE assertions (
    issuer text NOT NULL,
    assertion_id text NOT NULL,
    expires_at double precision NOT NULL,
    PRIMARY KEY (issuer, assertion_id)
);

CREATE TABLE data_keys (
    id text COLLATE "C" PRIMARY KEY,
    wrapped text NOT NULL,
    kek_id text NOT NULL,
    created_at double precision NOT NULL
);

CREATE TABLE signing_keys (
    kid text COLLATE "C" PRIMARY KEY,
    state text NOT NULL,
    sealed text NOT NULL,
    created_at double precision NOT NULL,
    activated_at double precision,
    retired_at double precision
);

CREATE UNIQUE INDEX one_signing_key_a_state ON signing_keys (state) WHERE state <> 'retired';

CREATE TABLE connections (
    user_id text COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    server text COLLATE "C" NOT NULL,
    issuer text NOT NULL,
    sealed text NOT NULL,
    scopes text NOT NULL,
    expires_at double precision,
    version integer NOT NULL,
    connected_at double precision NOT NULL,
    refreshed_at double precision,
    leased_by text NOT NULL DEFAULT '',
    leased_until double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, server)
);

CREATE TABLE registrations (
    server text NOT NULL,
    issuer text NOT NULL,
    sealed text NOT NULL,
    PRIMARY KEY (server, issuer)
);

-- The gateway's own keys, which are files where there is one gateway.
CREATE TABLE keys (
    name text PRIMARY KEY,
    sealed text NOT NULL,
    made_at double precision NOT NULL
);

-- Which descriptions were told to whom, by keyed hashes.
CREATE TABLE disclosures (
    owner bytea NOT NULL,
    key bytea NOT NULL,
    used double precision NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX disclosures_by_use ON disclosures (used);

-- Beside the grants, so that what ends them ends these, whoever does it and in whichever replica.
CREATE TABLE standing_answers (
    id text PRIMARY KEY,
    user_id text NOT NULL,
    client_id text NOT NULL,
    given_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    sealed text NOT NULL,
    ended text NOT NULL DEFAULT ''
);

CREATE FUNCTION end_answers_of_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE standing_answers SET ended = 'the grant was revoked'
    WHERE ended = '' AND user_id = NEW.user_id AND client_id = NEW.client_id;
    RETURN NULL;
END $$;
CREATE TRIGGER revocation_ends_answers AFTER UPDATE OF revoked_at ON grants
FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION end_answers_of_grant();

CREATE FUNCTION end_answers_of_client() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE standing_answers SET ended = 'the client was removed' WHERE ended = '' AND client_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER no_client_no_answers AFTER DELETE ON clients
FOR EACH ROW EXECUTE FUNCTION end_answers_of_client();

CREATE FUNCTION end_answers_of_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE standing_answers SET ended = 'the person was removed' WHERE ended = '' AND user_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER no_person_no_answers AFTER DELETE ON users
FOR EACH ROW EXECUTE FUNCTION end_answers_of_removed();

CREATE FUNCTION end_answers_of_disabled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE standing_answers SET ended = 'the person was disabled' WHERE ended = '' AND user_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER disabled_people_have_no_answers AFTER UPDATE OF disabled ON users
FOR EACH ROW WHEN (NEW.disabled <> 0) EXECUTE FUNCTION end_answers_of_disabled();

-- How often what replicas hold in memory has changed: once for each transaction that changed it. It is a row and
-- not a sequence, whose numbers others would see before the change.
CREATE TABLE identity_version (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL DEFAULT 0
);
INSERT INTO identity_version DEFAULT VALUES;

CREATE FUNCTION turn_identity() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    turned bigint;
BEGIN
    -- Of this transaction, and empty at its end.
    IF coalesce(current_setting('douane.turned', true), '') = '' THEN
        UPDATE identity_version SET version = version + 1 RETURNING version INTO turned;
        PERFORM set_config('douane.turned', turned::text, true);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER clients_turn AFTER INSERT OR UPDATE OR DELETE ON clients
FOR EACH ROW EXECUTE FUNCTION turn_identity();
CREATE TRIGGER users_turn AFTER INSERT OR UPDATE OR DELETE ON users
FOR EACH ROW EXECUTE FUNCTION turn_identity();
CREATE TRIGGER revocations_turn AFTER UPDATE OF revoked_at ON grants
FOR EACH ROW WHEN (NEW.revoked_at IS NOT NULL) EXECUTE FUNCTION turn_identity();
CREATE TRIGGER revoked_tokens_turn AFTER INSERT OR UPDATE ON revoked_tokens
FOR EACH ROW EXECUTE FUNCTION turn_identity();
CREATE TRIGGER standing_answers_turn AFTER INSERT OR UPDATE OR DELETE ON standing_answers
FOR EACH ROW EXECUTE FUNCTION turn_identity();
CREATE TRIGGER signing_keys_turn AFTER INSERT OR UPDATE OR DELETE ON signing_keys
FOR EACH ROW EXECUTE FUNCTION turn_identity();
CREATE TRIGGER data_keys_turn AFTER INSERT OR UPDATE OR DELETE ON data_keys
FOR EACH ROW EXECUTE FUNCTION turn_identity();
CREATE TRIGGER keys_turn AFTER INSERT OR UPDATE OR DELETE ON keys
FOR EACH ROW EXECUTE FUNCTION turn_identity();
