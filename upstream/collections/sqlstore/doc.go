// Package sqlstore keeps collections in SQLite or PostgreSQL.
//
// A store reads pages (sql.go has the one statement for them), takes imports
// (import.go) and counts what an indexer brings (index.go). Both databases run the
// same statements; where their SQL differs, dialect.go has the pieces. How each of
// them is connected to, waited for and asked again is in sqlite.go and postgres.go.
// The schema is in schema/, one script a version.
package sqlstore
