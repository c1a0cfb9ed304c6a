package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

const (
	dashboardFile  = "../../deploy/grafana/tipcache.json"
	alertsFile     = "../../deploy/prometheus/alerts.yaml"
	alertTestsFile = "../../deploy/prometheus/alerts_test.yaml"
)

// expressions returns the PromQL of the dashboard's panels.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	text := expect.Value(os.ReadFile(dashboardFile))(t)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	expect.NoError(t, json.Unmarshal(text, &dashboard))
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q has the id of another panel: %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// metricsWithTLS returns the metrics of a service with a certificate.
func metricsWithTLS(t *testing.T) string {
	t.Helper()
	files, trusted := createCertificate(t)
	r := startUnready(t, newDevnet(t, devnet.Options{}), func(c *config.Config) { c.HTTP.TLS = files })
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	resp := expect.Value((&http.Client{Transport: transport}).Get("https://" + r.Addresses.Admin + "/metrics"))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return string(text)
}

// With a missing metric, a panel stays empty and an alert never fires, without an error.
func TestDashboardAndAlertsQueryExistingMetrics(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	r := startRunning(t, d, func(c *config.Config) {
		c.HTTP.Rate, c.RPC.Listen, c.GRPC.Listen = "10000/s", "127.0.0.1:0", "127.0.0.1:0"
		indexing(d, "sqlite::memory:")(c)
	})
	r.get(r.base + "/staking/pool")
	r.list("{}")
	r.eventually("indexed", func() bool {
		metrics := r.get(r.admin + "/metrics").body
		return strings.Contains(metrics, "\ntipcache_indexer_logs_total") && strings.Contains(metrics, "\ntipcache_collections_block")
	})
	serve := startServing(t, d, "collections: {auth: none, store: 'sqlite::memory:'}\n") // has metrics of reloads
	scraped := map[string]bool{}
	for line := range strings.Lines(r.get(r.admin+"/metrics").body + r.get(serve.admin+"/metrics").body + metricsWithTLS(t)) {
		scraped[regexp.MustCompile(`^\w*`).FindString(line)] = true
	}
	alerts := expect.Value(os.ReadFile(alertsFile))(t)
	sources := map[string][]string{"dashboard": expressions(t), "alerts": {string(alerts)}}
	for source, texts := range sources {
		names := regexp.MustCompile(`\b(tipcache|go|process)_\w+`).FindAllString(strings.Join(texts, "\n"), -1)
		if len(names) < 10 {
			t.Errorf("metrics in the %s = %d, want at least 10", source, len(names))
		}
		for _, name := range names {
			if !scraped[name] {
				t.Errorf("metric %s of the %s does not exist", name, source)
			}
		}
	}
}

func TestPrometheusAcceptsAlerts(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("install promtool (Debian: the package prometheus) to run this test: it must be on the PATH")
	}
	type rule struct {
		Record string            `json:"record"`
		Expr   string            `json:"expr"`
		Labels map[string]string `json:"labels"`
	}
	var rules []rule
	for i, expr := range expressions(t) {
		expr = strings.ReplaceAll(expr, "$__rate_interval", "5m") // as Grafana does
		rules = append(rules, rule{"dashboard:panel", expr, map[string]string{"n": strconv.Itoa(i)}})
	}
	text := expect.Value(json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}))(t)
	dashboard := writeFile(t, "dashboard.yaml", string(text))
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", alertTestsFile}, {"check", "rules", dashboard}} {
		if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v = %v\n%s", args, err, out)
		}
	}
}
