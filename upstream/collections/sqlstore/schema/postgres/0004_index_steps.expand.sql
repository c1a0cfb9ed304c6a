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
