-- Lanes.
CREATE FUNCTION open_lane_1(of_replica text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    opened integer := nextval(pg_get_serial_sequence('lanes', 'lane'));
BEGIN
    -- The lock first: who sees a lane without one knows that its connection is gone.
    PERFORM pg_advisory_lock(854529, opened);
    INSERT INTO lanes (lane, replica) OVERRIDING SYSTEM VALUE VALUES (opened, of_replica);
    RETURN opened;
END $$;

-- Which numbers behind `after` of a lane are durable, once its connection is gone: until then a commit may be
-- under way. What was emptied from the tray meanwhile is not told, and so not known. Of a wait for a standby that was
-- given up the commit is here, and perhaps only here: this one's own commit waits for what is before it.
CREATE FUNCTION settled_1(in_lane integer, after bigint) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(854529, in_lane);
    UPDATE lanes AS l SET closed = l.closed WHERE l.lane = in_lane;
    RETURN QUERY SELECT t.n FROM tray AS t WHERE t.lane = in_lane AND t.n > after;
END $$;

-- Says whether a lane is here up to a number that was confirmed: where it is not, what is here is not what was. The
-- number of a lane that is gone may have been given once more, to another replica.
CREATE FUNCTION reaches_1(in_lane integer, number bigint, of_replica text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM lanes AS l WHERE l.lane = in_lane AND l.replica = of_replica AND (l.taken >= number
        OR EXISTS (SELECT FROM tray AS t WHERE t.lane = in_lane AND t.n = number)))
$$;

-- What a leader does. Each is one statement, and none has an effect for a token that is not the newest.
-- Whoever stands ready waits here for so long, at most until the lease ends, and leads in the moment in which the leader's
-- connection is gone.
CREATE FUNCTION lead_1(by_leader text, lease_s double precision, wait_s double precision) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    given bigint; has_it boolean := pg_try_advisory_lock(854531, 0); wait_ms integer;
BEGIN
    IF NOT has_it THEN
        SELECT 1000 * extract(epoch FROM least(until, x.at + wait_s * interval '1 s') - x.at) INTO wait_ms
        FROM tree, clock_timestamp() AS x (at) WHERE until > x.at;
        IF wait_ms > 0 THEN  -- none is for ever
            PERFORM set_config('lock_timeout', wait_ms::text, true);
            BEGIN
                PERFORM pg_advisory_lock(854531, 0);
                has_it := true;
            EXCEPTION WHEN lock_not_available THEN NULL;
            END;
        END IF;
    END IF;
    IF has_it OR EXISTS (SELECT FROM tree WHERE until < clock_timestamp()) THEN
        UPDATE tree SET token = token + 1, leader = by_leader, until = clock_timestamp() + lease_s * interval '1 s'
        RETURNING token INTO given;
    END IF;
    RETURN given;
END $$;

CREATE FUNCTION keep_1(with_token bigint, lease_s double precision) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE tree SET until = clock_timestamp() + lease_s * interval '1 s' WHERE token = with_token;
    RETURN FOUND;
END $$;

-- Moves records from the tray into the log, in the order given, behind the first `from_size`. `roots` are of
-- the tiles that they complete.
CREATE FUNCTION take_in_1(with_token bigint, from_size bigint, in_lanes integer[], ns bigint[], roots bytea[])
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moved bigint; due bigint;
BEGIN
    UPDATE tree SET size = from_size + cardinality(ns) WHERE size = from_size AND token = with_token;
    IF NOT FOUND THEN RETURN false; END IF;
    SELECT count(*) INTO due FROM (
        SELECT i.lane, max(i.n) AS newest FROM unnest(in_lanes, ns) AS i (lane, n) GROUP BY i.lane) AS x
    JOIN lanes AS l USING (lane) JOIN tray AS t ON t.lane = x.lane AND t.n > l.taken AND t.n <= x.newest;
    INSERT INTO audit (leaf_index, id, time_us, kind, principal, server, target, verdict, code, run, decision_id,
        leaf_hash, lane, n, body)
    SELECT from_size + i.place - 1, t.id, t.time_us, t.kind, t.principal, t.server, t.target, t.verdict, t.code,
        t.run, t.decision_id, sha256('\x00'::bytea || t.body), t.lane, t.n, t.body
    FROM unnest(in_lanes, ns) WITH ORDINALITY AS i (lane, n, place)
    JOIN lanes AS l ON l.lane = i.lane AND i.n > l.taken
    JOIN tray AS t ON t.lane = i.lane AND t.n = i.n ORDER BY i.place;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved <> cardinality(ns) OR moved <> due
        OR cardinality(roots) <> (from_size + moved) / 256 - from_size / 256 THEN
        RAISE EXCEPTION 'asked to take in % records and % tiles: there are % of % due', cardinality(ns),
            cardinality(roots), moved, due;
    END IF;
    INSERT INTO tiles SELECT from_size / 256 + i.place - 1, i.root FROM unnest(roots) WITH ORDINALITY AS i (root, place);
    UPDATE lanes AS l SET taken = x.newest
    FROM (SELECT i.lane, max(i.n) AS newest FROM unnest(in_lanes, ns) AS i (lane, n) GROUP BY i.lane) AS x
    WHERE l.lane = x.lane;
    RETURN true;
END $$;

CREATE FUNCTION sign_1(with_token bigint, of_size bigint, of_note text, of_previous bigint, of_link text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM FROM tree WHERE token = with_token AND size = of_size FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO checkpoints (size, note, previous, link) VALUES (of_size, of_note, of_previous, of_link);
    RETURN true;
END $$;

-- Closes lanes whose connection is gone and of which all is taken: nothing can come of them any more. The lock
-- first, then the look: a commit that was under way is seen by then.
CREATE FUNCTION close_lanes_1(with_token bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    one integer; closing integer := 0;
BEGIN
    FOR one IN SELECT lane FROM lanes WHERE NOT closed ORDER BY lane LOOP
        IF pg_try_advisory_xact_lock(854529, one) THEN
            UPDATE lanes AS l SET closed = true WHERE l.lane = one
                AND EXISTS (SELECT FROM tree WHERE token = with_token)
                AND NOT EXISTS (SELECT FROM tray AS t WHERE t.lane = one AND t.n > l.taken);
            closing := closing + FOUND::integer;
        END IF;
    END LOOP;
    RETURN closing;
END $$;

-- Has the next part of the tray filled, and empties the one after it, which was filled longest ago.
CREATE FUNCTION turn_tray_1(with_token bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    stale smallint; waits boolean;
BEGIN
    PERFORM FROM tree WHERE token = with_token FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    SELECT (part + 2) % 3 INTO stale FROM in_force;
    -- The lock first: whoever was still writing into it has committed by then, and is seen.
    EXECUTE format('LOCK TABLE tray_%s IN ACCESS EXCLUSIVE MODE', stale);
    EXECUTE format('SELECT EXISTS (SELECT FROM tray_%s AS t JOIN lanes AS l USING (lane) WHERE t.n > l.taken)', stale) INTO waits;
    IF waits THEN RETURN false; END IF;
    EXECUTE format('TRUNCATE tray_%s', stale);
    UPDATE in_force SET part = (part + 1) % 3;
    RETURN true;
END $$;

-- Makes room for further leaves ahead of them. A partition that is attached lets readers go on.
CREATE FUNCTION make_room_1() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    part bigint;
BEGIN
    FOR part IN SELECT p FROM tree, generate_series(size / 262144, size / 262144 + 1) AS p LOOP
        IF to_regclass(format('audit_%s', part)) IS NULL THEN
            EXECUTE format('CREATE TABLE audit_%s (LIKE audit INCLUDING ALL)', part);
            EXECUTE format('ALTER TABLE audit ATTACH PARTITION audit_%s FOR VALUES FROM (%s) TO (%s)',
                part, part * 262144, (part + 1) * 262144);
        END IF;
    END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION open_lane_1, settled_1, reaches_1, lead_1, keep_1, take_in_1, sign_1, close_lanes_1, turn_tray_1, make_room_1 FROM PUBLIC;

-- Rights, for whoever owns the tables to give: what a gateway may do, and what whoever orders the log may.
-- Neither has a right to change a record, or to add one that was not compared.
CREATE PROCEDURE admit_gateway_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION put_1, open_lane_1, settled_1, reaches_1 TO %I', role_name);
    EXECUTE format('GRANT SELECT ON audit, tiles, checkpoints, cosignatures, log_front, meta, tree, in_force TO %I', role_name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON runs, run_sources, run_owners TO %I', role_name);
END $$;
CREATE PROCEDURE admit_sequencer_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION lead_1, keep_1, take_in_1, sign_1, close_lanes_1, turn_tray_1, make_room_1 TO %I', role_name);
    EXECUTE format('GRANT SELECT ON lanes, tray, audit, tiles, checkpoints, cosignatures, log_front, meta, tree TO %I', role_name);
END $$;
REVOKE EXECUTE ON PROCEDURE admit_gateway_1, admit_sequencer_1 FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION stays FROM PUBLIC;
