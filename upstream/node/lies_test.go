package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// runWithLog returns a running pool and its log.
func runWithLog(t *testing.T, o Options, nodes ...*fakeNode) (*Pool, *logtest.Log) {
	t.Helper()
	log := new(logtest.Log)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	return run(t, o, nodes...), log
}

// wantOneLine waits for a log line, which may follow its cause, and wants it once.
func wantOneLine(t *testing.T, log *logtest.Log, text string) {
	t.Helper()
	expect.EventuallyAtLeast(t, "a line with "+text, func() int { return log.Count(text) }, 1)
	expect.Equal(t, log.Count(text), 1, "log lines with %q", text)
}

func TestFalseHeightIsIgnored(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p, log := runWithLog(t, Options{}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.change(func() { n.lie = 1_000_000 })
	for height := int64(101); height < 105; height++ {
		n.commit(height)
		if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK || a.Height > height {
			t.Errorf("answer %+v, want OK at height %d at most", a, height)
		}
	}
	expect.Eventually(t, "the node to be distrusted", func() bool { return p.Health()[0].Distrusted })
	wantTip(t, p, 104) // read from the REST server
	n.change(func() { n.lie = 0 })
	n.commit(105)
	expect.Eventually(t, "the node to be trusted", func() bool { return !p.Health()[0].Distrusted })
	wantTip(t, p, 105)
	wantOneLine(t, log, "ignoring the node")
	wantOneLine(t, log, "trusting the node")
}

func TestPlausibleFalseHeightIsFoundByRequests(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Second}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.change(func() { n.lie = 5 })
	n.commit(101)
	wantTip(t, p, 106)
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK || a.Height > 101 {
		t.Errorf("answer %+v, want OK at height 101 at most", a)
	}
	wantTip(t, p, 101)
}

func TestHeightOfReplicasIsAwaitedBriefly(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: 10 * time.Second}, n)
	for height := int64(101); height < 300; height++ {
		p.Raise(height)
	}
	if got := p.Tip().Height; got <= 100 || got > 111 {
		t.Errorf("tip = %d, want 101 to 111", got)
	}
	a, err := p.Fetch(within(t, 4*time.Second), Request{Path: "/x", Height: AtTip}) // half of its time
	if err != nil || a.Reason != OK || a.Height != 100 {
		t.Errorf("answer %+v, error %v, want OK at height 100", a, err)
	}
}

func TestRollbackBeginsAnEpoch(t *testing.T) {
	t.Parallel()
	type epoch struct {
		chain string
		n     int64
	}
	registry := prometheus.NewPedanticRegistry()
	epochs := make(chan epoch, 10)
	n := newFakeNode(t, 1000)
	p, log := runWithLog(t, Options{
		Settings:   Settings{RollbackAfter: 300 * time.Millisecond},
		Registerer: registry,
		OnEpoch:    func(chain string, n int64) { epochs <- epoch{chain, n} },
	}, n)
	if got := <-epochs; got != (epoch{"story-1", 0}) {
		t.Errorf("first epoch %v, want 0 of story-1", got)
	}
	mustFetch(t, p, Request{Height: AtTip})
	n.stop()
	n.height = 950
	n.start(n.address)
	got := <-epochs
	if got.chain != "story-1" || got.n == 0 {
		t.Errorf("next epoch %v, want another one of story-1", got)
	}
	wantTip(t, p, 950)
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 950 || p.Tip().Epoch != got.n {
		t.Errorf("answer %+v, tip %+v, want height 950 in epoch %d", a, p.Tip(), got.n)
	}
	wantOneLine(t, log, "rolled back or reset")
	if counted := gather(t, registry, n.address)["tipcache_node_epochs_total"]; counted != 1 || len(epochs) > 0 {
		t.Errorf("%v epochs counted, %d more notified, want 1 and 0", counted, len(epochs))
	}
}

func TestTipComesFromTheRESTServerAlone(t *testing.T) {
	t.Parallel()
	for name, lowest := range map[string]int64{"archive": 1, "pruned node": 5000} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(t, 5071)
			n.lowest = lowest
			p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + n.address}}})
			go func() { _ = p.Run(context.Background()) }()
			wantTip(t, p, 5071)
			n.commit(5072)
			wantTip(t, p, 5072)
			n.commit(5080)
			wantTip(t, p, 5080)
			if a := mustFetch(t, p, Request{Height: AtTip}); a.Height != 5080 {
				t.Errorf("answer %+v, want height 5080", a)
			}
		})
	}
}

func TestFailuresOfTheRESTServerProveNoHeight(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := newPool(t, Options{Settings: Settings{RollbackAfter: time.Hour}, Endpoints: []Endpoint{{REST: "http://" + n.address}}})
	go func() { _ = p.Run(context.Background()) }()
	wantTip(t, p, 100)
	var above atomic.Int32 // reads above the tip
	n.change(func() {
		n.front = func(w http.ResponseWriter, r *http.Request) {
			if height, _ := strconv.Atoi(r.Header.Get("X-Block-Height")); height <= 100 || above.Add(1) > 2 {
				n.serveREST(w, r)
				return
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"code":429,"msg":{},"error":"too many requests"}`)
		}
	})
	expect.EventuallyAtLeast(t, "two refused reads above the tip and a usual one", above.Load, 3)
	n.commit(101)
	wantTip(t, p, 101)
}

func TestRefusedInputProvesNoHeight(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}, BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.change(func() {
		n.rest = func(w http.ResponseWriter, _ *http.Request) { refuse(w, "encoding/hex: odd length hex string") }
	})
	n.change(func() { n.lie = 5 })
	n.commit(101)
	wantTip(t, p, 106)
	expect.Equal(t, mustFetch(t, p, Request{Height: AtTip}).Reason, BadInput, "reason")
	n.change(func() { n.lie = 0 })
	n.commit(102)
	wantTip(t, p, 102)
}

func TestReadOfTheNewestBlockProvesNoHeight(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	var newest atomic.Int64 // reported by a read of the newest block
	newest.Store(106)
	n.rest = func(w http.ResponseWriter, r *http.Request) {
		at := r.Header.Get(heightHeader)
		if height, _ := strconv.Atoi(at); height > 102 {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"code":2,"message":"cannot query with height in the future","details":[]}`)
			return
		}
		w.Header().Set(metadataHeader, cmp.Or(at, fmt.Sprint(newest.Load())))
		_, _ = io.WriteString(w, `{}`)
	}
	p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}, Dialect: Cosmos, BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.change(func() { n.lie = 5 })
	n.commit(101)
	wantTip(t, p, 106)
	expect.Equal(t, mustFetch(t, p, Request{Height: AtTip, Unpinned: true}).Height, 106, "reported height")
	newest.Store(102)
	n.change(func() { n.lie = 0 })
	n.commit(102)
	wantTip(t, p, 102)
}

func TestTipOutOfReachIsReported(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	ahead, behind := newFakeNode(t, 1000), newFakeNode(t, 900)
	behind.catchingUp = true
	p := run(t, Options{Registerer: registry, BlockInterval: time.Minute}, ahead, behind)
	expect.EventuallyEqual(t, "the pool to be ready", p.Ready, nil)
	ahead.stop()
	ahead.height, ahead.catchingUp = 500, true
	ahead.start(ahead.address)
	expect.Eventually(t, "the pool not to be ready", func() bool { return p.Ready() != nil })
	expect.EventuallyEqual(t, "tipcache_node_tip_out_of_reach 1", func() float64 { return gather(t, registry, behind.address)["tipcache_node_tip_out_of_reach"] }, 1)
}

func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p, log := runWithLog(t, Options{Settings: Settings{Timeout: 500 * time.Millisecond}, BlockInterval: time.Minute}, n)
	n.change(func() { n.front = stall }) // the pool's probes fail as well
	for p.Health()[0].Breaker == "closed" {
		_, _ = p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	}
	expect.Eventually(t, "a half-open breaker", func() bool { return p.Health()[0].Breaker != "open" })
	_, _ = p.Fetch(within(t, time.Minute), Request{Path: "/x"}) // a trial that fails
	n.change(func() { n.front = nil })
	expect.Eventually(t, "a response after the outage", func() bool {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		return err == nil
	})
	wantOneLine(t, log, "upstream unreachable")
	wantOneLine(t, log, "upstream reachable again")
	if log.Count("did not answer in time") == 0 || log.Count("node "+n.address) < 2 {
		t.Error("the log does not name cause and node, want both")
	}
}
