package proxy_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// nextOf is the query of the URL at which a client that polls goes on.
func nextOf(t *testing.T, e exchange) string {
	t.Helper()
	next, ok := strings.CutSuffix(strings.TrimPrefix(e.header.Get("Link"), "<"), `>; rel="next"`)
	if !ok || !strings.HasPrefix(next, "?") {
		t.Fatalf("%d, Link: %q", e.status, e.header["Link"])
	}
	return next
}

func TestPollResponseLinksToNextPoll(t *testing.T) {
	var lines bytes.Buffer
	s := startChain(t, proxy.Options{Web: web.Options{AccessLog: &lines, Logger: slog.Default()}})
	const path = "/staking/validators"
	first := s.get(t, path+"?Since=0&pagination.limit=2&x-min-block-height=227&stream.blocks=1")
	first.has(t, "X-Block-Height", "228")
	first.has(t, "Cache-Control", "public, max-age=1")
	first.has(t, "Age", "")
	first.has(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding, X-Session")
	next := nextOf(t, first)
	if !strings.HasPrefix(next, "?pagination.limit=2&since=228.") {
		t.Fatalf("goes on with %s", next)
	}
	tags := map[string]bool{}
	for _, coding := range []string{"gzip", "br", "zstd"} {
		again := s.get(t, path+"?pagination.limit=2&since=0", "Accept-Encoding", coding)
		again.has(t, "Content-Encoding", coding)
		tags[again.header.Get("Etag")] = true
		if nextOf(t, again) != next {
			t.Errorf("in %s it goes on with %v", coding, again.header)
		}
	}
	if len(tags) != 3 {
		t.Errorf("validators %v of three codings", tags)
	}
	s.get(t, path+"?since=0&pagination.limit=2", "If-None-Match", first.header.Get("Etag")).has(t, "Link", first.header.Get("Link"))
	got := make(chan exchange)
	go func() { got <- s.get(t, path+next) }()
	s.chain.says(200, `{"code":200,"msg":{"validators":[],"pagination":{"next_key":null,"total":"0"}},"error":""}`)
	s.chain.grow(1)
	changed := <-got
	changed.has(t, "X-Block-Height", "229")
	if !strings.HasPrefix(nextOf(t, changed), "?pagination.limit=2&since=229.") || changed.status != http.StatusOK {
		t.Errorf("%d goes on with %v", changed.status, changed.header)
	}
	want := node.Request{Path: path, Query: "pagination.limit=2", Height: node.AtTip, Cost: node.Page, Client: "127.0.0.1", Miss: true}
	expect.NoDiff(t, s.chain.asked[0], want, "request to the node")
	s.Close()
	if strings.Contains(strings.ToLower(lines.String()), "since") {
		t.Errorf("the log has it:\n%s", &lines)
	}
}

func TestPollTakesPartInSession(t *testing.T) {
	s := startChain(t, proxy.Options{Streams: stream.Options{LongPoll: time.Millisecond}})
	s.chain.hashed("A")
	for token, want := range map[string][2]string{"100": {"", "public, max-age=1"}, at228: {"", "public, max-age=1"}, lostAt228: {"true", "private, max-age=1"}} {
		next := "?since=0"
		for range 2 { // an answer, and a 204
			s.chain.grow(1)
			e := s.get(t, poolPath+next, "X-Session", token)
			e.has(t, "X-Session", e.header.Get("X-Block-Height")+".A00000000000")
			e.has(t, "X-Session-Reset", want[0])
			e.has(t, "Cache-Control", want[1])
			next = nextOf(t, e)
		}
	}
}

func TestRefusalsOfPollsMayBeSharedForASecond(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for target, want := range map[string]string{
		"/staking/pool?since=228":                     `since is \"228\"; expected 0, or the id of an answer of this chain, as its Link names it`,
		"/staking/pool?since=0&since=1":               `since is given 2 times`,
		"/staking/pool?since=0&x-block-height=latest": `x-block-height is \"latest\"; expected a positive integer`,
	} {
		got := s.get(t, target)
		got.refuses(t, http.StatusBadRequest, `{"code":400,"msg":{},"error":"`+want+"\"}\n")
		got.has(t, "Cache-Control", "max-age=1")
	}
}

func TestNodesOfTheSDKArePolled(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.advance(t)
	poll := func(target string) exchange {
		resp, body := s.get(t, target)
		return exchange{status: resp.StatusCode, header: resp.Header, body: body}
	}
	for _, path := range []string{sdkPool, "/cosmos/base/tendermint/v1beta1/blocks/latest", "/no/such/module"} {
		got := poll(path + "?since=0&%3E=%22")
		if next := nextOf(t, got); !strings.HasPrefix(next, "?%3E=%22&since=") {
			t.Errorf("%s goes on with %s", path, next)
		}
		got.has(t, "Cache-Control", "public, max-age=1")
	}
	next := nextOf(t, poll(sdkPool+"?since=0"))
	got := make(chan exchange)
	go func() { got <- poll(sdkPool + next) }()
	s.advance(t)
	if changed := <-got; changed.status != http.StatusOK || nextOf(t, changed) == next {
		t.Errorf("%d %v", changed.status, changed.header)
	}
	poll("/cosmos/base/tendermint/v1beta1/node_info?since=x").wants(t, http.StatusOK)
}
