package metadata

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// A fetch asks a provider for contracts. It reports each at the addresses, which
// are in lower case, as soon as it is known, with nil for one the provider says it
// has no record of; learn may be called from several goroutines at once. What is
// not reported without an error, the answer left out. An error, always an
// *upstream.Error or the context's, means that not all were reported: with kind
// Overloaded because the provider wants fewer requests for a while, else perhaps
// because of one of the addresses.
type fetch func(ctx context.Context, c *client, addresses []string, learn func(address string, c *contract)) error

// providers are the kinds there are, by the name in logs, errors and metrics.
var providers = map[string]fetch{"alchemy": fetchAlchemy, "blockscout": fetchBlockscout}

// minKey is the length from which the last element of Alchemy's URL is hidden in
// what the provider says, even if it is a word: others occur in descriptions.
const minKey = 6

var errSpec = errors.New("metadata: the provider must be alchemy:URL, blockscout:URL or none")

// openProvider makes the client of the provider that the spec names.
func openProvider(spec string, transport http.RoundTripper) (*client, error) {
	name, address, _ := strings.Cut(spec, ":")
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || providers[name] == nil {
		return nil, errSpec // without err, which repeats the URL
	}
	var secrets []string
	if key := path.Base(base.Path); name == "alchemy" && len(key) >= minKey {
		secrets = append(secrets, key)
	}
	return newClient(name, base, transport, secrets...), nil
}
