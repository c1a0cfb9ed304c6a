-- Random texts: one of this store, and one of its content. Generations occur
-- again in another store.
ALTER TABLE collections_state ADD COLUMN store    TEXT NOT NULL DEFAULT '';
ALTER TABLE collections_state ADD COLUMN revision TEXT NOT NULL DEFAULT ''; -- new with each generation
UPDATE collections_state SET store = hex(randomblob(16)), revision = hex(randomblob(16));

CREATE TRIGGER collections_revised AFTER UPDATE OF generation ON collections_state BEGIN
    UPDATE collections_state SET revision = hex(randomblob(16));
END;
