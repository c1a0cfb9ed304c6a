-- Random texts: one of this store, and one of its content. Generations occur
-- again in another store, and after a failover that loses transactions.
ALTER TABLE collections_state
    ADD COLUMN store    text NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN revision text NOT NULL DEFAULT gen_random_uuid(); -- new with each generation

CREATE FUNCTION collections_revised() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision = gen_random_uuid();
    RETURN NEW;
END $$;

CREATE TRIGGER collections_revised BEFORE UPDATE OF generation ON collections_state
    FOR EACH ROW EXECUTE FUNCTION collections_revised();
