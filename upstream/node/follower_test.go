package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

func wantTip(t *testing.T, p *Pool, height int64) {
	t.Helper()
	expect.EventuallyEqual(t, fmt.Sprint("tip ", height), func() int64 { return p.Tip().Height }, height)
	if !p.Tip().Known {
		t.Error("Known = false, want true")
	}
}

// waitForSubscription waits for a subscription on another socket than before, and returns its socket.
func waitForSubscription(t *testing.T, p *Pool, n *fakeNode, before *websocket.Conn) (conn *websocket.Conn) {
	t.Helper()
	expect.Eventually(t, "a subscription", func() bool {
		n.change(func() {
			if conn = nil; len(n.sockets) == 1 && n.sockets[0] != before {
				conn = n.sockets[0]
			}
		})
		return conn != nil && connected(p)()
	})
	return conn
}

func connected(p *Pool) func() bool {
	return func() bool { return p.Health()[0].Connected }
}

func TestTipFollowsHeaders(t *testing.T) {
	n := newFakeNode(t, 100)
	n.ahead = 1 // the pool must ignore the height in /status
	p := run(t, Options{BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	expect.Eventually(t, "the subscription", connected(p))
	for height := int64(101); height < 120; height++ {
		n.commit(height)
		wantTip(t, p, height)
	}
	if age := p.Health()[0].BlockAge; age <= 0 || age > time.Minute {
		t.Errorf("age of the header = %s, want at most a minute", age)
	}
	if p.Tip().Interval == time.Minute {
		t.Error("Interval is the assumed one, want the learned one")
	}
}

func TestWaitHeightReturnsWhenTheBlockArrives(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	if err := p.WaitHeight(within(t, time.Minute), 100); err != nil {
		t.Errorf("WaitHeight of an existing block = %v, want nil", err)
	}
	if err := p.WaitHeight(within(t, 10*time.Millisecond), 101); err == nil {
		t.Error("WaitHeight of a future block = nil, want a timeout")
	}
	woken := make(chan error)
	go func() { woken <- p.WaitHeight(within(t, time.Minute), 102) }()
	n.commit(101)
	n.commit(102)
	if err := <-woken; err != nil {
		t.Error(err)
	}
}

func TestSilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{}, n)
	first := waitForSubscription(t, p, n, nil)
	n.change(func() { n.mute = true }) // like a dead connection
	n.commit(101)
	wantTip(t, p, 101) // polled
	n.commit(102)
	wantTip(t, p, 102)
	n.change(func() { n.mute = false })
	waitForSubscription(t, p, n, first)
	n.commit(103)
	wantTip(t, p, 103)
}

func TestEndedSubscriptionIsRenewed(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	first := waitForSubscription(t, p, n, nil)
	n.change(func() {
		_ = first.Write(context.Background(), websocket.MessageText, []byte(
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Server error","data":"subscription was canceled (reason: CometBFT exited)"}}`))
	})
	waitForSubscription(t, p, n, first)
	n.commit(101)
	wantTip(t, p, 101)
}

func TestNodeIsFollowedAfterRestart(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{Settings: Settings{RollbackAfter: time.Hour}}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.stop()
	expect.Eventually(t, "the end of the subscription", func() bool { return !p.Health()[0].Connected })

	n.height = 90 // back from an older state
	n.start(n.address)
	expect.Eventually(t, "a new subscription", func() bool { return connected(p)() && p.Health()[0].Height == 90 })
	wantTip(t, p, 100)
	n.commit(101)
	wantTip(t, p, 101)
}

func TestHeadersOfNodeCatchingUpDoNotMoveTheTip(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	n.catchingUp = true
	p := run(t, Options{}, n)
	expect.Eventually(t, "the subscription", connected(p))
	if err := p.Ready(); err == nil {
		t.Error("Ready = nil while catching up, want an error")
	}
	n.change(func() { n.stream(500) }) // announced, but not readable yet
	n.change(func() { n.height = 110 })
	wantTip(t, p, 110) // from a poll
	n.change(func() { n.catchingUp = false; n.height = 111 })
	expect.Eventually(t, "the end of catching up", func() bool { return !p.Health()[0].CatchingUp })
	n.commit(112)
	wantTip(t, p, 112)
}

func TestNodeOfAnotherChainIsRefused(t *testing.T) {
	t.Parallel()
	log := new(logtest.Log)
	n := newFakeNode(t, 100)
	n.chain = "other-1"
	p := run(t, Options{ChainID: "story-1", Logger: slog.New(slog.NewTextHandler(log, nil))}, n)
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	if got := wantKind(t, err, upstream.Unreachable); got.Msg != "the chain node serves another chain than story-1" || len(n.requestedHeights()) > 0 {
		t.Errorf("Fetch = %v with requests at heights %q, want an error that names the chain, and no request", err, n.requestedHeights())
	}
	if err := p.Ready(); err == nil || !strings.Contains(err.Error(), `"other-1"`) {
		t.Errorf("Ready = %v, want an error with the chain other-1", err)
	}
	waitForStatusRequests(t, n, 5)
	if h := p.Health()[0]; !h.WrongChain || h.ChainID != "other-1" || p.Tip().Height != 0 {
		t.Errorf("health %+v, tip %+v, want wrong chain other-1 and no height", h, p.Tip())
	}
	expect.Equal(t, log.Count("level=ERROR"), 1, "logged errors")
	n.change(func() { n.chain = "story-1" })
	wantTip(t, p, 100)
	expect.Eventually(t, "a response", func() bool { // a response that names the other chain may still arrive
		_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
		return err == nil
	})
}

func TestChangeOfChainIsDetectedInHeaders(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	expect.Eventually(t, "the subscription", connected(p))
	n.change(func() { n.chain = "other-1" })
	n.commit(101)
	expect.Eventually(t, "the node to be refused", func() bool { return p.Health()[0].WrongChain })
	if got := p.Tip().Height; got != 100 {
		t.Errorf("tip = %d, want it unchanged by another chain", got)
	}
}

func TestOnEpochReportsTheChainOnce(t *testing.T) {
	for _, configured := range []string{"", "story-1"} {
		n := newFakeNode(t, 100)
		notified := make(chan string, 10)
		p := run(t, Options{ChainID: configured, OnEpoch: func(id string, _ int64) { notified <- id }}, n, newFakeNode(t, 100))
		if id := <-notified; id != "story-1" || p.ChainID() != "story-1" || len(notified) > 0 {
			t.Errorf("configured %q: notified of %q, and %d times more, want story-1 once", configured, id, len(notified))
		}
	}
}

func TestSecondRunDoesNotFollowTheNodes(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Minute}, n)
	waitForSubscription(t, p, n, nil)
	ended := make(chan error)
	go func() { ended <- p.Run(t.Context()) }()
	time.Sleep(100 * time.Millisecond)
	n.change(func() { expect.Equal(t, len(n.sockets), 1, "subscriptions after a second Run") })
	expect.NoError(t, p.Close())
	expect.NoError(t, <-ended)
}

func TestCloseEndsRunAndWaits(t *testing.T) {
	silent := newFakeNode(t, 100)
	silent.noSocket = true
	p := run(t, Options{BlockInterval: time.Minute}, newFakeNode(t, 100), silent)
	ended := make(chan error)
	go func() { ended <- p.Run(context.Background()) }()
	waiting := make(chan error)
	go func() { waiting <- p.WaitHeight(context.Background(), 200) }()
	time.Sleep(50 * time.Millisecond)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = p.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := <-waiting; err == nil {
			t.Error("WaitHeight returned nil after Close, want an error")
		}
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close, Run or WaitHeight has not returned within a minute")
	}
	if err := p.Run(context.Background()); err != nil {
		t.Error(err)
	}
}
