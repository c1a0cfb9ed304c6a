package proxy_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/node"
)

// saysPool makes the chain answer with a message.
func saysPool(s *chainService, n int) (body string) {
	body = fmt.Sprintf(`{"code":200,"msg":{"pool":%d},"error":""}`, n)
	s.chain.says(200, body)
	return body
}

// answered is the event of an answer at a height.
func (s *chainService) answered(t *testing.T, height int64, body string) string {
	t.Helper()
	tag := s.get(t, anyPath, "X-Min-Block-Height", fmt.Sprint(height)).header.Get("Etag")
	return fmt.Sprintf("id: %d.%s\ndata: %s\n", height, strings.Trim(tag, `"`), body)
}

func TestStreamSendsAnswerAndItsChanges(t *testing.T) {
	s := startChain(t, proxy.Options{})
	first := saysPool(s, 1)
	es := s.stream(t, anyPath)
	for header, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Vary": "Accept, Accept-Encoding", "X-Accel-Buffering": "no"} {
		expect.Equal(t, es.resp.Header.Get(header), want, "%s", header)
	}
	es.expect(s.answered(t, 228, first))
	s.chain.grow(1) // a block that changes nothing
	second := saysPool(s, 2)
	s.chain.grow(1)
	es.expect(s.answered(t, 230, second))
}

func TestStreamResumesAfterLastEvent(t *testing.T) {
	s := startChain(t, proxy.Options{})
	first := saysPool(s, 1)
	es := s.stream(t, anyPath)
	event := es.next()
	id, _, _ := strings.Cut(strings.TrimPrefix(event, "id: "), "\n")
	es.close()
	for _, again := range []*eventStream{
		s.stream(t, anyPath, "Last-Event-ID", id),
		s.stream(t, anyPath+"?stream.last_event_id="+url.QueryEscape(id)),
		s.stream(t, anyPath+"?lastEventId="+url.QueryEscape(id)),
	} {
		body := saysPool(s, 2)
		s.chain.grow(1)
		if got := again.next(); !strings.HasSuffix(got, "data: "+body+"\n") {
			t.Errorf("event %q, want %s", got, body)
		}
		saysPool(s, 1)
		s.chain.grow(1)
		if got := again.next(); !strings.HasSuffix(got, "data: "+first+"\n") {
			t.Errorf("event %q, want %s", got, first)
		}
		again.close()
	}
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
		{"a bad address", "/staking/validators/nope", 400, `validator_addr is \"nope\"`},
		{"a future block", "/staking/pool?stream.block_height=9999", 400, "in the future"},
		{"a bad height", "/staking/pool?stream.block_height=x", 400, "X-Block-Height"},
		{"a bad block of the execution client", "/staking/pool?stream.min_evm_block=x", 400, "X-Min-Evm-Block"},
		{"no path", "/live", 400, "path is given 0 times"},
		{"too many paths", tooMany, 400, "path is given 21 times"},
		{"a path that only a node may have", "/live?path=/nope", 400, "this server does not know /nope, and passes it to a node only if it is requested alone"},
		{"an option in a path", "/live?path=/staking/pool%3Fsince%3D0", 400, "has the parameter since"},
		{"a path with a bad address", "/live?path=/staking/pool&path=/staking/validators/nope", 400, `validator_addr is \"nope\"`},
		{"an option with another value", "/live?path=/staking/pool&stream.blocks=maybe", 400, `stream.blocks is \"maybe\"; expected true or false`},
		{"a foreign URL", "/live?path=http://example.com/staking/pool", 400, "expected a path of this server"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			es := s.stream(t, tt.target)
			body := es.next()
			if es.resp.StatusCode != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("status %d: %s", es.resp.StatusCode, body)
			}
		})
	}
	expect.Equal(t, s.chain.calls(), 0, "node requests")
}

func TestOneConnectionStreamsSeveralAnswers(t *testing.T) {
	s := startChain(t, proxy.Options{})
	body := saysPool(s, 1)
	es := s.stream(t, "/live?path="+url.QueryEscape(anyPath)+"&path="+url.QueryEscape("/staking/validators?status=bonded")+"&stream.blocks=true")
	seen := map[string]bool{}
	for range 3 {
		event := es.next()
		for what, part := range map[string]string{
			"pool": `data: {"path":"/staking/pool","height":228,"answer":` + body + `}`, "validators": `"path":"/staking/validators?status=bonded"`,
			"block": "event: block\ndata: {\"height\":228,\"session\":\"228\",\"evm_block\":1228}\n",
		} {
			if strings.Contains(event, part) {
				seen[what] = true
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("only of %v was told", seen)
	}
	s.chain.grow(1)
	es.expect("event: block\ndata: {\"height\":229,\"session\":\"229\",\"evm_block\":1229}\n")
}

func TestStreamBeyondLimitEndsAtOnceWithRetry(t *testing.T) {
	for name, limit := range map[string]stream.Options{"of a client": {PerClient: 2}, "in all": {Max: 2}} {
		t.Run(name, func(t *testing.T) {
			s := startChain(t, proxy.Options{Streams: limit})
			body := saysPool(s, 1)
			first := s.stream(t, anyPath)
			first.expect(s.answered(t, 228, body))
			s.stream(t, anyPath).expect(s.answered(t, 228, body))
			third := s.stream(t, anyPath)
			if got := third.next(); third.resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, "retry: ") || third.next() != "" {
				t.Errorf("status %d: %s", third.resp.StatusCode, got)
			}
			first.close()
			expect.Eventually(t, "the place is free again", func() bool { return strings.HasPrefix(s.stream(t, anyPath).next(), "id: ") })
		})
	}
}

func TestStreamBeyondARateLimitEndsWithRetry(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Address: limits.Rate{Requests: 1, Per: time.Hour, Burst: 1}}}})
	s.stream(t, anyPath).next()
	es := s.stream(t, anyPath)
	if got := es.next(); es.resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, "retry: ") {
		t.Errorf("stream beyond the limit = %d %q, want 200 with retry", es.resp.StatusCode, got)
	}
}

func TestDrainingEndsStreamsWithAdvice(t *testing.T) {
	s := startChain(t, proxy.Options{})
	body := saysPool(s, 1)
	es := s.stream(t, anyPath)
	es.expect(s.answered(t, 228, body))
	s.proxy.Drain()
	if got := es.next(); !strings.HasPrefix(got, "retry: ") || es.next() != "" {
		t.Errorf("event %q", got)
	}
	late := s.stream(t, anyPath)
	if got := late.next(); late.resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, "retry: ") {
		t.Errorf("status %d: %s", late.resp.StatusCode, got)
	}
}

func TestStreamAcceptsKeyInQuery(t *testing.T) {
	var log logtest.Log
	s := startChain(t, proxy.Options{
		Chain: story.Options{Auth: true},
		Web:   web.Options{Keys: []limits.Key{keyOf("app", "secret")}, AccessLog: &log, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))},
	})
	saysPool(s, 1)
	if es := s.stream(t, anyPath); es.resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: status %d", es.resp.StatusCode)
	}
	es := s.stream(t, anyPath+"?stream.api_key=secret")
	if got := es.next(); es.resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, "id: ") {
		t.Errorf("status %d: %s", es.resp.StatusCode, got)
	}
	es.close()
	for _, spelling := range []string{"stream.api_key=secret", "stream%2Eapi_key=secret", "stream.api_key=secret;x", "stream.api%5FKEY=secret", "%73tream%2eapi_key=secret%zz", "path=/a?stream%252Eapi_key%3Dsecret"} {
		s.get(t, anyPath+"?"+spelling) // the same URL, not as a stream
		s.stream(t, anyPath+"?"+spelling).close()
	}
	expect.Eventually(t, "the stream is logged", func() bool { return strings.Contains(log.String(), `"status":200`) })
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the key is in the log: %s", log.String())
	}
}

func TestSlowReaderSkipsToNewestAnswer(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{Streams: stream.Options{Write: time.Minute}})
	filler := strings.Repeat("x", 1<<20)
	says := func(n int) {
		s.chain.does(func(node.Request) (*node.Answer, error) {
			return &node.Answer{Status: 200, NodeStatus: 200, Type: "application/json", Body: fmt.Appendf(nil, `{"code":200,"msg":{"n":%d,"x":%q},"error":""}`, n, filler)}, nil
		})
	}
	says(0)
	es := s.stream(t, anyPath, "Accept-Encoding", "identity")
	const blocks = 16 // of 1 MiB: more than sockets hold
	for n := 1; n <= blocks; n++ {
		says(n)
		s.chain.grow(1)
		s.do(t, http.MethodHead, anyPath, "", "X-Min-Block-Height", fmt.Sprint(228+n), "Accept-Encoding", "identity")
	}
	last := fmt.Sprintf(`"n":%d,`, blocks)
	for events := 1; ; events++ {
		event := es.next()
		if event == "" || events == blocks {
			t.Fatalf("after %d events not at the newest", events)
		}
		if strings.Contains(event, last) {
			return
		}
	}
}
