-- A standby that takes over may lack what was confirmed, and counts on from an older number: that would stand for other
-- changes, and whoever has followed the former would see neither that those are gone nor that these have come. So each
-- life begins far from wherever another one can have been.

-- Until here nobody has followed what another life has counted.
INSERT INTO server_life DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE FUNCTION begin_far_away() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    far bigint := (2 ^ 32 + random() * 2 ^ 40)::bigint;
BEGIN
    UPDATE identity_version SET version = version + far, people = people + far;
    RETURN NULL;
END $$;
CREATE TRIGGER lives_begin_far_away AFTER INSERT ON server_life FOR EACH ROW EXECUTE FUNCTION begin_far_away();

-- No connection outlives its server's life: nobody puts anything in one that has not begun.
CREATE FUNCTION begin_life() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM life_1();
    RETURN NULL;
END $$;
CREATE TRIGGER lanes_are_of_a_life BEFORE INSERT ON lanes FOR EACH STATEMENT EXECUTE FUNCTION begin_life();
REVOKE EXECUTE ON FUNCTION begin_far_away, begin_life FROM PUBLIC;
