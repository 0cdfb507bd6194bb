-- By what a look at a run is known, until something comes into it, also what it has read before: whoever vouches for a
-- run has seen all that it has read. That is not in the write-ahead log, so no read waits for it; a crash of the server
-- or a failover empties it, and whoever looked before that looks again.
CREATE UNLOGGED TABLE run_looks (
    run text PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE, name text NOT NULL
);

CREATE OR REPLACE PROCEDURE admit_gateway_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT EXECUTE ON FUNCTION put_1, open_lane_1, settled_1, reaches_1 TO %I', role_name);
    EXECUTE format('GRANT SELECT ON audit, tiles, checkpoints, cosignatures, log_front, meta, tree, in_force TO %I', role_name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON runs, run_sources, run_owners TO %I', role_name);
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON run_looks TO %I', role_name);
END $$;
