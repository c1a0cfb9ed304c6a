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

// A secureClient asks over TLS, all on one connection.
type secureClient struct {
	http *http.Client
	base string
}

func (c *secureClient) open(t *testing.T, path string) *http.Response {
	t.Helper()
	res := expect.Value(c.http.Get(c.base + path))(t)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// at asks, and wants the answer of a block, marked as old or not.
func (c *secureClient) at(t *testing.T, what, path, height string, marked bool) {
	t.Helper()
	res := c.open(t, path)
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	status := res.Header.Get("Cache-Status")
	if got := res.Header.Get("X-Block-Height"); got != height || strings.Contains(status, "stale-while-revalidate") != marked {
		t.Errorf("%s: block %s, %s; want block %s, marked: %t", what, got, status, height, marked)
	}
}

func TestHeightsDoNotGoBackOnAConnectionWithTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		major int
		fast  bool
	}{"HTTP/1.1": {1, false}, "HTTP/2": {2, false}, "HTTP/1.1 in the lane": {1, true}, "HTTP/2 in the lane": {2, true}} {
		t.Run(name, func(t *testing.T) {
			s := startSecured(t, tt.fast, proxy.Options{Chain: story.Options{Patience: time.Minute}})
			client := s.client(t, tt.major)
			if tt.fast {
				s.comesThroughTheLane(t, client)
			}
			client.at(t, "at the tip", "/staking/pool", "228", false)
			s.chain.ahead(1)
			client.at(t, "of another replica", "/staking/validators", "229", false)
			s.chain.ahead(0)
			go func() {
				time.Sleep(20 * time.Millisecond)
				s.chain.grow(1)
			}()
			client.at(t, "the first key once more", "/staking/pool", "229", false)
		})
	}
}

// On HTTP/2 an answer that has not ended does not bind a request beside it.
func TestUnfinishedResponseDoesNotRaiseTheHeightOfItsConnection(t *testing.T) {
	s := startSecured(t, false, proxy.Options{Chain: story.Options{Shape: story.Node, Patience: time.Minute}})
	origin, client := s.chain, s.client(t, 2)
	client.at(t, "at the tip", "/staking/pool", "228", false)
	long := `"` + strings.Repeat("x", 6<<20) + `"` // more than the client's window
	origin.does(func(node.Request) (*node.Answer, error) {
		return &node.Answer{Status: http.StatusOK, Body: []byte(long)}, nil
	})
	origin.ahead(1)
	unread := client.open(t, "/staking/validators")
	if got := unread.Header.Get("X-Block-Height"); got != "229" {
		t.Fatalf("block %s, want 229", got)
	}
	origin.does(nil)
	origin.ahead(0)
	client.at(t, "beside it", "/staking/pool", "228", false)
	expect.Value(io.Copy(io.Discard, unread.Body))(t)
	go func() {
		time.Sleep(20 * time.Millisecond)
		origin.grow(1)
	}()
	client.at(t, "after it", "/staking/pool", "229", false)
}
