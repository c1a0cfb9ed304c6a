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
	node  *herdNode
	crowd clients.Crowd
}

// herdKind is what a cold key's answer is.
type herdKind struct {
	name   string
	good   bool   // the node has it
	format string // of a key's path; keys differ in a number alone
	first  int    // number in it
}

func (k herdKind) key(i int) string { return fmt.Sprintf(k.format, k.first+i) }

// expects says which status clients may get.
func (k herdKind) expects(status int) bool {
	return k.good && status == http.StatusOK || !k.good && status >= http.StatusBadRequest
}

// failing is in all keys of the last kind, which the node fails, and in no others.
const failing = "pagination.limit=10"

func herdKinds(r *rig.Rig) []herdKind {
	list, absent := r.Path("/staking/validators")+"?pagination.limit=%d", "/staking/validators/0x%040x"
	if r.Dialect == devnet.Cosmos {
		absent = "/cosmos/gov/v1/proposals/%d"
	}
	return []herdKind{{"an answer", true, list, 200}, {"no such thing", false, absent, 0xbad00}, {"an error", false, list, 1000}}
}

// Herd measures many clients who ask for the same at once.
func Herd(ctx context.Context, r *rig.Rig) {
	servers, keys := herdServers(ctx, r), herdKeys
	if r.Short {
		keys = 2
	}
	var rows [][]string
	for _, kind := range herdKinds(r) {
		seen := make([]herdSeen, len(servers))
		for i := range keys {
			for n := range servers { // another one begins with each key
				s := (i + n) % len(servers)
				seen[s].add(ctx, servers[s], r.Path(smallPath), kind, i)
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
}

// herdServers start each before a node of its own, which all stand before one chain.
func herdServers(ctx context.Context, r *rig.Rig) (all []herdServer) {
	d := r.Chain(rig.Still)
	for _, name := range serverNames {
		node := &herdNode{through: httputil.NewSingleHostReverseProxy(rig.Must(url.Parse(d.NodeURL()))), asked: map[string]int{}}
		node.through.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
		server := httptest.NewServer(node)
		r.OnStop(server.Close)
		p := before(ctx, r, name, origin{node: server.URL, comet: d.CometURL(), fresh: time.Minute})
		s := herdServer{name: name, node: node, crowd: clients.NewCrowd(rig.Host(p.url), herdClients)}
		r.OnStop(s.crowd.Close)
		all = append(all, s)
	}
	return all
}

// herdSeen is what came of one kind of key at one server.
type herdSeen struct {
	requests []float64 // of the node, by key
	waits    []float64 // of the clients, in round trips
	other    int
}

func (h *herdSeen) add(ctx context.Context, s herdServer, warm string, kind herdKind, i int) {
	rig.Check(s.crowd.Gather(ctx, warm))
	key := kind.key(i)
	for _, a := range s.crowd.Rush(ctx, key) {
		if a.Err != nil || !kind.expects(a.Status) {
			h.other++
			continue
		}
		h.waits = append(h.waits, float64(a.Took)/float64(nodeLatency))
	}
	h.requests = append(h.requests, float64(s.node.count(key)))
	rig.Check(ctx.Err())
}

func (h *herdSeen) row(kind, server string) []string {
	waits := func(q float64) float64 { return figures.Quantile(h.waits, q) }
	return figures.Row(kind, server, figures.Mean(h.requests), figures.Quantile(h.requests, 1), waits(0.5), waits(0.99), waits(1), h.other)
}

// A herdNode takes nodeLatency for an answer, which is that of the node that it stands before
// or a failure, and counts what it is asked.
type herdNode struct {
	through *httputil.ReverseProxy

	mu    sync.Mutex
	asked map[string]int // by path and query
}

// ServeHTTP fails for some keys, as a node does that cannot read its state.
func (n *herdNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.asked[r.URL.RequestURI()]++
	n.mu.Unlock()
	time.Sleep(nodeLatency)
	if strings.Contains(r.URL.RawQuery, failing) {
		http.Error(w, `{"code":500,"msg":null,"error":"post failed: database is closed"}`, http.StatusInternalServerError)
		return
	}
	n.through.ServeHTTP(w, r)
}

// count is how often a question was asked. tipcache asks lists for their total,
// too, so that the query has more in it than was asked for.
func (n *herdNode) count(uri string) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for asked, more := range n.asked {
		if asked == uri || strings.HasPrefix(asked, uri+"&") {
			times += more
		}
	}
	return times
}
