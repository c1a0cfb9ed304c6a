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

// What a busy node bears: so many reads at a time take so long, and more of them as
// much longer as there are more.
const (
	busyTakes = 5 * time.Millisecond
	busyBears = 32
)

// A kind is what a busy node answers a key with.
type kind int

const (
	small kind = iota // a validator
	large             // one with more entries
	huge
	absent // that there is none
	broken // that it cannot tell
)

// sizes are the bytes of answers.
var sizes = map[kind]int{small: 1 << 10, large: 51 << 10, huge: 515 << 10}

// A busyNode answers any validator, with the height in place of its tokens, so that each block
// changes all of them. The rest is for the node that it stands before.
type busyNode struct {
	url     string
	chain   *devnet.Devnet
	through http.Handler
	takes   time.Duration
	bears   int64 // busyBears, or what it is set to
	still   bool  // its answers are the same at each block
	entries map[kind]string
	now     atomic.Int64 // reads
	counted atomic.Int64 // the block from which on reads count, 0 for none
	asked   devnet.Tally
}

// startBusyNode starts one that takes so long for a read, 0 for no time.
func startBusyNode(r *rig.Rig, chain *devnet.Devnet, takes time.Duration) *busyNode {
	base := rig.Must(url.Parse(chain.NodeURL()))
	n := &busyNode{chain: chain, through: httputil.NewSingleHostReverseProxy(base), takes: takes, bears: busyBears, asked: devnet.Tally{Most: 2_000_000}}
	n.entries = map[kind]string{small: numbers(sizes[small]), large: numbers(sizes[large]), huge: numbers(sizes[huge])}
	server := httptest.NewServer(n)
	r.OnStop(server.Close)
	n.url = server.URL
	return n
}

// numbers are entries of an answer of so many bytes, which compress as badly as a node's.
func numbers(size int) string {
	var b strings.Builder
	for b.Len() < size-200 {
		fmt.Fprintf(&b, `{"creation_height":"%d","balance":"%d"},`, rand.Uint32(), rand.Uint64())
	}
	return strings.TrimSuffix(b.String(), ",")
}

const (
	busyPrefix = "/staking/validators/0x000000" // which no validator of the chain begins with
	busyTokens = `"tokens":"`
)

func busyPath(k kind, key int64) string { return fmt.Sprintf("%s%02x%032x", busyPrefix, k, key) }

// ServeHTTP takes as long as what is asked at the moment.
func (n *busyNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, ok := strings.CutPrefix(r.URL.Path, busyPrefix)
	if !ok {
		n.through.ServeHTTP(w, r)
		return
	}
	height, err := strconv.ParseInt(r.Header.Get("X-Block-Height"), 10, 64)
	if err != nil {
		height = n.chain.Height()
	}
	if counted := n.counted.Load(); counted > 0 && height >= counted {
		n.asked.Count(r.URL.Path, height)
	}
	if now := n.now.Add(1); n.takes > 0 {
		time.Sleep(n.takes * time.Duration(max(n.bears, now)) / time.Duration(n.bears))
	}
	n.now.Add(-1)
	if n.still {
		height = 0
	}
	switch k, _ := strconv.ParseInt(key[:min(2, len(key))], 16, 64); kind(k) {
	case broken:
		http.Error(w, `{"code":500,"msg":null,"error":"post failed: database is closed"}`, http.StatusInternalServerError)
	case absent:
		http.Error(w, `{"code":500,"msg":null,"error":"rpc error: code = NotFound desc = validator storyvaloper1 not found"}`, http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"code":200,"msg":{"validator":{"operator_address":%q,"jailed":false,"status":3,%s%d","entries":[%s]}},"error":""}`+"\n",
			strings.TrimPrefix(r.URL.Path, "/staking/validators/"), busyTokens, height, n.entries[kind(k)])
	}
}

// busyHeight is the block that a body is of, 0 for another body.
func busyHeight(body []byte) int64 {
	_, rest, _ := bytes.Cut(body, []byte(busyTokens))
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	height, _ := strconv.ParseInt(string(digits), 10, 64)
	return height
}

// reads tells how often keys of a kind were asked for at a block, of the pairs of both that
// were: the mean and the most.
func (n *busyNode) reads(k kind) (pairs int, mean float64, most int64) {
	prefix, stats := fmt.Sprintf("%s%02x", busyPrefix, k), n.asked.Stats()
	for _, a := range stats.Asked {
		if strings.HasPrefix(a.URI, prefix) {
			pairs, most = pairs+1, max(most, a.Count)
		}
	}
	return pairs, float64(stats.Of(prefix)) / float64(pairs), most
}
