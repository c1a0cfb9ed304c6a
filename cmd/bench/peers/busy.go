package peers

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A busy node takes busyLatency for up to busyCapacity concurrent reads, and proportionally longer for more.
const (
	busyLatency  = 5 * time.Millisecond
	busyCapacity = 32
)

// A kind says how a busy node answers for a key.
type kind int

const (
	small kind = iota // a validator
	large             // a validator with more entries
	huge
	broken // an internal error
)

// sizes are the sizes of responses, in bytes.
var sizes = map[kind]int{small: 1 << 10, large: 51 << 10, huge: 515 << 10}

// A busyNode has every validator. The block's height stands in place of the tokens, so that each block changes all of
// them. Other paths are passed to the node of the simulated chain.
type busyNode struct {
	url      string
	chain    *devnet.Devnet
	next     http.Handler
	latency  time.Duration
	capacity int64 // concurrent reads without a slowdown
	still    bool  // responses are the same at each block
	entries  map[kind]string
	served   atomic.Int64 // requests, of all paths
	reading  atomic.Int64 // concurrent reads
	counted  atomic.Int64 // reads at or after this block are counted; 0 means none
	asked    devnet.Tally
}

// startBusyNode starts a node whose reads take at least the given time; 0 means no delay.
func startBusyNode(r *rig.Rig, chain *devnet.Devnet, latency time.Duration) *busyNode {
	base := rig.Must(url.Parse(chain.NodeURL()))
	n := &busyNode{chain: chain, next: httputil.NewSingleHostReverseProxy(base), latency: latency, capacity: busyCapacity, asked: devnet.Tally{Most: 2_000_000}}
	n.entries = map[kind]string{small: numbers(sizes[small]), large: numbers(sizes[large]), huge: numbers(sizes[huge])}
	server := httptest.NewServer(n)
	r.OnStop(server.Close)
	n.url = server.URL
	return n
}

// numbers returns entries of about size bytes that compress as little as a node's.
func numbers(size int) string {
	var b strings.Builder
	for b.Len() < size-200 {
		fmt.Fprintf(&b, `{"creation_height":"%d","balance":"%d"},`, rand.Uint32(), rand.Uint64())
	}
	return strings.TrimSuffix(b.String(), ",")
}

const (
	busyPrefix = "/staking/validators/0x000000" // no validator of the simulated chain begins with it
	busyTokens = `"tokens":"`
)

func busyPath(k kind, key int64) string { return fmt.Sprintf("%s%02x%032x", busyPrefix, k, key) }

// ServeHTTP answers after a delay that depends on the number of concurrent reads.
func (n *busyNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.served.Add(1)
	key, ok := strings.CutPrefix(r.URL.Path, busyPrefix)
	if !ok {
		n.next.ServeHTTP(w, r)
		return
	}
	height, err := strconv.ParseInt(r.Header.Get("X-Block-Height"), 10, 64)
	if err != nil {
		height = n.chain.Height()
	}
	if counted := n.counted.Load(); counted > 0 && height >= counted {
		n.asked.Count(r.URL.Path, height)
	}
	if now := n.reading.Add(1); n.latency > 0 {
		time.Sleep(n.latency * time.Duration(max(n.capacity, now)) / time.Duration(n.capacity))
	}
	n.reading.Add(-1)
	if n.still {
		height = 0
	}
	k, _ := strconv.ParseInt(key[:min(2, len(key))], 16, 64)
	if kind(k) == broken {
		http.Error(w, `{"code":500,"msg":null,"error":"post failed: database is closed"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"code":200,"msg":{"validator":{"operator_address":%q,"jailed":false,"status":3,%s%d","entries":[%s]}},"error":""}`+"\n",
		strings.TrimPrefix(r.URL.Path, "/staking/validators/"), busyTokens, height, n.entries[kind(k)])
}

// busyHeight returns the block in a response body, or 0 if there is none.
func busyHeight(body []byte) int64 {
	_, rest, _ := bytes.Cut(body, []byte(busyTokens))
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	height, _ := strconv.ParseInt(string(digits), 10, 64)
	return height
}

// reads returns the number of pairs of a key and a block that were read, and the mean and maximum number of reads of a
// pair.
func (n *busyNode) reads(k kind) (pairs int, mean float64, most int64) {
	prefix, stats := fmt.Sprintf("%s%02x", busyPrefix, k), n.asked.Stats()
	for _, a := range stats.ReadCounts {
		if strings.HasPrefix(a.URI, prefix) {
			pairs, most = pairs+1, max(most, a.Count)
		}
	}
	return pairs, float64(stats.Of(prefix)) / float64(pairs), most
}
