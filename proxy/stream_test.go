package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/node"
)

// answerPool makes the chain answer with n in the body, and returns the body.
func answerPool(s *chainService, n int) (body string) {
	body = fmt.Sprintf(`{"code":200,"msg":{"pool":%d},"error":""}`, n)
	s.chain.reply(200, body)
	return body
}

// answerEvent returns the event of an answer at a height.
func (s *chainService) answerEvent(t *testing.T, height int64, body string) string {
	t.Helper()
	tag := s.get(t, anyPath, "X-Min-Block-Height", fmt.Sprint(height)).header.Get("Etag")
	return fmt.Sprintf("id: %d.%s\ndata: %s\n", height, strings.Trim(tag, `"`), body)
}

func TestStreamSendsAnswerAndThenChanges(t *testing.T) {
	s := startChain(t, proxy.Options{})
	first := answerPool(s, 1)
	es := s.stream(t, anyPath)
	for header, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "Vary": "Accept, Accept-Encoding", "X-Accel-Buffering": "no"} {
		expect.Equal(t, es.resp.Header.Get(header), want, "%s", header)
	}
	es.expect(s.answerEvent(t, 228, first))
	s.chain.grow(1) // a block without a change
	second := answerPool(s, 2)
	s.chain.grow(1)
	es.expect(s.answerEvent(t, 230, second))
}

func TestStreamIsSentToClientsThatPreferIt(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for accept, want := range map[string]bool{
		"application/json, text/event-stream": true, "text/event-stream, */*;q=0.1": true, "text/event-stream;q=0.5, */*": false,
		"text/event-stream;q=0": false, "text/html,*/*;q=0.8": false,
	} {
		got := s.do(t, http.MethodHead, anyPath, "", "Accept", accept)
		expect.Equal(t, got.header.Get("Content-Type") == "text/event-stream", want, "Accept %q: streamed", accept)
	}
}

func TestUnstreamablePathIsRefusedByStatus(t *testing.T) {
	s := startChain(t, proxy.Options{})
	tooMany := "/live?" + strings.Repeat("path=/staking/pool&", 21)
	tests := []struct {
		name, target string
		status       int
		want         string
	}{
		{"an invalid address", "/staking/validators/nope", 400, `validator_addr is \"nope\"`},
		{"a future block", "/staking/pool?stream.block_height=9999", 400, "in the future"},
		{"an invalid height", "/staking/pool?stream.block_height=x", 400, "X-Block-Height"},
		{"different heights", "/staking/pool?stream.min_block_height=1&stream.min_block_height=2", 400, "expected one value"},
		{"different sessions", "/staking/pool?stream.session=a&stream.session=b", 400, `stream.session is \"a\" and \"b\"`},
		{"different values of an option that no header replaces", "/live?path=/staking/pool&stream.blocks=true&stream.blocks=0", 400, `stream.blocks is \"true\" and \"0\"`},
		{"different keys", "/staking/pool?stream.api_key=a&stream.api_key=b", 400, "stream.api_key is given with different values"},
		{"an invalid execution block", "/staking/pool?stream.min_evm_block=x", 400, "X-Min-Evm-Block"},
		{"no path", "/live", 400, "path is given 0 times"},
		{"too many paths", tooMany, 400, "path is given 21 times"},
		{"an unknown path", "/live?path=/nope", 400, "this server does not know /nope, and passes it to a node only if it is requested alone"},
		{"an option in a path", "/live?path=/staking/pool%3Fsince%3D0", 400, "has the parameter since"},
		{"a path with an invalid address", "/live?path=/staking/pool&path=/staking/validators/nope", 400, `validator_addr is \"nope\"`},
		{"an option with an invalid value", "/live?path=/staking/pool&stream.blocks=maybe", 400, `stream.blocks is \"maybe\"; expected true or false`},
		{"a foreign URL", "/live?path=http://example.com/staking/pool", 400, "expected a path of this server"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			es := s.stream(t, tt.target)
			expect.Response(t, tt.target, es.resp.StatusCode, es.next(), tt.status, tt.want)
		})
	}
	expect.Equal(t, s.chain.calls(), 0, "node requests")
}

func TestStreamAcceptsRepeatedEqualOptions(t *testing.T) {
	s := startChain(t, proxy.Options{})
	answerPool(s, 1)
	for _, option := range []string{"stream.session=228", "stream.min_block_height=228", "stream.blocks=true", "stream.last_event_id=1", "stream.api_key=k"} {
		target := anyPath + "?" + option + "&" + option
		es := s.stream(t, target)
		expect.Equal(t, es.resp.StatusCode, http.StatusOK, "status of %s", target)
		es.close()
	}
}

func TestStreamAcceptsKeyInQuery(t *testing.T) {
	var log logtest.Log
	s := startChain(t, proxy.Options{
		Chain: blocks.Options{Auth: true},
		Web:   web.Options{Record: record.Options{AccessLog: &log}, Keys: []limits.Key{keyOf("app", "secret")}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
	})
	answerPool(s, 1)
	expect.Equal(t, s.stream(t, anyPath).resp.StatusCode, http.StatusUnauthorized, "status without a key")
	es := s.stream(t, anyPath+"?stream.api_key=secret")
	if got := es.next(); es.resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, "id: ") {
		t.Errorf("stream with a key = %d %q, want 200 with an event", es.resp.StatusCode, got)
	}
	es.close()
	for _, query := range []string{"stream.api_key=secret", "stream%2Eapi_key=secret", "stream.api_key=secret;x", "stream.api%5FKEY=secret", "%73tream%2eapi_key=secret%zz", "path=/a?stream%252Eapi_key%3Dsecret"} {
		s.get(t, anyPath+"?"+query) // without a stream
		s.stream(t, anyPath+"?"+query).close()
	}
	expect.Eventually(t, "a log line of the stream", func() bool { return strings.Contains(log.String(), `"status":200`) })
	if strings.Contains(log.String(), "secret") {
		t.Errorf("log = %s, want no key", log.String())
	}
}

func TestSlowReaderSkipsToNewestAnswer(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{Streams: stream.Options{Write: time.Minute}})
	filler := strings.Repeat("x", 1<<20)
	reply := func(n int) {
		s.chain.reply(200, fmt.Sprintf(`{"code":200,"msg":{"n":%d,"x":%q},"error":""}`, n, filler))
	}
	reply(0)
	es := s.stream(t, anyPath, "Accept-Encoding", "identity")
	const blocks = 16 // of 1 MiB, which exceeds the socket buffers
	for n := 1; n <= blocks; n++ {
		reply(n)
		s.chain.grow(1)
		s.do(t, http.MethodHead, anyPath, "", "X-Min-Block-Height", fmt.Sprint(228+n), "Accept-Encoding", "identity")
	}
	last := fmt.Sprintf(`"n":%d,`, blocks)
	for events := 1; ; events++ {
		event := es.next()
		if event == "" || events == blocks {
			t.Fatalf("newest answer not among %d events, want fewer events than blocks", events)
		}
		if strings.Contains(event, last) {
			return
		}
	}
}

func TestStreamOutlivesRequestTimeout(t *testing.T) {
	t.Parallel()
	const least = 100 * time.Millisecond
	s := startChain(t, proxy.Options{Streams: stream.Options{KeepAlive: least / 2}, Web: web.Options{Settings: web.Settings{RequestTimeout: least}}})
	answerPool(s, 1)
	es := s.stream(t, anyPath)
	for comments := 0; comments < 4; {
		line := expect.Value(es.text.ReadString('\n'))(t)
		if line == ":\n" {
			comments++
		}
	}
	body := answerPool(s, 2)
	s.chain.grow(1)
	for event := ""; !strings.HasSuffix(event, "\ndata: "+body+"\n"); {
		if event = es.next(); event == "" {
			t.Fatal("stream ended, want it open")
		}
	}
}

// waitForStreams waits until n streams, polls and waiting requests are open.
func waitForStreams(t *testing.T, g prometheus.Gatherer, n float64) {
	t.Helper()
	expect.EventuallyEqual(t, fmt.Sprintf("%v open streams", n), func() float64 { return expect.Metric(t, g, "tipcache_proxy_streams") }, n)
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

func TestRowMayHaveTheNameOfStreams(t *testing.T) {
	row := dialect.Row{Name: "stream", Pattern: "/staking/{any}", Class: blocks.Live}
	s := startChain(t, proxy.Options{Rows: []dialect.Row{row}})
	answerHeights(s)
	expect.Contains(t, s.stream(t, poolPath).next(), "id: ", "first event")
	nextPoll(t, s.get(t, poolPath+"?since=0"))
}
