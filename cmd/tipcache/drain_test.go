package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// sendUntilClosed sends requests over one connection until a response closes it, and counts the responses. Like a load
// balancer, it never sends a request twice.
func (r *instance) sendUntilClosed(method, path, body string, responses *atomic.Int64) error {
	transport := &http.Transport{MaxIdleConns: 1}
	defer transport.CloseIdleConnections()
	for {
		req, err := http.NewRequest(method, r.base+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Api-Key", r.key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s, %w", resp.Status, err)
		}
		responses.Add(1)
		if resp.Close {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestDrainLosesNoRequest(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 50 * time.Millisecond})
	r := startRunning(t, d, func(c *config.Config) { c.HTTP.DrainDelay = 6 * time.Second })
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Latency: 100 * time.Millisecond}}))

	var responses atomic.Int64
	var clients sync.WaitGroup
	for i := range 20 {
		method, path, body := http.MethodGet, "/staking/pool", ""
		if i%2 == 0 {
			method, path, body = http.MethodPost, "/api/v4/collections", "{}"
		}
		clients.Go(func() {
			if err := r.sendUntilClosed(method, path, body, &responses); err != nil {
				t.Errorf("a client lost a request: %v", err)
			}
		})
	}
	r.eventually("100 responses", func() bool { return responses.Load() > 100 })
	r.stop()
	clients.Wait()
	expect.NoError(t, r.waitForEnd())
	if c, err := net.Dial("tcp", r.Addresses.REST); err == nil {
		_ = c.Close()
		t.Error("public listener still open after Run returned")
	}
}

func TestDrainEndsAtDeadline(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, func(c *config.Config) { c.HTTP.Drain = 300 * time.Millisecond })
	beginPost(t, r.Addresses.REST, "/api/v4/collections", "X-Api-Key: "+r.key, 10)
	r.stop()
	if err := r.waitForEnd(); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Run = %v, want an error for the request that was cut off", err)
	}
}

// beginPost sends the headers of a request, and returns its connection once the server reads the body.
func beginPost(t *testing.T, address, path, header string, contentLength int) net.Conn {
	t.Helper()
	conn := expect.Value(net.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, header, contentLength)
	line := expect.Value(bufio.NewReader(conn).ReadString('\n'))(t)
	expect.Contains(t, line, "100 Continue", "response to POST %s", path)
	return conn
}
