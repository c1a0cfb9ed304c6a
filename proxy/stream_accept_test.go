package proxy_test

import (
	"net/http"
	"testing"

	"github.com/tipcache/tipcache/proxy"
)

func TestAStreamIsForThoseWhoWouldRatherHaveIt(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for name, tt := range map[string]struct {
		accept   []string
		streamed bool
	}{
		"a stream":                      {[]string{"text/event-stream"}, true},
		"a stream, else anything":       {[]string{"text/event-stream, */*;q=0.1"}, true},
		"either":                        {[]string{"application/json, text/event-stream"}, true},
		"a stream, on the second line":  {[]string{"text/html", "text/event-stream"}, true},
		"rather the answer":             {[]string{"application/json, text/event-stream;q=0.5"}, false},
		"rather anything":               {[]string{"text/event-stream;q=0.5, */*"}, false},
		"no stream":                     {[]string{"text/event-stream;q=0"}, false},
		"what is only spelled like one": {[]string{"text/event-streamx"}, false},
		"anything, as browsers say":     {[]string{"text/html,*/*;q=0.8"}, false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.URL+anyPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Accept"] = tt.accept
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("Content-Type") == "text/event-stream"; got != tt.streamed {
			t.Errorf("%s: streamed %t", name, got)
		}
	}
}
