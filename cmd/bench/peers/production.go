package peers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// productionName is tipcache with a rate per address, Redis and traces, as in the first configuration of production.md.
const productionName = "tipcache, production"

// Production measures hits of a replica with the recommended set-up, compared with the same program, log and TLS without rate, Redis
// and traces, and without the fast lane. All requests come from a trusted ingress, which names another client with each.
func Production(ctx context.Context, r *rig.Rig) {
	d, redis := r.Chain(rig.Still), r.Redis(ctx)
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r.OnStop(collector.Close)
	behindIngress := []string{"TIPCACHE_HTTP_TRUSTED_PROXIES=127.0.0.1/32"}
	o := origin{node: d.NodeURL(), comet: d.CometURL(), cert: r.Certificate(ctx), env: behindIngress}
	production := o
	production.env = slices.Concat(behindIngress, []string{
		"TIPCACHE_HTTP_RATE=100/s", "TIPCACHE_TRACING_ENDPOINT=" + collector.URL + "/v1/traces", "TIPCACHE_TRACING_RATIO=0.01",
	})
	first := before(ctx, r, productionName, production, "--redis", redis.URL())
	servers := append([]*peer{first}, beforeAll(ctx, r, []string{tipcacheName, noLaneName}, o)...)
	browsers := hitCase{name: "crowd, 20,000 browsers, TLS", offer: secure, crowd: &crowd{documents: crowdDocuments(d.Validators()), browsers: 20_000, ingress: true}}
	report(r, "production", compare(ctx, r, r.Connections, servers, subjects(r, []hitCase{browsers}, servers)))

	commands := func() float64 {
		return rig.Must(strconv.ParseFloat(redis.InfoMap(ctx, "stats").Item("Stats", "total_commands_processed"), 64))
	}
	var came result
	began, sent := time.Now(), commands()
	spent := rig.Spent(redis.Process, func() { came = browsers.measure(ctx, r, first, r.Connections[0]) })
	took := time.Since(began).Seconds()
	r.Note("Redis during one load of %.0f requests per second: %.0f commands per second, %.1f %% of a core.", came.PerSecond, (commands()-sent)/took, 100*spent.Seconds()/took)
	refused := rig.Must(first.replica.Metrics(ctx)).Sum("tipcache_proxy_requests_total", `status="429"`)
	if refused > 0 {
		rig.Check(fmt.Errorf("%.0f requests were refused by the rate, want 0", refused))
	}
}
