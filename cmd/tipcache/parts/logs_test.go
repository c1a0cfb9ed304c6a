package parts

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A writeCounter counts the writes to a buffer.
type writeCounter struct {
	bytes.Buffer
	writes int
}

func (w *writeCounter) Write(p []byte) (int, error) {
	w.writes++
	return w.Buffer.Write(p)
}

func TestRequestsAreBufferedAndEventsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writeCounter
		l := NewLogs(&w, config.Log{Format: "json"})
		_, _ = l.Requests.Write([]byte("one\n"))
		_, _ = l.Requests.Write([]byte("two\n"))
		expect.Equal(t, w.writes, 0, "writes for two requests")
		l.Info("an event")
		if text := w.String(); !strings.HasPrefix(text, "one\ntwo\n{") || strings.Count(text, "\n") != 3 {
			t.Errorf("log = %s, want two requests and an event", text)
		}
		_, _ = l.Requests.Write([]byte("three\n"))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if !strings.HasSuffix(w.String(), "three\n") {
			t.Errorf("log 200 ms after a request = %s, want the request at its end", w.String())
		}
		before := w.writes
		for range 1000 {
			_, _ = l.Requests.Write([]byte("a line\n"))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := w.writes - before; n > 15 {
			t.Errorf("writes in a second = %d, want at most 15", n)
		}
		_, _ = l.Requests.Write([]byte("four\n"))
		if err := l.Close(); err != nil || !strings.HasSuffix(w.String(), "four\n") {
			t.Errorf("Close = %v with log %s, want the last request at its end", err, w.String())
		}
		time.Sleep(time.Second) // lets the timers end
	})
}

func TestConcurrentLinesAreWrittenWhole(t *testing.T) {
	var w writeCounter
	l := NewLogs(&w, config.Log{Format: "json"})
	const writers, each = 8, 2000
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for k := range each {
				fmt.Fprintf(l.Requests, "%d %d %s\n", i, k, strings.Repeat("x", k%100))
				if k%500 == 0 {
					l.Info("an event")
				}
			}
		})
	}
	group.Wait()
	_ = l.Close()
	next, events := [writers]int{}, 0
	for line := range strings.Lines(w.String()) {
		var i, k int
		var rest string
		if n, _ := fmt.Sscanf(line, "%d %d %s", &i, &k, &rest); n < 2 {
			events++
			continue
		}
		if next[i] != k || len(rest) != k%100 {
			t.Fatalf("line %q, want number %d", line, next[i])
		}
		next[i]++
	}
	expect.Equal(t, next, [writers]int{each, each, each, each, each, each, each, each}, "lines of each writer")
	expect.Equal(t, events, writers*each/500, "events")
	if w.writes > writers*each/20 {
		t.Errorf("writes = %d for %d lines, want at most one for 20", w.writes, writers*each)
	}
}

func TestRequestsAreLoggedAsText(t *testing.T) {
	var w writeCounter
	l := NewLogs(&w, config.Log{Format: "text"})
	_, _ = l.Requests.Write([]byte(`{"time":"2026-01-02T03:04:05.678Z","level":"ERROR","msg":"request","path":"/a \"b\"","status":502,"duration_ms":0.5,"store":""}` + "\n"))
	_ = l.Close()
	const want = `2026-01-02T03:04:05.678Z ERR request duration_ms=0.5 path="/a \"b\"" status=502 store=` + "\n"
	expect.Equal(t, w.String(), want, "log")
}

func TestServerLogTellsServerFaultsFromClientFaults(t *testing.T) {
	var w bytes.Buffer
	l := ServerLog(NewLogger(&w, config.Log{Level: "info", Format: "auto"})) // JSON, because w is no terminal
	l.Print("http: TLS handshake error from 10.0.0.9:1: EOF")
	l.Print("http: panic serving 10.0.0.9:1: boom")
	for range 9 {
		l.Print("http: Accept error: accept tcp [::]:1: too many open files; retrying in 5ms")
	}
	text := w.String()
	expect.Equal(t, strings.Count(text, "\n"), 2, "lines for a failed handshake, a panic and nine times too many open files")
	expect.Contains(t, text, `"level":"ERROR","msg":"http server","error":"http: panic serving`, "log")
	expect.Contains(t, text, `"level":"WARN","msg":"http server","error":"http: Accept error`, "log")
}
