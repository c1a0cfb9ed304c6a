package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/upstream/node"
)

// A secureClient asks over TLS, all on one connection.
type secureClient struct {
	http *http.Client
	base string
}

// startSecure serves the chain over TLS, to a client that speaks HTTP/2 or HTTP/1.1.
func startSecure(t *testing.T, major int, o proxy.Options) (*fakeChain, *secureClient) {
	t.Helper()
	p, chain := newChainProxy(t, o)
	s := unstarted(t, p, nil, nil)
	s.EnableHTTP2 = major == 2
	s.StartTLS()
	c := s.Client()
	transport := c.Transport.(*http.Transport)
	transport.MaxConnsPerHost, transport.DisableCompression = 1, true
	t.Cleanup(transport.CloseIdleConnections)
	return chain, &secureClient{c, s.URL}
}

// open gives an answer whose body is not read yet.
func (c *secureClient) open(t *testing.T, path string) *http.Response {
	t.Helper()
	res, err := c.http.Get(c.base + path)
	if err != nil {
		t.Fatal(err)
	}
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
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			origin, client := startSecure(t, major, proxy.Options{Chain: chain.Options{Patience: time.Minute}})
			if res := client.open(t, "/staking/pool"); res.ProtoMajor != major {
				t.Fatalf("it speaks %s", res.Proto)
			} else if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
			origin.ahead(1)
			client.at(t, "of another replica", "/staking/validators", "229", false)
			origin.ahead(0)
			go func() {
				time.Sleep(20 * time.Millisecond)
				origin.grow(1)
			}()
			client.at(t, "the first key once more", "/staking/pool", "229", false)
		})
	}
}

// On HTTP/2 an answer that has not ended does not bind a request beside it.
func TestOnlyAnAnswerThatHasEndedBindsTheNextRequest(t *testing.T) {
	origin, client := startSecure(t, 2, proxy.Options{Chain: chain.Options{Shape: chain.Node, Patience: time.Minute}})
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
	if _, err := io.Copy(io.Discard, unread.Body); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		origin.grow(1)
	}()
	client.at(t, "after it", "/staking/pool", "229", false)
}
