-- Whether logs of an execution client that omits some may have been counted.
ALTER TABLE index_cursor ADD COLUMN incomplete boolean NOT NULL DEFAULT false;
