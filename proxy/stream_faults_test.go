package proxy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// waitForStreams waits until n streams, polls and waiting requests are open.
func waitForStreams(t *testing.T, g prometheus.Gatherer, n float64) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("%v open streams", n), func() bool { return expect.Metric(t, g, "tipcache_proxy_streams") == n })
}

func TestStreamOpenedDuringAnOutageSendsStaleAnswerAndFailure(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{})
	stale := answerPool(s, 1)
	s.get(t, anyPath)
	s.chain.failWith(&upstream.Error{Kind: upstream.Unreachable, Msg: "the chain node cannot be reached", Err: errors.New("refused")})
	s.chain.grow(1)
	es := s.stream(t, anyPath)
	if got := es.next(); !strings.HasPrefix(got, "id: 228.") || !strings.HasSuffix(got, "\ndata: "+stale+"\n") {
		t.Errorf("event = %q, want %s of block 228", got, stale)
	}
	es.expect("event: failure\ndata: {\"code\":502,\"error\":\"the chain node cannot be reached\"}\n")
	second := answerPool(s, 2)
	if got := es.next(); !strings.HasSuffix(got, "\ndata: "+second+"\n") {
		t.Errorf("event after the outage = %q, want %s at the same block", got, second)
	}
}

func TestStreamToAStalledReaderEnds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Streams: stream.Options{Write: 20 * time.Millisecond}, Web: web.Options{Registerer: registry}})
	filler := strings.Repeat("x", 1<<20)
	n := 0
	s.chain.answerWith(func(node.Request) (*node.Answer, error) {
		n++
		return &node.Answer{Status: 200, NodeStatus: 200, Type: "application/json", Body: fmt.Appendf(nil, `{"code":200,"msg":{"n":%d,"x":"%s"},"error":""}`, n, filler)}, nil
	})
	reader := dial(t, s.Listener.Addr()) // does not even read the headers
	fmt.Fprintf(reader, "GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", anyPath)
	expect.Eventually(t, "end of the stream", func() bool {
		s.chain.grow(1)
		return expect.Metric(t, registry, "tipcache_proxy_requests_total", "stream") > 0
	})
}
