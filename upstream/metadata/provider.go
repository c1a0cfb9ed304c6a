package metadata

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/upstream"
)

// A provider knows contracts. Its String is its name, the only thing that may
// be said of it: its URL may hold a key.
type provider interface {
	// String is the name in logs, errors and metrics.
	String() string
	// fetch reports each contract at the addresses, which are in lower case,
	// as soon as it is known, with nil for one the provider has no record of;
	// learn may be called from several goroutines at once. An error, always an
	// *upstream.Error or the context's, means that not all were reported: with
	// kind Overloaded because the provider wants fewer requests for a while, with
	// errRefused or errMalformed perhaps because of one of the addresses.
	fetch(ctx context.Context, addresses []string, learn func(address string, c *contract)) error
	// close gives up idle connections.
	close()
}

var errSpec = errors.New("metadata: the provider must be alchemy:URL, blockscout:URL or none")

// openProvider makes the provider that the spec names.
func openProvider(spec string, transport http.RoundTripper) (provider, error) {
	name, address, _ := strings.Cut(spec, ":")
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errSpec // without err, which repeats the URL
	}
	switch name {
	case "alchemy":
		return &alchemy{newClient(name, base, transport)}, nil
	case "blockscout":
		return &blockscout{newClient(name, base, transport)}, nil
	}
	return nil, errSpec
}

// isOverloaded reports whether the provider wants fewer requests.
func isOverloaded(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && e.Kind == upstream.Overloaded
}
