package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// newSDKOf starts a proxy in front of a node that has a path in addition. It counts the requests for the path.
func newSDKOf(t *testing.T, path string, h http.HandlerFunc) (s *sdkService, reads *atomic.Int64) {
	t.Helper()
	reads = new(atomic.Int64)
	s = newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Posts = blocks.Posts{Rate: .001, Burst: 1} })
	s.Node().Handle(path, func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		w.Header().Set("Content-Type", "application/json")
		h(w, r)
	})
	return s, reads
}

func TestVerificationOfMembershipIsAReadWithoutTheRateOfTransactions(t *testing.T) {
	const path = "/ibc/core/client/v1/verify_membership"
	s, reads := newSDKOf(t, path, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Cosmos-Block-Height", r.Header.Get("X-Cosmos-Block-Height"))
		w.Header().Set("Grpc-Metadata-X-Cosmos-Block-Height", r.Header.Get("X-Cosmos-Block-Height"))
		_, _ = w.Write(append([]byte(`{"success":true,"was":`), append(body, '}')...))
	})
	for _, height := range []string{"2", "3", "3"} {
		resp, body := s.do(t, http.MethodPost, path, `{"a":1}`, "X-Cosmos-Block-Height", height)
		if resp.StatusCode != http.StatusOK || body != `{"success":true,"was":{"a":1}}` || resp.Header.Get("X-Block-Height") != height {
			t.Errorf("at %q: %d %s at %s, want the node's answer", height, resp.StatusCode, body, resp.Header.Get("X-Block-Height"))
		}
	}
	if n := reads.Load(); n != 3 {
		t.Errorf("%d node requests, want 3: nothing of it is cached", n)
	}
	if resp, _ := s.do(t, http.MethodPost, "/cosmos/tx/v1beta1/simulate", "{}"); resp.StatusCode == http.StatusTooManyRequests {
		t.Error("reads counted against the rate of transactions")
	}
	if resp, body := s.do(t, http.MethodPost, "/cosmos/tx/v1beta1/simulate", "{}"); resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, "transactions") {
		t.Errorf("a second simulation: %d %s, want 429", resp.StatusCode, body)
	}
}
