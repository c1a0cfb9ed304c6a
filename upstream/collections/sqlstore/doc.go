// Package sqlstore keeps collections in SQLite or PostgreSQL.
//
// A store (store.go) reads pages (page.go has the one statement for them), takes imports
// (import.go) and counts what an indexer brings (index.go). Both databases run the
// same statements. How each of them is connected to, waited for and asked again is in
// sqlite.go and postgres.go, with the pieces of SQL in which they differ.
//
// The schema is in schema/, and schema.go brings a database up to date. A script is
// written so that the version of the program before it goes on working:
//
//   - An expansion, NUMBER_NAME.expand.sql, adds what that version does not look at:
//     tables, indexes, columns that may be null or have a default. It is recorded in
//     collections_expansions, which earlier versions ignore, so that both versions
//     share the database and an operator can go back. The program has to cope with
//     rows that the version before it writes.
//   - A contraction, NUMBER_NAME.sql, takes away or changes. It comes one released
//     version after the program has ceased to need what it removes. Its number
//     becomes the version of the schema, and programs that know lower ones only
//     refuse the database (collections.ErrNewerSchema).
package sqlstore
