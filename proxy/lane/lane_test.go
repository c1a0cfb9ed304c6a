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
)

func TestRequestsThatComeAgainComeThroughTheLane(t *testing.T) {
	for name, request := range map[string]string{
		"a GET":                            getA,
		"a HEAD":                           "HEAD /memory/a HTTP/1.1\r\nHost: x\r\n\r\n",
		"a POST with its body":             "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
		"an answer that is not short":      "GET /memory/large HTTP/1.1\r\nHost: x\r\n\r\n",
		"a request with an id":             "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-Id: 7\r\n\r\n",
		"a head longer than a read":        "GET /memory/a HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 8000) + "\r\n\r\n",
		"a body longer than a read":        "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 16384\r\n\r\n" + strings.Repeat("x", 16384),
		"a length of a GET without a body": "GET /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"trailers that are accepted":       "GET /memory/a HTTP/1.1\r\nHost: x\r\nte: trailers\r\n\r\n",
		"an upgrade to nothing":            "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n\r\n",
		"a connection that is to be kept":  "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n",
		"an odd name, which nothing reads": "GET /memory/a HTTP/1.1\r\nHost: x\r\nX_A~!#:\t1 \r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, newLane())
			w := s.dial()
			for range 5 {
				w.send([]byte(request))
				w.settle()
			}
			if hits, handled := s.hits.Load(), s.handled.Load(); handled != strangers(request) || hits != 5-handled {
				t.Errorf("%d came through the lane and %d through the handler; want %d by the handler", hits, handled, strangers(request))
			}
			said := w.said()
			fifth := len(said) / 5
			if diff := cmp.Diff(strings.Repeat(said[:fifth], 5), said); diff != "" {
				t.Errorf("answers to the same request differ (-first +all):\n%s", diff)
			}
		})
	}
}

func TestBodiesThatComeOnceLeaveNothing(t *testing.T) {
	l := newLane()
	s := startServer(t, l)
	w := s.dial()
	for i := range 100 {
		w.send(fmt.Appendf(nil, "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n%03d", i))
		w.settle()
	}
	if handled, left := s.handled.Load(), l.Bytes(); handled != 100 || left != 0 {
		t.Errorf("%d were handled, and %d bytes are left; want 100 and none", handled, left)
	}
}

func TestRequestsDoNotComeThroughTheLane(t *testing.T) {
	for name, request := range map[string]string{
		"answered without memory":          "GET /other HTTP/1.1\r\nHost: x\r\n\r\n",
		"of HTTP/1.0 that stay":            "GET /memory/a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"with a body in chunks":            "POST /memory/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"with a line that ends bare":       "GET /memory/a HTTP/1.1\nHost: x\r\n\r\n",
		"with an end that is bare":         "GET /memory/a HTTP/1.1\r\nHost: x\r\n\n",
		"with a folded line":               "GET /memory/a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
		"that expect to be continued":      "POST /memory/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
		"of a long target":                 "GET /memory/" + strings.Repeat("x", 256) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"that want to be another protocol": "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, newLane())
			for range 5 {
				w := s.dial()
				w.send([]byte(request))
				w.settle()
				w.end()
				w.take()
			}
			if hits := s.hits.Load(); hits != 0 {
				t.Errorf("%d came through the lane", hits)
			}
		})
	}
}

// A client is asked for what it says of itself, and not by it.
func TestAnotherClientIsAnsweredInTheLaneAtOnce(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	for i := range 100 {
		w := s.dial()
		w.send(fmt.Appendf(nil, "GET /memory/a HTTP/1.1\r\nUser-Agent: browser %d\r\nAccept-Encoding: gzip, deflate;q=0.%d\r\nX-Forwarded-For: 192.0.2.%d\r\nhost: x\r\nCookie: a=%d\r\n\r\n", i, i, i, i))
		w.settle()
	}
	if hits, handled := s.hits.Load(), s.handled.Load(); hits != 100 || handled != 1 {
		t.Errorf("%d came through the lane and %d through the handler; want 100 and 1", hits, handled)
	}
}

func TestWhatChoosesAnAnswerIsKnownApart(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	for _, line := range []string{"Host: y\r\n", "Host: x\r\nX-Block-Height: 7\r\n", "Host: x\r\nX-Min-Block-Height: 7\r\n", "Host: x\r\nX-Block-Height: 8\r\n"} {
		before := s.handled.Load()
		know(s, "GET /memory/a HTTP/1.1\r\n"+line+"\r\n")
		if s.handled.Load() != before+1 {
			t.Errorf("%q was taken for another request", line)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInTheirOrder(t *testing.T) {
	s := startServer(t, newLane())
	batch := getA + "GET /memory/b HTTP/1.1\r\nHost: x\r\n\r\n" + "POST /memory/c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" + getA
	w := s.dial()
	w.send([]byte(batch))
	w.settle()
	first := w.said()
	if hits, handled := s.hits.Load(), s.handled.Load(); hits+handled != 4 || handled < 3 {
		t.Errorf("%d and %d answers in the lane and by the handler", hits, handled)
	}
	know(s, getA, "GET /memory/b HTTP/1.1\r\nHost: x\r\n\r\n", "POST /memory/c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
	before := s.hits.Load()
	for range 3 {
		w.send([]byte(batch))
		w.settle()
	}
	if hits := s.hits.Load() - before; hits != 12 {
		t.Errorf("%d of 12 requests that are known came through the lane", hits)
	}
	if diff := cmp.Diff(strings.Repeat(first, 4), w.said()); diff != "" {
		t.Errorf("answers (-first +all):\n%s", diff)
	}
}

func TestAConnectionEndsWithTheAnswerThatSaysSo(t *testing.T) {
	for name, request := range map[string]string{
		"HTTP/1.1 and close":   "GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"HTTP/1.0 and close":   "GET /memory/a HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n",
		"HTTP/1.0 and nothing": "GET /memory/a HTTP/1.0\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			plain, fast := startServer(t, nil), startServer(t, newLane())
			know(fast, getA)
			var said [2]string
			for i, s := range []*server{plain, fast} {
				w := s.dial()
				w.send([]byte(request + getA))
				said[i] = string(w.take())
			}
			if diff := cmp.Diff(lines([]byte(said[0])), lines([]byte(said[1]))); diff != "" || fast.hits.Load() != 1 {
				t.Errorf("%d hits (-without lane +with lane):\n%s", fast.hits.Load(), diff)
			}
		})
	}
}

func TestARequestInPiecesIsTheLanes(t *testing.T) {
	for name, request := range map[string]string{
		"a GET":  getA,
		"a POST": "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, newLane())
			know(s, request)
			w := s.dial()
			for i := 1; i < len(request); i++ {
				w.send([]byte(request[:i]))
				w.settle()
				w.send([]byte(request[i:]))
				w.settle()
			}
			if hits := s.hits.Load(); hits != int64(len(request)-1) || s.handled.Load() != strangers(request) {
				t.Errorf("%d of %d came through the lane", hits, len(request)-1)
			}
		})
	}
}

// A client that does not go on, or has left, is net/http's.
func TestABeginningWithoutItsRestGoesToTheHandler(t *testing.T) {
	const post = "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane(), func(h *http.Server) { h.ReadHeaderTimeout, h.ReadTimeout = 10*time.Second, 20*time.Second })
		know(s, post+"hello")
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
		if !strings.Contains(slow.said(), "hello") || s.handled.Load() != 2 {
			t.Errorf("the handler has had %d, and the slow client got %q", s.handled.Load(), slow.said())
		}
		if said := string(left.take()); !strings.Contains(said, " 400 ") {
			t.Errorf("the client that left got %q", said)
		}
		for name, w := range map[string]*wire{"a new client": half, "one that the lane has answered": known} {
			if w.isClosed() {
				t.Errorf("%s may not take the time that a head may take", name)
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for name, w := range map[string]*wire{"a new client": half, "one that the lane has answered": known} {
			if !w.isClosed() {
				t.Errorf("the head of %s does not come, and is waited for, for longer than it may take", name)
			}
		}
	})
}

// What is held counts in no bound of memory.
func TestFewBeginningsAreHeldAtATime(t *testing.T) {
	const most, more = 256, 44
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		know(s, "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		for range 2 { // the second time there is room again
			s.handled.Store(0)
			clients := make([]*wire, most+more)
			for i := range clients {
				clients[i] = s.dial()
				clients[i].send([]byte("POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"))
			}
			synctest.Wait()
			if n := s.handled.Load(); n != more {
				t.Errorf("the handler has %d of %d", n, len(clients))
			}
			for i, c := range clients {
				if i%2 == 0 {
					c.send([]byte("hello"))
				}
				c.end()
			}
			synctest.Wait()
			if said := clients[0].said() + clients[len(clients)-2].said(); strings.Count(said, "hello") != 2 {
				t.Errorf("the clients got %q", said)
			}
		}
	})
}

func TestWhatIsForgottenIsAnsweredByTheHandler(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	w := s.dial()
	s.lane.Forget()
	hits, handled := s.hits.Load(), s.handled.Load()
	w.send([]byte(getA))
	w.settle()
	if s.hits.Load() != hits || s.handled.Load() != handled+1 {
		t.Error("a request that was forgotten came through the lane")
	}
}

func TestWhatMemoryHasNoMoreIsAnsweredByTheHandler(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	w := s.dial()
	s.version.Add(1)
	w.send([]byte(getA))
	w.settle()
	if !strings.Contains(w.said(), "v2") {
		t.Errorf("the answer is an old one:\n%s", w.said())
	}
}

func TestABodyIsNoPlaceForARequestID(t *testing.T) {
	request := func(id string) string {
		body := "\r\nX-Request-ID: " + id + "\r\n"
		return "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n" + body
	}
	s := startServer(t, newLane())
	know(s, "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-ID: one\r\n\r\n", request("one"), request("two"))
	w := s.dial()
	w.send([]byte(request("six")))
	w.settle()
	if !strings.Contains(w.said(), "six") {
		t.Errorf("the answer is to another body:\n%s", w.said())
	}
}

func TestAClientThatIsAnsweredInTheLaneMayWaitForItsIdleTime(t *testing.T) {
	for name, first := range map[string]string{"on a new connection": getA, "behind another request": "GET /b HTTP/1.1\r\nHost: x\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, newLane(), func(h *http.Server) {
					h.IdleTimeout, h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout = time.Minute, 10*time.Second, 20*time.Second, time.Minute
				})
				know(s, getA)
				w := s.dial()
				w.send([]byte(first))
				synctest.Wait()
				for range 5 {
					time.Sleep(50 * time.Second)
					w.send([]byte(getA))
					synctest.Wait()
				}
				w.send([]byte("POST /b HTTP/1.1\r\n")) // from here on the time for a header counts, then that for a body
				time.Sleep(9 * time.Second)
				w.send([]byte("Host: x\r\nContent-Length: 3\r\n\r\nab"))
				time.Sleep(10 * time.Second)
				w.send([]byte("c"))
				synctest.Wait()
				if n := strings.Count(w.said(), " 200 OK"); n != 7 {
					t.Errorf("%d answers; want 7:\n%s", n, w.said())
				}
				w.send([]byte(getA))
				time.Sleep(61 * time.Second)
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				if !w.closed {
					t.Error("a connection is open after its idle time")
				}
			})
		})
	}
}

func TestAnAnswerInProgressIsWrittenBeforeTheServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		know(s, getA)
		s.slow = make(chan struct{})
		w, idle, fresh := s.dial(), s.dial(), s.dial()
		for _, conn := range []*wire{idle, fresh, w} {
			conn.send([]byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\n"))
			conn.settle()
		}
		w.send([]byte(getA))
		synctest.Wait() // until the answer waits for slow
		s.lane.Drain()
		s.lane.CloseNew()
		if err := s.http.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.lane.Wait(ctx); err == nil {
			t.Error("the lane did not wait for an answer in progress")
		}
		idle.take()
		close(s.slow)
		if err := s.lane.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if said := string(w.take()); strings.Count(said, "200 OK") != 2 || !strings.HasSuffix(said, "\n") {
			t.Errorf("the answer in progress was cut off:\n%s", said)
		}
	})
}

func TestConnectionsThatOnlyTheLaneHasAnsweredDoNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		know(s, getA)
		w := s.dial()
		w.send([]byte(getA))
		w.settle()
		began := time.Now()
		s.lane.Drain()
		s.lane.CloseNew()
		if err := s.http.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the server was down after %v", took)
		}
	})
}

func TestADrainingLaneLeavesRequestsToTheHandler(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	s.lane.Drain()
	w := s.dial()
	before := s.handled.Load()
	w.send([]byte(getA))
	w.settle()
	if s.handled.Load() != before+1 {
		t.Error("a draining lane answered")
	}
}

// What comes often outlasts a flood of what comes once, within what memory sets aside.
func TestAFloodOfRequestsStaysWithinTheBudget(t *testing.T) {
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
		t.Errorf("%d bytes are remembered, and %d reserved, want %d", bytes, memory.Used(), memory.Limit()/2)
	}
	if first > 256<<10 {
		t.Errorf("%d bytes are reserved for the first request, want at most %d", first, 256<<10)
	}
	if s.hits.Load() < 450 {
		t.Errorf("only %d of 500 came through the lane", s.hits.Load())
	}
	if l.Forget(); memory.Used() != 0 {
		t.Errorf("%d bytes are reserved after Forget, want 0", memory.Used())
	}
}

var _ lane.Handler = (*echo)(nil)

func TestTheLaneOpensBehindARequestThatCameTooSoon(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	w := s.dial()
	w.send([]byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\nG"))
	w.settle()
	w.send([]byte(getA[1:]))
	w.settle()
	before := s.hits.Load()
	w.send([]byte(getA))
	w.settle()
	if s.hits.Load() != before+1 {
		t.Error("the next request did not come through the lane")
	}
}
