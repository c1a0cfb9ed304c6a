package service

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// serving is a configuration with all parts. Nothing answers at the addresses of its upstreams.
const serving = `listen: "%s"
admin: "%s"
chain: {dialect: story, id: test-1, nodes: ["http://127.0.0.1:1"], comet: ["http://127.0.0.1:1"], grpc: ["127.0.0.1:1"]}
redis: {url: "redis://127.0.0.1:1"}
collections: {store: "sqlite::memory:", auth: none}
index: {enabled: true}
metadata: {provider: "blockscout:http://127.0.0.1:1"}
http: {tls: {cert: "%[5]s", key: "%[5]s"}}
rpc: {listen: "%[3]s"}
grpc: {listen: "%[4]s"}
tracing: {endpoint: "http://127.0.0.1:1"}
log: {level: error, format: json}
`

const digest = "web:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// A setting is a change of a setting to another valid value. fields are the fields of parts that must then change, separated by
// blanks: name all that [held.changed] finds and that have the value or follow from it, because a forgotten field is a place that
// the setting may stop reaching. If a setting changes many, such as the dialect, a few are enough. with are settings without which
// the value is invalid.
type setting struct {
	key, value, fields string
	with               []string
}

var settings = []setting{
	{key: "listen", value: "127.0.0.2:0", fields: "service.Addresses.REST"},
	{key: "admin", value: "127.0.0.2:0", fields: "service.Addresses.Admin"},
	{key: "admin_token", value: "0123456789abcdef", fields: "admin.Handler.token"},
	{key: "access", value: "deny /x", fields: "limits.Limits.Access limits.Rule.Deny limits.Rule.Patterns"},
	{key: "chain.dialect", value: "cosmos", fields: "node.Options.Dialect node.protocol.height proxy.Options.Dialect proxy.router.chainAPI dialect.Row.Pattern"},
	{key: "chain.rows", value: "mine /mine/{id:uint64} live cheap", fields: "dialect.Row.Name proxy.Options.Rows story.Route.Msg"},
	{key: "chain.rows", value: "mine /x.v1.Query/Mine never cheap", fields: "proxy.Options.Methods proxy.Server.methods"},
	{key: "chain.unknown_paths", value: "refuse", fields: "story.Options.RefuseUnknown story.Handler.unknown"},
	{key: "chain.post_rate", value: "7/s burst 9", fields: "blocks.Posts.Rate blocks.Posts.Burst"},
	{key: "chain.max_tx_bytes", value: "5MiB", fields: "blocks.Posting.MaxBody blocks.Posts.MaxBody socket.Options.Message web.Options.LargestBody"},
	{key: "chain.id", value: "test-2", fields: "heights.Options.ChainID node.Options.ChainID"},
	{key: "chain.nodes", value: "http://127.0.0.1:2", fields: "node.Endpoint.REST node.endpoint.name"},
	{key: "chain.comet", value: "http://127.0.0.1:2", fields: "node.Endpoint.Comet"},
	{key: "chain.grpc", value: "127.0.0.1:2", fields: "node.Endpoint.GRPC"},
	{key: "chain.grpc", value: "none", fields: "state.Options.GRPC grpc.Options.Stream"},
	{key: "chain.shape", value: "node", fields: "node.Options.VerbatimKeys proxy.router.shape story.Options.Shape"},
	{key: "chain.timeout", value: "7s", fields: "cache.Options.FlightTimeout http.Server.ReadTimeout http.Server.WriteTimeout lane.Options.WriteTimeout node.Settings.Timeout node.endpoint.timeout node.grpcClient.timeout redis.Options.FlightTimeout socket.Options.Read socket.Options.Write stream.Options.Write web.Settings.RequestTimeout"},
	{key: "chain.timeout", value: "4s", fields: "cache.Options.OriginTimeout node.Settings.Timeout"}, // flights have their least time then
	{key: "chain.in_flight", value: "7", fields: "node.Settings.InFlight queue.limit.ceiling"},
	{key: "chain.max_block_age", value: "7s", fields: "node.Settings.MaxBlockAge"},
	{key: "chain.auth", value: "keys", fields: "blocks.Options.Auth web.Route.Keyed", with: []string{"COLLECTIONS_KEYS=" + digest}},
	{key: "classes.live.fresh_blocks", value: "1", fields: "blocks.Classes.Live.FreshBlocks freshness.Policy.FreshBlocks"},
	{key: "classes.live.stale_blocks", value: "7", fields: "blocks.Classes.Live.StaleBlocks freshness.Policy.StaleBlocks"},
	{key: "classes.live.error_blocks", value: "70", fields: "blocks.Classes.Live.ErrorBlocks freshness.Policy.ErrorBlocks"},
	{key: "classes.live.fresh", value: "3s", fields: "blocks.Classes.Live.Fresh freshness.Policy.Fresh"},
	{key: "classes.live.stale", value: "7s", fields: "blocks.Classes.Live.Stale freshness.Policy.Stale"},
	{key: "classes.live.stale_if_error", value: "7m", fields: "blocks.Classes.Live.StaleIfError blocks.Classes.Live.Keep freshness.Policy.StaleIfError"},
	{key: "classes.params.fresh_blocks", value: "1", fields: "blocks.Classes.Params.FreshBlocks freshness.Policy.FreshBlocks"},
	{key: "classes.params.stale_blocks", value: "7", fields: "blocks.Classes.Params.StaleBlocks freshness.Policy.StaleBlocks"},
	{key: "classes.params.error_blocks", value: "700", fields: "blocks.Classes.Params.ErrorBlocks freshness.Policy.ErrorBlocks"},
	{key: "classes.params.fresh", value: "3s", fields: "blocks.Classes.Params.Fresh freshness.Policy.Fresh"},
	{key: "classes.params.stale", value: "77s", fields: "blocks.Classes.Params.Stale freshness.Policy.Stale"},
	{key: "classes.params.stale_if_error", value: "47m", fields: "blocks.Classes.Params.StaleIfError blocks.Classes.Params.Keep freshness.Policy.StaleIfError"},
	{key: "classes.negative", value: "7s", fields: "blocks.Classes.Negative"},
	{key: "routes", value: "{pool: {fresh: 1s}}", fields: "freshness.Policy.Fresh"},
	{key: "cache.memory", value: "70MiB", fields: "account.Account.limit cache.Options.MemoryBytes"},
	{key: "redis.url", value: "redis://127.0.0.1:2", fields: "redis.Options.Addr redis.Settings.URL"},
	{key: "redis.timeout", value: "77ms", fields: "limits.Shared.Timeout redis.Options.DialTimeout redis.Options.PoolTimeout redis.Options.ReadTimeout redis.Settings.Timeout redis.Options.WriteTimeout"},
	{key: "redis.seal_key", value: "0123456789abcdef", fields: "redis.Settings.SealKey redis.codec.sealer"},
	{key: "collections.store", value: "https://127.0.0.1:1/api/v4", fields: "collections.Store.name collections.Store.driver", with: []string{"INDEX_ENABLED=false"}},
	{key: "collections.store_key", value: "0123456789abcdef", fields: "apistore.httpStore.key", with: []string{"INDEX_ENABLED=false", "COLLECTIONS_STORE=https://127.0.0.1:1/api/v4"}},
	{key: "collections.auth", value: "keys", fields: "collections.Options.NoAuth", with: []string{"COLLECTIONS_KEYS=" + digest}},
	{key: "collections.auth", value: "closed", fields: "collections.Options.Store collections.Options.Watch collections.Options.Filled"},
	{key: "collections.keys", value: digest, fields: "limits.Key.Name limits.Key.SHA256"},
	{key: "collections.rate", value: "7/s", fields: "limits.Limits.Key.Burst limits.Limits.Key.Requests"},
	{key: "collections.public_url", value: "https://app.example", fields: "web.Options.PublicURL"},
	{key: "index.enabled", value: "false", fields: "service.Service.indexer indexer.Options.Follow"},
	{key: "index.evm", value: "http://127.0.0.1:2", fields: "evm.Options.Endpoints evm.Endpoint.name"},
	{key: "index.network", value: "aeneid", fields: "evm.Options.ChainID indexer.Network.ChainID metadata.Options.Chain collections.MetadataStore.Chain"},
	{key: "index.from", value: "7", fields: "indexer.Settings.From"},
	{key: "metadata.provider", value: "blockscout:http://127.0.0.1:2", fields: "metadata.Settings.Provider url.URL.Host"},
	{key: "http.rate", value: "7/s", fields: "limits.Limits.Address.Burst limits.Limits.Address.Requests"},
	{key: "http.trusted_proxies", value: "10.0.0.0/8", fields: "limits.Limits.TrustedProxies"},
	{key: "http.proxy_protocol", value: "required", fields: "conn.Options.Proxies", with: []string{"HTTP_TRUSTED_PROXIES=10.0.0.0/8"}},
	{key: "http.cors_origins", value: "https://app.example", fields: "web.Settings.CORSOrigins web.cors.origins"},
	{key: "http.session_cookie", value: "true", fields: "session.Clients.useCookies web.Settings.SessionCookie"},
	{key: "http.fast_lane", value: "false", fields: "conn.Options.Lane web.Options.Lane service.Service.lane"},
	{key: "http.max_connections", value: "777", fields: "conn.Settings.Most"},
	{key: "http.client_connections", value: "77", fields: "conn.Settings.Share"},
	{key: "http.idle_timeout", value: "7s", fields: "http.Server.IdleTimeout lane.Options.IdleTimeout keepalive.ServerParameters.MaxConnectionIdle"},
	{key: "http.max_streams", value: "77", fields: "stream.Settings.Max"},
	{key: "http.client_streams", value: "7", fields: "stream.Settings.PerClient"},
	{key: "http.drain_delay", value: "7s", fields: ownSetting},
	{key: "http.tls.cert", value: otherCertificate, fields: "conn.Certificate.cert"},
	{key: "http.tls.key", value: otherCertificate, fields: "conn.Certificate.key"},
	{
		key: "http.mounts", value: "[{path: /api, shape: node, fallback: 'http://127.0.0.1:2', always: [/x], pass_authorization: true}]",
		fields: "proxy.router.base proxy.router.shape proxy.router.always fallback.Service.passed fallback.Service.target node.Options.VerbatimKeys",
	},
	{key: "rpc.listen", value: "127.0.0.2:0", fields: "service.Addresses.RPC docs.Listeners.RPC"},
	{key: "rpc.methods", value: "x", fields: "rpc.Settings.Methods rpc.Handler.methods"},
	{key: "grpc.listen", value: "127.0.0.2:0", fields: "service.Addresses.GRPC docs.Listeners.GRPC"},
	{key: "grpc.web_metadata", value: "x", fields: "grpc.Settings.WebMetadata"},
	{key: "log.level", value: "warn", fields: "slog.LevelVar.val"},
	{key: "log.format", value: "text", fields: "parts.Logs.Requests"},
	{key: "log.access", value: "0.5", fields: "record.Options.SkipLog"},
	{key: "log.access", value: "false", fields: "record.Options.OnlyFailures"},
	{key: "tracing.endpoint", value: "", fields: "service.Service.tracing record.Recorder.tracer indexer.Options.Tracing"},
	{key: "tracing.ratio", value: "0.5", fields: "record.Options.TraceRatio trace.traceIDRatioSampler.traceIDUpperBound"},
}

const (
	ownSetting       = "the service uses it itself"
	otherCertificate = "another certificate"
)

// A bench builds services, one after the other, at the same addresses.
type bench struct {
	t                  *testing.T
	addresses          [4]any
	certificate, other string
	bases              map[string]held
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, bases: map[string]held{}}
	for i := range b.addresses {
		b.addresses[i] = porttest.Address(t)
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key := expect.Value(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	b.certificate, b.other = filepath.Join(t.TempDir(), "a.pem"), filepath.Join(t.TempDir(), "b.pem")
	expect.NoError(t, os.WriteFile(b.certificate, text, 0o600))
	expect.NoError(t, os.WriteFile(b.other, text, 0o600))
	return b
}

// load returns the configuration with a setting changed. An empty key changes none.
func (b *bench) load(key, value string, with []string) config.Config {
	file := filepath.Join(b.t.TempDir(), "tipcache.yaml")
	text := fmt.Sprintf(serving, append(b.addresses[:], b.certificate)...)
	var environ []string
	for _, setting := range with {
		environ = append(environ, "TIPCACHE_"+setting)
	}
	switch value = strings.Replace(value, otherCertificate, b.other, 1); key {
	case "":
	case "routes":
		text += key + ": " + value + "\n"
	case "http.mounts":
		text = strings.Replace(text, "http: {", "http: {mounts: "+value+", ", 1)
	default:
		environ = append(environ, "TIPCACHE_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
	}
	expect.NoError(b.t, os.WriteFile(file, []byte(text), 0o600))
	return expect.Value(config.Load(config.Sources{File: file, Environ: environ}))(b.t)
}

// holdings builds a service, calls change, and returns what the parts hold. The service is closed before, so that its goroutines
// have ended.
func (b *bench) holdings(cfg config.Config, r Reloading, change func(*Service)) held {
	s := expect.Value(New(b.t.Context(), cfg, parts.NewLogs(io.Discard, cfg.Log), r))(b.t)
	change(s)
	expect.NoError(b.t, s.Close())
	return holdings(s)
}

// base returns what the parts hold without a change, with further settings.
func (b *bench) base(with []string) held {
	known := strings.Join(with, " ")
	if b.bases[known] == nil {
		b.bases[known] = b.holdings(b.load("", "", with), Reloading{}, func(*Service) {})
	}
	return b.bases[known]
}

func TestEachSettingReachesTheRoomsThatUseIt(t *testing.T) {
	b := newBench(t)
	for _, tt := range settings {
		after := b.holdings(b.load(tt.key, tt.value, tt.with), Reloading{}, func(*Service) {})
		expectChanged(t, tt.key, tt.fields, b.base(tt.with), after)
	}
	for _, k := range config.Keys() {
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.key == k.Path }) {
			t.Errorf("settings has no line for %s", k.Path)
		}
	}
}

func expectChanged(t *testing.T, key, fields string, before, after held) {
	t.Helper()
	if fields == ownSetting {
		return
	}
	changed := before.changed(after)
	for room := range strings.FieldsSeq(fields) {
		if !slices.Contains(changed, room) {
			t.Errorf("after a change of %s, %s holds %q; changed fields are: %s", key, room, after[room], strings.Join(changed, " "))
		}
	}
}

func TestEachReloadableSettingReachesTheRoomsThatUseIt(t *testing.T) {
	b := newBench(t)
	reloadable := map[string]bool{}
	for _, k := range config.Keys() {
		reloadable[k.Path] = k.Reload
	}
	for _, tt := range settings {
		if !reloadable[tt.key] || tt.value == "none" { // whether nodes have gRPC cannot change
			continue
		}
		hangup, next := make(chan os.Signal), b.load(tt.key, tt.value, tt.with)
		load := func() (config.Config, error) { return next, nil }
		after := b.holdings(b.load("", "", tt.with), Reloading{Load: load, Hangup: hangup}, func(s *Service) {
			ctx, cancel := context.WithCancel(t.Context())
			var reloading sync.WaitGroup
			reloading.Go(func() { s.reloadAtSignals(ctx) })
			hangup <- os.Interrupt
			cancel()
			reloading.Wait() // for the end of the reload, too
		})
		expectChanged(t, "(on SIGHUP) "+tt.key, tt.fields, b.base(tt.with), after)
	}
}
