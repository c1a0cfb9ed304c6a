package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
)

// A server is one that the probe reads.
type server struct {
	name    string
	base    *url.URL
	api     api
	chain   string  // "" if its API does not name it
	height  int64   // newest block that it named at the start; 0 for none
	queries []query // the server has all of them
	client  *http.Client
}

// openServer detects the API of a server, given as URL or NAME=URL.
func (r *run) openServer(ctx context.Context, spec string) (*server, error) {
	name, address, named := strings.Cut(spec, "=")
	if !named || strings.Contains(name, "://") {
		name, address = "", spec
	}
	base, err := url.Parse(strings.TrimRight(address, "/"))
	switch {
	case err != nil:
		return nil, errors.New("an endpoint is not an http or https URL") // the error of url.Parse repeats it, with its password
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("%q is not an http or https URL without a query", base.Redacted())
	case name == "":
		name = base.Host
	}
	s := &server{name: name, base: base, client: r.newClient()}
	if err := s.detect(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	if s.api != cometRPC && r.Paths != nil {
		s.queries = nil
		for _, path := range r.Paths {
			s.queries = append(s.queries, query{path: path})
		}
		return s, nil
	}
	if err := s.findQueries(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return s, nil
}

// detect finds the API and the chain of the server.
func (s *server) detect(ctx context.Context) error {
	problems := make([]string, 0, len(queries))
	for _, s.api = range []api{storyREST, cosmosREST, cometRPC} {
		a := s.read(ctx, s.client, queries[s.api][0], 0)
		switch {
		case errors.Is(a.err, context.DeadlineExceeded) && ctx.Err() == nil:
			return fmt.Errorf("no response within %v", timeout)
		case a.err != nil:
			return upstream.RedactError(a.err, upstream.NewRedactor(s.base))
		case s.isFromNode(ctx, a):
			s.height, s.chain = a.height, s.findChain(ctx)
			return nil
		}
		problems = append(problems, fmt.Sprintf("%s: %s", s.api, cmp.Or(a.problem, notFromNode)))
	}
	return fmt.Errorf("no API of a node was found (%s)", strings.Join(problems, ", "))
}

// isFromNode reports whether the answer to the first query comes from a node. Any server may lack the path or the method, and an
// execution client answers every request with JSON and status 200.
func (s *server) isFromNode(ctx context.Context, a answer) bool {
	switch {
	case a.foreign:
		return false
	case s.api == cosmosREST:
		return a.problem != "" || gjson.GetBytes(a.value, "pool").IsObject()
	case a.absent:
		return s.api == cometRPC && s.findChain(ctx) != ""
	}
	return true
}

// chainTries is how often a server is asked for its chain, once a second.
const chainTries = 3

// findChain returns the chain id that the server names, or "". It asks again after a failure, because a probe also measures servers
// that fail sometimes.
func (s *server) findChain(ctx context.Context) string {
	named := map[api]struct {
		by query
		at string
	}{
		cosmosREST: {query{path: "/cosmos/base/tendermint/v1beta1/node_info"}, "default_node_info.network"},
		cometRPC:   {query{method: "status"}, "node_info.network"},
	}[s.api]
	for try := 1; named.at != ""; try++ {
		a := s.read(ctx, s.client, named.by, 0)
		if a.problem == "" || a.absent || try == chainTries || upstream.Sleep(ctx, time.Second) != nil {
			return gjson.GetBytes(a.value, named.at).Str
		}
	}
	return "" // Story's REST API has none
}

// findQueries selects the queries that the server has. A query that fails for another reason is kept.
func (s *server) findQueries(ctx context.Context) error {
	for _, q := range queries[s.api] {
		if a := s.read(ctx, s.client, q, 0); !a.absent {
			s.queries = append(s.queries, q)
		}
	}
	if len(s.queries) == 0 && ctx.Err() == nil {
		return fmt.Errorf("%s without the paths that the probe reads: is the base path right?", s.api)
	}
	return ctx.Err()
}
