package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// impatient makes every time that a client may take a short one.
func impatient(c *config.Config) {
	const unit = 500 * time.Millisecond // which a busy machine keeps
	c.Redis.Timeout, c.Chain.Timeout, c.Collections.Timeout = unit, 4*unit, 4*unit
	c.Cache.Flight, c.HTTP.Request = 8*unit, 16*unit
}

// dial opens a connection that a test writes to by hand.
func (r *running) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return conn
}

// drip writes a text over and over, a little at a time, until the connection
// ends, and says how.
func drip(conn net.Conn, text string) error {
	for {
		if _, err := io.WriteString(conn, text); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// listenedOn says whether a connection ended because its client had enough.
func listenedOn(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func TestConnectionWithSlowHeadersIsClosed(t *testing.T) {
	t.Parallel()
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) {
		impatient(c)
		c.HTTP.MaxConnections = 3
	})
	ended := make(chan error)
	for range 3 {
		conn := r.dial()
		if _, err := io.WriteString(conn, "GET /staking/params HTTP/1.1\r\nHost: x\r\n"); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- drip(conn, "X-Drip: 1\r\n") }()
	}
	r.eventually("full", func() bool {
		return strings.Contains(r.get(r.admin+"/metrics").body, "\ntipcache_http_connections 3\n")
	})
	if got := r.get(r.base + "/staking/params"); got.status != http.StatusOK {
		t.Errorf("another client: %d %s", got.status, got.body)
	}
	for range 3 {
		if listenedOn(<-ended) {
			t.Error("slow client still connected, want it disconnected")
		}
	}
}

func TestConnectionOfStalledReaderIsClosed(t *testing.T) {
	t.Parallel()
	r := startRunning(t, newDevnet(t, devnet.Options{}), impatient)
	conn := r.dial()
	var err error
	for err == nil { // ask and ask, and read nothing
		_, err = io.WriteString(conn, strings.Repeat("GET /staking/validators HTTP/1.1\r\nHost: x\r\n\r\n", 100))
	}
	if listenedOn(err) {
		t.Error("connection still accepts requests, want it closed")
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestEndlessBodyIsRefused(t *testing.T) {
	t.Parallel()
	r := startRunning(t, newDevnet(t, devnet.Options{}), nil)
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/api/v4/collections", http.StatusRequestEntityTooLarge},
		{"GET", "/staking/params", http.StatusBadRequest},
		{"POST", "/staking/params", http.StatusMethodNotAllowed},
		{"PUT", "/nowhere", http.StatusMethodNotAllowed},
	} {
		conn := r.dial()
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", tt.method, tt.path, r.key)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			body := make([]byte, 4096)
			for {
				n, _ := endless{}.Read(body)
				if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", n, body); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s %s: %v", tt.method, tt.path, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, resp.StatusCode, tt.status)
		}
		<-ended
	}
}
