package lane_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestRepeatedRequestsAreServedByLane(t *testing.T) {
	for name, request := range map[string]string{
		"a GET":                         getA,
		"a HEAD":                        "HEAD /memory/a HTTP/1.1\r\nHost: x\r\n\r\n",
		"a POST with its body":          "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
		"a long response":               "GET /memory/large HTTP/1.1\r\nHost: x\r\n\r\n",
		"a request with an id":          "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-Id: 7\r\n\r\n",
		"a head longer than a read":     "GET /memory/a HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 8000) + "\r\n\r\n",
		"a body longer than a read":     "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 16384\r\n\r\n" + strings.Repeat("x", 16384),
		"a GET with Content-Length 0":   "GET /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"TE: trailers":                  "GET /memory/a HTTP/1.1\r\nHost: x\r\nte: trailers\r\n\r\n",
		"an upgrade without a protocol": "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n\r\n",
		"keep-alive":                    "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n",
		"an unusual header name":        "GET /memory/a HTTP/1.1\r\nHost: x\r\nX_A~!#:\t1 \r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, newLane())
			w := s.dial()
			for range 5 {
				w.send([]byte(request))
				w.settle()
			}
			if hits, handled := s.hits.Load(), s.handled.Load(); handled != handledBefore(request) || hits != 5-handled {
				t.Errorf("lane served %d and handler %d of 5 requests; want %d by the handler", hits, handled, handledBefore(request))
			}
			said := w.output()
			fifth := len(said) / 5
			expect.NoDiff(t, said, strings.Repeat(said[:fifth], 5), "responses")
		})
	}
}

func TestBodiesSentOnceAreNotStored(t *testing.T) {
	l := newLane()
	s := startServer(t, l)
	w := s.dial()
	for i := range 100 {
		w.send(fmt.Appendf(nil, "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n%03d", i))
		w.settle()
	}
	if handled, left := s.handled.Load(), l.Bytes(); handled != 100 || left != 0 {
		t.Errorf("handler served %d requests, lane stores %d bytes; want 100 and 0", handled, left)
	}
}

func TestUnsupportedRequestsAreServedByHandler(t *testing.T) {
	for name, request := range map[string]string{
		"not served from memory": "GET /other HTTP/1.1\r\nHost: x\r\n\r\n",
		"HTTP/1.0 keep-alive":    "GET /memory/a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"chunked body":           "POST /memory/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"line with bare LF":      "GET /memory/a HTTP/1.1\nHost: x\r\n\r\n",
		"last line with bare LF": "GET /memory/a HTTP/1.1\r\nHost: x\r\n\n",
		"folded line":            "GET /memory/a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
		"Expect: 100-continue":   "POST /memory/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
		"long target":            "GET /memory/" + strings.Repeat("x", 256) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"upgrade":                "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, newLane())
			for range 5 {
				w := s.dial()
				w.send([]byte(request))
				w.settle()
				w.end()
				w.waitClosed()
			}
			expect.Equal(t, s.hits.Load(), 0, "requests served by the lane")
		})
	}
}

// Headers that describe the client are not part of the key.
func TestClientsShareEntries(t *testing.T) {
	s := startServer(t, newLane())
	learn(s, getA)
	for i := range 100 {
		w := s.dial()
		w.send(fmt.Appendf(nil, "GET /memory/a HTTP/1.1\r\nUser-Agent: browser %d\r\nAccept-Encoding: gzip, deflate;q=0.%d\r\nX-Forwarded-For: 192.0.2.%d\r\nhost: x\r\nCookie: a=%d\r\n\r\n", i, i, i, i))
		w.settle()
	}
	if hits, handled := s.hits.Load(), s.handled.Load(); hits != 100 || handled != 1 {
		t.Errorf("lane served %d and handler %d requests; want 100 and 1", hits, handled)
	}
}

func TestHeadersInKeySeparateRequests(t *testing.T) {
	s := startServer(t, newLane())
	learn(s, getA)
	for _, line := range []string{"Host: y\r\n", "Host: x\r\nX-Block-Height: 7\r\n", "Host: x\r\nX-Min-Block-Height: 7\r\n", "Host: x\r\nX-Block-Height: 8\r\n"} {
		before := s.handled.Load()
		learn(s, "GET /memory/a HTTP/1.1\r\n"+line+"\r\n")
		if s.handled.Load() != before+1 {
			t.Errorf("%q: handler was not called, want a separate entry", line)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	s := startServer(t, newLane())
	batch := getA + "GET /memory/b HTTP/1.1\r\nHost: x\r\n\r\n" + "POST /memory/c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" + getA
	w := s.dial()
	w.send([]byte(batch))
	w.settle()
	first := w.output()
	if hits, handled := s.hits.Load(), s.handled.Load(); hits+handled != 4 || handled < 3 {
		t.Errorf("lane served %d and handler %d requests; want 4 in all, 3 or 4 by the handler", hits, handled)
	}
	learn(s, getA, "GET /memory/b HTTP/1.1\r\nHost: x\r\n\r\n", "POST /memory/c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
	before := s.hits.Load()
	for range 3 {
		w.send([]byte(batch))
		w.settle()
	}
	expect.Equal(t, s.hits.Load()-before, 12, "requests of 12 that the lane served")
	expect.NoDiff(t, w.output(), strings.Repeat(first, 4), "responses")
}

func TestConnectionClosesAfterLastResponse(t *testing.T) {
	for name, request := range map[string]string{
		"HTTP/1.1 and close":   "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"HTTP/1.0 and close":   "GET /memory/a HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n",
		"HTTP/1.0 and nothing": "GET /memory/a HTTP/1.0\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			plain, fast := startServer(t, nil), startServer(t, newLane())
			learn(fast, getA)
			var said [2]string
			for i, s := range []*server{plain, fast} {
				w := s.dial()
				w.send([]byte(request + getA))
				said[i] = string(w.waitClosed())
			}
			if diff := cmp.Diff(lines([]byte(said[0])), lines([]byte(said[1]))); diff != "" || fast.hits.Load() != 1 {
				t.Errorf("%d hits (-without lane +with lane):\n%s", fast.hits.Load(), diff)
			}
		})
	}
}

func TestRequestInTwoPiecesIsServedByLane(t *testing.T) {
	for name, request := range map[string]string{
		"a GET":  getA,
		"a POST": "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, newLane())
			learn(s, request)
			w := s.dial()
			for i := 1; i < len(request); i++ {
				w.send([]byte(request[:i]))
				w.settle()
				w.send([]byte(request[i:]))
				w.settle()
			}
			if hits := s.hits.Load(); hits != int64(len(request)-1) || s.handled.Load() != handledBefore(request) {
				t.Errorf("lane served %d of %d requests", hits, len(request)-1)
			}
		})
	}
}

// net/http serves clients that stall or disconnect within a request.
func TestPartialRequestGoesToHandler(t *testing.T) {
	const post = "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane(), func(h *http.Server) { h.ReadHeaderTimeout, h.ReadTimeout = 10*time.Second, 20*time.Second })
		learn(s, post+"hello")
		s.handled.Store(0)
		slow, left, half, known := s.dial(), s.dial(), s.dial(), s.dial()
		slow.send([]byte(post + "he"))
		half.send([]byte("GET /memory/a HTTP/1.1\r\nHo"))
		known.send([]byte(post + "hello" + "GET /memory/a HTTP/1.1\r\nHo"))
		left.send([]byte(post))
		left.end()
		time.Sleep(9 * time.Second)
		slow.send([]byte("llo"))
		synctest.Wait()
		if !strings.Contains(slow.output(), "hello") || s.handled.Load() != 2 {
			t.Errorf("handler got %d requests, and the slow client %q; want 2 and a response", s.handled.Load(), slow.output())
		}
		if said := string(left.waitClosed()); !strings.Contains(said, " 400 ") {
			t.Errorf("disconnected client got %q, want status 400", said)
		}
		for name, w := range map[string]*wire{"a new client": half, "one that the lane has answered": known} {
			if w.isClosed() {
				t.Errorf("%s: connection closed before ReadHeaderTimeout", name)
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for name, w := range map[string]*wire{"a new client": half, "one that the lane has answered": known} {
			if !w.isClosed() {
				t.Errorf("%s: connection open after ReadHeaderTimeout", name)
			}
		}
	})
}

// No memory budget includes partial requests.
func TestPartialRequestsAreLimited(t *testing.T) {
	const most, more = 256, 44
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		learn(s, "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		for range 2 { // the first round releases its slots
			s.handled.Store(0)
			clients := make([]*wire, most+more)
			for i := range clients {
				clients[i] = s.dial()
				clients[i].send([]byte("POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"))
			}
			synctest.Wait()
			expect.Equal(t, s.handled.Load(), more, "requests of %d that the handler served", len(clients))
			for i, c := range clients {
				if i%2 == 0 {
					c.send([]byte("hello"))
				}
				c.end()
			}
			synctest.Wait()
			if said := clients[0].output() + clients[len(clients)-2].output(); strings.Count(said, "hello") != 2 {
				t.Errorf("first and last client got %q, want two responses", said)
			}
		}
	})
}

func TestForgottenRequestIsServedByHandler(t *testing.T) {
	s := startServer(t, newLane())
	learn(s, getA)
	w := s.dial()
	s.lane.Forget()
	hits, handled := s.hits.Load(), s.handled.Load()
	w.send([]byte(getA))
	w.settle()
	if s.hits.Load() != hits || s.handled.Load() != handled+1 {
		t.Error("lane served a request after Forget")
	}
}

func TestChangedResponseIsServed(t *testing.T) {
	s := startServer(t, newLane())
	learn(s, getA)
	w := s.dial()
	s.version.Add(1)
	w.send([]byte(getA))
	w.settle()
	expect.Contains(t, w.output(), "v2", "response")
}

func TestRequestIDInBodyIsIgnored(t *testing.T) {
	request := func(id string) string {
		body := "\r\nX-Request-ID: " + id + "\r\n"
		return "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n" + body
	}
	s := startServer(t, newLane())
	learn(s, "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-ID: one\r\n\r\n", request("one"), request("two"))
	w := s.dial()
	w.send([]byte(request("six")))
	w.settle()
	expect.Contains(t, w.output(), "six", "response")
}

func TestLaneRenewsIdleTimeout(t *testing.T) {
	for name, first := range map[string]string{"on a new connection": getA, "after another request": "GET /b HTTP/1.1\r\nHost: x\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, newLane(), func(h *http.Server) {
					h.IdleTimeout, h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout = time.Minute, 10*time.Second, 20*time.Second, time.Minute
				})
				learn(s, getA)
				w := s.dial()
				w.send([]byte(first))
				synctest.Wait()
				for range 5 {
					time.Sleep(50 * time.Second)
					w.send([]byte(getA))
					synctest.Wait()
				}
				w.send([]byte("POST /b HTTP/1.1\r\n")) // starts ReadHeaderTimeout, then ReadTimeout
				time.Sleep(9 * time.Second)
				w.send([]byte("Host: x\r\nContent-Length: 3\r\n\r\nab"))
				time.Sleep(10 * time.Second)
				w.send([]byte("c"))
				synctest.Wait()
				if n := strings.Count(w.output(), " 200 OK"); n != 7 {
					t.Errorf("got %d responses, want 7:\n%s", n, w.output())
				}
				w.send([]byte(getA))
				time.Sleep(61 * time.Second)
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				if !w.closed {
					t.Error("connection open after the idle timeout")
				}
			})
		})
	}
}

func TestShutdownWaitsForResponseInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		learn(s, getA)
		s.slow = make(chan struct{})
		w, idle, fresh := s.dial(), s.dial(), s.dial()
		for _, conn := range []*wire{idle, fresh, w} {
			conn.send([]byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\n"))
			conn.settle()
		}
		w.send([]byte(getA))
		synctest.Wait() // until the handler waits for slow
		s.lane.Drain()
		s.lane.CloseNew()
		expect.NoError(t, s.http.Shutdown(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.lane.Wait(ctx); err == nil {
			t.Error("Wait returned nil, want an error while a response is in progress")
		}
		idle.waitClosed()
		close(s.slow)
		expect.NoError(t, s.lane.Wait(t.Context()))
		if said := string(w.waitClosed()); strings.Count(said, "200 OK") != 2 || !strings.HasSuffix(said, "\n") {
			t.Errorf("response in progress was truncated:\n%s", said)
		}
	})
}

func TestConnectionsServedOnlyByLaneDoNotDelayShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		learn(s, getA)
		w := s.dial()
		w.send([]byte(getA))
		w.settle()
		began := time.Now()
		s.lane.Drain()
		s.lane.CloseNew()
		expect.NoError(t, s.http.Shutdown(t.Context()))
		if took := time.Since(began); took > time.Second {
			t.Errorf("shutdown took %v, want at most 1s", took)
		}
	})
}

func TestDrainingLaneServesNothing(t *testing.T) {
	s := startServer(t, newLane())
	learn(s, getA)
	s.lane.Drain()
	w := s.dial()
	before := s.handled.Load()
	w.send([]byte(getA))
	w.settle()
	if s.handled.Load() != before+1 {
		t.Error("lane served a request after Drain")
	}
}

// Frequent requests survive a flood of requests that are sent once.
func TestFloodOfRequestsStaysWithinMemoryBudget(t *testing.T) {
	memory := account.New(2<<20, nil)
	l := lane.New(lane.Options{Memory: memory})
	s := startServer(t, l)
	w, first := s.dial(), int64(0) // bytes reserved then
	for i := range 5000 {
		w.send(fmt.Appendf(nil, "GET /memory/%d HTTP/1.1\r\nHost: x\r\n\r\n", i))
		if w.settle(); i%10 == 0 {
			w.send([]byte(getA))
			w.settle()
		}
		if i == 0 {
			first = memory.Used()
		}
	}
	if bytes := l.Bytes(); bytes > 1<<20 || bytes < 1<<19 || memory.Used() != memory.Limit()/2 {
		t.Errorf("table has %d bytes, %d reserved, want %d reserved", bytes, memory.Used(), memory.Limit()/2)
	}
	if first > 256<<10 {
		t.Errorf("first request reserved %d bytes, want at most %d", first, 256<<10)
	}
	if s.hits.Load() < 450 {
		t.Errorf("lane served %d of 500 requests, want at least 450", s.hits.Load())
	}
	if l.Forget(); memory.Used() != 0 {
		t.Errorf("%d bytes are reserved after Forget, want 0", memory.Used())
	}
}

func TestTableGrowsAfterAShortageOfMemory(t *testing.T) {
	memory := account.New(2<<20, nil)
	memory.Reserve(account.Streams, 1<<20) // the lane leaves half
	s := startServer(t, lane.New(lane.Options{Memory: memory}))
	w := s.dial()
	ask := func(hits int64) {
		t.Helper()
		for range 2 {
			w.send([]byte(getA))
			w.settle()
		}
		expect.Equal(t, s.hits.Load(), hits, "hits")
	}
	ask(0)
	memory.Release(account.Streams, 1<<20)
	ask(0) // the first handler makes room for the next one
	ask(2)
	expect.Equal(t, memory.Used(), 256<<10, "reserved bytes")
}

var _ lane.Handler = (*echo)(nil)

func TestLaneReopensAfterRequestStartedDuringHandler(t *testing.T) {
	s := startServer(t, newLane())
	learn(s, getA)
	w := s.dial()
	w.send([]byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\nG"))
	w.settle()
	w.send([]byte(getA[1:]))
	w.settle()
	before := s.hits.Load()
	w.send([]byte(getA))
	w.settle()
	if s.hits.Load() != before+1 {
		t.Error("handler served the next request, want the lane")
	}
}
