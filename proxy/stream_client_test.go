package proxy_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

// eventStream is an open stream of a client.
type eventStream struct {
	t    *testing.T
	resp *http.Response
	text *bufio.Reader
	stop context.CancelFunc
}

func (s *chainService) stream(t *testing.T, target string, headers ...string) *eventStream {
	t.Helper()
	return openStream(t, s.Client(), s.URL+target, headers...)
}

func openStream(t *testing.T, client *http.Client, target string, headers ...string) *eventStream {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	r := expect.Value(http.NewRequestWithContext(ctx, http.MethodGet, target, nil))(t)
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp := expect.Value(client.Do(r))(t)
	es := &eventStream{t, resp, bufio.NewReader(resp.Body), stop}
	t.Cleanup(es.close)
	return es
}

func (es *eventStream) close() {
	es.stop()
	_ = es.resp.Body.Close()
}

// next returns the lines of the next event, "" at the end of the stream. It skips comments, and ids without an event.
func (es *eventStream) next() string {
	es.t.Helper()
	var event strings.Builder
	for {
		line, err := es.text.ReadString('\n')
		switch {
		case err != nil:
			return event.String()
		case line == "\n" && isID(event.String()):
			event.Reset()
		case line == "\n" && event.Len() > 0:
			return event.String()
		case line == "\n" || strings.HasPrefix(line, ":"):
		default:
			event.WriteString(line)
		}
	}
}

// isID reports whether an event is an id without data.
func isID(event string) bool {
	return strings.HasPrefix(event, "id: ") && strings.Count(event, "\n") == 1
}

func (es *eventStream) expect(want string) {
	es.t.Helper()
	expect.NoDiff(es.t, es.next(), want, "event")
}
