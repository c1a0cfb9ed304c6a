package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

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
			s := startTLS(t, tt.fast, proxy.Options{Chain: story.Options{Patience: time.Minute}})
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
	s := startTLS(t, false, proxy.Options{Chain: story.Options{Shape: story.Node, Patience: time.Minute}})
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
