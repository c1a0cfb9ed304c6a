// Package sqlstore keeps collections in SQLite or PostgreSQL.
//
// A store (store.go) reads pages (page.go has the one statement for them), takes imports
// (import.go) and counts what an indexer brings (index.go). Both databases run the
// same statements. How each of them is connected to, waited for and asked again is in
// sqlite.go and postgres.go, with the pieces of SQL in which they differ. schema.go
// creates the tables of schema/ in an empty database.
package sqlstore
