// Package sqlstore stores collections in SQLite or PostgreSQL.
//
// A store (store.go) reads pages (page.go), imports collections (import.go) and applies the tallies of an
// indexer (index.go). Both databases run the same statements. sqlite.go and postgres.go contain
// connections, locks, retries, and the pieces of SQL that differ. schema.go creates the tables, or changes those of an
// earlier version, by the scripts of schema/.
package sqlstore
