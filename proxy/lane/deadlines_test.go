package lane_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/lane"
)

// The end of what a client sends that comes together with a request is not told apart from that.
func TestAConnectionEndsSoonAfterItsClientHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		know(s, getA)
		for requests := range 4 {
			w := s.dial()
			w.takes(all)
			synctest.Wait()
			for range requests {
				w.send([]byte(getA))
				synctest.Wait()
			}
			w.last(getA)
			synctest.Wait()
			if n := strings.Count(w.said(), "200 OK"); n != requests+1 {
				t.Errorf("%d answers to %d requests", n, requests+1)
			}
			if requests == 0 && !w.isClosed() {
				t.Error("a client that asks once waits for the end")
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if !w.isClosed() {
				t.Errorf("the connection of %d requests has not ended", requests+1)
			}
		}
	})
}

func TestASilentClientHasAllItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		know(s, getA)
		w := s.dial()
		for range 3 {
			for range 3 {
				w.send([]byte(getA))
				synctest.Wait()
			}
			time.Sleep(time.Minute - time.Second)
			synctest.Wait()
			if w.isClosed() {
				t.Fatal("a connection ends before its time")
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if hits := s.hits.Load(); hits != 9 || !w.isClosed() {
			t.Errorf("%d hits of 9; the connection that waits for too long is closed: %t", hits, w.isClosed())
		}
	})
}

// Of what is shorter than a request net/http reads on.
func TestAClientThatSendsAnEmptyLineHasAllItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		const post = "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
		know(s, post)
		w := s.dial()
		for _, piece := range []string{post, post, "\r\n"} {
			w.send([]byte(piece))
			synctest.Wait()
		}
		time.Sleep(30 * time.Second)
		w.send([]byte(post))
		synctest.Wait()
		if n := strings.Count(w.said(), "200 OK"); n != 3 {
			t.Errorf("%d answers to 3 requests: %q", n, w.said())
		}
	})
}

func TestEachAnswerThatDoesNotGoOutAtOnceHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		for _, end := range []string{"\r\n", "Connection: close\r\n\r\n"} {
			get := "GET /memory/large HTTP/1.1\r\nHost: x\r\n" + end
			know(s, get)
			w := s.dial()
			for range 3 {
				w.send([]byte(get))
				synctest.Wait()
				if left := time.Until(w.until); left != time.Minute {
					t.Errorf("%v is left to write an answer", left)
				}
				if time.Sleep(30 * time.Second); w.isClosed() {
					break
				}
			}
		}
	})
}

// A client that asks seldom does not wait for the end of its connection.
func TestTheEndThatComesWithALaterRequestIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		know(s, getA)
		w := s.dial()
		w.takes(all)
		for range 3 {
			w.send([]byte(getA))
			time.Sleep(time.Second)
		}
		w.last(getA)
		synctest.Wait()
		if n := strings.Count(w.said(), "200 OK"); n != 4 || !w.isClosed() {
			t.Errorf("%d answers to 4 requests; the connection has ended: %t", n, w.isClosed())
		}
	})
}

func TestRequestsThatComeTogetherWithTheEndAreAllAnsweredBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		know(s, getA)
		w := s.dial()
		w.takes(all)
		w.last(strings.Repeat(getA, 3))
		synctest.Wait()
		if n := strings.Count(w.said(), "200 OK"); n != 3 || !w.isClosed() {
			t.Errorf("%d answers to 3 requests; the connection has ended: %t", n, w.isClosed())
		}
	})
}

// The time of a client that waits for its answer is not that of its next request.
func TestARequestThatComesWhileAnAnswerIsWrittenIsAnswered(t *testing.T) {
	for name, idle := range map[string]time.Duration{"one second": time.Second, "three seconds": 3 * time.Second} {
		t.Run("idle for "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, lane.New(lane.Options{IdleTimeout: idle, WriteTimeout: time.Minute}))
				const get = "GET /memory/large HTTP/1.1\r\nHost: x\r\n\r\n"
				know(s, get)
				w := s.dial()
				w.takes(all)
				w.send([]byte(get))
				synctest.Wait()
				w.takes(none)
				time.Sleep(time.Millisecond) // so that nothing is renewed
				w.send([]byte(get))
				time.Sleep(idle + time.Second)
				w.send([]byte(get))
				time.Sleep(idle + time.Second)
				w.takes(all)
				synctest.Wait()
				if n, hits := strings.Count(w.said(), "200 OK"), s.hits.Load(); n != 3 || hits != 3 {
					t.Errorf("%d answers to 3 requests, %d of them the lane's", n, hits)
				}
			})
		})
	}
}
