package peers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	herdClients = 500
	herdKeys    = 20 // of each kind
	nodeLatency = 50 * time.Millisecond
)

// A herdServer is one of those compared, with a node of its own.
type herdServer struct {
	name  string
	node  *counting
	crowd clients.Crowd
}

// herdKind is what a cold key's answer is.
type herdKind struct {
	name   string
	good   bool   // the node has it
	format string // of a key's path
	first  int    // number in it
}

func (k herdKind) key(i int) string { return fmt.Sprintf(k.format, k.first+i) }

// expects says which status clients may get.
func (k herdKind) expects(status int) bool {
	return k.good && status == http.StatusOK || !k.good && status >= http.StatusBadRequest
}

// herdKinds are keys that differ in a number alone. Those of the last kind are what
// the node fails.
func herdKinds(r *rig.Rig) []herdKind {
	list, absent := r.Path("/staking/validators")+"?pagination.limit=%d", "/staking/validators/0x%040x"
	if r.Dialect == devnet.Cosmos {
		absent = "/cosmos/gov/v1/proposals/%d"
	}
	return []herdKind{{"an answer", true, list, 200}, {"no such thing", false, absent, 0xbad00}, {"an error", false, list, failingFrom}}
}

// failingFrom is the least of the limits that the node fails, which all begin alike.
const failingFrom = 1000

func failingNode(uri string) bool { return strings.Contains(uri, "pagination.limit=10") }

// Herd measures many clients who ask for the same at once.
func Herd(ctx context.Context, r *rig.Rig) error {
	servers, err := herdServers(ctx, r)
	if err != nil {
		return err
	}
	keys := herdKeys
	if r.Short {
		keys = 2
	}
	var rows [][]string
	for _, kind := range herdKinds(r) {
		seen := make([]herdSeen, len(servers))
		for i := range keys {
			for n := range servers { // another one begins with each key
				s := (i + n) % len(servers)
				if err := seen[s].add(ctx, servers[s], r.Path(smallPath), kind, i); err != nil {
					return err
				}
			}
		}
		r.Progress("herd: %s", kind.name)
		for i, s := range servers {
			rows = append(rows, seen[i].row(kind.name, s.name))
		}
	}
	r.Table(fmt.Sprintf("herd: %d clients at once on a cold key, %d keys of each kind", herdClients, keys),
		[]string{"the node has", "server", "node requests per key", "most", "p50", "p99", "max", "other statuses"}, rows)
	r.Note("p50, p99 and max are what clients wait, in round trips of the node (%v). Other statuses are answers that the kind has no reason for, and connections that were lost.", nodeLatency)
	r.Note("Varnish is told one lifetime for whatever the node says, so it keeps errors like answers.")
	return nil
}

// herdServers start each before a node of its own, which all stand before one chain.
func herdServers(ctx context.Context, r *rig.Rig) (all []herdServer, err error) {
	d, err := r.Chain(rig.Still)
	if err != nil {
		return nil, err
	}
	for _, name := range serverNames {
		node := newCounting(d.NodeURL())
		server := httptest.NewServer(node)
		r.OnStop(server.Close)
		p, err := before(ctx, r, name, origin{node: server.URL, comet: d.CometURL(), fresh: time.Minute})
		if err != nil {
			return nil, err
		}
		s := herdServer{name: name, node: node, crowd: clients.NewCrowd(rig.Host(p.url), herdClients)}
		r.OnStop(s.crowd.Close)
		all = append(all, s)
	}
	return all, nil
}

// herdSeen is what came of one kind of key at one server.
type herdSeen struct {
	requests []float64 // of the node, by key
	waits    []float64 // of the clients, in round trips
	other    int
}

func (h *herdSeen) add(ctx context.Context, s herdServer, warm string, kind herdKind, i int) error {
	if err := s.crowd.Gather(ctx, warm); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	key := kind.key(i)
	for _, a := range s.crowd.Rush(ctx, key) {
		if a.Err != nil || !kind.expects(a.Status) {
			h.other++
			continue
		}
		h.waits = append(h.waits, float64(a.Took)/float64(nodeLatency))
	}
	h.requests = append(h.requests, float64(s.node.count(key)))
	return ctx.Err()
}

func (h *herdSeen) row(kind, server string) []string {
	waits := func(q float64) float64 { return figures.Quantile(h.waits, q) }
	return figures.Row(kind, server, figures.Mean(h.requests), figures.Quantile(h.requests, 1), waits(0.5), waits(0.99), waits(1), h.other)
}

// counting is a node that takes its time, fails for some questions, and counts
// what it is asked. It stands before another one, whose answers it gives.
type counting struct {
	through http.Handler

	mu    sync.Mutex
	asked map[string]int // by path and query
}

func newCounting(node string) *counting {
	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: rig.Host(node)})
	through.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	return &counting{through: through, asked: map[string]int{}}
}

// unreadable is how a node says that it cannot read its state.
const unreadable = `{"code":500,"msg":null,"error":"post failed: database is closed"}`

// ServeHTTP answers after nodeLatency.
func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	uri := r.URL.RequestURI()
	c.mu.Lock()
	c.asked[uri]++
	c.mu.Unlock()
	time.Sleep(nodeLatency)
	if failingNode(uri) {
		http.Error(w, unreadable, http.StatusInternalServerError)
		return
	}
	c.through.ServeHTTP(w, r)
}

// count is how often a question was asked. tipcache asks lists for their total,
// too, so that the query has more in it than was asked for.
func (c *counting) count(uri string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for asked, times := range c.asked {
		if asked == uri || strings.HasPrefix(asked, uri+"&") {
			n += times
		}
	}
	return n
}
