package lane_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy/lane"
)

func TestRequestsComeThroughTheLaneOnTheirThirdSight(t *testing.T) {
	for name, request := range map[string]string{
		"a GET":                              getA,
		"a HEAD":                             "HEAD /memory/a HTTP/1.1\r\nHost: x\r\n\r\n",
		"a POST with its body":               "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
		"an answer that is not short":        "GET /memory/large HTTP/1.1\r\nHost: x\r\n\r\n",
		"a request id that is always same":   "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-Id: 7\r\n\r\n",
		"a request id that nobody could use": "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-Id: a b\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, newLane())
			w := s.dial()
			for range 5 {
				w.send([]byte(request))
				w.settle()
			}
			if hits, handled := s.hits.Load(), s.handled.Load(); hits != 3 || handled != 2 {
				t.Errorf("%d came through the lane and %d through the handler; want 3 and 2", hits, handled)
			}
			said := w.said()
			fifth := len(said) / 5
			if diff := cmp.Diff(strings.Repeat(said[:fifth], 5), said); diff != "" {
				t.Errorf("answers to the same request differ (-first +all):\n%s", diff)
			}
		})
	}
}

func TestRequestsDoNotComeThroughTheLane(t *testing.T) {
	for name, request := range map[string]string{
		"answered without memory":          "GET /other HTTP/1.1\r\nHost: x\r\n\r\n",
		"of HTTP/1.0":                      "GET /memory/a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"with a body in chunks":            "POST /memory/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"with a line that ends bare":       "GET /memory/a HTTP/1.1\nHost: x\r\n\r\n",
		"with an end that is bare":         "GET /memory/a HTTP/1.1\r\nHost: x\r\n\n",
		"with a folded line":               "GET /memory/a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
		"that expect to be continued":      "POST /memory/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
		"two in one piece":                 getA + getA,
		"of more than may be remembered":   "GET /memory/a HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 4096) + "\r\n\r\n",
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

func TestWhatComesInPiecesGoesToTheHandlerAndTheLaneOpensBehindIt(t *testing.T) {
	s := startServer(t, newLane())
	know(s, getA)
	w := s.dial()
	for i := 1; i < len(getA); i++ {
		w.send([]byte(getA[:i]))
		w.settle()
		w.send([]byte(getA[i:]))
		w.settle()
		before := s.hits.Load()
		w.send([]byte(getA))
		w.settle()
		if s.hits.Load() != before+1 {
			t.Errorf("split after %d bytes: the next request did not come through the lane", i)
		}
	}
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

func TestRequestIDsVary(t *testing.T) {
	request := func(id string) string {
		return "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-ID: " + id + "\r\ntraceparent: 00-" + strconv.Itoa(len(id)) + "-01\r\nAccept: */*\r\n\r\n"
	}
	s := startServer(t, newLane())
	for i := range 8 { // on one connection, as behind an ingress, and no id twice
		s.send(request(fmt.Sprint("learn", i)))
	}
	for id, inLane := range map[string]bool{
		"four":                   true,
		strings.Repeat("x", 64):  true,
		strings.Repeat("x", 70):  false,
		"fi ve":                  false,
		"six\r\nX-Request-ID: 7": false,
		"six\r\nx-request-id: 7": false,
		"":                       false,
	} {
		before := s.hits.Load()
		w := s.dial()
		w.send([]byte(request(id)))
		w.settle()
		w.end()
		if said := string(w.take()); s.hits.Load() > before != inLane || inLane && !strings.Contains(said, "X-Request-Id: "+id+"\r\n") {
			t.Errorf("id %q: through the lane is %t; the answer:\n%s", id, !inLane, said)
		}
	}
}

// However many spellings were seen, those of other clients work.
func TestNobodySpoilsTheRequestIDsOfOthers(t *testing.T) {
	request := func(name, id string) string {
		return "GET /memory/a HTTP/1.1\r\nHost: x\r\n" + name + ": " + id + "\r\n\r\n"
	}
	s := startServer(t, newLane())
	name := []byte("x-request-id")
	for i := range name {
		if name[i] == '-' {
			continue
		}
		name[i] &^= 0x20 // one more capital
		for id := range 6 {
			s.send(request(string(name), fmt.Sprint(i, "-", id)))
		}
	}
	for _, name := range []string{"X-Request-ID", "x-request-id", "X-REQUEST-ID"} {
		know(s, request(name, "1"), request(name, "2"))
		before := s.hits.Load()
		for _, id := range []string{"3", "4", "5"} {
			s.send(request(name, id))
		}
		if came := s.hits.Load() - before; came != 3 {
			t.Errorf("%s: %d of 3 came through the lane", name, came)
		}
	}
}

// A request that has a name twice is the same only if all its bytes are.
func TestARequestWithTwoSpellingsOfOneHeaderComesWholeOrToTheHandler(t *testing.T) {
	request := func(first, second string) string {
		return "GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + first + "\r\nx-request-id: " + second + "\r\ntraceparent: 00-1-01\r\n\r\n"
	}
	s := startServer(t, newLane())
	know(s, request("a", "b"))
	for _, tt := range []struct {
		first, second string
		inLane        bool
	}{{"a", "b", true}, {"a", "c", false}, {"c", "b", false}, {"b", "a", false}} {
		before := s.hits.Load()
		w := s.dial()
		w.send([]byte(request(tt.first, tt.second)))
		w.settle()
		if inLane := s.hits.Load() > before; inLane != tt.inLane || !strings.Contains(w.said(), "X-Request-Id: "+tt.first+"\r\n") {
			t.Errorf("%s and %s: through the lane is %t; the answer:\n%s", tt.first, tt.second, inLane, w.said())
		}
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
	s := startServer(t, newLane())
	know(s, getA)
	s.slow = make(chan struct{})
	w, idle, fresh := s.dial(), s.dial(), s.dial()
	idle.send([]byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\n"))
	idle.settle()
	for _, conn := range []*wire{fresh, w} {
		conn.send([]byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\n"))
		conn.settle()
	}
	w.send([]byte(getA))
	for w.waits() {
		time.Sleep(time.Millisecond)
	}
	s.lane.Drain()
	s.lane.CloseNew()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.http.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
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

func TestAFloodOfRequestsStaysWithinTheBudget(t *testing.T) {
	l := newLane()
	s := startServer(t, l)
	know(s, getA)
	w := s.dial()
	filler := strings.Repeat("x", 3500)
	for i := range 5000 {
		request := []byte("GET /memory/" + strings.Repeat("i", i%50) + " HTTP/1.1\r\nHost: x\r\nA: " + string(rune('a'+i%26)) + filler[i%1000:] + "\r\n\r\n")
		for range 2 {
			w.send(request)
			w.settle()
		}
	}
	if bytes := l.Bytes(); bytes > 8<<20 || bytes < 4<<20 {
		t.Errorf("%d bytes are remembered", bytes)
	}
}

var _ lane.Shortcut = (*echo)(nil)

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
