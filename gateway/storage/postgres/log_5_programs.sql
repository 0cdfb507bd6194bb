-- What a host's program has read, in whichever run: it goes with it into each that it calls in. It stands in the run that is
-- named, or in none alone where that is empty.
ALTER TABLE scripts
    ADD COLUMN seen_in text, ADD COLUMN seen_integrity smallint, ADD COLUMN seen_confidentiality smallint;
