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

// hashes gives the chain a hash for each block from its beginning on.
func (f *fakeChain) hashed(letter string) {
	f.set(func(f *fakeChain) {
		f.hashes = map[int64]string{}
		for height := range f.tip.Height + 20 {
			f.hashes[height] = fmt.Sprintf("%s%015d", letter, height)
		}
	})
}

const (
	at228     = "228.A00000000000" // the session of one who has seen block 228
	at229     = "229.A00000000000"
	lostAt228 = "228.B00000000000" // of one who saw another block there
)

func TestResponseAtTheTipCarriesASession(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.get(t, "/staking/validators").has(t, "X-Session", "228") // whose hash is not known
	s.chain.hashed("A")
	first := s.get(t, anyPath)
	first.has(t, "X-Session", at228)
	first.has(t, "X-Session-Reset", "")
	for what, got := range map[string]exchange{
		"a 304":                    s.get(t, anyPath, "If-None-Match", first.header.Get("Etag")),
		"a HEAD":                   s.do(t, http.MethodHead, anyPath, ""),
		"an error with a height":   s.get(t, "/staking/validators/0x00000000000000000000000000000000000000aa"),
		"an answer to a session":   s.get(t, anyPath, "X-Session", at228),
		"a page":                   s.get(t, "/staking/validators?pagination.limit=2"),
		"one after a least height": s.get(t, anyPath, "X-Min-Block-Height", "200"),
	} {
		if token := got.header.Get("X-Session"); token != at228 || got.header.Get("X-Block-Height") != "228" {
			t.Errorf("%s, %d: session %q at block %s", what, got.status, token, got.header.Get("X-Block-Height"))
		}
	}
	for what, got := range map[string]exchange{
		"an answer at a block":            s.get(t, anyPath, "X-Block-Height", "100", "X-Session", lostAt228),
		"an answer at a block of its URL": s.get(t, anyPath+"?x-block-height=100"),
		"a refusal":                       s.get(t, "/no/such/path"),
	} {
		if token, reset := got.header.Get("X-Session"), got.header.Get("X-Session-Reset"); token+reset != "" {
			t.Errorf("%s, %d: session %q, reset %q", what, got.status, token, reset)
		}
	}
}

// sessions runs a test with the fast lane and without. Clients ask for the pool, which memory has.
func sessions(t *testing.T, o proxy.Options, test func(t *testing.T, s *chainService)) {
	t.Helper()
	for name, fast := range map[string]web.Lane{"with the fast lane": lane.New(lane.Options{}), "without": nil} {
		t.Run(name, func(t *testing.T) {
			o.Web.Lane = fast
			s := startChainWithout(t, o)
			s.chain.hashed("A")
			for client := dial(t, s.Listener.Addr()); ; {
				if client.ask(t, pool); s.chain.calls() > 0 {
					client.ask(t, pool)
					client.ask(t, pool)
					break
				}
			}
			test(t, s)
		})
	}
}

// in is a request for the pool in a session.
func in(token string) string {
	return strings.TrimSuffix(pool, "\r\n") + "X-Session: " + token + "\r\n\r\n"
}

func TestSessionIsServedAtOrAfterItsBlock(t *testing.T) {
	sessions(t, proxy.Options{Chain: story.Options{Patience: time.Minute}}, func(t *testing.T, s *chainService) {
		client, other := dial(t, s.Listener.Addr()), dial(t, s.Listener.Addr())
		at(t, "at its block", client.ask(t, in(at228)), "228", false)
		at(t, "of an earlier block", client.ask(t, in("100")), "228", false)
		got := make(chan string)
		go func() { got <- client.ask(t, in(at229)) }()
		at(t, "another client", other.ask(t, pool), "228", false)
		s.chain.grow(1)
		at(t, "of the next block", <-got, "229", false)
	})
}

func TestSessionIsServedAtItsBlockInALaggingClass(t *testing.T) {
	lagging := cache.Policy{FreshBlocks: 5, StaleBlocks: 9, ErrorBlocks: 9, Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour}
	o := proxy.Options{Chain: story.Options{Patience: time.Minute, Routes: map[string]cache.Policy{"pool": lagging}}}
	sessions(t, o, func(t *testing.T, s *chainService) {
		client := dial(t, s.Listener.Addr())
		s.chain.grow(2)
		at(t, "without a session", client.ask(t, pool), "228", false)
		at(t, "of its block", client.ask(t, in("228")), "228", false)
		at(t, "of the block after it", client.ask(t, in("229")), "230", false)
	})
}

func TestSessionOfARolledBackBlockBeginsAgain(t *testing.T) {
	sessions(t, proxy.Options{Chain: story.Options{Patience: time.Minute}}, func(t *testing.T, s *chainService) {
		s.chain.set(func(f *fakeChain) { f.replaced = map[int64]string{999: "B00000000000"} })
		client := dial(t, s.Listener.Addr())
		for _, token := range []string{lostAt228, "1000.B00000000000", "100.B0000000"} {
			for range 2 {
				got := client.ask(t, in(token))
				at(t, token, got, "228", false)
				for _, line := range []string{"X-Session-Reset: true", "X-Session: " + at228, "Cache-Control: private, no-cache"} {
					expect.Contains(t, got, "\r\n"+line+"\r\n", "%s: response without %s", token, line)
				}
			}
		}
		if got := client.ask(t, pool); strings.Contains(got, "X-Session-Reset: ") {
			t.Errorf("another client:\n%s", got)
		}
	})
}

func TestSessionStaysInTheFastLane(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := startChainWithout(t, proxy.Options{Web: web.Options{Lane: lane.New(lane.Options{Registerer: registry})}})
	s.chain.hashed("A")
	client := dial(t, s.Listener.Addr())
	for hitsOf(t, registry) == 0 {
		client.ask(t, pool)
	}
	before := hitsOf(t, registry)
	for _, token := range []string{at228, "228", "227.A00000000000", "100", lostAt228} {
		at(t, token, client.ask(t, in(token)), "228", false)
	}
	expect.Equal(t, hitsOf(t, registry)-before, 5, "answers of 5 from the lane")
}

func TestSessionsUseHashesOfNodes(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.advance(t)
	s.advance(t)
	resp, _ := s.get(t, sdkPool)
	token := resp.Header.Get("X-Session")
	height, hash, _ := strings.Cut(token, ".")
	if height != resp.Header.Get("X-Block-Height") || len(hash) != 12 {
		t.Fatalf("session %q: %v", token, resp.Header)
	}
	for sent, reset := range map[string]string{token: "", strings.ToLower(token): "", height + ".000000000000": "true"} {
		resp, _ := s.get(t, sdkPool, "X-Session", sent)
		if got := resp.Header.Get("X-Session-Reset"); got != reset || resp.Header.Get("X-Session") != token {
			t.Errorf("%s: reset %q, session %s", sent, got, resp.Header.Get("X-Session"))
		}
	}
	if resp, text := s.get(t, sdkPool, "X-Min-Block-Height", height+".000000000000"); resp.StatusCode != http.StatusConflict {
		t.Errorf("status %s: %s", resp.Status, text)
	}
}

func TestBrowserKeepsItsSessionInACookie(t *testing.T) {
	const kept = "tipcache-session="
	s := startChain(t, proxy.Options{Web: web.Options{SessionCookie: true}, Chain: story.Options{Patience: time.Millisecond}})
	s.chain.hashed("A")
	s.chain.set(func(f *fakeChain) { f.tip.Limit = 300 })
	for _, tt := range []struct {
		name, cookie, set string
		reset             string
		stale             bool
	}{
		{"no session", "", at228, "", false},
		{"the newest block", kept + at228, "", "", false},
		{"an earlier block", "a=b; " + kept + "100", at228, "", false},
		{"a block that does not arrive", kept + "250.A00000000000", "", "", true},
		{"a block that the chain cannot have", kept + "301", at228, "", false},
		{"a block that was rolled back", kept + lostAt228, at228, "true", false},
		{"a malformed cookie", kept + lostAt228 + "!", at228, "", false},
	} {
		for range 3 { // the fast lane must not answer
			got := s.get(t, anyPath, "Cookie", tt.cookie)
			want := ""
			if tt.set != "" {
				want = kept + tt.set + "; Path=/; HttpOnly; SameSite=Strict"
			}
			got.has(t, "Set-Cookie", want)
			got.has(t, "Cache-Control", "private, no-cache")
			got.has(t, "X-Session-Reset", tt.reset)
			if stale := strings.Contains(got.header.Get("Cache-Status"), "stale-"); got.status != http.StatusOK || stale != tt.stale {
				t.Errorf("%s: status = %d, stale = %t, want 200, %t", tt.name, got.status, stale, tt.stale)
			}
		}
	}
	s.get(t, anyPath, "Cookie", kept+"250.A00000000000", "X-Session", at228).has(t, "Set-Cookie", "") // the header wins
	pinned := s.get(t, anyPath, "X-Block-Height", "100")
	pinned.has(t, "Set-Cookie", "")
	pinned.has(t, "Cache-Control", "private, max-age=86400")
	s.get(t, anyPath+"?since=0").has(t, "Set-Cookie", "")
}
