package stream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestOptionsAreRemovedFromURLInEveryEncoding(t *testing.T) {
	for target, want := range map[string]string{
		"/a":                                         "/a",
		"/a?x=1;y&z=%3d":                             "/a?x=1;y&z=%3d",
		"/a?stream.api_key=s":                        "/a",
		"/a?x=1&stream.api_key=s&y=2":                "/a?x=1&y=2",
		"/a?stream%2Eapi_key=s&x=1":                  "/a?x=1",
		"/a?%73%74ream%2eBLOCKS=1&x=1":               "/a?x=1",
		"/a?Stream.Api_Key=s":                        "/a",
		"/a?stream.api_key=s%zz;x":                   "/a?x",
		"/a?x=1;stream.api_key=s":                    "/a?x=1",
		"/a?%zz%73tream.api_key=s&stream.%zz=s":      "/a?%zz%73tream.api_key=s",
		"/a?stream.of=1&stream.height=2":             "/a",
		"/live?path=/a?stream.api_key=s":             "/live?path=%2Fa%3Fstream.api_key",
		"/live?path=%2Fa%3Fx%3D1%26stream%252Eb%3Ds": "/live?path=%2Fa%3Fx%3D1%26stream.b",
		"/live?path=/a&path=/b?x=stream.":            "/live?path=/a&path=/b?x=stream.",
	} {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
		r.RemoveParameters(web.FilterParameter)
		if r.RequestURI != want || r.URL.RequestURI() != want {
			t.Errorf("options removed from %s: RequestURI = %s, URL = %s, want %s", target, r.RequestURI, r.URL.RequestURI(), want)
		}
	}
}

func TestOptionsReplaceHeadersThatTheClientDoesNotSend(t *testing.T) {
	for target, want := range map[string]http.Header{
		"/a": {"X-Session": {"sent"}},
		"/a?stream.api_key=k&stream.block_height=7&stream.min_block_height=8&stream.min_evm_block=9": {
			"X-Session": {"sent"}, "X-Api-Key": {"k"}, "X-Block-Height": {"7"}, "X-Min-Block-Height": {"8"}, "X-Min-Evm-Block": {"9"},
		},
		"/a?stream.session=s&stream.last_event_id=3": {"X-Session": {"sent"}, "Last-Event-Id": {"3"}},
		"/a?lastEventId=4":                           {"X-Session": {"sent"}, "Last-Event-Id": {"4"}},
		"/a?stream.last_event_id=3&lastEventId=4":    {"X-Session": {"sent"}, "Last-Event-Id": {"4"}},
		"/a?stream.api_key=&stream.block_height=7":   {"X-Session": {"sent"}, "X-Block-Height": {"7"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		r.Header = http.Header{"X-Session": {"sent"}}
		with := web.NewRequest(r)
		with.RemoveParameters(web.FilterParameter)
		stream.OptionsAsHeaders(with)
		expect.NoDiff(t, with.Header, want, "headers of %s", target)
		expect.Equal(t, len(r.Header), 1, "headers of the client's request")
	}
	for query, want := range map[string]string{"": "", "x=1": "", "x=1&Stream.Blocks=true": "Stream.Blocks", "since=1": "since", "lastEventId=1": "lastEventId"} {
		expect.Equal(t, web.StreamParameterIn(query), want, "StreamParameterIn(%q)", query)
	}
}

// net/http resets an idle HTTP/2 stream when its write deadline passes.
func TestIdleStreamDoesNotReachItsWriteDeadline(t *testing.T) {
	inBubble(t, stream.Options{Write: 10 * time.Second, KeepAlive: 15 * time.Second}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		f := s.follow("/a")
		for range 120 {
			if left := time.Until(f.writeDeadline()); left <= 0 {
				t.Fatalf("the write deadline passed %v ago on an idle stream, want it later than the next comment", -left)
			}
			time.Sleep(time.Second)
		}
	})
}
