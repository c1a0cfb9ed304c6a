-- The contracts whose events are counted, 20 bytes each: IPAssetRegistry,
-- LicensingModule, DisputeModule. Null where an older version counted them.
ALTER TABLE index_cursor ADD COLUMN contracts bytea;
