-- Who may do what, where gateways are not who owns the tables. It comes after all other scripts.

-- What ends with a right, and what is counted then, a gateway does not do itself.
ALTER FUNCTION turn_identity() SECURITY DEFINER SET search_path = public, pg_temp;
ALTER FUNCTION turn_people() SECURITY DEFINER SET search_path = public, pg_temp;
ALTER FUNCTION end_answers_of_grant() SECURITY DEFINER SET search_path = public, pg_temp;
ALTER FUNCTION end_answers_of_client() SECURITY DEFINER SET search_path = public, pg_temp;
ALTER FUNCTION end_answers_of_removed() SECURITY DEFINER SET search_path = public, pg_temp;
ALTER FUNCTION end_answers_of_disabled() SECURITY DEFINER SET search_path = public, pg_temp;

-- People, clients and keys: what of them ends is deleted, and how often it did is only read.
CREATE PROCEDURE admit_identity_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON clients, users, links, sessions, transactions, consents, grants,'
        ' codes, refresh_tokens, devices, revoked_tokens, assertions, data_keys, signing_keys, connections, registrations,'
        ' keys, disclosures, standing_answers TO %I', role_name);
    EXECUTE format('GRANT SELECT ON identity_version, schema_migrations, moving TO %I', role_name);
END $$;

-- All that a gateway does, but to remove records.
CREATE PROCEDURE admit_runtime_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    CALL admit_identity_1(role_name);
    CALL admit_gateway_1(role_name);
    CALL admit_sequencer_1(role_name);
    CALL admit_state_1(role_name);
    CALL admit_gateway_to_board_1(role_name);
    CALL admit_reader_1(role_name);
END $$;

-- What was archived only whoever keeps the archive can say, and with that have it removed: nobody who is a gateway
-- needs to.
CREATE PROCEDURE admit_keeper_1(role_name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT INSERT ON archives TO %I', role_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION prune_1 TO %I', role_name);
END $$;
REVOKE EXECUTE ON PROCEDURE admit_identity_1, admit_runtime_1, admit_keeper_1 FROM PUBLIC;
