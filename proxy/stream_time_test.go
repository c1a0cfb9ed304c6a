package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestStreamOutlivesRequestTimeout(t *testing.T) {
	t.Parallel()
	const least = 100 * time.Millisecond
	s := startChain(t, proxy.Options{Streams: stream.Options{KeepAlive: least / 2}, Web: web.Options{RequestTimeout: least}})
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
