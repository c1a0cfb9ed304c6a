package stream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
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
		r := web.WithoutParameters(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil), stream.FilterOption)
		if r.RequestURI != want || r.URL.RequestURI() != want {
			t.Errorf("options removed from %s: RequestURI = %s, URL = %s, want %s", target, r.RequestURI, r.URL.RequestURI(), want)
		}
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
