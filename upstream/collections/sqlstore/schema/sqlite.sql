-- One row per collection. The key is the address in lower case: it names the
-- row and breaks ties, while the address comes out as it was given.
-- Times are microseconds since 1970, UTC.
CREATE TABLE collections (
    key                     TEXT    NOT NULL PRIMARY KEY,
    address                 TEXT    NOT NULL,
    asset_count             INTEGER NOT NULL,
    licenses_count          INTEGER NOT NULL,
    raised_dispute_count    INTEGER NOT NULL,
    cancelled_dispute_count INTEGER NOT NULL,
    judged_dispute_count    INTEGER NOT NULL,
    resolved_dispute_count  INTEGER NOT NULL,
    created_at              INTEGER NOT NULL,
    updated_at              INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Ties ascend in both directions, so a direction cannot be the other one read
-- backwards: each has its index. They carry asset_count so that a page is found,
-- filter included, without touching the table.
CREATE INDEX collections_updated_asc   ON collections (updated_at, key, asset_count);
CREATE INDEX collections_updated_desc  ON collections (updated_at DESC, key, asset_count);
CREATE INDEX collections_assets_asc    ON collections (asset_count, key);
CREATE INDEX collections_assets_desc   ON collections (asset_count DESC, key);
CREATE INDEX collections_licenses_asc  ON collections (licenses_count, key, asset_count);
CREATE INDEX collections_licenses_desc ON collections (licenses_count DESC, key, asset_count);

-- Counting a million rows takes longer than reading a page of them, so the
-- count is kept. Triggers keep it right whoever writes, a shell included.
CREATE TABLE collections_state (
    id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL, -- grows with every change
    total      INTEGER NOT NULL  -- rows in collections
) STRICT;
INSERT INTO collections_state VALUES (1, 1, 0);

CREATE TRIGGER collections_inserted AFTER INSERT ON collections BEGIN
    UPDATE collections_state SET generation = generation + 1, total = total + 1;
END;
CREATE TRIGGER collections_updated AFTER UPDATE ON collections BEGIN
    UPDATE collections_state SET generation = generation + 1;
END;
CREATE TRIGGER collections_deleted AFTER DELETE ON collections BEGIN
    UPDATE collections_state SET generation = generation + 1, total = total - 1;
END;

-- The last block of the chain whose events are counted: one row once there is
-- one. It moves in the transaction that counts them.
CREATE TABLE index_cursor (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    chain_id INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    time     INTEGER NOT NULL, -- the block's, microseconds since 1970, UTC
    -- The contracts whose events are counted, 20 bytes each: IPAssetRegistry,
    -- LicensingModule, DisputeModule.
    contracts BLOB NOT NULL,
    -- An execution client left logs out after others of its logs had been counted.
    incomplete INTEGER NOT NULL
) STRICT;

-- The collections of IP accounts, by address, and of disputes, by 32-byte id.
-- Later events carry only these.
CREATE TABLE index_ips (
    ip         BLOB NOT NULL PRIMARY KEY,
    collection BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE index_disputes (
    dispute    BLOB NOT NULL PRIMARY KEY,
    collection BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The cursor's latest moves over blocks that counted nothing: where to, and where
-- from. It can go back as far as they follow one another, should a block's hash
-- turn out to have been wrong. What counts something ends them.
CREATE TABLE index_steps (
    block      INTEGER NOT NULL PRIMARY KEY,
    hash       BLOB    NOT NULL,
    from_block INTEGER NOT NULL,
    from_hash  BLOB    NOT NULL,
    from_time  INTEGER NOT NULL
) STRICT;
