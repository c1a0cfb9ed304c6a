package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
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
	withAndWithoutLane(t, proxy.Options{Chain: story.Options{Patience: time.Minute}}, func(t *testing.T, s *chainService) {
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
	o := proxy.Options{Chain: story.Options{Patience: time.Minute, Routes: map[string]cache.Policy{"pool": longFresh}}}
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
	s := startChain(t, proxy.Options{Web: web.Options{SessionCookie: true}, Chain: story.Options{Patience: time.Millisecond}})
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
