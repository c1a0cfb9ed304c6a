-- One row per collection. The key is the address in lower case. It identifies
-- the row and breaks ties. Responses have the address as it was given.
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

-- In both directions, ties are sorted by ascending key. An index that is read
-- backwards would reverse them, so each direction has its own index. All indexes
-- have asset_count, so that a page with a filter is found without the table.
CREATE INDEX collections_updated_asc   ON collections (updated_at, key, asset_count);
CREATE INDEX collections_updated_desc  ON collections (updated_at DESC, key, asset_count);
CREATE INDEX collections_assets_asc    ON collections (asset_count, key);
CREATE INDEX collections_assets_desc   ON collections (asset_count DESC, key);
CREATE INDEX collections_licenses_asc  ON collections (licenses_count, key, asset_count);
CREATE INDEX collections_licenses_desc ON collections (licenses_count DESC, key, asset_count);

-- Counting a million rows takes longer than reading a page of them, so the
-- total is stored. Triggers update it for every writer, including sqlite3, but
-- not for INSERT OR REPLACE, which fires no delete trigger.
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

-- The last block of the chain whose events are counted. The table has at most
-- one row, and none before the first block. The transaction that counts events
-- also moves the cursor.
CREATE TABLE index_cursor (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    chain_id INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    time     INTEGER NOT NULL, -- of the block, microseconds since 1970, UTC
    -- The contracts whose events are counted: IPAssetRegistry, LicensingModule and
    -- DisputeModule, 20 bytes each.
    contracts BLOB NOT NULL
) STRICT;

-- The collections of IP accounts (by address) and of disputes (by 32-byte id).
-- Later events name only the account or the dispute.
CREATE TABLE index_ips (
    ip         BLOB NOT NULL PRIMARY KEY,
    collection BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE index_disputes (
    dispute    BLOB NOT NULL PRIMARY KEY,
    collection BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The latest moves of the cursor over blocks without counted events: to block,
-- from from_block. If a block's hash proves to be wrong, the cursor goes back
-- along moves that follow one another. Counting an event deletes all moves,
-- because counts cannot be undone.
CREATE TABLE index_steps (
    block      INTEGER NOT NULL PRIMARY KEY,
    hash       BLOB    NOT NULL,
    from_block INTEGER NOT NULL,
    from_hash  BLOB    NOT NULL,
    from_time  INTEGER NOT NULL
) STRICT;
