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
