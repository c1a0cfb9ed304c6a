package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A client asks over a connection that it keeps, until a response closes it and it opens the
// next one elsewhere. It never asks twice, as a balancer would not.
type client struct {
	ask      func(*http.Client) (*http.Response, error)
	answered *atomic.Int64
}

func (c client) run() error {
	transport := &http.Transport{MaxIdleConns: 1}
	defer transport.CloseIdleConnections()
	for {
		resp, err := c.ask(&http.Client{Transport: transport})
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s, %w", resp.Status, err)
		}
		c.answered.Add(1)
		if resp.Close {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestDrainLosesNoRequest(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 50 * time.Millisecond})
	ctx, sigterm := context.WithCancel(context.Background())
	defer sigterm()
	r, ended := startStoppable(ctx, t, d, func(c *config.Config) { c.HTTP.DrainDelay = 6 * time.Second })
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Latency: 100 * time.Millisecond}}))

	var answered atomic.Int64
	var clients sync.WaitGroup
	for i := range 20 {
		pinned := fmt.Sprintf("%s/staking/pool", r.base)
		ask := func(c *http.Client) (*http.Response, error) { return c.Get(pinned) }
		if i%2 == 0 {
			ask = func(c *http.Client) (*http.Response, error) { return c.Do(r.listing(t)) }
		}
		clients.Go(func() {
			if err := (client{ask, &answered}).run(); err != nil {
				t.Errorf("a client lost a request: %v", err)
			}
		})
	}
	r.eventually("answering", func() bool { return answered.Load() > 100 })
	sigterm()
	clients.Wait()
	expect.NoError(t, <-ended)
	if c, err := net.Dial("tcp", r.Addr()); err == nil {
		_ = c.Close()
		t.Error("the public listener is open after Run returned, want it closed")
	}
}

func TestDrainEndsAtDeadline(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	ctx, sigterm := context.WithCancel(context.Background())
	defer sigterm()
	r, ended := startStoppable(ctx, t, d, func(c *config.Config) {
		c.HTTP.Drain = 300 * time.Millisecond // less than is valid: no request should be cut off
	})
	conn := r.dial()
	fmt.Fprintf(conn, "POST /api/v4/collections HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n", r.key)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // it is being read
		t.Fatalf("%q, %v", line, err)
	}
	sigterm()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("process still waiting, want it ended")
	}
}

// startStoppable serves, however invalid the configuration is, until ctx ends, and hands out what it ended with.
func startStoppable(ctx context.Context, t *testing.T, d *devnet.Devnet, change func(*config.Config)) (*running, <-chan error) {
	t.Helper()
	cfg := unhurried(t, d, "a test's key")
	change(&cfg)
	s := expect.Value(service.New(t.Context(), cfg, parts.NewLogs(io.Discard, cfg.Log)))(t)
	r := &running{Service: s, t: t, devnet: d, key: "a test's key",
		base: "http://" + s.Addr(), admin: "http://" + s.AdminAddr()}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	r.eventually("ready", func() bool { return r.get(r.admin+"/readyz").status == http.StatusOK })
	return r, ended
}

// listing asks for a page of collections.
func (r *running) listing(t *testing.T) *http.Request {
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, r.base+"/api/v4/collections", strings.NewReader(`{}`))
	if err != nil {
		t.Error(err)
	}
	req.Header.Set("X-Api-Key", r.key)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// dial opens a connection that a test writes to by hand.
func (r *running) dial() net.Conn {
	r.t.Helper()
	conn := expect.Value(net.Dial("tcp", host(r.base)))(r.t)
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return conn
}
