package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// storeQuery reads a key of a store by abci_query at the height of the request.
func storeQuery(store string) *Call {
	return &Call{Method: queryMethod, Params: func(height int64) json.RawMessage {
		return fmt.Appendf(nil, `{"path":"/store/%s/key","data":"00","height":"%d"}`, store, height)
	}}
}

func TestRefusedStoreReadsDoNotChangeLowest(t *testing.T) {
	p, d := sdkPool(t, devnet.Options{KeepRecent: 50}, true)
	pool := "/cosmos/staking/v1beta1/pool"
	for _, height := range []int64{d.Height() + 1, 99_999_999, 1<<63 - 1, d.Height() - 900} {
		a, err := p.Fetch(t.Context(), Request{Call: storeQuery("bank"), Height: height})
		if err != nil || a.Reason != Pruned || !strings.Contains(string(a.Body), "version does not exist") {
			t.Fatalf("Fetch of a store at %d = %+v, %v; want the node's refusal", height, a, err)
		}
		if got := p.Health()[0].Lowest; got > 1 {
			t.Errorf("lowest after a refusal of a store at %d = %d, want at most 1", height, got)
		}
		for _, at := range []int64{AtTip, d.Height(), d.Height() - 40} {
			if a, err := p.Fetch(t.Context(), Request{Path: pool, Height: at}); err != nil || a.Reason != OK {
				t.Errorf("Fetch at %d after a refusal of a store at %d = %+v, %v; want OK", at, height, a, err)
			}
		}
	}
	if a, err := p.Fetch(t.Context(), Request{Call: storeQuery("bank"), Height: AtTip}); err != nil || a.Reason != OK || a.Height != d.Height() {
		t.Errorf("Fetch of a store at the tip = %+v, %v; want OK at %d", a, err, d.Height())
	}
}

func TestRefusalsByGRPCDoNotRaiseLowestBeyondTheTip(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{}, n.address)
	waitForGRPC(t, p, 0, "ok")
	n.refuse(codes.Unknown, "codespace sdk code 38: not found: failed to load state at height 5000; version does not exist", false)
	if a, err := invoke(t, p, aMethod, 5000); err != nil || a.Reason != Pruned {
		t.Fatalf("Fetch at 5000 = %+v, %v; want %v", a, err, Pruned)
	}
	if got := p.Health()[0].Lowest; got > 100 {
		t.Errorf("lowest = %d, want at most the tip, 100", got)
	}
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK || a.Height != 100 {
		t.Errorf("answer at the tip = %+v, want OK at height 100", a)
	}
}

func TestErrorsOfANodeThatShutsDownAreFailures(t *testing.T) {
	t.Parallel()
	const text = "failed to load state at height 7; failed to get commit info: leveldb: closed (latest height: 100): not found"
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{}, n.address)
	waitForGRPC(t, p, 0, "ok")
	n.refuse(codes.Unknown, "codespace sdk code 38: not found: "+text, false)
	_, err := invoke(t, p, aMethod, 7)
	wantKind(t, err, upstream.Unreachable)
	n.refuse(codes.Internal, "leveldb: closed", true) // a panic in the handler
	_, err = invoke(t, p, aMethod, 7)
	wantKind(t, err, upstream.Unreachable)

	rest := newFakeNode(t, 100)
	p = run(t, Options{}, rest)
	rest.change(func() {
		rest.rest = func(w http.ResponseWriter, _ *http.Request) { refuse(w, "failed to create query context: "+text) }
	})
	_, err = p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: 7})
	wantKind(t, err, upstream.Unreachable)
}

// A historical gRPC server has heights below those of the node itself.
func TestHeightBelowARefusedOneIsRead(t *testing.T) {
	n := newFakeNode(t, 100)
	n.earliest = 80
	p := run(t, Options{}, n)
	n.change(func() {
		n.rest = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Block-Height") == "60" {
				refuse(w, "failed to create query context: failed to load state at height 60; version does not exist (latest height: 100): invalid request")
				return
			}
			_, _ = w.Write([]byte(`{"code":200,"msg":{},"error":""}`))
		}
	})
	if a := mustFetch(t, p, Request{Height: 60}); a.Reason != Pruned || a.Status != http.StatusNotFound {
		t.Errorf("answer at 60 = %+v, want %v with status 404", a, Pruned)
	}
	if a := mustFetch(t, p, Request{Height: 30}); a.Reason != OK {
		t.Errorf("answer at 30 = %+v, want OK", a)
	}
	expect.Equal(t, p.Health()[0].Lowest, 30, "lowest")
}

func TestClientTextsDoNotChangeTheReason(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{}, n)
	for text, want := range map[string]Reason{
		"x/upgrade: QueryModuleVersions module failed to load state at height 50; x not found":         NotFound,
		"x/upgrade: QueryModuleVersions module cannot query with height in the future not found":       NotFound,
		"rpc error: code = InvalidArgument desc = invalid denom: failed to load state at height 50; x": BadInput,
	} {
		n.change(func() { n.rest = func(w http.ResponseWriter, _ *http.Request) { refuse(w, text) } })
		if a := mustFetch(t, p, Request{Height: 50}); a.Reason != want {
			t.Errorf("reason of %q = %s, want %s", text, a.Reason, want)
		}
		expect.Equal(t, p.Health()[0].Lowest, 0, "lowest after %q", text)
	}
}

func TestOnlyTheBeginningOfATextIsSearched(t *testing.T) {
	for length, want := range map[int]bool{maxText - 100: true, maxText: false} {
		_, known := classify(cometRPC, strings.Repeat(" ", length)+"order_by", 0)
		expect.Equal(t, known, want, "text after %d bytes is known", length)
	}
	for wraps, want := range map[int]Doubt{maxWraps: certain, maxWraps + 1: unproven} {
		text := strings.Repeat("rpc error: code = Unknown desc = ", wraps-1) + "rpc error: code = NotFound desc = x"
		expect.Equal(t, doubtOf(codes.Unknown, text), want, "doubt of a status within %d others", wraps)
	}
}

func TestHeightAboveTheRefusalsNewestIsInTheFuture(t *testing.T) {
	n := newFakeNode(t, 100)
	p := run(t, Options{}, n)
	n.change(func() {
		n.rest = func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, "failed to create query context: failed to load state at height 120; version does not exist (latest height: 100): invalid request")
		}
	})
	if a := mustFetch(t, p, Request{Height: 120}); a.Reason != FutureHeight || a.Status != http.StatusBadRequest {
		t.Errorf("answer = %+v, want %v with status 400", a, FutureHeight)
	}
}

func TestNodeThatRefusesTheTipIsRetried(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t, 100)
	p := run(t, Options{BlockInterval: time.Second}, n)
	refusals := 3
	n.change(func() {
		n.rest = func(w http.ResponseWriter, r *http.Request) {
			var refused bool
			n.change(func() { refusals--; refused = refusals >= 0 })
			if refused {
				refuse(w, "failed to create query context: failed to load state at height 100; version does not exist (latest height: 104): invalid request")
				return
			}
			_, _ = w.Write([]byte(`{"code":200,"msg":{},"error":""}`))
		}
	})
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK {
		t.Errorf("answer after three refusals = %+v, want OK", a)
	}
	n.change(func() { refusals = 1 << 30 })
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/staking/pool", Height: AtTip})
	wantKind(t, err, upstream.BadAnswer)
	if h := p.Health()[0]; !strings.Contains(h.LastError, errTipRefused.Error()) {
		t.Errorf("last error = %q, want that the node refuses the tip", h.LastError)
	}
	n.change(func() { refusals = 0 })
	if a := mustFetch(t, p, Request{Height: AtTip}); a.Reason != OK {
		t.Errorf("answer after the refusals = %+v, want OK", a)
	}
}
