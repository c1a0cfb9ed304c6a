package peers

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// counting is a node that takes its time, fails for some questions, and counts
// what it is asked. It stands before another one, whose answers it gives.
type counting struct {
	server *httptest.Server

	mu    sync.Mutex
	asked map[string]int // by path and query
}

// newCounting serves until the rig stops.
func newCounting(r *rig.Rig, node string) (*counting, error) {
	target, err := url.Parse(node)
	if err != nil {
		return nil, err
	}
	c := &counting{asked: map[string]int{}}
	through := httputil.NewSingleHostReverseProxy(target)
	through.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		uri := req.URL.RequestURI()
		c.mu.Lock()
		c.asked[uri]++
		c.mu.Unlock()
		time.Sleep(nodeLatency)
		if failingNode(uri) {
			http.Error(w, unreadable, http.StatusInternalServerError)
			return
		}
		through.ServeHTTP(w, req)
	}))
	r.OnStop(c.server.Close)
	return c, nil
}

// unreadable is how a node says that it cannot read its state.
const unreadable = `{"code":500,"msg":null,"error":"post failed: database is closed"}`

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
