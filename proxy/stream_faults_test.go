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

func openStreams(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	for _, value := range counted(t, g, "tipcache_proxy_streams") {
		return value
	}
	return "none"
}

func TestStreamOpenedDuringAnOutageSendsStaleAnswerAndFailure(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{})
	old := saysPool(s, 1)
	s.get(t, anyPath)
	s.chain.fails(&upstream.Error{Kind: upstream.Unreachable, Msg: "the chain node cannot be reached", Err: errors.New("refused")})
	s.chain.grow(1)
	es := s.stream(t, anyPath)
	if got := es.next(); !strings.HasPrefix(got, "id: 228.") || !strings.HasSuffix(got, "\ndata: "+old+"\n") {
		t.Errorf("event %q, want %s of block 228", got, old)
	}
	es.expect("event: failure\ndata: {\"code\":502,\"error\":\"the chain node cannot be reached\"}\n")
	second := saysPool(s, 2)
	if got := es.next(); !strings.HasSuffix(got, "\ndata: "+second+"\n") {
		t.Errorf("event %q, want %s without another block", got, second)
	}
}

func TestStreamOfAStalledReaderEnds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startChain(t, proxy.Options{Streams: stream.Options{Write: 20 * time.Millisecond}, Web: web.Options{Registerer: registry}})
	filler := strings.Repeat("x", 1<<20)
	n := 0
	s.chain.does(func(node.Request) (*node.Answer, error) {
		n++
		return &node.Answer{Status: 200, NodeStatus: 200, Type: "application/json", Body: fmt.Appendf(nil, `{"code":200,"msg":{"n":%d,"x":"%s"},"error":""}`, n, filler)}, nil
	})
	reader := dial(t, s.Listener.Addr()) // which reads not even the head
	fmt.Fprintf(reader, "GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", anyPath)
	expect.Eventually(t, "the stream has ended", func() bool {
		s.chain.grow(1)
		return strings.Contains(strings.Join(counted(t, registry, "tipcache_proxy_requests_total"), "\n"), `route:"stream"`)
	})
}
