package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

const anyPath = "/staking/pool"

func TestAnswersSayWhichBlockTheyAreOf(t *testing.T) {
	s := startChain(t, proxy.Options{})
	got := s.get(t, anyPath)
	got.has(t, "X-Block-Height", "228")
	if h := s.chain.last().Height; h != node.AtTip {
		t.Errorf("asked at %d, want the tip", h)
	}
	s.get(t, anyPath).has(t, "X-Block-Height", "228")
	s.chain.grow(6) // past what is served stale
	s.get(t, anyPath).has(t, "X-Block-Height", "234")
	if n := s.chain.calls(); n != 2 {
		t.Errorf("the node was asked %d times, want once a block", n)
	}
}

func TestAPastBlockIsReadOnceAndForever(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for range 2 {
		got := s.get(t, anyPath, "X-Block-Height", "100")
		got.has(t, "X-Block-Height", "100")
		got.has(t, "Cache-Control", "private, max-age=86400")
		got.has(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding")
		s.chain.grow(10_000)
	}
	s.get(t, anyPath, "X-Block-Height", "101").has(t, "X-Block-Height", "101")
	if diff := cmp.Diff([]node.Request{{Path: anyPath, Height: 100, Client: "127.0.0.1", Miss: true}, {Path: anyPath, Height: 101, Client: "127.0.0.1", Miss: true}}, s.chain.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestHeightsThatCannotBeServedAreRefused(t *testing.T) {
	malformed := func(name, value string) string {
		return `{"code":400,"msg":{},"error":"` + name + ` is \"` + value + `\"; expected a positive integer"}` + "\n"
	}
	noToken := func(name, value string) string {
		return strings.Replace(malformed(name, value), "integer", "integer, or the X-Session of an answer", 1)
	}
	tests := []struct{ name, header, value, want string }{
		{"zero", "X-Block-Height", "0", malformed("X-Block-Height", "0")},
		{"negative", "X-Block-Height", "-5", malformed("X-Block-Height", "-5")},
		{"signed", "X-Block-Height", "+100", malformed("X-Block-Height", "+100")},
		{"fractional", "X-Block-Height", "100.0", malformed("X-Block-Height", "100.0")},
		{"hex", "X-Block-Height", "0x10", malformed("X-Block-Height", "0x10")},
		{"beyond 64 bits", "X-Block-Height", "9223372036854775808", malformed("X-Block-Height", "9223372036854775808")},
		{"a least height of zero", "X-Min-Block-Height", "0", noToken("X-Min-Block-Height", "0")},
		{"a least height that is a word", "X-Min-Block-Height", "latest", noToken("X-Min-Block-Height", "latest")},
		{"a block of the execution client of zero", "X-Min-Evm-Block", "0", malformed("X-Min-Evm-Block", "0")},
		{"a block of the execution client in hex", "X-Min-Evm-Block", "0x4d2", malformed("X-Min-Evm-Block", "0x4d2")},
		{"the future", "X-Block-Height", "229", `{"code":400,"msg":{},"error":"block 229 is in the future; the newest is 228"}` + "\n"},
	}
	s := startChain(t, proxy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.get(t, anyPath, tt.header, tt.value).refuses(t, 400, tt.want)
		})
	}
	s.get(t, anyPath, "X-Block-Height", "100", "X-Min-Block-Height", "101").refuses(t, 400,
		`{"code":400,"msg":{},"error":"X-Min-Block-Height is above X-Block-Height: no answer can be both"}`+"\n")
	if n := s.chain.calls(); n > 0 {
		t.Errorf("the node was asked %d times", n)
	}
}

func TestAPrunedBlockIsNotFound(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{Chain: chain.Options{Classes: blocks.Classes{Negative: 2 * time.Second}}})
	s.chain.does(func(node.Request) (*node.Answer, error) { return recorded(t, "pruned_height_1").answer(), nil })
	want := `{"code":404,"msg":{},"error":"failed to create query context: failed to load state at height 1; version mismatch on immutable IAVL tree; ` +
		`version does not exist. Version has either been pruned, or is for a future block height (latest height: 203): invalid request"}` + "\n"
	s.get(t, anyPath, "X-Block-Height", "1").refuses(t, 404, want)
	s.get(t, anyPath, "X-Block-Height", "1").refuses(t, 404, want)
	if n := s.chain.calls(); n != 1 {
		t.Errorf("the node was asked %d times, want once", n)
	}
	eventually(t, "the node is asked again after the answer expired", func() bool {
		s.get(t, anyPath, "X-Block-Height", "1").refuses(t, 404, want)
		return s.chain.calls() > 1
	})
}

func TestReadersOfTheirOwnWritesWait(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.get(t, anyPath)
	got := make(chan exchange)
	go func() { got <- s.get(t, anyPath, "X-Min-Block-Height", "230") }()
	select {
	case <-got:
		t.Fatal("answered before the block came")
	case <-time.After(50 * time.Millisecond):
	}
	s.chain.grow(2)
	answer := <-got
	answer.has(t, "X-Block-Height", "230")
	if answer.status != 200 {
		t.Errorf("status %d: %s", answer.status, answer.body)
	}
}

func TestWaitingForABlockEnds(t *testing.T) {
	t.Parallel()
	bounds := map[string]proxy.Options{
		"when the block does not come in time": {Chain: chain.Options{MinHeightWait: 20 * time.Millisecond}},
		"when the time of the request is over": {Web: web.Options{RequestTimeout: 200 * time.Millisecond}},
	}
	for name, o := range bounds {
		t.Run(name, func(t *testing.T) {
			s := startChain(t, o)
			got := s.get(t, anyPath, "X-Min-Block-Height", "400")
			got.refuses(t, 504, `{"code":504,"msg":{},"error":"block 400 has not come; the newest is 228"}`+"\n")
			got.has(t, "Retry-After", "2")
		})
	}
	t.Run("at once when no height source is known", func(t *testing.T) {
		s := startChain(t, proxy.Options{})
		s.chain.deafen()
		got := s.get(t, anyPath, "X-Min-Block-Height", "1")
		got.refuses(t, 503, `{"code":503,"msg":{},"error":"the newest block is not known at present, so X-Min-Block-Height cannot be waited for"}`+"\n")
		got.has(t, "Retry-After", "1")
	})
}

func TestABlockAnotherReplicaHasReadAtRaisesTheTip(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.get(t, anyPath)
	s.chain.grow(-8)
	s.get(t, anyPath).has(t, "X-Block-Height", "228")
	if diff := cmp.Diff([]int64{228}, s.chain.raised); diff != "" {
		t.Errorf("raised (-want +got):\n%s", diff)
	}
}

func TestWithoutAHeightSourceSecondsCount(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Routes: map[string]cache.Policy{"pool": long}}})
	s.chain.deafen()
	s.get(t, anyPath)
	got := s.get(t, anyPath)
	got.has(t, "X-Block-Height", "")
	if status := got.header.Get("Cache-Status"); !strings.HasPrefix(status, "tipcache; hit; ttl=") || !strings.HasSuffix(status, `; detail="memory seconds"`) {
		t.Errorf("Cache-Status: %s", status)
	}
	if n := s.chain.calls(); n != 1 {
		t.Errorf("the node was asked %d times, want once", n)
	}
	s.get(t, anyPath, "X-Block-Height", "100").has(t, "X-Block-Height", "100")
}

func TestABlockThatWasSeenStaysSeen(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.set(func(f *fakeChain) { f.tip.Known = false }) // every height source is down
	if got := s.get(t, anyPath, "X-Min-Block-Height", "200"); got.status != 200 {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

func TestNodesThatCatchUpAreNotServedAsCurrent(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.set(func(f *fakeChain) { f.tip.CatchingUp, f.behind = true, 100 })
	for _, status := range []string{`tipcache; fwd=uri-miss; stored; ttl=0; detail="catching-up"`, `tipcache; fwd=stale; stored; ttl=0; detail="catching-up"`} {
		got := s.get(t, anyPath)
		got.has(t, "X-Block-Height", "128")
		got.has(t, "Cache-Control", "public, max-age=0, s-maxage=0")
		got.has(t, "Cache-Status", status)
	}
	s.get(t, anyPath, "X-Min-Block-Height", "200").refuses(t, 504, `{"code":504,"msg":{},"error":"block 200 has not come; the newest is 228"}`+"\n")
}
