package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// setHashes gives each block of the chain a hash that begins with a letter.
func (f *fakeChain) setHashes(letter string) {
	f.change(func(f *fakeChain) {
		f.hashes = map[int64]string{}
		for height := range f.tip.Height + 20 {
			f.hashes[height] = fmt.Sprintf("%s%015d", letter, height)
		}
	})
}

const (
	at228     = "228.A00000000000" // session of a client that has seen block 228
	at229     = "229.A00000000000"
	lostAt228 = "228.B00000000000" // session of a client that has seen another block 228
)

// withAndWithoutLane runs a test with and without the fast lane. Memory has an entry for the pool.
func withAndWithoutLane(t *testing.T, o proxy.Options, test func(t *testing.T, s *chainService)) {
	t.Helper()
	for name, fast := range map[string]web.Lane{"with the fast lane": lane.New(lane.Options{}), "without": nil} {
		t.Run(name, func(t *testing.T) {
			o.Web.Lane = fast
			s := serveChain(t, o)
			s.chain.setHashes("A")
			client := dial(t, s.Listener.Addr())
			for range 3 { // often enough for the lane to serve it
				client.roundTrip(t, getPool)
			}
			test(t, s)
		})
	}
}

// poolIn returns a request for the pool in a session.
func poolIn(token string) string {
	return strings.TrimSuffix(getPool, "\r\n") + "X-Session: " + token + "\r\n\r\n"
}

func TestSessionIsServedAtOrAfterItsBlock(t *testing.T) {
	withAndWithoutLane(t, proxy.Options{Chain: blocks.Options{Patience: time.Minute}}, func(t *testing.T, s *chainService) {
		client, other := dial(t, s.Listener.Addr()), dial(t, s.Listener.Addr())
		expectBlock(t, "session of the newest block", client.roundTrip(t, poolIn(at228)), "228", false)
		expectBlock(t, "session of an earlier block", client.roundTrip(t, poolIn("100")), "228", false)
		got := make(chan string)
		go func() { got <- client.roundTrip(t, poolIn(at229)) }()
		expectBlock(t, "no session", other.roundTrip(t, getPool), "228", false)
		s.chain.grow(1)
		expectBlock(t, "session of the next block", <-got, "229", false)
	})
}

func TestSessionIsServedAtItsBlockDespiteLongerFreshness(t *testing.T) {
	o := proxy.Options{Chain: blocks.Options{Patience: time.Minute}, Routes: map[string]cache.Policy{"pool": longFresh}}
	withAndWithoutLane(t, o, func(t *testing.T, s *chainService) {
		client := dial(t, s.Listener.Addr())
		s.chain.grow(2)
		expectBlock(t, "no session", client.roundTrip(t, getPool), "228", false)
		expectBlock(t, "session of the cached block", client.roundTrip(t, poolIn("228")), "228", false)
		expectBlock(t, "session of the next block", client.roundTrip(t, poolIn("229")), "230", false)
	})
}

func TestSessionStaysInTheFastLane(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := serveChain(t, proxy.Options{Web: web.Options{Lane: lane.New(lane.Options{Registerer: registry})}})
	s.chain.setHashes("A")
	client := dial(t, s.Listener.Addr())
	warmLane(t, registry, client, getPool)
	before := laneHits(t, registry)
	for _, token := range []string{at228, "228", "227.A00000000000", "100", lostAt228} {
		expectBlock(t, token, client.roundTrip(t, poolIn(token)), "228", false)
	}
	expect.Equal(t, laneHits(t, registry)-before, 5, "requests served by the lane")
}

func TestSessionsUseHashesOfNodes(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.advance(t)
	s.advance(t)
	first := s.get(t, sdkPool)
	token := first.header.Get("X-Session")
	height, hash, _ := strings.Cut(token, ".")
	if height != first.header.Get("X-Block-Height") || len(hash) != 12 {
		t.Fatalf("X-Session = %q, want block %s with 12 digits of its hash", token, first.header.Get("X-Block-Height"))
	}
	for sent, reset := range map[string]string{token: "", strings.ToLower(token): "", height + ".000000000000": "true"} {
		got := s.get(t, sdkPool, "X-Session", sent)
		got.expectHeader(t, "X-Session-Reset", reset)
		got.expectHeader(t, "X-Session", token)
	}
	s.get(t, sdkPool, "X-Min-Block-Height", height+".000000000000").expect(t, http.StatusConflict)
}

func TestSessionCookieIsSetWithAndWithoutReset(t *testing.T) {
	const name = "tipcache-session-recorded-1="
	s := startChain(t, proxy.Options{Web: web.Options{Settings: web.Settings{SessionCookie: true}}, Chain: blocks.Options{Patience: time.Millisecond}})
	s.chain.setHashes("A")
	for cookie, reset := range map[string]string{"": "", "a=b; " + name + "100": "", name + lostAt228: "true"} {
		for range 3 { // the fast lane must not serve it
			got := s.get(t, anyPath, "Cookie", cookie)
			got.expectHeader(t, "Set-Cookie", name+at228+"; Path=/; HttpOnly; SameSite=Strict")
			got.expectHeader(t, "Cache-Control", "private, no-cache")
			got.expectHeader(t, "X-Session-Reset", reset)
		}
	}
	s.get(t, anyPath, "Cookie", name+"250.A00000000000", "X-Session", at228).expectHeader(t, "Set-Cookie", "") // the header takes precedence
	pinned := s.get(t, anyPath, "X-Block-Height", "100")
	pinned.expectHeader(t, "Set-Cookie", "")
	pinned.expectHeader(t, "Cache-Control", "private, max-age=86400")
	s.get(t, anyPath+"?since=0").expectHeader(t, "Set-Cookie", "")
}

const getValidators = "GET /staking/validators HTTP/1.1\r\nHost: x\r\n\r\n"

// expectBlock fails the test unless a response is from a block, and marked as stale or not.
func expectBlock(t *testing.T, what, response, height string, stale bool) {
	t.Helper()
	if head, _, _ := strings.Cut(response, "\r\n\r\n"); !strings.Contains(head+"\r\n", "\r\nX-Block-Height: "+height+"\r\n") || strings.Contains(head, "stale-while-revalidate") != stale {
		t.Errorf("%s: headers = %s, want block %s, stale: %t", what, head, height, stale)
	}
}

// setAhead makes answers come from blocks after the tip, as entries of another replica may.
func (f *fakeChain) setAhead(blocks int64) {
	f.change(func(f *fakeChain) { f.behind = -blocks })
}

// growSoon adds a block while the next request waits for it.
func (f *fakeChain) growSoon() { time.AfterFunc(20*time.Millisecond, func() { f.grow(1) }) }

func TestHeightsDoNotGoBackOnAConnection(t *testing.T) {
	withAndWithoutLane(t, proxy.Options{Chain: blocks.Options{Patience: time.Minute}}, func(t *testing.T, s *chainService) {
		client, other := dial(t, s.Listener.Addr()), dial(t, s.Listener.Addr())
		for range 4 {
			expectBlock(t, "at the tip", client.roundTrip(t, getPool), "228", false)
		}
		s.chain.setAhead(1)
		for range 3 { // on connections that have seen no block
			expectBlock(t, "entry of another replica", dial(t, s.Listener.Addr()).roundTrip(t, getValidators), "229", false)
		}
		s.chain.setAhead(0)
		expectBlock(t, "cached entry of another replica", client.roundTrip(t, getValidators), "229", false)
		expectBlock(t, "another connection", other.roundTrip(t, getPool), "228", false)
		for range 4 { // without a wait
			expectBlock(t, "cached entry, again", client.roundTrip(t, getValidators), "229", false)
		}
		s.chain.growSoon()
		expectBlock(t, "first key again", client.roundTrip(t, getPool), "229", false)
	})
}

// tlsClient sends requests over TLS on one connection.
type tlsClient struct {
	http *http.Client
	base string
}

func (c *tlsClient) open(t *testing.T, path string) *http.Response {
	t.Helper()
	res := expect.Value(c.http.Get(c.base + path))(t)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// expectBlock fails the test unless the response is from a block, and marked as stale or not.
func (c *tlsClient) expectBlock(t *testing.T, what, path, height string, stale bool) {
	t.Helper()
	res := c.open(t, path)
	expect.Value(io.Copy(io.Discard, res.Body))(t)
	status := res.Header.Get("Cache-Status")
	if got := res.Header.Get("X-Block-Height"); got != height || strings.Contains(status, "stale-while-revalidate") != stale {
		t.Errorf("%s: block = %s with Cache-Status %s, want block %s, stale: %t", what, got, status, height, stale)
	}
}

func TestHeightsDoNotGoBackOnAConnectionWithTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		major int
		fast  bool
	}{"HTTP/1.1": {1, false}, "HTTP/2": {2, false}, "HTTP/1.1 with the lane": {1, true}, "HTTP/2 with the lane": {2, true}} {
		t.Run(name, func(t *testing.T) {
			s := startTLS(t, tt.fast, proxy.Options{Chain: blocks.Options{Patience: time.Minute}})
			client := s.client(t, tt.major)
			if tt.fast {
				s.warmLane(t, client)
			}
			client.expectBlock(t, "at the tip", "/staking/pool", "228", false)
			s.chain.setAhead(1)
			client.expectBlock(t, "entry of another replica", "/staking/validators", "229", false)
			s.chain.setAhead(0)
			s.chain.growSoon()
			client.expectBlock(t, "first key again", "/staking/pool", "229", false)
		})
	}
}

// With HTTP/2, a concurrent request does not have to wait for the block of a response that is still being sent.
func TestUnfinishedResponseDoesNotRaiseTheHeightOfItsConnection(t *testing.T) {
	s := startTLS(t, false, proxy.Options{Chain: blocks.Options{Patience: time.Minute}, Story: story.Options{Shape: story.Node}})
	client := s.client(t, 2)
	client.expectBlock(t, "at the tip", "/staking/pool", "228", false)
	long := `"` + strings.Repeat("x", 6<<20) + `"` // exceeds the window of the client
	s.chain.answerWith(func(node.Request) (*node.Answer, error) {
		return &node.Answer{Status: http.StatusOK, Body: []byte(long)}, nil
	})
	s.chain.setAhead(1)
	unread := client.open(t, "/staking/validators")
	if got := unread.Header.Get("X-Block-Height"); got != "229" {
		t.Fatalf("block of the long response = %s, want 229", got)
	}
	s.chain.answerWith(nil)
	s.chain.setAhead(0)
	client.expectBlock(t, "concurrent request", "/staking/pool", "228", false)
	expect.Value(io.Copy(io.Discard, unread.Body))(t)
	s.chain.growSoon()
	client.expectBlock(t, "after the long response", "/staking/pool", "229", false)
}
