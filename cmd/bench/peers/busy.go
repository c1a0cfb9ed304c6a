package peers

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// What a busy node bears: so many reads at a time take so long, and more of them as
// much longer as there are more.
const (
	busyTakes = 5 * time.Millisecond
	busyBears = 32
)

// A busyNode answers any validator, with the height in place of its tokens, so that each block
// changes all of them. The rest is for the node that it stands before.
type busyNode struct {
	url     string
	chain   *devnet.Devnet
	through http.Handler
	takes   time.Duration
	still   bool                   // its answers are the same at each block
	entries atomic.Pointer[string] // that make an answer as long as it is
	now     atomic.Int64           // reads
	most    atomic.Int64           // of them, since counted was set
	counted atomic.Int64           // the block from which on reads count, 0 for none

	mu    sync.Mutex
	asked map[busyRead]int
}

type busyRead struct {
	path   string
	height int64
}

// startBusyNode starts one that takes so long for a read, 0 for no time, with answers of a
// kilobyte.
func startBusyNode(r *rig.Rig, chain *devnet.Devnet, takes time.Duration) *busyNode {
	base := rig.Must(url.Parse(chain.NodeURL()))
	n := &busyNode{chain: chain, through: httputil.NewSingleHostReverseProxy(base), takes: takes, asked: map[busyRead]int{}}
	n.fill(1 << 10)
	server := httptest.NewServer(n)
	r.OnStop(server.Close)
	n.url = server.URL
	return n
}

const busyPrefix = "/staking/validators/0x00000000" // which no validator of the chain begins with

func busyPath(key int) string { return fmt.Sprintf("%s%032x", busyPrefix, key) }

// ServeHTTP takes as long as what is asked at the moment.
func (n *busyNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if key, ok := strings.CutPrefix(r.URL.Path, busyPrefix); !ok || strings.Contains(key, "/") {
		n.through.ServeHTTP(w, r)
		return
	}
	height, err := strconv.ParseInt(r.Header.Get("X-Block-Height"), 10, 64)
	if err != nil {
		height = n.chain.Height()
	}
	n.note(busyRead{r.URL.Path, height}, n.now.Add(1))
	if n.takes > 0 {
		time.Sleep(n.takes * time.Duration(max(busyBears, n.now.Load())) / busyBears)
	}
	n.now.Add(-1)
	if n.still {
		height = 0
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"code":200,"msg":{"validator":{"operator_address":%q,"jailed":false,"status":3,%s%d","entries":[%s]}},"error":""}`+"\n",
		strings.TrimPrefix(r.URL.Path, "/staking/validators/"), busyTokens, height, *n.entries.Load())
}

// fill makes answers so long, of numbers, as a node's are.
func (n *busyNode) fill(size int) {
	var b strings.Builder
	for b.Len() < size-200 {
		fmt.Fprintf(&b, `{"creation_height":"%d","balance":"%d"},`, rand.Uint32(), rand.Uint64())
	}
	entries := strings.TrimSuffix(b.String(), ",")
	n.entries.Store(&entries)
}

// fillWithList makes answers of the validators of the chain.
func (n *busyNode) fillWithList(ctx context.Context) {
	text := rig.Must(rig.Get(ctx, n.chain.NodeURL()+"/staking/validators?pagination.limit=100"))
	entries := strings.Trim(gjson.Get(text, "msg.validators").Raw, "[]")
	n.entries.Store(&entries)
}

const busyTokens = `"tokens":"`

// busyHeight is the block that a body is of, 0 for another body.
func busyHeight(body []byte) int64 {
	_, rest, _ := bytes.Cut(body, []byte(busyTokens))
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	height, _ := strconv.ParseInt(string(digits), 10, 64)
	return height
}

func (n *busyNode) note(read busyRead, now int64) {
	counted := n.counted.Load()
	if counted == 0 || read.height < counted {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[read]++
	n.most.Store(max(n.most.Load(), now))
}

// reads is how often a key was asked for at a block, of those that were: the mean and
// the most.
func (n *busyNode) reads() (mean float64, most int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := 0
	for _, times := range n.asked {
		sum, most = sum+times, max(most, times)
	}
	return float64(sum) / float64(len(n.asked)), most
}
