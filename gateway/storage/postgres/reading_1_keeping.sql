-- What reads, follows and keeps the log beside whoever writes it.

-- What reads the log is by itself, so that only whoever is let in to it can use it.
CREATE SCHEMA words;

-- How a record's body is read. JSON may spell a character that no text here can hold: U+2400 stands for it.
CREATE FUNCTION words.plain_1(body bytea) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN position('\x5c7530303030'::bytea IN body) = 0 THEN convert_from(body, 'UTF8')
        ELSE regexp_replace(convert_from(body, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1\\u2400', 'g') END
$$;
-- A member as it is written there; NULL if there is none, or null.
CREATE FUNCTION words.member_1(body bytea, name text) RETURNS json LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 20 AS $$
DECLARE v json := words.plain_1(body)::json -> name;
BEGIN RETURN CASE json_typeof(v) WHEN 'null' THEN NULL ELSE v END; END $$;
-- A value's text, if it is a text, a number or a truth.
CREATE FUNCTION words.atom_1(v json) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE json_typeof(v) WHEN 'string' THEN v #>> '{}' WHEN 'number' THEN v #>> '{}'
        WHEN 'boolean' THEN CASE v #>> '{}' WHEN 'true' THEN '1' ELSE '0' END END;
END $$;
CREATE FUNCTION words.number_1(v json) RETURNS double precision LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN RETURN CASE json_typeof(v) WHEN 'number' THEN (v #>> '{}')::double precision END; END $$;
CREATE FUNCTION words.text_1(v json) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN RETURN CASE json_typeof(v) WHEN 'string' THEN v #>> '{}' END; END $$;
-- Each value of a list; anything else is a list of itself.
CREATE FUNCTION words.each_1(v json) RETURNS SETOF json LANGUAGE sql STABLE PARALLEL SAFE ROWS 4 AS $$
    SELECT json_array_elements(CASE json_typeof(v) WHEN 'array' THEN v ELSE json_build_array(v) END)
$$;

-- Each column that others fill takes most of what an index can hold: never two of them in one.
CREATE INDEX audit_by_target ON audit (target, time_us) WHERE target IS NOT NULL;
CREATE INDEX audit_by_code ON audit (code, time_us) WHERE code IS NOT NULL;

CREATE TABLE cursors (name text PRIMARY KEY, leaf_index bigint NOT NULL);
CREATE TABLE archives (
    first bigint PRIMARY KEY, stop bigint NOT NULL, path text NOT NULL, sha256 text NOT NULL, made_us bigint NOT NULL
);
CREATE TABLE holds (name text PRIMARY KEY CHECK (name <> ''), first bigint NOT NULL);

-- The laws of removal stand here: only whole tiles, only what a checkpoint covers, what an archive holds and
-- every follower has had, and nothing that is held.
CREATE FUNCTION front_moves_on() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.first >= OLD.first AND NEW.first % 256 = 0
            AND NEW.first <= (SELECT coalesce(max(c.size), 0) FROM checkpoints AS c)
            AND NEW.first <= (SELECT coalesce(max(a.stop), 0) FROM archives AS a)
            AND NOT EXISTS (SELECT FROM holds AS h WHERE h.first < NEW.first)
            AND NOT EXISTS (SELECT FROM cursors AS c WHERE c.leaf_index < NEW.first - 1) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'these records may not leave the log' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER front_moves_on BEFORE UPDATE OR DELETE ON log_front FOR EACH ROW EXECUTE FUNCTION front_moves_on();
CREATE TRIGGER front_stays BEFORE TRUNCATE ON log_front FOR EACH STATEMENT EXECUTE FUNCTION stays();

CREATE FUNCTION leaves() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.leaf_index < (SELECT f.first FROM log_front AS f) THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'integrity_constraint_violation';
END $$;
DROP TRIGGER audit_stays ON audit;
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION stays();
CREATE TRIGGER audit_leaves BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION leaves();

-- A hold is released, and not changed; nor does one begin with what has left meanwhile.
CREATE FUNCTION holds_what_is_left() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.first >= (SELECT f.first FROM log_front AS f) THEN RETURN NEW; END IF;
    END IF;
    RAISE EXCEPTION 'a hold is of what is in the log, and is released' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER holds_what_is_left BEFORE INSERT OR UPDATE ON holds FOR EACH ROW EXECUTE FUNCTION holds_what_is_left();

-- Removes what is before `upto`, where the laws allow it. Whoever holds or follows waits meanwhile, or is waited
-- for: what they say counts, or comes too late.
CREATE FUNCTION prune_1(upto bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    part bigint; since bigint;
BEGIN
    LOCK TABLE holds, cursors, archives IN SHARE MODE;
    SELECT f.first INTO since FROM log_front AS f FOR UPDATE;
    UPDATE log_front SET first = upto;
    -- A partition of which nothing is left goes as a whole, and with it its place on the disk.
    FOR part IN SELECT generate_series(since / 262144, upto / 262144 - 1) LOOP
        IF to_regclass(format('audit_%s', part)) IS NOT NULL THEN
            EXECUTE format('TRUNCATE audit_%s', part);
        END IF;
    END LOOP;
    DELETE FROM audit WHERE leaf_index >= since AND leaf_index < upto;
END $$;

-- Of what is durable and not in the log: whether a record is, and for how long the oldest has waited.
CREATE FUNCTION waits_1(of_id text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tray AS t JOIN lanes AS l USING (lane) WHERE t.id = of_id AND t.n > l.taken)
$$;
CREATE FUNCTION lag_1() RETURNS double precision
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(extract(epoch FROM clock_timestamp() - min(t.put_at)), 0)::double precision
    FROM lanes AS l CROSS JOIN LATERAL (
        SELECT put_at FROM tray WHERE lane = l.lane AND n > l.taken ORDER BY n LIMIT 1) AS t
    WHERE NOT l.closed
$$;
REVOKE EXECUTE ON FUNCTION prune_1, waits_1, lag_1 FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION front_moves_on, leaves, holds_what_is_left FROM PUBLIC;
