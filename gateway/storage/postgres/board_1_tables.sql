-- What every gateway has to have alike: which policy is in force, whether everything is stopped, and what is used
-- up by whoever is first. It comes after the tables of identity and of the log, in the same database.

ALTER TABLE in_force ADD COLUMN revision bigint NOT NULL DEFAULT 0;     -- how often another policy came into force
ALTER TABLE in_force ADD COLUMN proposed text NOT NULL DEFAULT '';      -- the digest of the one that is to be next
ALTER TABLE in_force ADD COLUMN stopped text;                           -- who stopped everything, as JSON

-- The text of each policy that was proposed, with the data it decides by: whoever has none of it makes it of this.
CREATE TABLE policies (
    digest text PRIMARY KEY, content bytea NOT NULL, proposed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    in_force_at timestamptz, problem text NOT NULL DEFAULT ''
);

-- Gateways that live. Whoever was not heard of for some seconds is waited for no more; it decides nothing that
-- counts before it has what is in force by then.
CREATE TABLE replicas (
    name text PRIMARY KEY, began timestamptz NOT NULL DEFAULT clock_timestamp(),
    heard timestamptz NOT NULL DEFAULT clock_timestamp(), decides text NOT NULL DEFAULT '', prepared text NOT NULL DEFAULT ''
);

-- Says that a replica lives, by which policy it decides, and which it could decide by; what was proposed comes into
-- force with whoever is last to have it. Returns what is in force then.
CREATE FUNCTION hear_1(of_replica text, decides_by text, has_prepared text, OUT policy text, OUT revision bigint,
    OUT proposed text, OUT stopped text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
BEGIN
    INSERT INTO replicas AS r (name, decides, prepared) VALUES (of_replica, decides_by, has_prepared)
    ON CONFLICT (name) DO UPDATE SET heard = clock_timestamp(), decides = decides_by, prepared = has_prepared
    WHERE r.decides <> decides_by OR r.prepared <> has_prepared OR r.heard < clock_timestamp() - interval '1 second';
    UPDATE in_force AS f SET policy = f.proposed, revision = f.revision + 1, proposed = ''
    WHERE f.proposed <> '' AND f.proposed = has_prepared AND NOT EXISTS (SELECT FROM replicas AS r
        WHERE r.heard > clock_timestamp() - interval '10 seconds' AND r.prepared <> f.proposed);
    IF FOUND THEN
        UPDATE policies AS p SET in_force_at = clock_timestamp() WHERE p.digest = has_prepared;
    END IF;
    SELECT f.policy, f.revision, f.proposed, f.stopped INTO policy, revision, proposed, stopped FROM in_force AS f;
END $$;

-- Waits for a replica no more.
CREATE FUNCTION leave_1(of_replica text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM replicas WHERE name = of_replica
$$;

-- Has a policy be the next one, unless it is in force; `anew` whether it may be one that another has replaced.
CREATE FUNCTION propose_1(of_digest text, of_content bytea, anew boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
BEGIN
    INSERT INTO policies (digest, content) VALUES (of_digest, of_content) ON CONFLICT DO NOTHING;
    IF NOT anew AND EXISTS (SELECT FROM policies AS p JOIN in_force AS f ON f.policy <> p.digest
        WHERE p.digest = of_digest AND p.in_force_at IS NOT NULL) THEN
        RETURN false;
    END IF;
    UPDATE policies AS p SET problem = '' WHERE p.digest = of_digest AND p.problem <> '';
    UPDATE in_force AS f SET proposed = CASE WHEN f.policy = of_digest THEN '' ELSE of_digest END
    WHERE anew OR f.policy <> of_digest;
    RETURN true;
END $$;

-- Says why a policy that was proposed cannot come into force here, and so nowhere.
CREATE FUNCTION refuse_1(of_digest text, because text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
BEGIN
    UPDATE in_force AS f SET proposed = '' WHERE f.proposed = of_digest;
    IF FOUND THEN
        UPDATE policies AS p SET problem = because WHERE p.digest = of_digest;
    END IF;
END $$;

-- Stops everything, or ends that.
CREATE FUNCTION stop_1(by_whom text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
    UPDATE in_force SET stopped = by_whom
$$;
-- Ends the stop that whoever ends it has seen, and no later one.
CREATE FUNCTION go_1(seen text) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
    UPDATE in_force SET stopped = CASE WHEN stopped = seen THEN NULL ELSE stopped END RETURNING stopped
$$;

-- What is used up by whoever is first. These are not in the write-ahead log: a crash of the server or a failover
-- empties them, and from then on each says no to what it cannot know of.

-- Proofs of possession that were used. What was made before this memory began may have been used.
CREATE UNLOGGED TABLE seen_proofs (use bytea PRIMARY KEY, until double precision NOT NULL);
CREATE INDEX seen_proofs_by_end ON seen_proofs (until);
CREATE UNLOGGED TABLE seen_proofs_began (one boolean PRIMARY KEY DEFAULT true CHECK (one), at double precision NOT NULL);
INSERT INTO seen_proofs_began (at) VALUES (0);

-- Uses up a proof. NULL if it was not used before; else why it is no good. Who says when it was made does so in
-- whole seconds.
CREATE FUNCTION use_proof_1(of_use bytea, made_at double precision, good_until double precision, now_s double precision)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = off AS $$
BEGIN
    INSERT INTO seen_proofs_began (at) VALUES (floor(now_s)) ON CONFLICT DO NOTHING;
    IF EXISTS (SELECT FROM seen_proofs_began WHERE at > made_at) THEN
        RETURN 'made before the memory of used proofs began';
    END IF;
    INSERT INTO seen_proofs (use, until) VALUES (of_use, good_until) ON CONFLICT DO NOTHING;
    RETURN CASE WHEN FOUND THEN NULL ELSE 'used before' END;
END $$;

-- Buckets that fill evenly, by the database's clock. One that is not there is full.
CREATE UNLOGGED TABLE portions (
    key bytea PRIMARY KEY, level double precision NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp(), size double precision NOT NULL,
    per_s double precision NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX portions_by_use ON portions (at);
CREATE UNLOGGED TABLE portions_began (one boolean PRIMARY KEY DEFAULT true CHECK (one), at timestamptz NOT NULL DEFAULT clock_timestamp());
INSERT INTO portions_began (at) VALUES ('epoch');

-- Puts back what is unused, takes up to so many of what is in a bucket of `of_size`, and returns how many, and what
-- is left. A bucket that
-- nobody knows of is empty where the table has just begun, as whoever emptied it may have done so right before.
CREATE FUNCTION take_1(of_key bytea, of_size double precision, in_s double precision, wanted double precision,
    unused double precision, OUT taken double precision, OUT level double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = off AS $$
DECLARE
    now_at timestamptz; full_since double precision;
BEGIN
    INSERT INTO portions_began DEFAULT VALUES ON CONFLICT DO NOTHING;
    SELECT extract(epoch FROM clock_timestamp() - b.at) INTO full_since FROM portions_began AS b;
    LOOP
        INSERT INTO portions AS p (key, level, size, per_s) VALUES (of_key, least(of_size, full_since * of_size / in_s), of_size, of_size / in_s)
        ON CONFLICT DO NOTHING;
        -- Whoever waited for the row looks at the clock after that. It may be forgotten by then.
        PERFORM FROM portions AS p WHERE p.key = of_key FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    now_at := clock_timestamp();
    UPDATE portions AS p SET size = of_size, per_s = of_size / in_s, at = greatest(p.at, now_at),
        level = least(of_size, p.level + unused + greatest(0, extract(epoch FROM now_at - p.at)) * of_size / in_s)
    WHERE p.key = of_key RETURNING p.level INTO level;
    taken := greatest(0, least(wanted, floor(level)));
    UPDATE portions AS p SET level = p.level - taken WHERE p.key = of_key RETURNING p.level INTO level;
END $$;

-- Attempts to guess, by what is guessed and from where: on the disk, as a guesser may gain by what is forgotten.
CREATE TABLE attempts (key bytea PRIMARY KEY, times double precision[] NOT NULL DEFAULT '{}');

-- Counts an attempt under each key, unless under one of them there were as many as are allowed. Returns for how
-- many seconds to wait, or 0.
CREATE FUNCTION attempt_1(keys bytea[], allowed integer[], window_s double precision) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
DECLARE
    wait_s double precision; now_s double precision;
BEGIN
    LOOP
        INSERT INTO attempts (key) SELECT k FROM unnest(keys) AS k ORDER BY k ON CONFLICT DO NOTHING;
        PERFORM FROM attempts AS a WHERE a.key = ANY (keys) ORDER BY a.key FOR UPDATE;
        -- One may be forgotten before it is locked.
        EXIT WHEN NOT EXISTS (SELECT FROM unnest(keys) AS k WHERE k NOT IN (SELECT a.key FROM attempts AS a WHERE a.key = ANY (keys)));
    END LOOP;
    now_s := extract(epoch FROM clock_timestamp());
    -- The oldest of the last so many says when there is room again.
    SELECT max(a.times[cardinality(a.times) - k.most + 1] + window_s - now_s) INTO wait_s
    FROM unnest(keys, allowed) AS k (key, most) JOIN attempts AS a USING (key) WHERE cardinality(a.times) >= k.most;
    IF wait_s > 0 THEN RETURN ceil(wait_s); END IF;
    UPDATE attempts AS a SET times = ARRAY(SELECT t FROM unnest(a.times) AS t WHERE t > now_s - window_s ORDER BY t) || now_s
    WHERE a.key = ANY (keys);
    RETURN 0;
END $$;

-- Takes the latest attempt under each key back.
CREATE FUNCTION forgive_1(keys bytea[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
BEGIN
    PERFORM FROM attempts AS a WHERE a.key = ANY (keys) ORDER BY a.key FOR UPDATE;
    UPDATE attempts AS a SET times = a.times[:cardinality(a.times) - 1] WHERE a.key = ANY (keys);
END $$;

-- What is used of quotas in the span that each is in; of calls under way, by the gateway that carries them.
CREATE TABLE quota_counts (
    quota text NOT NULL, under bytea NOT NULL, replica text NOT NULL, begins bigint NOT NULL, used bigint NOT NULL,
    PRIMARY KEY (quota, under, replica)
) WITH (fillfactor = 50);

-- Adds to counts, all or none: none if one would be more than it may. What a gateway carried that was not heard of
-- for a while has ended. Returns how much there is of each, and whether it fits.
CREATE FUNCTION count_1(of_replica text, quotas text[], unders bytea[], all_begin bigint[], amounts bigint[], mosts bigint[])
RETURNS TABLE (place bigint, used bigint, fits boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
#variable_conflict use_column
BEGIN
    -- One after the other for each count, in one order: each statement looks anew at what is committed by then.
    PERFORM pg_advisory_xact_lock(854536, k.key) FROM (
        SELECT DISTINCT hashtext(i.quota || ' ' || encode(i.under, 'hex')) AS key
        FROM unnest(quotas, unders) AS i (quota, under) ORDER BY 1) AS k;
    RETURN QUERY WITH known AS MATERIALIZED (
        SELECT u.*, a.already, u.most IS NULL OR a.already + u.amount <= u.most AS fits
        FROM unnest(quotas, unders, all_begin, amounts, mosts) WITH ORDINALITY AS u (quota, under, begins, amount, most, place)
        CROSS JOIN LATERAL (SELECT coalesce(sum(c.used), 0)::bigint AS already FROM quota_counts AS c
            WHERE c.quota = u.quota AND c.under = u.under AND c.begins >= u.begins
                AND (c.replica IN ('', of_replica) OR EXISTS (SELECT FROM replicas AS r
                    WHERE starts_with(r.name, c.replica || '/') AND r.heard > clock_timestamp() - interval '10 seconds'))) AS a
    ), added AS (
        INSERT INTO quota_counts AS c (quota, under, replica, begins, used)
        SELECT k.quota, k.under, CASE WHEN k.begins = 0 THEN of_replica ELSE '' END, k.begins, k.amount
        FROM known AS k WHERE k.amount >= 0 AND (SELECT bool_and(fits) FROM known)
        ON CONFLICT (quota, under, replica) DO UPDATE SET begins = greatest(c.begins, excluded.begins),
            used = CASE WHEN c.begins < excluded.begins THEN excluded.used ELSE c.used + excluded.used END
    ), given_back AS (
        UPDATE quota_counts AS c SET used = greatest(0, c.used + k.amount) FROM known AS k
        WHERE k.amount < 0 AND c.quota = k.quota AND c.under = k.under AND c.begins = k.begins
            AND c.replica = CASE WHEN k.begins = 0 THEN of_replica ELSE '' END
    )
    SELECT k.place, k.already + CASE WHEN (SELECT bool_and(fits) FROM known) THEN k.amount ELSE 0 END, k.fits FROM known AS k;
END $$;

-- Forgets what counts no more: proofs that nobody can come with, and buckets that are full.
CREATE FUNCTION forget_1(proofs_until double precision) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = off AS $$
BEGIN
    DELETE FROM seen_proofs WHERE until < proofs_until;
    DELETE FROM portions AS p WHERE p.at < clock_timestamp() - interval '1 second' * p.size / p.per_s;
    DELETE FROM attempts WHERE coalesce(times[cardinality(times)], 0) < extract(epoch FROM clock_timestamp()) - 86400;
    DELETE FROM quota_counts WHERE used = 0 OR (replica <> '' AND NOT EXISTS (SELECT FROM replicas AS r
        WHERE starts_with(r.name, quota_counts.replica || '/') AND r.heard > clock_timestamp() - interval '1 hour'));
    DELETE FROM replicas WHERE heard < clock_timestamp() - interval '1 day';
END $$;

REVOKE EXECUTE ON FUNCTION hear_1, leave_1, propose_1, refuse_1, stop_1, go_1, use_proof_1, take_1, attempt_1, forgive_1, count_1, forget_1 FROM PUBLIC;

-- Rights, for whoever owns the tables to give, beside those that the log gives.
CREATE PROCEDURE admit_gateway_to_board_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION hear_1, leave_1, propose_1, refuse_1, stop_1, go_1, use_proof_1, take_1, attempt_1, forgive_1, count_1, forget_1 TO %I', role_name);
    EXECUTE format('GRANT SELECT ON policies, replicas, quota_counts TO %I', role_name);
END $$;
REVOKE EXECUTE ON PROCEDURE admit_gateway_to_board_1 FROM PUBLIC;
