-- How each gateway is configured, as far as all have to be alike. Each compares it, and nothing is decided by it.

ALTER TABLE replicas ADD COLUMN configured text NOT NULL DEFAULT '';
ALTER TABLE replicas ADD COLUMN configured_at timestamptz NOT NULL DEFAULT clock_timestamp();

-- Says how a gateway is configured, wherever it decides, and returns what each that lives has said, the oldest first.
CREATE FUNCTION configured_1(of_replica text, says text) RETURNS TABLE (gateway text, said text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    since timestamptz;
BEGIN
    SELECT min(r.configured_at) INTO since FROM replicas AS r
    WHERE starts_with(r.name, of_replica || '/') AND r.configured = says;
    UPDATE replicas AS r SET configured = says, configured_at = coalesce(since, clock_timestamp())
    WHERE starts_with(r.name, of_replica || '/') AND r.configured <> says;
    RETURN QUERY SELECT split_part(r.name, '/', 1), max(r.configured) FROM replicas AS r
    WHERE r.configured <> '' AND r.heard > clock_timestamp() - interval '10 seconds'
    GROUP BY 1 ORDER BY min(r.configured_at), 1;
END $$;
REVOKE EXECUTE ON FUNCTION configured_1 FROM PUBLIC;

CREATE OR REPLACE PROCEDURE admit_gateway_to_board_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION hear_1, configured_1, leave_1, propose_2, refuse_1, stop_1, go_1, use_proof_1, take_1, attempt_1, forgive_1, count_1, forget_1 TO %I', role_name);
    EXECUTE format('GRANT SELECT ON policies, replicas, quota_counts TO %I', role_name);
END $$;
