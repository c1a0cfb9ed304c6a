package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(runsProgram) != "" {
		main()
		return
	}
	leaktest.Main(m)
}

const (
	validator = "0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0"
	delegator = "0x243b338be72573f04688f16dbc05e281517330d0"
)

// An instance is a service in front of a simulated chain.
type instance struct {
	*service.Service
	t           *testing.T
	devnet      *devnet.Devnet
	base, admin string
	key         string
	stop        context.CancelFunc
	ended       chan error // receives the result of Run
}

func newDevnet(t *testing.T, o devnet.Options) *devnet.Devnet {
	t.Helper()
	o.Seed, o.Collections = 1, 30
	return devnettest.Start(t, o)
}

// nodeDown makes the node refuse connections.
var nodeDown = devnet.Faults{Node: devnet.Fault{Outage: devnet.Refuse}, Comet: devnet.Fault{Outage: devnet.Refuse}}

// startRunning starts a service in front of d and waits until it is ready. The service stops when the test ends. change may alter
// the configuration of the demo.
func startRunning(t *testing.T, d *devnet.Devnet, change func(*config.Config)) *instance {
	t.Helper()
	r := startUnready(t, d, change)
	r.eventually("ready", func() bool { return r.get(r.admin+"/readyz").status == http.StatusOK })
	return r
}

// startUnready is startRunning without waiting for readiness.
func startUnready(t *testing.T, d *devnet.Devnet, change func(*config.Config)) *instance {
	t.Helper()
	const key = "a test's key"
	cfg := configForSlowMachines(t, d, key)
	if change != nil {
		change(&cfg)
	}
	s := expect.Value(demo.New(t.Context(), cfg, d, io.Discard))(t)
	ctx, stop := context.WithCancel(context.Background())
	r := &instance{Service: s, t: t, devnet: d, key: key, stop: stop, ended: make(chan error, 1),
		base: "http://" + s.Addresses.REST, admin: "http://" + s.Addresses.Admin}
	go func() { r.ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-r.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// waitForEnd returns the result of Run.
func (r *instance) waitForEnd() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- nil // for the cleanup
		return err
	case <-time.After(2 * time.Minute):
		r.t.Fatal("service still running after 2 minutes")
		return nil
	}
}

// configForSlowMachines returns the configuration of the demo with long timeouts.
func configForSlowMachines(t *testing.T, d *devnet.Devnet, key string) config.Config {
	t.Helper()
	redisURL, stopRedis, err := demo.StartRedis()
	expect.NoError(t, err)
	t.Cleanup(stopRedis)
	c := config.Default()
	c.HTTP.FastLane = os.Getenv("TIPCACHE_TEST_FAST_LANE") != "off" // .ci/run runs the tests both ways
	c.Listen, c.Admin, c.Log.Level = "127.0.0.1:0", "127.0.0.1:0", "error"
	c.Redis.Timeout, c.Cache.Flight = 2*time.Second, 40*time.Second
	c.Chain.Timeout, c.Collections.Timeout = 20*time.Second, 20*time.Second
	c.HTTP.RequestTimeout, c.HTTP.Drain = time.Minute, 70*time.Second
	c.Metadata.Budget, c.Metadata.Timeout = 20*time.Second, 30*time.Second
	demo.Embed(&c, d, redisURL, key)
	return c
}

// reply is a response.
type reply struct {
	request string
	status  int
	header  http.Header
	body    string
}

// expectStatus fails the test unless the response has this status, and each part in its body.
func (r reply) expectStatus(t *testing.T, status int, parts ...string) {
	t.Helper()
	expect.Response(t, r.request, r.status, r.body, status, parts...)
}

func (r reply) height() string { return r.header.Get("X-Block-Height") }

// do sends a request with headers, given as names and values.
func (r *instance) do(method, url, body string, header ...string) reply {
	r.t.Helper()
	req := expect.Value(http.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body)))(r.t)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := expect.Value(http.DefaultClient.Do(req))(r.t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(r.t)
	return reply{method + " " + url, resp.StatusCode, resp.Header, string(text)}
}

func (r *instance) get(url string, header ...string) reply {
	r.t.Helper()
	return r.do(http.MethodGet, url, "", header...)
}

// list requests a page of collections with the key of the service.
func (r *instance) list(body string, headers ...string) reply {
	r.t.Helper()
	return r.do(http.MethodPost, r.base+"/api/v4/collections", body, append(headers, "X-Api-Key", r.key, "Content-Type", "application/json")...)
}

// ready returns the body of /readyz.
func (r *instance) ready() (state service.Health) {
	r.t.Helper()
	expect.NoError(r.t, json.Unmarshal([]byte(r.get(r.admin+"/readyz").body), &state))
	return state
}

// eventually waits until ok returns true, for at most 90 seconds.
func (r *instance) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(90 * time.Second); !ok(); time.Sleep(25 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within 90 s: %s", what)
		}
	}
}
