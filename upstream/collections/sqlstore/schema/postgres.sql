-- One row per collection. The key is the address in lower case: it names the
-- row and breaks ties, while the address comes out as it was given. The
-- collation "C" makes ties break by byte, as everywhere else.
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

-- Ties ascend in both directions, so a direction cannot be the other one read
-- backwards: each has its index. They carry asset_count so that a page is found,
-- filter included, without touching the table.
CREATE INDEX collections_updated_asc   ON collections (updated_at, key) INCLUDE (asset_count);
CREATE INDEX collections_updated_desc  ON collections (updated_at DESC, key) INCLUDE (asset_count);
CREATE INDEX collections_assets_asc    ON collections (asset_count, key);
CREATE INDEX collections_assets_desc   ON collections (asset_count DESC, key);
CREATE INDEX collections_licenses_asc  ON collections (licenses_count, key) INCLUDE (asset_count);
CREATE INDEX collections_licenses_desc ON collections (licenses_count DESC, key) INCLUDE (asset_count);

-- Counting a million rows takes longer than reading a page of them, so the
-- count is kept. Triggers keep it right whoever writes, a shell included.
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

-- The last block of the chain whose events are counted: one row once there is
-- one. It moves in the transaction that counts them.
CREATE TABLE index_cursor (
    id       integer     NOT NULL PRIMARY KEY CHECK (id = 1),
    chain_id bigint      NOT NULL,
    block    bigint      NOT NULL,
    hash     bytea       NOT NULL,
    time     timestamptz NOT NULL, -- the block's
    -- The contracts whose events are counted, 20 bytes each: IPAssetRegistry,
    -- LicensingModule, DisputeModule.
    contracts bytea NOT NULL,
    -- An execution client left logs out after others of its logs had been counted.
    incomplete boolean NOT NULL
);

-- The collections of IP accounts, by address, and of disputes, by 32-byte id.
-- Later events carry only these.
CREATE TABLE index_ips (
    ip         bytea NOT NULL PRIMARY KEY,
    collection bytea NOT NULL
);
CREATE TABLE index_disputes (
    dispute    bytea NOT NULL PRIMARY KEY,
    collection bytea NOT NULL
);

-- The cursor's latest moves over blocks that counted nothing: where to, and where
-- from. It can go back as far as they follow one another, should a block's hash
-- turn out to have been wrong. What counts something ends them.
CREATE TABLE index_steps (
    block      bigint      NOT NULL PRIMARY KEY,
    hash       bytea       NOT NULL,
    from_block bigint      NOT NULL,
    from_hash  bytea       NOT NULL,
    from_time  timestamptz NOT NULL
);
