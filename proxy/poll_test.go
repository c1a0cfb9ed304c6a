package proxy_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// nextPoll returns the query of the URL for the next poll.
func nextPoll(t *testing.T, e exchange) string {
	t.Helper()
	next, ok := strings.CutSuffix(strings.TrimPrefix(e.header.Get("Link"), "<"), `>; rel="next"`)
	if !ok || !strings.HasPrefix(next, "?") {
		t.Fatalf("response to a poll = %d with Link %q, want a link to the next poll", e.status, e.header["Link"])
	}
	return next
}

func TestPollResponseLinksToNextPoll(t *testing.T) {
	var lines bytes.Buffer
	s := startChain(t, proxy.Options{Web: web.Options{Record: record.Options{AccessLog: &lines}, Logger: slog.Default()}})
	const path = "/staking/validators"
	first := s.get(t, path+"?Since=0&pagination.limit=2&x-min-block-height=227&stream.blocks=1")
	first.expectHeader(t, "X-Block-Height", "228")
	first.expectHeader(t, "Cache-Control", "public, max-age=1")
	first.expectHeader(t, "Age", "")
	first.expectHeader(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding, X-Session")
	next := nextPoll(t, first)
	if !strings.HasPrefix(next, "?pagination.limit=2&since=228.") {
		t.Fatalf("next poll = %s, want one since 228 with the same limit", next)
	}
	tags := map[string]bool{}
	for _, coding := range []string{"gzip", "br", "zstd"} {
		again := s.get(t, path+"?pagination.limit=2&since=0", "Accept-Encoding", coding)
		again.expectHeader(t, "Content-Encoding", coding)
		tags[again.header.Get("Etag")] = true
		expect.Equal(t, nextPoll(t, again), next, "next poll in %s", coding)
	}
	expect.Equal(t, len(tags), 3, "ETags of three codings")
	s.get(t, path+"?since=0&pagination.limit=2", "If-None-Match", first.header.Get("Etag")).expectHeader(t, "Link", first.header.Get("Link"))
	got := make(chan exchange)
	go func() { got <- s.get(t, path+next) }()
	s.chain.reply(200, `{"code":200,"msg":{"validators":[],"pagination":{"next_key":null,"total":"0"}},"error":""}`)
	s.chain.grow(1)
	changed := <-got
	changed.expect(t, http.StatusOK)
	changed.expectHeader(t, "X-Block-Height", "229")
	expect.Contains(t, nextPoll(t, changed), "?pagination.limit=2&since=229.", "next poll after a change")
	want := node.Request{Path: path, Query: "pagination.limit=2", Height: node.AtTip, Cost: node.Page, Client: "127.0.0.1", Miss: true}
	expect.NoDiff(t, s.chain.requests[0], want, "request to the node")
	s.Close()
	if strings.Contains(strings.ToLower(lines.String()), "since") {
		t.Errorf("log = %s, want no since parameter", &lines)
	}
}

func TestPollContinuesSession(t *testing.T) {
	s := startChain(t, proxy.Options{Streams: stream.Options{LongPoll: time.Millisecond}})
	s.chain.setHashes("A")
	for token, want := range map[string][2]string{"100": {"", "public, max-age=1"}, at228: {"", "public, max-age=1"}, lostAt228: {"true", "private, max-age=1"}} {
		next := "?since=0"
		for range 2 { // a 200 and a 204
			s.chain.grow(1)
			e := s.get(t, poolPath+next, "X-Session", token)
			e.expectHeader(t, "X-Session", e.header.Get("X-Block-Height")+".A00000000000")
			e.expectHeader(t, "X-Session-Reset", want[0])
			e.expectHeader(t, "Cache-Control", want[1])
			next = nextPoll(t, e)
		}
	}
}

// A shared cache that ignores Vary would give them to other clients.
func TestPollsRefusedForAHeaderArePrivate(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for header, want := range map[[2]string]int{
		{"X-Session", "x"}:                         http.StatusBadRequest,
		{"X-Padding", strings.Repeat("x", 17<<10)}: http.StatusRequestHeaderFieldsTooLarge,
	} {
		got := s.get(t, "/staking/pool?since=0", header[0], header[1])
		got.expect(t, want)
		got.expectHeader(t, "Cache-Control", "private, max-age=1")
	}
}

func TestSDKPathsCanBePolled(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.advance(t)
	for _, path := range []string{sdkPool, "/cosmos/base/tendermint/v1beta1/blocks/latest", "/no/such/module"} {
		got := s.get(t, path+"?since=0&%3E=%22")
		expect.Contains(t, nextPoll(t, got), "?%3E=%22&since=", "next poll of %s", path)
		got.expectHeader(t, "Cache-Control", "public, max-age=1")
	}
	next := nextPoll(t, s.get(t, sdkPool+"?since=0"))
	got := make(chan exchange)
	go func() { got <- s.get(t, sdkPool+next) }()
	s.advance(t)
	changed := <-got
	changed.expect(t, http.StatusOK)
	if nextPoll(t, changed) == next {
		t.Errorf("next poll after a change = %s, want another one", next)
	}
	s.get(t, "/cosmos/base/tendermint/v1beta1/node_info?since=x").expect(t, http.StatusOK) // has no such parameter
}
