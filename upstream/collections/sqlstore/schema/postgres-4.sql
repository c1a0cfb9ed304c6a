-- One row per collection. The key is the address in lower case. It identifies
-- the row and breaks ties. Responses have the address as it was given.
-- The collation "C" compares keys by byte, as SQLite does.
CREATE TABLE collections (
    key                     text COLLATE "C" NOT NULL PRIMARY KEY,
    address                 text        NOT NULL,
    asset_count             bigint      NOT NULL,
    licenses_count          bigint      NOT NULL,
    raised_dispute_count    bigint      NOT NULL,
    cancelled_dispute_count bigint      NOT NULL,
    judged_dispute_count    bigint      NOT NULL,
    resolved_dispute_count  bigint      NOT NULL,
    created_at              timestamptz NOT NULL,
    updated_at              timestamptz NOT NULL
);

-- In both directions, ties are sorted by ascending key. An index that is read
-- backwards would reverse them, so each direction has its own index. All indexes
-- have asset_count, so that a page with a filter is found without the table.
CREATE INDEX collections_updated_asc   ON collections (updated_at, key) INCLUDE (asset_count);
CREATE INDEX collections_updated_desc  ON collections (updated_at DESC, key) INCLUDE (asset_count);
CREATE INDEX collections_assets_asc    ON collections (asset_count, key);
CREATE INDEX collections_assets_desc   ON collections (asset_count DESC, key);
CREATE INDEX collections_licenses_asc  ON collections (licenses_count, key) INCLUDE (asset_count);
CREATE INDEX collections_licenses_desc ON collections (licenses_count DESC, key) INCLUDE (asset_count);

-- Counting a million rows takes longer than reading a page of them, so the
-- total is stored. Triggers update it for every writer, including psql.
CREATE TABLE collections_state (
    id         integer NOT NULL PRIMARY KEY CHECK (id = 1),
    generation bigint  NOT NULL, -- grows with every change
    total      bigint  NOT NULL  -- rows in collections
);
INSERT INTO collections_state VALUES (1, 1, 0);

CREATE FUNCTION collections_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    rows bigint;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE collections_state SET generation = generation + 1, total = 0;
        RETURN NULL;
    END IF;
    SELECT count(*) INTO rows FROM changed;
    IF rows > 0 THEN
        UPDATE collections_state SET
            generation = generation + 1,
            total = total + CASE TG_OP WHEN 'INSERT' THEN rows WHEN 'DELETE' THEN -rows ELSE 0 END;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER collections_inserted AFTER INSERT ON collections
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION collections_changed();
CREATE TRIGGER collections_updated AFTER UPDATE ON collections
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION collections_changed();
CREATE TRIGGER collections_deleted AFTER DELETE ON collections
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION collections_changed();
CREATE TRIGGER collections_truncated AFTER TRUNCATE ON collections
    FOR EACH STATEMENT EXECUTE FUNCTION collections_changed();

-- The last block of the chain whose events are counted. The table has at most
-- one row, and none before the first block. The transaction that counts events
-- also moves the cursor.
CREATE TABLE index_cursor (
    id       integer     NOT NULL PRIMARY KEY CHECK (id = 1),
    chain_id bigint      NOT NULL,
    block    bigint      NOT NULL,
    hash     bytea       NOT NULL,
    time     timestamptz NOT NULL, -- of the block
    -- The contracts whose events are counted: IPAssetRegistry, LicensingModule and
    -- DisputeModule, 20 bytes each.
    contracts bytea NOT NULL
);

-- The collections of IP accounts (by address) and of disputes (by 32-byte id).
-- Later events name only the account or the dispute.
CREATE TABLE index_ips (
    ip         bytea NOT NULL PRIMARY KEY,
    collection bytea NOT NULL
);
CREATE TABLE index_disputes (
    dispute    bytea NOT NULL PRIMARY KEY,
    collection bytea NOT NULL
);

-- The latest moves of the cursor over blocks without counted events: to block,
-- from from_block. If a block's hash proves to be wrong, the cursor goes back
-- along moves that follow one another. Counting an event deletes all moves,
-- because counts cannot be undone.
CREATE TABLE index_steps (
    block      bigint      NOT NULL PRIMARY KEY,
    hash       bytea       NOT NULL,
    from_block bigint      NOT NULL,
    from_hash  bytea       NOT NULL,
    from_time  timestamptz NOT NULL
);
