package lane_test

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A read that returns a request does not return the EOF that arrived with it.
func TestEOFWithRequestClosesConnectionWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		learn(s, getA)
		for requests := range 4 {
			w := s.dial()
			w.setCapacity(all)
			synctest.Wait()
			for range requests {
				w.send([]byte(getA))
				synctest.Wait()
			}
			w.sendAndClose(getA)
			synctest.Wait()
			if n := strings.Count(w.output(), "200 OK"); n != requests+1 {
				t.Errorf("got %d responses to %d requests", n, requests+1)
			}
			if requests == 0 && !w.isClosed() {
				t.Error("connection is open after one request and EOF")
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if !w.isClosed() {
				t.Errorf("connection is open 2s after %d requests and EOF", requests+1)
			}
		}
	})
}

func TestSilentClientIsClosedAfterIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		learn(s, getA)
		w := s.dial()
		for range 3 {
			for range 3 {
				w.send([]byte(getA))
				synctest.Wait()
			}
			time.Sleep(time.Minute - time.Second)
			synctest.Wait()
			if w.isClosed() {
				t.Fatal("connection closed before the idle timeout")
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if hits := s.hits.Load(); hits != 9 || !w.isClosed() {
			t.Errorf("hits = %d, closed = %t; want 9 and true", hits, w.isClosed())
		}
	})
}

// net/http waits for more bytes after an empty line.
func TestEmptyLineDoesNotShortenIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		const post = "POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
		learn(s, post)
		w := s.dial()
		for _, piece := range []string{post, post, "\r\n"} {
			w.send([]byte(piece))
			synctest.Wait()
		}
		time.Sleep(30 * time.Second)
		w.send([]byte(post))
		synctest.Wait()
		expect.Equal(t, strings.Count(w.output(), "200 OK"), 3, "responses to 3 requests (%q)", w.output())
	})
}

func TestEachWriteGetsWriteTimeout(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"of a socket": func(c net.Conn) net.Conn { return c },
		"over TLS":    func(c net.Conn) net.Conn { return struct{ net.Conn }{c} }, // no Socket
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, newLane())
				newConn := s.wrap
				s.wrap = func(c net.Conn) net.Conn { return newConn(wrap(c)) }
				for _, end := range []string{"\r\n", "Connection: close\r\n\r\n"} {
					get := "GET /memory/large HTTP/1.1\r\nHost: x\r\n" + end
					learn(s, get)
					w := s.dial()
					for range 3 {
						w.send([]byte(get))
						synctest.Wait()
						if left := time.Until(w.until); left != time.Minute {
							t.Errorf("write deadline in %v, want 1m", left)
						}
						if time.Sleep(30 * time.Second); w.isClosed() {
							break
						}
					}
				}
				if hits := s.hits.Load(); hits != 5 { // it knows the second request from the first
					t.Errorf("the lane served %d requests, want 5", hits)
				}
			})
		})
	}
}

func TestEOFWithRequestAfterRenewalClosesConnectionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		learn(s, getA)
		w := s.dial()
		w.setCapacity(all)
		for range 3 {
			w.send([]byte(getA))
			time.Sleep(time.Second)
		}
		w.sendAndClose(getA)
		synctest.Wait()
		if n := strings.Count(w.output(), "200 OK"); n != 4 || !w.isClosed() {
			t.Errorf("responses = %d, closed = %t; want 4 and true", n, w.isClosed())
		}
	})
}

func TestRequestsBeforeEOFAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, newLane())
		learn(s, getA)
		w := s.dial()
		w.setCapacity(all)
		w.sendAndClose(strings.Repeat(getA, 3))
		synctest.Wait()
		if n := strings.Count(w.output(), "200 OK"); n != 3 || !w.isClosed() {
			t.Errorf("responses = %d, closed = %t; want 3 and true", n, w.isClosed())
		}
	})
}

// The idle timeout does not run while a response is written.
func TestRequestDuringBlockedWriteIsAnswered(t *testing.T) {
	for name, idle := range map[string]time.Duration{"one second": time.Second, "three seconds": 3 * time.Second} {
		t.Run("idle for "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t, lane.New(lane.Options{IdleTimeout: idle, WriteTimeout: time.Minute}))
				const get = "GET /memory/large HTTP/1.1\r\nHost: x\r\n\r\n"
				learn(s, get)
				w := s.dial()
				w.setCapacity(all)
				w.send([]byte(get))
				synctest.Wait()
				w.setCapacity(none)
				time.Sleep(time.Millisecond) // too short for a renewal
				w.send([]byte(get))
				time.Sleep(idle + time.Second)
				w.send([]byte(get))
				time.Sleep(idle + time.Second)
				w.setCapacity(all)
				synctest.Wait()
				if n, hits := strings.Count(w.output(), "200 OK"), s.hits.Load(); n != 3 || hits != 3 {
					t.Errorf("responses = %d, hits = %d; want 3 and 3", n, hits)
				}
			})
		})
	}
}
