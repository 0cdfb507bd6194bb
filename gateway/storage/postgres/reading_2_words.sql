-- The index by which questions about the log are answered at once: made from it, never part of it. It has the
-- names that it has in SQLite's file, and says the same.

CREATE TABLE words.progress (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), through bigint NOT NULL DEFAULT -1, first bigint NOT NULL DEFAULT 0
);
INSERT INTO words.progress DEFAULT VALUES;
CREATE TABLE words.names (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE);
INSERT INTO words.names (name) VALUES ('');
CREATE TABLE words.under_way (decision_id text PRIMARY KEY, leaf_index bigint NOT NULL);
CREATE TABLE words.used (
    server bigint NOT NULL, target bigint NOT NULL, hour bigint NOT NULL, principal bigint NOT NULL,
    client bigint NOT NULL, calls bigint NOT NULL, refused bigint NOT NULL, last_us bigint NOT NULL,
    PRIMARY KEY (server, target, hour, principal, client)
);
CREATE TABLE words.totals (
    subject text NOT NULL, span text NOT NULL, bucket bigint NOT NULL, within bigint NOT NULL, name bigint NOT NULL,
    calls bigint NOT NULL, refused bigint NOT NULL, last_us bigint NOT NULL,
    PRIMARY KEY (subject, span, bucket, within, name)
);
CREATE TABLE words.refusals (
    hour bigint NOT NULL, kind text NOT NULL, verdict text NOT NULL, code text NOT NULL, rule text NOT NULL,
    records bigint NOT NULL, last_us bigint NOT NULL, PRIMARY KEY (hour, kind, verdict, code, rule)
);
CREATE TABLE words.flow_counts (
    source bigint NOT NULL, server bigint NOT NULL, target bigint NOT NULL, effect text NOT NULL, hour bigint NOT NULL,
    calls bigint NOT NULL, refused bigint NOT NULL, outside bigint NOT NULL, last_us bigint NOT NULL,
    PRIMARY KEY (source, hour, server, target, effect)
);
CREATE TABLE words.flows (
    source bigint NOT NULL, time_us bigint NOT NULL, leaf_index bigint NOT NULL, allowed boolean NOT NULL,
    outside boolean NOT NULL, PRIMARY KEY (source, time_us, leaf_index)
);
CREATE INDEX flows_by_leaf ON words.flows USING brin (leaf_index);
-- Identifiers and hashes, each as a number of its end: whoever finds a record looks whether it is so.
CREATE TABLE words.marks (mark bigint NOT NULL, leaf_index bigint NOT NULL);
CREATE INDEX marks_by_mark ON words.marks (mark, leaf_index);
CREATE INDEX marks_by_leaf ON words.marks USING brin (leaf_index);
CREATE TABLE words.reasons (leaf_index bigint PRIMARY KEY, said text NOT NULL, lexemes tsvector NOT NULL);
CREATE INDEX reasons_by_lexeme ON words.reasons USING gin (lexemes);

-- Words are letters and digits, whatever the database's own locale: small, without accents, no longer than an
-- index takes.
DO $do$
BEGIN
    EXECUTE format($create$
        CREATE FUNCTION words.of_1(said text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT ARRAY(SELECT left(w, 256) FROM regexp_split_to_table(
                regexp_replace(normalize(lower(said COLLATE %1$s), NFD), '[\u0300-\u036f]', '', 'g') COLLATE %1$s,
                '[^[:alnum:]]+') AS w WHERE w <> '')
        $$ $create$,
        CASE WHEN EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu' AND collencoding IN (-1, pg_char_to_encoding('UTF8')))
            THEN '"und-x-icu"' ELSE '"default"' END);
END $do$;
-- What is looked for by `asked`, words between blanks of which the last sign of each may be `*`: all of them.
CREATE FUNCTION words.query_1(asked text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg('''' || w || '''' || CASE WHEN place = cardinality(ws) AND one LIKE '%*' THEN ':*' ELSE '' END, ' & ')::tsquery
    FROM unnest(string_to_array(asked, ' ')) AS one CROSS JOIN LATERAL (SELECT words.of_1(one) AS ws) AS o,
        unnest(ws) WITH ORDINALITY AS x (w, place)
$$;
-- Whether what one word of `asked` is made of stands side by side in `said`, as it does there.
CREATE FUNCTION words.beside_1(said text, asked text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(bool_and(position(' ' || array_to_string(words.of_1(one), ' ')
        || CASE WHEN one LIKE '%*' THEN '' ELSE ' ' END IN ' ' || said || ' ') > 0), true)
    FROM unnest(string_to_array(asked, ' ')) AS one WHERE cardinality(words.of_1(one)) > 1
$$;
-- The words of a record's reasons; NULL if it has none.
CREATE FUNCTION words.said_1(reasons jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT words.of_1(string_agg(coalesce(r ->> 'code', '') || ' ' || coalesce(r ->> 'message', ''), ' ' ORDER BY place))
    FROM jsonb_array_elements(CASE jsonb_typeof(reasons) WHEN 'array' THEN reasons ELSE '[]' END)
        WITH ORDINALITY AS x (r, place) WHERE jsonb_typeof(r) = 'object'
$$;
CREATE FUNCTION words.holds_1(body bytea, asked text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 50 AS $$
DECLARE
    found text[] := words.said_1(words.plain_1(body)::jsonb -> 'reasons');
BEGIN
    RETURN coalesce(array_to_tsvector(found) @@ words.query_1(asked)
        AND words.beside_1(array_to_string(found, ' '), asked), false);
END $$;
CREATE FUNCTION words.mark_1(of text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(right(of, 18), 0)
$$;

-- Takes up at most so many records, in order; whoever else asks for it meanwhile is told how far it is.
CREATE FUNCTION words.take_up_1(most integer) RETURNS TABLE (through bigint, newest bigint, taken bigint, lag_s double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = words, public, pg_temp AS $take$
#variable_conflict use_column
DECLARE
    p record; last bigint; front bigint; upto bigint;
    hour_us constant bigint := 3600000000; nobody constant bigint := (SELECT id FROM names WHERE name = '');
BEGIN
    SELECT t.size - 1 INTO last FROM tree AS t;
    SELECT f.first INTO front FROM log_front AS f;
    SELECT * INTO p FROM progress FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN QUERY SELECT g.through, last, 0::bigint, lag_1() FROM progress AS g;
        RETURN;
    END IF;
    IF front > p.first THEN PERFORM forget_1(front); END IF;
    p.through := greatest(p.through, front - 1);
    upto := least(last, p.through + most);
    IF upto <= p.through THEN
        RETURN QUERY SELECT p.through, last, 0::bigint, lag_1();
        RETURN;
    END IF;
    -- What is read once is kept as it is: to compress it would take longer than everything else.
    CREATE TEMP TABLE IF NOT EXISTS taken (
        leaf_index bigint PRIMARY KEY, time_us bigint NOT NULL, kind text NOT NULL, principal text NOT NULL,
        client text NOT NULL, server text NOT NULL, target text, effect text NOT NULL, verdict text, code text,
        decision_id text, task text NOT NULL, doc jsonb NOT NULL
    ) WITH (toast_tuple_target = 8160) ON COMMIT DELETE ROWS;
    CREATE TEMP TABLE IF NOT EXISTS calls (
        leaf_index bigint PRIMARY KEY, time_us bigint NOT NULL, principal bigint NOT NULL, client bigint NOT NULL,
        server bigint NOT NULL, target bigint NOT NULL, effect text NOT NULL, task text NOT NULL,
        refused boolean NOT NULL, outside boolean NOT NULL, sources jsonb, destinations jsonb, arguments jsonb
    ) WITH (toast_tuple_target = 8160) ON COMMIT DELETE ROWS;
    CREATE TEMP TABLE IF NOT EXISTS moved (leaf_index bigint NOT NULL, source text NOT NULL) ON COMMIT DELETE ROWS;
    CREATE TEMP TABLE IF NOT EXISTS sums (
        subject text NOT NULL, hour bigint NOT NULL, within bigint NOT NULL, name bigint NOT NULL, calls bigint NOT NULL,
        refused bigint NOT NULL, last_us bigint NOT NULL
    ) ON COMMIT DELETE ROWS;
    -- Whoever asks may have one of these names already: its triggers would have the rights that we have here.
    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND pg_get_userbyid(relowner) <> current_user) THEN
        RAISE EXCEPTION 'the index is made in tables of its own' USING ERRCODE = 'insufficient_privilege';
    END IF;

    INSERT INTO pg_temp.taken
    SELECT a.leaf_index, a.time_us, a.kind, coalesce(a.principal, ''), coalesce(left(d.doc ->> 'client', 512), ''),
        coalesce(a.server, ''), a.target, coalesce(left(d.doc ->> 'effect', 64), ''), a.verdict, a.code, a.decision_id,
        coalesce(d.doc ->> 'task', ''), d.doc
    FROM audit AS a CROSS JOIN LATERAL (SELECT words.plain_1(a.body)::jsonb AS doc OFFSET 0) AS d
    WHERE a.leaf_index > p.through AND a.leaf_index <= upto AND jsonb_typeof(d.doc) = 'object';

    -- A call is counted once, by what is recorded before it goes out or else by its refusal.
    INSERT INTO under_way
    SELECT decision_id, min(leaf_index) FROM pg_temp.taken
    WHERE kind = 'intent' AND target IS NOT NULL AND decision_id IS NOT NULL GROUP BY decision_id
    ON CONFLICT DO NOTHING;
    INSERT INTO names (name)
    SELECT DISTINCT x.name FROM pg_temp.taken AS t
    CROSS JOIN LATERAL (VALUES (t.principal), (t.client), (t.server), (t.target)) AS x (name)
    WHERE t.kind IN ('intent', 'outcome') AND t.target IS NOT NULL
        AND NOT EXISTS (SELECT FROM names AS n WHERE n.name = x.name)
    ON CONFLICT DO NOTHING;
    INSERT INTO pg_temp.calls
    SELECT t.leaf_index, t.time_us, n1.id, n2.id, n3.id, n4.id, t.effect, t.task,
        t.verdict IS NOT NULL AND t.verdict <> 'allow',
        CASE jsonb_typeof(t.doc -> 'destinations') WHEN 'array' THEN
            jsonb_array_length(t.doc -> 'destinations') = 0 OR EXISTS (
                SELECT FROM jsonb_array_elements(t.doc -> 'destinations') AS d
                WHERE jsonb_typeof(d) <> 'object' OR d ->> 'proof' IS DISTINCT FROM 'tenant')
        ELSE true END,
        t.doc -> 'sources', t.doc -> 'destinations', t.doc -> 'arguments'
    FROM pg_temp.taken AS t
    JOIN names AS n1 ON n1.name = t.principal JOIN names AS n2 ON n2.name = t.client
    JOIN names AS n3 ON n3.name = t.server JOIN names AS n4 ON n4.name = t.target
    WHERE t.kind IN ('intent', 'outcome') AND NOT (t.kind = 'outcome' AND EXISTS (
        SELECT FROM under_way AS u WHERE u.decision_id = t.decision_id));
    DELETE FROM under_way WHERE decision_id IN (
        SELECT decision_id FROM pg_temp.taken WHERE kind = 'outcome' AND target IS NOT NULL);

    INSERT INTO pg_temp.moved
    SELECT DISTINCT c.leaf_index, left(s ->> 'server', 512)
    FROM pg_temp.calls AS c CROSS JOIN LATERAL jsonb_array_elements(
        CASE jsonb_typeof(c.sources) WHEN 'array' THEN c.sources ELSE '[]' END) AS s
    WHERE c.effect NOT IN ('', 'read') AND jsonb_typeof(s) = 'object' AND s ->> 'server' IS NOT NULL;
    INSERT INTO names (name)
    SELECT DISTINCT m.source FROM pg_temp.moved AS m WHERE NOT EXISTS (SELECT FROM names AS n WHERE n.name = m.source)
    ON CONFLICT DO NOTHING;

    INSERT INTO used AS o
    SELECT server, target, time_us / hour_us, principal, client, count(*), count(*) FILTER (WHERE refused), max(time_us)
    FROM pg_temp.calls GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (server, target, hour, principal, client) DO UPDATE SET calls = o.calls + excluded.calls,
        refused = o.refused + excluded.refused, last_us = greatest(o.last_us, excluded.last_us);
    INSERT INTO pg_temp.sums
    SELECT s.subject, c.time_us / hour_us, s.within, s.name, count(*), count(*) FILTER (WHERE c.refused), max(c.time_us)
    FROM pg_temp.calls AS c CROSS JOIN LATERAL (VALUES
        ('principal', nobody, c.principal, true), ('client', nobody, c.client, true), ('tool', c.server, c.target, true),
        ('undeclared', nobody, c.client, c.task = ''), ('ignored', nobody, c.client, c.task = 'ignored')
    ) AS s (subject, within, name, counts)
    WHERE s.counts GROUP BY 1, 2, 3, 4;
    INSERT INTO totals AS o
    SELECT subject, 'hour', hour, within, name, calls, refused, last_us FROM pg_temp.sums
    UNION ALL
    SELECT subject, 'day', hour / 24, within, name, sum(calls), sum(refused), max(last_us)
    FROM pg_temp.sums GROUP BY 1, 3, 4, 5
    ON CONFLICT (subject, span, bucket, within, name) DO UPDATE SET calls = o.calls + excluded.calls,
        refused = o.refused + excluded.refused, last_us = greatest(o.last_us, excluded.last_us);
    INSERT INTO refusals AS o
    SELECT t.time_us / hour_us, t.kind, t.verdict, coalesce(left(t.code, 128), ''), coalesce((
            SELECT left(r ->> 'code', 128)
            FROM jsonb_array_elements(CASE jsonb_typeof(t.doc -> 'reasons') WHEN 'array' THEN t.doc -> 'reasons' ELSE '[]' END)
                WITH ORDINALITY AS x (r, place)
            WHERE jsonb_typeof(r) = 'object' AND jsonb_typeof(r -> 'code') = 'string' AND r ->> 'code' IS DISTINCT FROM t.code
            ORDER BY place LIMIT 1), coalesce(left(t.code, 128), '')), count(*), max(t.time_us)
    FROM pg_temp.taken AS t WHERE t.verdict IN ('deny', 'ask', 'error') AND t.kind <> 'approval'
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (hour, kind, verdict, code, rule) DO UPDATE SET records = o.records + excluded.records,
        last_us = greatest(o.last_us, excluded.last_us);
    INSERT INTO flow_counts AS o
    SELECT n.id, c.server, c.target, c.effect, c.time_us / hour_us, count(*), count(*) FILTER (WHERE c.refused),
        count(*) FILTER (WHERE c.outside), max(c.time_us)
    FROM pg_temp.moved AS m JOIN pg_temp.calls AS c USING (leaf_index) JOIN names AS n ON n.name = m.source
    WHERE n.id <> c.server OR c.effect = 'egress' GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (source, hour, server, target, effect) DO UPDATE SET calls = o.calls + excluded.calls,
        refused = o.refused + excluded.refused, outside = o.outside + excluded.outside,
        last_us = greatest(o.last_us, excluded.last_us);
    INSERT INTO flows
    SELECT n.id, c.time_us, c.leaf_index, NOT c.refused, c.outside
    FROM pg_temp.moved AS m JOIN pg_temp.calls AS c USING (leaf_index) JOIN names AS n ON n.name = m.source
    WHERE n.id <> c.server OR c.effect = 'egress' ON CONFLICT DO NOTHING;

    INSERT INTO marks
    SELECT DISTINCT mark_1(x.told), x.leaf_index FROM (
        SELECT t.leaf_index, m ->> 0 AS told FROM pg_temp.taken AS t CROSS JOIN LATERAL (VALUES
            (jsonb_build_array(t.doc -> 'decision_id')), (jsonb_build_array(t.doc -> 'approval_id')),
            (jsonb_build_array(t.doc -> 'arguments_hmac')), (jsonb_build_array(t.doc -> 'result_hmac')),
            (CASE t.kind WHEN 'policy' THEN jsonb_build_array(t.doc -> 'policy_digest') END)) AS y (m)
        WHERE jsonb_typeof(m -> 0) = 'string'
        UNION ALL
        SELECT c.leaf_index, e #>> '{}' FROM pg_temp.calls AS c CROSS JOIN LATERAL (VALUES (c.arguments), (c.destinations)) AS y (part)
        CROSS JOIN LATERAL jsonb_path_query(part, 'strict $.** ? (@.type() == "string" && @ like_regex "^[hb][0-9].*:" flag "s")') AS e
        WHERE length(e #>> '{}') > 60
    ) AS x;
    INSERT INTO reasons
    SELECT t.leaf_index, array_to_string(w.ws, ' '), array_to_tsvector(w.ws)
    FROM pg_temp.taken AS t CROSS JOIN LATERAL (SELECT said_1(t.doc -> 'reasons') AS ws OFFSET 0) AS w
    WHERE cardinality(w.ws) > 0;
    UPDATE progress SET through = upto;
    RETURN QUERY SELECT upto, last, upto - p.through, lag_1();
END $take$;

-- Drops what was kept of records that the log has no more. What was counted in the hour, or the day, in which its
-- first one stands stays until the next.
CREATE FUNCTION words.forget_1(upto bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = words, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at_us bigint;
BEGIN
    SELECT a.time_us INTO at_us FROM audit AS a WHERE a.leaf_index >= upto ORDER BY a.leaf_index LIMIT 1;
    IF at_us IS NULL THEN RETURN; END IF;
    DELETE FROM used WHERE hour < at_us / 3600000000;
    DELETE FROM flow_counts WHERE hour < at_us / 3600000000;
    DELETE FROM totals WHERE span = 'hour' AND bucket < at_us / 3600000000;
    DELETE FROM totals WHERE span = 'day' AND bucket < at_us / 86400000000;
    DELETE FROM refusals WHERE hour < at_us / 3600000000;
    DELETE FROM flows WHERE leaf_index < upto;
    DELETE FROM marks WHERE leaf_index < upto;
    DELETE FROM reasons WHERE leaf_index < upto;
    DELETE FROM under_way WHERE leaf_index < upto;
    DELETE FROM names AS n WHERE name <> ''
        AND NOT EXISTS (SELECT FROM totals AS t WHERE t.span = 'day' AND t.within = n.id)
        AND NOT EXISTS (SELECT FROM totals AS t WHERE t.span = 'day' AND t.name = n.id)
        AND NOT EXISTS (SELECT FROM flow_counts AS f WHERE f.source = n.id)
        AND NOT EXISTS (SELECT FROM flows AS f WHERE f.source = n.id);
    UPDATE progress SET first = upto;
END $$;
REVOKE EXECUTE ON FUNCTION words.take_up_1, words.forget_1 FROM PUBLIC;

-- What whoever reads and follows the log, and holds records in it, may do, beside `admit_gateway_1`.
CREATE PROCEDURE admit_reader_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA words TO %I', role_name);
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA words TO %I', role_name);
    EXECUTE format('GRANT SELECT ON archives, holds, cursors, cosignatures TO %I', role_name);
    EXECUTE format('GRANT INSERT ON holds, cosignatures TO %I', role_name);
    EXECUTE format('GRANT DELETE ON holds TO %I', role_name);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON cursors TO %I', role_name);
    EXECUTE format('GRANT UPDATE (line) ON cosignatures TO %I', role_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION waits_1, lag_1, words.take_up_1 TO %I', role_name);
END $$;
REVOKE EXECUTE ON PROCEDURE admit_reader_1 FROM PUBLIC;
