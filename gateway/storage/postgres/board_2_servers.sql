-- Servers that were registered at run time are in force with a policy: what is in force is called by both, the
-- policy's digest and, after a `+`, that of what is registered. Where nothing is, by the policy's alone.

-- Has a policy be the next one with what is registered, unless both are in force. False if the policy was in force
-- before another one, and this is not said `anew`. NULL if what is registered is not what `over` names: whoever
-- registers goes on from that, and whoever changes a policy leaves it.
CREATE FUNCTION propose_2(of_digest text, of_content bytea, over text, anew boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET synchronous_commit = on AS $$
DECLARE
    holds text;
BEGIN
    -- Of two who register at once the second waits here, and finds what the first has made of it.
    SELECT f.policy INTO holds FROM in_force AS f FOR UPDATE;
    IF split_part(holds, '+', 2) <> over THEN
        RETURN NULL;
    END IF;
    INSERT INTO policies (digest, content) VALUES (of_digest, of_content) ON CONFLICT DO NOTHING;
    IF NOT anew AND split_part(holds, '+', 1) <> split_part(of_digest, '+', 1) AND EXISTS (SELECT FROM policies AS p
        WHERE split_part(p.digest, '+', 1) = split_part(of_digest, '+', 1) AND p.in_force_at IS NOT NULL) THEN
        RETURN false;
    END IF;
    UPDATE policies AS p SET problem = '' WHERE p.digest = of_digest AND p.problem <> '';
    UPDATE in_force AS f SET proposed = CASE WHEN f.policy = of_digest THEN '' ELSE of_digest END
    WHERE anew OR f.policy <> of_digest;
    RETURN true;
END $$;
REVOKE EXECUTE ON FUNCTION propose_2 FROM PUBLIC;
-- It knows nothing of what is registered, and would take it out of force with a policy.
DROP FUNCTION propose_1;

CREATE OR REPLACE PROCEDURE admit_gateway_to_board_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION hear_1, leave_1, propose_2, refuse_1, stop_1, go_1, use_proof_1, take_1, attempt_1, forgive_1, count_1, forget_1 TO %I', role_name);
    EXECUTE format('GRANT SELECT ON policies, replicas, quota_counts TO %I', role_name);
END $$;
