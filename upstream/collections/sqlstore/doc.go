// Package sqlstore keeps collections in SQLite or PostgreSQL.
//
// Both read a page with the one statement of sql.go, import into a table of their
// own that is merged at the end, and count what an indexer brings with the
// statements of index.go. The schema is in schema/, one script a version.
package sqlstore
