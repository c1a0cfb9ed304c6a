-- The last block of the chain whose events are counted: one row once there is
-- one. It moves in the transaction that counts them.
CREATE TABLE index_cursor (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    chain_id INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    hash     BLOB    NOT NULL,
    time     INTEGER NOT NULL -- the block's, microseconds since 1970, UTC
) STRICT;

-- Whose IP accounts and disputes are, by address and by 32-byte id. Events that
-- come later carry only these.
CREATE TABLE index_ips (
    ip         BLOB NOT NULL PRIMARY KEY,
    collection BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE index_disputes (
    dispute    BLOB NOT NULL PRIMARY KEY,
    collection BLOB NOT NULL
) STRICT, WITHOUT ROWID;
