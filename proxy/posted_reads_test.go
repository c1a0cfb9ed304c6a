package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestVerificationOfMembershipDoesNotCountAsTransaction(t *testing.T) {
	const path = "/ibc/core/client/v1/verify_membership"
	var reads atomic.Int64
	s := newSDK(t, devnet.Options{}, func(o *proxy.Options) { o.Posts = blocks.Posts{Rate: .001, Burst: 1} })
	s.Node().Handle(path, func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Cosmos-Block-Height", r.Header.Get("X-Cosmos-Block-Height"))
		w.Header().Set("Grpc-Metadata-X-Cosmos-Block-Height", r.Header.Get("X-Cosmos-Block-Height"))
		fmt.Fprintf(w, `{"success":true,"was":%s}`, body)
	})
	for _, height := range []string{"2", "3", "3"} {
		got := s.do(t, http.MethodPost, path, `{"a":1}`, "X-Cosmos-Block-Height", height)
		got.expect(t, http.StatusOK)
		got.expectHeader(t, "X-Block-Height", height)
		expect.Equal(t, got.body, `{"success":true,"was":{"a":1}}`, "body at height %s", height)
	}
	expect.Equal(t, reads.Load(), 3, "node requests, which are not cached")
	simulate := func() exchange { return s.do(t, http.MethodPost, "/cosmos/tx/v1beta1/simulate", "{}") }
	if first := simulate(); first.status == http.StatusTooManyRequests {
		t.Errorf("first simulation = %d %s, want it within the rate", first.status, first.body)
	}
	simulate().expect(t, http.StatusTooManyRequests, "transactions")
}
