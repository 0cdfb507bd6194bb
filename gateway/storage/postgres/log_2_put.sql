-- The only way into the tray: records that are kept while what their calls were decided on holds, with what
-- they use up and with what they raise. In a function each statement looks anew, at what is committed by then.
--
-- What comes back are the records that were not kept, each with what has changed, and the runs that a record
-- has raised. A record without premises is kept in any case.

-- Joins a label into a run, and lists what it comes from, as `run_changes.raised` does. The run is locked.
CREATE FUNCTION join_1(of text, label_i smallint, label_c smallint,
    said_server text, said_tool text, said_record text, said_i smallint, said_c smallint)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    lists boolean := false; listed bigint; of_server bigint; low smallint; high smallint;
BEGIN
    IF said_server IS NOT NULL THEN
        UPDATE run_sources AS s SET record = said_record, integrity = least(s.integrity, said_i),
            confidentiality = greatest(s.confidentiality, said_c)
        WHERE s.run = of AND s.server = said_server AND s.tool = said_tool
            AND (s.integrity > said_i OR s.confidentiality < said_c);
        lists := FOUND;
        IF NOT lists AND NOT EXISTS (SELECT FROM run_sources AS s
            WHERE s.run = of AND s.server = said_server AND s.tool = said_tool) THEN
            SELECT count(*), count(*) FILTER (WHERE s.server = said_server), min(s.integrity), max(s.confidentiality)
            INTO listed, of_server, low, high FROM run_sources AS s WHERE s.run = of;
            lists := listed < 64 OR (of_server = 0 AND listed < 128) OR low > said_i OR high < said_c;
            IF lists THEN
                INSERT INTO run_sources (run, server, tool, record, integrity, confidentiality)
                VALUES (of, said_server, said_tool, said_record, said_i, said_c);
            END IF;
        END IF;
    END IF;
    UPDATE runs AS r SET integrity = least(r.integrity, label_i),
        confidentiality = greatest(r.confidentiality, label_c), version = r.version + 1
    WHERE r.id = of AND (lists OR r.integrity > label_i OR r.confidentiality < label_c);
    RETURN FOUND;
END $$;

-- Uses up a call of a program's budget and a yes, both or neither; returns what there is none of. The rows
-- are locked.
CREATE FUNCTION use_1(of_script text, grants integer[], of_yes text, now_s double precision)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found_place integer;
BEGIN
    IF of_script IS NOT NULL THEN
        SELECT g.place INTO found_place
        FROM scripts AS s CROSS JOIN unnest(grants) WITH ORDINALITY AS g (place, at)
        WHERE s.id = of_script AND NOT s.ended AND s.expires_at > now_s AND (s.most IS NULL OR s.used < s.most)
            AND (g.place < 0 OR EXISTS (SELECT FROM script_grants AS x
                WHERE x.script = of_script AND x.place = g.place AND x.used < x.most))
        ORDER BY g.at LIMIT 1;
        IF NOT FOUND THEN RETURN 'budget'; END IF;
    END IF;
    IF of_yes IS NOT NULL THEN
        UPDATE approvals AS a SET state = CASE WHEN a.span = 'run' THEN a.state ELSE 'used' END
        WHERE a.id = of_yes AND a.state = 'allowed' AND a.expires_at > now_s AND a.span <> 'standing';
        IF NOT FOUND THEN RETURN 'approval'; END IF;
    END IF;
    UPDATE scripts AS s SET used = s.used + 1 WHERE s.id = of_script;
    UPDATE script_grants AS g SET used = g.used + 1 WHERE g.script = of_script AND g.place = found_place;
    RETURN NULL;
END $$;

-- Returns where what is committed now is confirmed by a standby as well, and by its disk.
CREATE FUNCTION require_standby_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_standby_names') = '' OR current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        RAISE EXCEPTION 'no standby is synchronous: synchronous_standby_names is "%", synchronous_commit is %',
            current_setting('synchronous_standby_names'), current_setting('synchronous_commit') USING ERRCODE = 'cannot_connect_now';
    END IF;
END $$;

CREATE FUNCTION put_1(
    in_lane integer, ns bigint[],
    ids text[], times_us bigint[], kinds text[], principals text[], servers text[], targets text[],
    verdicts text[], codes text[], of_runs text[], decision_ids text[], bodies bytea[],
    runs_judged text[], versions bigint[], policies text[], peoples bigint[],
    definitions text[], pin_servers text[], pin_kinds text[], pin_names bytea[], pin_profiles text[],
    pin_identities text[], yeses text[], standings text[],
    uses_scripts text[], uses_grants text[], uses_yeses text[],
    raises text[], raises_parts boolean[], integrities smallint[], confidentialities smallint[],
    source_servers text[], source_tools text[], source_records text[], source_integrities smallint[],
    source_confidentialities smallint[])
RETURNS TABLE (n bigint, changed text, raised text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_generic_plan AS $put$
#variable_conflict use_column
DECLARE
    owners text[]; lost bigint[] := '{}'; because text[] := '{}'; one record; missing text;
    now_s double precision; raising text[]; me text; moving text[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a call is compared with what is committed by now, not with an older look';
    END IF;
    IF coalesce(current_setting('douane.replicated', true), '') = 'on' THEN PERFORM require_standby_1(); END IF;
    SELECT replica INTO me FROM lanes WHERE lane = in_lane AND backend = pg_backend_pid() AND NOT closed AND taken < ns[1];
    IF NOT FOUND OR EXISTS (SELECT FROM tray WHERE lane = in_lane AND n >= ns[1]) THEN
        RAISE EXCEPTION 'lane % is not of this connection, or has gone beyond %', in_lane, ns[1];
    END IF;

    -- Runs whose calls were not made here so far.
    SELECT array_agg(DISTINCT w.id) INTO moving FROM runs AS r JOIN runs AS w ON w.id IN (r.id, r.part_of)
    WHERE r.id = ANY (runs_judged) AND NOT w.roamed AND w.home IS DISTINCT FROM me;

    -- Raises. Which whole runs an owner has must not change between the look and the commit: one that
    -- begins in that moment would miss what is given out after it. Whoever begins or ends one takes the same
    -- lock for itself alone.
    IF cardinality(raises) > 0 THEN
        SELECT array_agg(DISTINCT r.owner ORDER BY r.owner) INTO owners FROM runs AS r WHERE r.id = ANY (raises);
        PERFORM pg_advisory_xact_lock_shared(854530, hashtext(o)) FROM unnest(owners) AS o;
        SELECT coalesce(array_agg(i.n), '{}'), coalesce(array_agg('whole'::text), '{}') INTO lost, because
        FROM unnest(ns, raises) AS i (n, of) WHERE i.of IS NOT NULL AND NOT EXISTS (
            SELECT FROM runs AS o JOIN runs AS w ON w.owner = o.owner AND w.part_of IS NULL AND NOT w.ended
            WHERE o.id = i.of);
        SELECT array_agg(DISTINCT r.id) INTO raising
        FROM unnest(ns, raises, raises_parts, integrities, confidentialities, source_servers, source_tools,
            source_integrities, source_confidentialities)
            AS i (n, of, parts, label_i, label_c, s_server, s_tool, s_i, s_c)
        JOIN runs AS o ON o.id = i.of
        JOIN runs AS r ON r.id = o.id OR (r.owner = o.owner AND NOT r.ended AND (r.part_of IS NULL OR i.parts))
        LEFT JOIN run_sources AS s ON s.run = r.id AND s.server = i.s_server AND s.tool = i.s_tool
        WHERE i.n <> ALL (lost) AND (r.integrity > i.label_i OR r.confidentiality < i.label_c
            OR (i.s_server IS NOT NULL AND (s.run IS NULL OR s.integrity > i.s_i OR s.confidentiality < i.s_c)));
        -- In the order of their names, so that of two replicas one waits for the other, never each for the other.
        PERFORM FROM runs AS r WHERE r.id = ANY (raising || moving) ORDER BY r.id FOR UPDATE;
        FOR one IN
            SELECT i.*, r.id AS target
            FROM unnest(ns, raises, raises_parts, integrities, confidentialities, source_servers,
                source_tools, source_records, source_integrities, source_confidentialities)
                AS i (n, of, parts, label_i, label_c, s_server, s_tool, s_record, s_i, s_c)
            JOIN runs AS o ON o.id = i.of
            JOIN runs AS r ON r.id = o.id OR (r.owner = o.owner AND NOT r.ended AND (r.part_of IS NULL OR i.parts))
            WHERE i.n <> ALL (lost) AND r.id = ANY (raising) ORDER BY i.n, r.id
        LOOP
            IF join_1(one.target, one.label_i, one.label_c, one.s_server, one.s_tool, one.s_record, one.s_i, one.s_c) THEN
                RETURN QUERY SELECT one.n, NULL::text, one.target;
            END IF;
        END LOOP;
    END IF;

    -- What a run has read and written one gateway remembers. From its first call at another one on, neither has all of
    -- it: so much both have to know before they decide. What a part of a run sees, the whole of it does. Of two that
    -- begin with it at once the second waits here, and is compared with what the first has made of it.
    IF moving IS NOT NULL THEN
        PERFORM FROM runs AS r WHERE r.id = ANY (moving) ORDER BY r.id FOR UPDATE;
        UPDATE runs AS r SET home = coalesce(r.home, me), roamed = r.home IS NOT NULL,
            version = r.version + (r.home IS NOT NULL)::integer
        WHERE r.id = ANY (moving) AND NOT r.roamed AND r.home IS DISTINCT FROM me;
    END IF;

    -- Of what is used up, the rows are locked in that order, too, kind after kind.
    PERFORM FROM scripts AS s WHERE s.id = ANY (uses_scripts) ORDER BY s.id FOR UPDATE;
    PERFORM FROM approvals AS a WHERE a.id = ANY (uses_yeses) ORDER BY a.id FOR UPDATE;
    now_s := extract(epoch FROM clock_timestamp());

    -- Compare. A raise is committed before its result is given out, so whatever was made of that result is
    -- compared with the raise in sight; no run and no pin is locked for it.
    SELECT lost || coalesce(array_agg(j.n), '{}'), because || coalesce(array_agg(j.changed), '{}') INTO lost, because
    FROM (
        SELECT i.n, concat_ws(' ',
            CASE WHEN i.run IS NOT NULL AND NOT EXISTS (SELECT FROM runs AS r
                WHERE r.id = i.run AND r.version = i.version AND NOT r.ended AND (r.roamed OR coalesce(r.home, me) = me)) THEN 'run' END,
            CASE WHEN i.policy IS NOT NULL AND (i.policy IS DISTINCT FROM f.policy OR f.stopped IS NOT NULL) THEN 'policy' END,
            CASE WHEN i.people IS NOT NULL AND NOT EXISTS (SELECT FROM identity_version AS v
                WHERE v.people = i.people) THEN 'people' END,
            CASE WHEN i.definition IS NOT NULL AND NOT EXISTS (SELECT FROM pins AS p
                WHERE p.server = i.p_server AND p.kind = i.p_kind AND p.name = i.p_name AND p.profile = i.p_profile
                AND p.status = 'approved' AND p.approved = i.definition AND p.approved_identity = i.p_identity
                AND (p.expires_at IS NULL OR p.expires_at > now_s)) THEN 'pin' END,
            CASE WHEN i.yes IS NOT NULL AND NOT EXISTS (SELECT FROM approvals AS a
                WHERE a.id = i.yes AND a.state = 'allowed' AND a.expires_at > now_s) THEN 'approval' END,
            -- What was approved anew since an answer was given is vouched for anew, and not where it may send.
            CASE WHEN i.standing IS NOT NULL AND EXISTS (SELECT FROM unnest(string_to_array(i.standing, ' ')) AS s (id)
                WHERE NOT EXISTS (SELECT FROM standing_answers AS a JOIN pins AS p
                    ON p.server = i.p_server AND p.kind = i.p_kind AND p.name = i.p_name AND p.profile = i.p_profile
                    AND coalesce(p.approved_at, 0) <= a.given_at
                    WHERE a.id = s.id AND a.ended = '' AND a.expires_at > now_s)) THEN 'standing' END) AS changed
        FROM unnest(ns, runs_judged, versions, policies, peoples, definitions, pin_servers, pin_kinds, pin_names,
            pin_profiles, pin_identities, yeses, standings) AS i (n, run, version, policy, people, definition,
            p_server, p_kind, p_name, p_profile, p_identity, yes, standing)
        LEFT JOIN in_force AS f ON true
        WHERE i.n <> ALL (lost)
    ) AS j WHERE j.changed <> '';

    -- Whoever else has such a row is about to say the same.
    UPDATE run_owners AS o SET used_at = clock_timestamp() WHERE o.owner IN (
        SELECT u.owner FROM run_owners AS u JOIN runs AS r ON r.owner = u.owner WHERE r.id = ANY (of_runs)
            AND u.used_at < clock_timestamp() - interval '5 seconds' FOR UPDATE OF u SKIP LOCKED);

    FOR one IN SELECT i.* FROM unnest(ns, uses_scripts, uses_grants, uses_yeses) AS i (n, script, grants, yes)
        WHERE (i.script IS NOT NULL OR i.yes IS NOT NULL) AND i.n <> ALL (lost) ORDER BY i.n
    LOOP
        missing := use_1(one.script, string_to_array(one.grants, ' ')::integer[], one.yes, now_s);
        IF missing IS NOT NULL THEN
            lost := lost || one.n;
            because := because || missing;
        END IF;
    END LOOP;

    INSERT INTO tray (lane, n, part, id, time_us, kind, principal, server, target, verdict, code, run, decision_id, body)
    SELECT in_lane, i.n, (SELECT part FROM in_force), i.id, i.time_us, i.kind, i.principal, i.server, i.target,
        i.verdict, i.code, i.run, i.decision_id, i.body
    FROM unnest(ns, ids, times_us, kinds, principals, servers, targets, verdicts, codes, of_runs, decision_ids, bodies)
        AS i (n, id, time_us, kind, principal, server, target, verdict, code, run, decision_id, body)
    WHERE i.n <> ALL (lost);
    RETURN QUERY SELECT l.n, l.changed, NULL::text FROM unnest(lost, because) AS l (n, changed);
END $put$;

-- Functions are anybody's until that is taken back.
REVOKE EXECUTE ON FUNCTION join_1, use_1, put_1 FROM PUBLIC;
