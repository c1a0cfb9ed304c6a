package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// The secrets of a configuration: each is one word that occurs nowhere else.
var secrets = map[string]string{
	"node password":      "node-7c1f",
	"comet password":     "comet-9b2e",
	"redis password":     "redis-d41d",
	"store password":     "store-8cd9",
	"store key":          "storekey-8f00",
	"provider key":       "provider-b204",
	"API key":            "apikey-e980",
	"admin token":        "admintoken-0998ecf8",
	"collector password": "collector-427e",
	"collector path":     "collectorpath-d2a1",
	"collector header":   "collectorheader-77b0",
}

// with puts credentials into a URL.
func with(t *testing.T, raw, password string) string {
	t.Helper()
	u := expect.Value(url.Parse(raw))(t)
	u.User = url.UserPassword("tipcache", password)
	return u.String()
}

// startSecretive serves, as the command does, with a secret wherever there can be one.
func startSecretive(t *testing.T, d *devnet.Devnet, redis, collector, store string, w io.Writer) *running {
	t.Helper()
	digest := sha256.Sum256([]byte(secrets["API key"]))
	settings := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
admin_token: %q
chain: {nodes: [%q], comet: [%q], timeout: 400ms}
redis: {url: %q}
collections: {store: %q, store_key: %q, keys: ["tester:%s"]}
metadata: {provider: %q}
log: {level: debug}
tracing: {endpoint: %q, ratio: 1}
`, secrets["admin token"], with(t, d.NodeURL(), secrets["node password"]), with(t, d.CometURL(), secrets["comet password"]),
		with(t, "redis://"+redis, secrets["redis password"]), store, secrets["store key"], hex.EncodeToString(digest[:]),
		"alchemy:"+d.MetadataURL()+"/nft/v3/"+secrets["provider key"],
		with(t, collector, secrets["collector password"])+"/"+secrets["collector path"])
	file := filepath.Join(t.TempDir(), "tipcache.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	return serveFile(t, d, file, w)
}

// serveFile serves, as the command does, with a file's settings.
func serveFile(t *testing.T, d *devnet.Devnet, file string, w io.Writer) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	log, ended := &logtest.Log{}, make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--config", file}, streams{w, io.MultiWriter(w, log)})
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		fmt.Fprintln(w, <-ended)
	})
	r := &running{t: t, devnet: d, key: secrets["API key"]}
	addresses := regexp.MustCompile(`"msg":"serving","listen":"([^"]+)","admin":"([^"]+)"`)
	r.eventually("serving", func() bool {
		found := addresses.FindStringSubmatch(log.String())
		if found != nil {
			r.base, r.admin = "http://"+found[1], "http://"+found[2]
		}
		return found != nil
	})
	return r
}

// look asks for everything there is, well or not.
func (r *running) look(w io.Writer) {
	bearer := []string{"Authorization", "Bearer " + secrets["admin token"]}
	note := func(got reply) { fmt.Fprintln(w, got.status, got.header, got.body) }
	for _, path := range []string{"/staking/validators/" + validator, "/staking/pool?x=" + fmt.Sprint(time.Now().UnixNano()), "/staking/validators?status=9", "/nowhere", "/auth/params"} {
		note(r.get(r.base+path, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	}
	note(r.list("{}"))
	note(r.list(`{"orderBy":1}`))
	note(r.do(http.MethodPost, r.base+"/api/v4/collections", "{}", "X-Api-Key", "wrong"))
	for _, path := range []string{"/readyz", "/metrics", "/admin/explain?url=/staking/pool", "/admin/explain?url=/api/v4/collections", "/admin/explain?url=x", "/admin/config"} {
		note(r.get(r.admin+path, bearer...))
		note(r.get(r.admin+path, "Authorization", "Bearer wrong"))
	}
	note(r.do(http.MethodPost, r.admin+"/admin/purge?route=pool", "", bearer...))
}

// filled is a store with the devnet's collections.
func filled(t *testing.T, d *devnet.Devnet) string {
	t.Helper()
	lines, store := filepath.Join(t.TempDir(), "collections.jsonl"), "sqlite:"+filepath.Join(t.TempDir(), "tipcache.db")
	expect.NoError(t, demo.WriteCollections(d.Collections(), lines))
	expect.NoError(t, run(t.Context(), []string{"import", "--store", store, lines}, streams{io.Discard, io.Discard}))
	return store
}

func mustNotTell(t *testing.T, text string) {
	t.Helper()
	for name, secret := range secrets {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("secret %s is in the output: %q", name, text[max(0, i-300):i+len(secret)])
		}
	}
}

func TestNoOutputContainsSecrets(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20"+secrets["collector header"])
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	heard := &logtest.Log{}
	t.Run("running", func(t *testing.T) { // all is closed at its end
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
		t.Cleanup(store.Close)
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(heard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, r.URL, r.Header) // which the client repeats in its error
		}))
		t.Cleanup(collector.Close)
		redis := miniredis.RunT(t)
		redis.RequireUserAuth("tipcache", secrets["redis password"])
		services := []*running{
			startSecretive(t, d, redis.Addr(), collector.URL, filled(t, d), heard),
			startSecretive(t, d, redis.Addr(), collector.URL, "postgres://tipcache:"+secrets["store password"]+"@127.0.0.1:1/tipcache", heard),
			startSecretive(t, d, "127.0.0.1:1", "http://127.0.0.1:1", store.URL, heard),
		}
		services[0].eventually("answering", func() bool { return services[0].get(services[0].base+"/staking/pool").status == http.StatusOK })
		sick := []devnet.Fault{{}, {Outage: devnet.Refuse}, {Outage: devnet.Reset}, {Stall: true}, {Nonsense: true}, {ErrorRate: 1, ErrorStatus: 429}}
		for _, fault := range sick {
			expect.NoError(t, d.SetFaults(devnet.Faults{Node: fault, Comet: fault, Provider: fault}))
			for _, r := range services {
				r.look(heard)
			}
		}
		redis.RequireUserAuth("tipcache", "another")
		redis.Close()
		services[0].look(heard)
	})
	text := heard.String()
	mustNotTell(t, text)
	// The test would be worth nothing if it had not heard of all this.
	for _, word := range []string{`"msg":"request"`, `"level":"DEBUG"`, "trace spans not sent", "node.request", "metadata.batch", "collections.list", "tipcache_build_info", "validation failed", `"verdict"`, `"problems"`, `"replicas"`, `"redis":"ok"`} {
		if !strings.Contains(text, word) {
			t.Errorf("no report of %s", word)
		}
	}
}
