// Package drivers opens the collection store at a URL.
package drivers

import (
	"context"
	"errors"
	"strings"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/apistore"
	"github.com/tipcache/tipcache/upstream/collections/sqlstore"
)

// Open opens the store at the URL and creates its schema:
//
//	sqlite:PATH           a database file, created if it does not exist
//	sqlite::memory:       a database that ends with the Store
//	postgres://...        a PostgreSQL database (postgresql:// too)
//	https://host/api/v4   a server of the same API (http:// too), read-only
//
// Open returns a Store even if a PostgreSQL or API server does not respond. The Store then connects at the first query.
// Permanent problems are errors, for example another version of the schema (collections.ErrSchemaVersion). Open waits at most
// Options.Timeout for a server or for locks. Its errors contain no credentials.
func Open(ctx context.Context, url string, o collections.Options) (*collections.Store, error) {
	var open func(context.Context, string, collections.Options) (name string, d collections.Driver, err error)
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "sqlite", "postgres", "postgresql":
		open = sqlstore.Open
	case "http", "https":
		open = apistore.Open
	default:
		return nil, errors.New("collections: the store must be sqlite:PATH, postgres:// or https://")
	}
	o = o.WithDefaults()
	name, driver, err := open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	s := collections.New(name, driver, o)
	if strings.HasPrefix(name, "postgres") {
		_ = s.Ping(ctx) // logs if the server does not respond
	}
	return s, nil
}
