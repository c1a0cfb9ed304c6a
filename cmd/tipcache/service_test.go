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

// running is a service in front of a simulated chain.
type running struct {
	*service.Service
	t           *testing.T
	devnet      *devnet.Devnet
	base, admin string
	key         string
	ended       chan error // receives the result of Run; a test that takes it sends nil
}

func newDevnet(t *testing.T, o devnet.Options) *devnet.Devnet {
	t.Helper()
	o.Seed, o.Collections = 1, 30
	d := expect.Value(demo.Start(o))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// startRunning serves from d until the test ends, and returns when it is ready.
func startRunning(t *testing.T, d *devnet.Devnet, change func(*config.Config)) *running {
	t.Helper()
	r := startUnready(t, d, change)
	r.eventually("ready", func() bool { return r.get(r.admin+"/readyz").status == http.StatusOK })
	return r
}

// startUnready does not wait. change may alter the configuration of the demo.
func startUnready(t *testing.T, d *devnet.Devnet, change func(*config.Config)) *running {
	t.Helper()
	const key = "a test's key"
	cfg := unhurried(t, d, key)
	if change != nil {
		change(&cfg)
	}
	s := expect.Value(demo.New(t.Context(), cfg, d, io.Discard))(t)
	r := &running{Service: s, t: t, devnet: d, key: key,
		base: "http://" + s.Addr(), admin: "http://" + s.AdminAddr()}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r.ended = ended
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// unhurried returns the configuration of the demo with timeouts that suffice on a busy machine.
func unhurried(t *testing.T, d *devnet.Devnet, key string) config.Config {
	t.Helper()
	redisURL, stopRedis, err := demo.StartRedis()
	expect.NoError(t, err)
	t.Cleanup(stopRedis)
	c := config.Default()
	c.Listen, c.Admin, c.Log.Level = "127.0.0.1:0", "127.0.0.1:0", "error"
	c.Redis.Timeout, c.Cache.Flight = 2*time.Second, 40*time.Second
	c.Chain.Timeout, c.Collections.Timeout = 20*time.Second, 20*time.Second
	c.HTTP.Request, c.HTTP.Drain = time.Minute, 70*time.Second
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

// wants fails the test unless the response has this status, and each part in its body.
func (r reply) wants(t *testing.T, status int, parts ...string) {
	t.Helper()
	expect.Response(t, r.request, r.status, r.body, status, parts...)
}

func (r reply) height() string { return r.header.Get("X-Block-Height") }

func (r *running) do(method, url, body string, header ...string) reply {
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

func (r *running) get(url string, header ...string) reply {
	r.t.Helper()
	return r.do(http.MethodGet, url, "", header...)
}

func (r *running) list(body string, headers ...string) reply {
	r.t.Helper()
	return r.do(http.MethodPost, r.base+"/api/v4/collections", body, append(headers, "X-Api-Key", r.key, "Content-Type", "application/json")...)
}

// ready returns the body of /readyz.
func (r *running) ready() (state service.Readiness) {
	r.t.Helper()
	expect.NoError(r.t, json.Unmarshal([]byte(r.get(r.admin+"/readyz").body), &state))
	return state
}

func (r *running) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(90 * time.Second); !ok(); time.Sleep(25 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("never %s", what)
		}
	}
}

func TestCollectionsHaveMetadataOfProvider(t *testing.T) {
	t.Parallel()
	r := startRunning(t, newDevnet(t, devnet.Options{}), nil)
	got := r.list(`{"pagination":{"limit":30}}`)
	if got.status != 200 || strings.Count(got.body, `"collectionAddress"`) != 30 || !strings.Contains(got.body, "marketplaceMetadata") {
		t.Errorf("%d %.400s", got.status, got.body)
	}
	r.do("POST", r.base+"/api/v4/collections", "{}").wants(t, http.StatusUnauthorized)
}

func TestMetadataIsEmptyWhileProviderFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault devnet.Fault
		state string
	}{
		"refused": {devnet.Fault{Outage: devnet.Refuse}, "failing"}, "stalled": {devnet.Fault{Stall: true}, ""}, "nonsense": {devnet.Fault{Nonsense: true}, "failing"},
		"limited": {devnet.Fault{ErrorRate: 1, ErrorStatus: 429}, "rate_limited"}, "unauthorized": {devnet.Fault{ErrorRate: 1, ErrorStatus: 401}, "unauthorized"},
	} {
		d := newDevnet(t, devnet.Options{Faults: devnet.Faults{Provider: test.fault}})
		r := startRunning(t, d, func(c *config.Config) { c.Metadata.Budget = 0 })
		got := r.list(`{"pagination":{"limit":3}}`)
		if got.status != 200 || strings.Count(got.body, `"collectionMetadata":{}`) != 3 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if test.state != "" { // a provider that stalls is given up later than the page
			r.eventually("/readyz says that the provider is "+test.state, func() bool {
				said := r.get(r.admin + "/readyz").body
				return strings.Contains(said, `"metadata":"`+test.state+`","metadata_error":"`)
			})
		}
	}
}
