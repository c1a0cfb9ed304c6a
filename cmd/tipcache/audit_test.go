package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// metricSum returns the sum of a metric over the series with all these labels.
func (r *instance) metricSum(name string, labels ...string) float64 {
	r.t.Helper()
	return rig.ParseSamples(r.get(r.admin+"/metrics").body).Sum(name, labels...)
}

func TestAuditNamesNodeWithForgedResponses(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	forger := rewriting(t, d.NodeURL(), func(_ string, body []byte) []byte {
		return bytes.Replace(body, []byte(`not_bonded_tokens":"`), []byte(`not_bonded_tokens":"666`), 1)
	})
	r := startRunning(t, d, func(c *config.Config) {
		c.Audit.Share = 1
		c.Chain.Nodes, c.Chain.Comet = []string{forger, d.NodeURL()}, []string{d.CometURL(), d.CometURL()}
	})
	name := host(forger)
	r.eventually("difference counted", func() bool {
		d.Advance(1)
		r.get(r.base + storyPool)
		return r.metricSum("tipcache_audit_differences_total", `source="`+name+`"`) > 0
	})
	expect.Contains(t, r.get(r.admin+"/readyz").body, fmt.Sprintf(`%q:{"differences":`, name), "/readyz")
}
