package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// forgery is what a liar adds to the number of tokens that are not bonded.
const forgery = "not_bonded_tokens\":\"666"

// liar starts a proxy that forges the responses of a node to one path.
func liar(t *testing.T, node, path string) string {
	t.Helper()
	return rewriting(t, node, func(at string, body []byte) []byte {
		if at != path {
			return body
		}
		return bytes.Replace(body, []byte(`not_bonded_tokens":"`), []byte(forgery), 1)
	})
}

// counted is the sum of a metric over the lines with all the labels.
func (r *running) counted(name string, labels ...string) (sum float64) {
	r.t.Helper()
lines:
	for line := range strings.Lines(r.get(r.admin + "/metrics").body) {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(line, label) {
				continue lines
			}
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		sum += value
	}
	return sum
}

func (r *running) auditLines() (said string) {
	for line := range strings.Lines(r.get(r.admin + "/metrics").body) {
		if strings.HasPrefix(line, "tipcache_audit_") {
			said += line
		}
	}
	return said
}

// auditLab is a dialect with a path that is forged, and more that are not.
type auditLab struct {
	dialect devnet.Dialect
	pool    string
	others  []string
}

var auditLabs = []auditLab{
	{devnet.Story, "/staking/pool", []string{"/staking/params", "/staking/validators?pagination.limit=2", "/staking/validators/0x0000000000000000000000000000000000000001"}},
	{devnet.Cosmos, "/cosmos/staking/v1beta1/pool", []string{"/cosmos/staking/v1beta1/params", "/cosmos/staking/v1beta1/validators?pagination.limit=2", "/cosmos/staking/v1beta1/validators/none"}},
}

// poll asks for all paths at each of so many new blocks, of the replicas in turn. It
// returns the blocks of which the last gave a forged answer.
func (l *auditLab) poll(d *devnet.Devnet, blocks int, replicas ...*running) map[string]bool {
	forged := map[string]bool{}
	for range blocks {
		d.Advance(1)
		tip := strconv.FormatInt(d.Height(), 10)
		for i, r := range replicas {
			if l.ask(r, tip) && i == len(replicas)-1 {
				forged[tip] = true
			}
		}
	}
	return forged
}

// ask asks for all paths at the tip, once the replica is there, and for the others
// pinned to it too. It tells whether an answer was forged.
func (l *auditLab) ask(r *running, tip string) (forged bool) {
	for _, path := range append(l.others, l.pool) {
		var got reply
		r.eventually(path+" is of block "+tip, func() bool {
			got = r.get(r.base + path)
			return got.status != http.StatusOK || got.height() == tip
		})
		forged = forged || strings.Contains(got.body, forgery)
		if path != l.pool && got.status == http.StatusOK {
			r.get(r.base+path, "X-Block-Height", tip)
		}
	}
	return forged
}

// settled waits until all that was to be read again has been.
func (l *auditLab) settled(r *running) {
	r.t.Helper()
	last := -1.0
	r.eventually("the auditor is done", func() bool {
		before := last
		last = r.counted("tipcache_audit_entries_total")
		time.Sleep(100 * time.Millisecond)
		return last > 0 && last == before
	})
}

func everyAuditLab(t *testing.T, test func(t *testing.T, l auditLab, d *devnet.Devnet)) {
	for _, l := range auditLabs {
		t.Run(string(l.dialect), func(t *testing.T) {
			t.Parallel()
			test(t, l, newDevnet(t, devnet.Options{Dialect: l.dialect, Interval: -1}))
		})
	}
}

func TestAuditOfHonestNodesFindsNothing(t *testing.T) {
	t.Parallel()
	everyAuditLab(t, func(t *testing.T, l auditLab, d *devnet.Devnet) {
		other, err := d.AddNode()
		if err != nil {
			t.Fatal(err)
		}
		r := startRunning(t, d, func(c *config.Config) {
			c.Audit.Share = 1
			c.Chain.Nodes, c.Chain.Comet = []string{d.NodeURL(), other.RESTURL()}, []string{d.CometURL(), other.CometURL()}
		})
		l.poll(d, 20, r)
		l.settled(r)
		if n := r.counted("tipcache_audit_entries_total", `"same"`); n < 40 {
			t.Errorf("%v answers were read again and found the same", n)
		}
		for _, result := range []string{"different", "unsettled"} {
			if n := r.counted("tipcache_audit_entries_total", `"`+result+`"`); n != 0 {
				t.Errorf("%v are %s", n, result)
			}
		}
		if audits := r.counted("tipcache_node_answers_total", `reason="audit"`); audits < 40 || r.counted("tipcache_node_request_duration_seconds_count", `cost="audit"`) != audits {
			t.Errorf("%v requests are counted as the auditor's", audits)
		}
		if ready := r.get(r.admin + "/readyz").body; strings.Contains(ready, `"audit"`) {
			t.Errorf("/readyz: %s", ready)
		}
	})
}

func TestAuditFindsForgedResponsesOfNode(t *testing.T) {
	t.Parallel()
	everyAuditLab(t, func(t *testing.T, l auditLab, d *devnet.Devnet) {
		false1 := liar(t, d.NodeURL(), l.pool)
		r := startRunning(t, d, func(c *config.Config) {
			c.Audit.Share = 1
			c.Chain.Nodes, c.Chain.Comet = []string{false1, d.NodeURL()}, []string{d.CometURL(), d.CometURL()}
		})
		forged := l.poll(d, 15, r)
		l.settled(r)
		name := strings.TrimPrefix(false1, "http://")
		found := r.counted("tipcache_audit_differences_total", `source="`+name+`"`)
		if found == 0 || found < float64(len(forged)) { // which of the nodes is read is the pool's choice
			t.Errorf("%v of %d forged answers were found; %s", found, len(forged), r.auditLines())
		}
		if ready := r.get(r.admin + "/readyz").body; !strings.Contains(ready, fmt.Sprintf(`%q:{"differences":`, name)) {
			t.Errorf("/readyz: %s", ready)
		}
	})
}

// One replica reads from a liar and is not audited; what it leaves in Redis another
// takes, which asks an honest node.
func TestAuditFindsForgedEntriesInRedis(t *testing.T) {
	t.Parallel()
	everyAuditLab(t, func(t *testing.T, l auditLab, d *devnet.Devnet) {
		shared := miniredis.RunT(t)
		forger := startRunning(t, d, func(c *config.Config) {
			c.Redis.URL = "redis://" + shared.Addr()
			c.Chain.Nodes = []string{liar(t, d.NodeURL(), l.pool)}
		})
		r := startRunning(t, d, func(c *config.Config) {
			c.Redis.URL, c.Audit.Share = "redis://"+shared.Addr(), 1
		})
		forged := l.poll(d, 25, forger, r)
		l.settled(r)
		if found := r.counted("tipcache_audit_differences_total", `source="redis"`); len(forged) == 0 || found < float64(len(forged)) {
			t.Errorf("%v of %d forged answers were found", found, len(forged))
		}
	})
}
