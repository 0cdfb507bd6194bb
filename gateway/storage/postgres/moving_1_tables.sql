-- Whether gateways may join: what is moved into this database and is not all here, or was moved out of it.
CREATE TABLE moving (
    one boolean PRIMARY KEY DEFAULT true CHECK (one), way text NOT NULL CHECK (way IN ('coming', 'gone')),
    move text NOT NULL, log_id text NOT NULL, other text NOT NULL, at double precision NOT NULL
);

-- Nobody appends while it says so, whichever version they are: the lane's lock is taken before this looks, and
-- whoever marks the database looks for those locks after that.
CREATE FUNCTION no_lane_while_moved() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM moving) THEN
        RAISE EXCEPTION 'what is in this database is being moved, or was moved away';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER no_lane_while_moved AFTER INSERT ON lanes FOR EACH STATEMENT EXECUTE FUNCTION no_lane_while_moved();
REVOKE EXECUTE ON FUNCTION no_lane_while_moved FROM PUBLIC;

-- Checkpoints from before there were links have none.
ALTER TABLE checkpoints ALTER COLUMN previous DROP NOT NULL, ALTER COLUMN link DROP NOT NULL;
