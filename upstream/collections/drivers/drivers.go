// Package drivers opens the collection store that a URL names.
package drivers

import (
	"context"
	"errors"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/apistore"
	"github.com/tipcache/tipcache/upstream/collections/sqlstore"
)

// Open opens the store at the URL and migrates its schema:
//
//	sqlite:PATH           a database file, made if it is not there
//	sqlite::memory:       a database that ends with the Store
//	postgres://...        a PostgreSQL database (postgresql:// too)
//	https://host/api/v4   a server of the same API (http:// too), read-only
//
// A PostgreSQL that is silent, or an API, does not keep Open from returning a Store: it connects,
// and migrates, when it is first asked. What cannot heal by itself is an error, a schema from the
// future (collections.ErrNewerSchema) among it. Open waits for a server, or for locks of other
// processes, no longer than Options.Timeout, but for a database file that is made or migrated: a
// migration of PostgreSQL that takes longer goes on in the background. Errors hold no credentials.
func Open(ctx context.Context, url string, o collections.Options) (*collections.Store, error) {
	d, err := driverOf(url)
	if err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	name, opened, err := d.open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	s, err := collections.New(name, opened, o)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	if strings.HasPrefix(name, "postgres") {
		_ = s.Ping(ctx) // for the log: that it is silent is no error yet
	}
	return s, nil
}

// A driver is what is done with the URLs of its schemes.
type driver struct {
	open    func(ctx context.Context, url string, o collections.Options) (name string, d collections.Driver, err error)
	missing func(ctx context.Context, url string, o collections.Options) ([]string, error) // nil: migrations are another server's own
}

var (
	postgres = driver{sqlstore.OpenPostgres, sqlstore.MissingInPostgres}
	api      = driver{open: apistore.Open}
	byScheme = map[string]driver{"sqlite": {sqlstore.OpenSQLite, sqlstore.MissingInSQLite}, "postgres": postgres, "postgresql": postgres, "http": api, "https": api}
)

func driverOf(url string) (driver, error) {
	scheme, _, _ := strings.Cut(url, ":")
	d, ok := byScheme[scheme]
	if !ok {
		return d, errors.New("collections: the store is none of sqlite:PATH, postgres:// and https://")
	}
	return d, nil
}

// Missing names the migrations that Open would run on the database at a URL, and
// writes nothing. A database file has to be there. The errors are those of Open.
func Missing(ctx context.Context, url string, o collections.Options) ([]string, error) {
	d, err := driverOf(url)
	if err != nil || d.missing == nil {
		return nil, err
	}
	return d.missing(ctx, url, o.WithDefaults())
}
