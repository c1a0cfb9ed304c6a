package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/cmd/tipcache/demo"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// secrets are the secrets of a configuration. Each is one word that occurs nowhere else.
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

// withPassword returns a URL with credentials.
func withPassword(t *testing.T, raw, password string) string {
	t.Helper()
	u := expect.Value(url.Parse(raw))(t)
	u.User = url.UserPassword("tipcache", password)
	return u.String()
}

// startWithSecrets runs serve with each secret in its settings.
func startWithSecrets(t *testing.T, d *devnet.Devnet, redis, collector, store string) *configuredServer {
	t.Helper()
	s := serveFile(t, d, listenAnywhere+fmt.Sprintf(`
admin_token: %q
chain: {nodes: [%q], comet: [%q], timeout: 400ms}
redis: {url: %q}
collections: {store: %q, store_key: %q, keys: ["tester:%x"]}
metadata: {provider: %q}
log: {level: debug}
tracing: {endpoint: %q, ratio: 1}
`, secrets["admin token"], withPassword(t, d.NodeURL(), secrets["node password"]), withPassword(t, d.CometURL(), secrets["comet password"]),
		withPassword(t, "redis://"+redis, secrets["redis password"]), store, secrets["store key"], sha256.Sum256([]byte(secrets["API key"])),
		"alchemy:"+d.MetadataURL()+"/nft/v3/"+secrets["provider key"],
		withPassword(t, collector, secrets["collector password"])+"/"+secrets["collector path"]))
	s.key = secrets["API key"]
	return s
}

// requestEverything sends valid and invalid requests to all APIs, and writes the responses to w.
func (r *instance) requestEverything(w io.Writer) {
	bearer := []string{"Authorization", "Bearer " + secrets["admin token"]}
	record := func(got reply) { fmt.Fprintln(w, got.status, got.header, got.body) }
	for _, path := range []string{"/staking/validators/" + validator, "/staking/pool?x=" + fmt.Sprint(time.Now().UnixNano()), "/staking/validators?status=9", "/nowhere", "/auth/params"} {
		record(r.get(r.base+path, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	}
	record(r.list("{}"))
	record(r.list(`{"orderBy":1}`))
	record(r.do(http.MethodPost, r.base+"/api/v4/collections", "{}", "X-Api-Key", "wrong"))
	for _, path := range []string{"/readyz", "/metrics", "/admin/explain?url=/staking/pool", "/admin/explain?url=/api/v4/collections", "/admin/explain?url=x", "/admin/config"} {
		record(r.get(r.admin+path, bearer...))
		record(r.get(r.admin+path, "Authorization", "Bearer wrong"))
	}
	record(r.do(http.MethodPost, r.admin+"/admin/purge?route=pool", "", bearer...))
}

// importCollections returns a store with the devnet's collections.
func importCollections(t *testing.T, d *devnet.Devnet) string {
	t.Helper()
	lines, store := filepath.Join(t.TempDir(), "collections.jsonl"), sqliteURL(t)
	expect.NoError(t, demo.WriteCollections(d.Collections(), lines))
	expect.Value(runCommand(t, "import", "--store", store, lines))(t)
	return store
}

func expectNoSecrets(t *testing.T, text string) {
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
	output := &logtest.Log{}
	var services []*configuredServer
	t.Run("running", func(t *testing.T) { // closes everything at its end
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
		t.Cleanup(store.Close)
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(output, r.Body)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, r.URL, r.Header) // the client repeats it in its error
		}))
		t.Cleanup(collector.Close)
		redis := miniredis.RunT(t)
		redis.RequireUserAuth("tipcache", secrets["redis password"])
		services = []*configuredServer{
			startWithSecrets(t, d, redis.Addr(), collector.URL, importCollections(t, d)),
			startWithSecrets(t, d, redis.Addr(), collector.URL, "postgres://tipcache:"+secrets["store password"]+"@127.0.0.1:1/tipcache"),
			startWithSecrets(t, d, "127.0.0.1:1", "http://127.0.0.1:1", store.URL),
		}
		services[0].eventually("response of the node", func() bool { return services[0].get(services[0].base+"/staking/pool").status == http.StatusOK })
		faults := []devnet.Fault{{}, {Outage: devnet.Refuse}, {Outage: devnet.Reset}, {Stall: true}, {Nonsense: true}, {ErrorRate: 1, ErrorStatus: 429}}
		for _, fault := range faults {
			expect.NoError(t, d.SetFaults(devnet.Faults{Node: fault, Comet: fault, Provider: fault}))
			for _, r := range services {
				r.requestEverything(output)
			}
		}
		redis.RequireUserAuth("tipcache", "another")
		redis.Close()
		services[0].requestEverything(output)
	})
	text := output.String()
	for _, s := range services {
		text += s.log.String()
	}
	expectNoSecrets(t, text)
	// Without these the output would not cover all that may contain secrets.
	for _, word := range []string{`"msg":"request"`, `"level":"DEBUG"`, "trace spans not sent", "node.request", "metadata.batch", "collections.list", "tipcache_build_info", "validation failed", `"verdict"`, `"problems"`, `"replicas"`, `"redis":"ok"`} {
		if !strings.Contains(text, word) {
			t.Errorf("output lacks %s", word)
		}
	}
}
