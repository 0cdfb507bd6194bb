-- What a replica's calls rest on, the tray in which their records become durable, and the log that is made of it.

-- What decisions rest on that has no row of its own. One row: read by every append, seldom written.
CREATE TABLE in_force (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    policy text NOT NULL DEFAULT '',        -- digest of the policy that decides
    part smallint NOT NULL DEFAULT 0        -- which part of the tray is filled
);
INSERT INTO in_force DEFAULT VALUES;

CREATE TABLE runs (
    id text PRIMARY KEY, owner text NOT NULL, part_of text, integrity smallint NOT NULL,
    confidentiality smallint NOT NULL, ended boolean NOT NULL DEFAULT false,
    version bigint NOT NULL DEFAULT 0, began bigint GENERATED ALWAYS AS IDENTITY,
    home text,                              -- the gateway at which its calls are made
    roamed boolean NOT NULL DEFAULT false   -- whether some were at another one
) WITH (fillfactor = 70);
CREATE INDEX runs_by_owner ON runs (owner) WHERE NOT ended;
CREATE INDEX runs_by_whole ON runs (part_of) WHERE NOT ended;
CREATE INDEX runs_ended ON runs (began) WHERE ended;
CREATE TABLE run_sources (
    run text NOT NULL REFERENCES runs (id) ON DELETE CASCADE, server text NOT NULL, tool text NOT NULL,
    record text NOT NULL, integrity smallint NOT NULL, confidentiality smallint NOT NULL,
    listed bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (run, server, tool)
);
CREATE TABLE run_owners (
    owner text PRIMARY KEY, generation bigint NOT NULL, person text NOT NULL DEFAULT '',
    used_at timestamptz NOT NULL DEFAULT clock_timestamp()      -- within five seconds, at whichever gateway
);

-- Names that others have given may hold what a text cannot: they are kept as octets.
CREATE TABLE pins (
    server text NOT NULL, kind text NOT NULL, name bytea NOT NULL, profile text NOT NULL,
    status text NOT NULL, approved text, approved_identity text, approved_at double precision,
    expires_at double precision, PRIMARY KEY (server, kind, name, profile)
);
CREATE TABLE approvals (
    id text PRIMARY KEY, state text NOT NULL, span text NOT NULL, expires_at double precision NOT NULL
);
CREATE TABLE scripts (
    id text PRIMARY KEY, most bigint, used bigint NOT NULL DEFAULT 0,
    expires_at double precision NOT NULL, ended boolean NOT NULL DEFAULT false
);
CREATE TABLE script_grants (
    script text NOT NULL REFERENCES scripts (id) ON DELETE CASCADE, place integer NOT NULL,
    most bigint NOT NULL, used bigint NOT NULL DEFAULT 0, PRIMARY KEY (script, place)
);

-- A connection on which one replica appends. It numbers what it appends, and commits in the order in which
-- it sends: nothing of a lane becomes visible behind a later number of the same lane. That is all the order
-- that the log needs. Whoever has a lane holds its lock, which goes with the connection.
CREATE TABLE lanes (
    lane integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, replica text NOT NULL,
    backend integer NOT NULL DEFAULT pg_backend_pid(), opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken bigint NOT NULL DEFAULT 0,        -- up to which number it is in the log
    closed boolean NOT NULL DEFAULT false
);
CREATE INDEX lanes_open ON lanes (lane) WHERE NOT closed;

-- What is here is durable, and acknowledged. Parts are filled in turn and emptied as a whole.
CREATE TABLE tray (
    lane integer NOT NULL, n bigint NOT NULL, part smallint NOT NULL,
    put_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    id text NOT NULL, time_us bigint NOT NULL, kind text NOT NULL, principal text, server text, target text,
    verdict text, code text, run text, decision_id text, body bytea NOT NULL,
    PRIMARY KEY (lane, n, part)
) PARTITION BY LIST (part);
CREATE TABLE tray_0 PARTITION OF tray FOR VALUES IN (0);
CREATE TABLE tray_1 PARTITION OF tray FOR VALUES IN (1);
CREATE TABLE tray_2 PARTITION OF tray FOR VALUES IN (2);

-- The log itself, with SQLite's names, in ranges of leaf indexes. Bodies are octets: JSON may spell what a
-- text cannot hold.
CREATE DOMAIN blob AS bytea;
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO meta VALUES ('log_id', 'douane/' || left(encode(sha256(uuid_send(gen_random_uuid())), 'hex'), 16));
CREATE TABLE audit (
    leaf_index bigint PRIMARY KEY, id text NOT NULL, time_us bigint NOT NULL, kind text NOT NULL,
    principal text, server text, target text, verdict text, code text, run text, decision_id text,
    leaf_hash bytea NOT NULL, lane integer NOT NULL, n bigint NOT NULL, body bytea NOT NULL
) PARTITION BY RANGE (leaf_index);
CREATE INDEX audit_by_id ON audit (id);
CREATE INDEX audit_by_time ON audit (time_us);
CREATE INDEX audit_by_server ON audit (server, time_us) WHERE server IS NOT NULL;
CREATE INDEX audit_by_principal ON audit (principal, time_us) WHERE principal IS NOT NULL;
CREATE INDEX audit_by_run ON audit (run, time_us) WHERE run IS NOT NULL;
CREATE INDEX audit_by_refusal ON audit (verdict, time_us) WHERE verdict <> 'allow';
CREATE INDEX audit_by_decision ON audit (decision_id) WHERE decision_id IS NOT NULL;
CREATE TABLE tiles (tile bigint PRIMARY KEY, root bytea NOT NULL);
CREATE TABLE checkpoints (size bigint PRIMARY KEY, note text NOT NULL, previous bigint NOT NULL, link text NOT NULL);
CREATE TABLE cosignatures (
    size bigint NOT NULL, witness text NOT NULL, line text NOT NULL, PRIMARY KEY (size, witness)
);
CREATE TABLE log_front (one boolean PRIMARY KEY DEFAULT true CHECK (one), first bigint NOT NULL DEFAULT 0);
INSERT INTO log_front DEFAULT VALUES;

-- One row: the tree's size, and who may make it grow. Whoever takes the lead raises the token; whoever adds
-- leaves changes this row only where size and token are still what it read. That alone keeps the log right.
CREATE TABLE tree (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), size bigint NOT NULL DEFAULT 0,
    token bigint NOT NULL DEFAULT 0, leader text NOT NULL DEFAULT '', until timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO tree DEFAULT VALUES;

CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION stays();
CREATE TRIGGER tiles_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON tiles FOR EACH STATEMENT EXECUTE FUNCTION stays();
CREATE TRIGGER checkpoints_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON checkpoints FOR EACH STATEMENT EXECUTE FUNCTION stays();

-- What SQLite says of its tables, so that the log is read by the same statements.
CREATE FUNCTION pragma_table_info(of text) RETURNS TABLE (name text) LANGUAGE sql STABLE AS $$
    SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(of) AND attnum > 0 AND NOT attisdropped
$$;
