-- The last block of the chain whose events are counted: one row once there is
-- one. It moves in the transaction that counts them.
CREATE TABLE index_cursor (
    id       integer     NOT NULL PRIMARY KEY CHECK (id = 1),
    chain_id bigint      NOT NULL,
    block    bigint      NOT NULL,
    hash     bytea       NOT NULL,
    time     timestamptz NOT NULL -- the block's
);

-- Whose IP accounts and disputes are, by address and by 32-byte id. Events that
-- come later carry only these.
CREATE TABLE index_ips (
    ip         bytea NOT NULL PRIMARY KEY,
    collection bytea NOT NULL
);
CREATE TABLE index_disputes (
    dispute    bytea NOT NULL PRIMARY KEY,
    collection bytea NOT NULL
);
