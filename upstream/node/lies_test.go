package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// logged is a pool with its log.
func logged(t *testing.T, o Options, nodes ...*fakeNode) (*Pool, *logtest.Log) {
	t.Helper()
	log := new(logtest.Log)
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	return run(t, o, nodes...), log
}

// wantOneLine waits for a line that may come after what it tells of, and wants
// it once.
func wantOneLine(t *testing.T, log *logtest.Log, text string) {
	t.Helper()
	expect.Eventually(t, "a line with "+text, func() bool { return log.Count(text) > 0 })
	if got := log.Count(text); got != 1 {
		t.Errorf("%d lines with %q, want one", got, text)
	}
}

func TestFalseHeightIsIgnored(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p, log := logged(t, Options{}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.change(func() { n.lie = 1_000_000 })
	for height := int64(101); height < 105; height++ {
		n.commit(height)
		if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK || a.Height > height {
			t.Errorf("answer %+v, want OK at height %d at most", a, height)
		}
	}
	expect.Eventually(t, "the doubt", func() bool { return p.Health()[0].Distrusted })
	wantTip(t, p, 104) // read from the REST server
	n.change(func() { n.lie = 0 })
	n.commit(105)
	expect.Eventually(t, "the trust", func() bool { return !p.Health()[0].Distrusted })
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
	p, log := logged(t, Options{
		RollbackAfter: 300 * time.Millisecond, Registerer: registry,
		OnEpoch: func(chain string, n int64) { epochs <- epoch{chain, n} },
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
	for name, lowest := range map[string]int64{"of an archive": 1, "of a pruned node": 5000} {
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

func TestTipOutOfReachIsReported(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	ahead, behind := newFakeNode(t, 1000), newFakeNode(t, 900)
	behind.catchingUp = true
	p := run(t, Options{Registerer: registry, BlockInterval: time.Minute}, ahead, behind)
	expect.Eventually(t, "that it is ready", func() bool { return p.Ready() == nil })
	ahead.stop()
	ahead.height, ahead.catchingUp = 500, true
	ahead.start(ahead.address)
	expect.Eventually(t, "that it is not", func() bool { return p.Ready() != nil })
	expect.Eventually(t, "the metric", func() bool { return gather(t, registry, behind.address)["tipcache_node_tip_out_of_reach"] == 1 })
}

func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p, log := logged(t, Options{Timeout: 500 * time.Millisecond, BlockInterval: time.Minute}, n)
	n.change(func() { n.front = stall }) // the pool's probes fail as well
	for p.Health()[0].Breaker == "closed" {
		_, _ = p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	}
	expect.Eventually(t, "the time for a trial", func() bool { return p.Health()[0].Breaker != "open" })
	_, _ = p.Fetch(within(t, time.Minute), Request{Path: "/x"}) // a trial that fails
	n.change(func() { n.front = nil })
	expect.Eventually(t, "the end", func() bool {
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		return err == nil
	})
	wantOneLine(t, log, "upstream unreachable")
	wantOneLine(t, log, "upstream reachable again")
	if log.Count("did not answer in time") == 0 || log.Count("node "+n.address) < 2 {
		t.Error("the log does not name cause and node, want both")
	}
}

func TestRequestToNodeOfAnotherChainNamesTheCause(t *testing.T) {
	n := newFakeNode(t, 100)
	n.chain = "other-1"
	p := run(t, Options{ChainID: "story-1"}, n)
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	if got := wantKind(t, err, upstream.Unreachable); got.Msg != "the chain node serves another chain than story-1" {
		t.Errorf("message %q, want that the node serves another chain than story-1", got.Msg)
	}
}
