package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of an audit, as in the metric.
const (
	same      = "same"
	different = "different"
	varying   = "varying"   // one source gave two answers at the height, and neither equals the entry
	unsettled = "unsettled" // a difference that further reads did not confirm
	skipped   = "skipped"   // no node had spare capacity in time, or too many entries were queued
	failed    = "failed"    // no node answered at that height
)

// Finding summarizes the differences of one source: a node, by its name, or Redis.
type Finding struct {
	Differences int64     `json:"differences"` // entries that differ from the second read
	Last        time.Time `json:"last"`
	Key         string    `json:"key"` // of the last difference
	Height      int64     `json:"height"`
	Row         string    `json:"row,omitempty"` // row of chain.rows that passes such values through
}

// shownFor is how long a finding is shown after the last difference. The source may have been repaired or removed.
const shownFor = 24 * time.Hour

// Findings returns the findings of all sources with differences in the last day, by name.
func (a *Auditor) Findings() map[string]Finding {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.findings, func(_ string, f Finding) bool { return time.Since(f.Last) > shownFor })
	return maps.Clone(a.findings)
}

// report logs and counts a difference. both says that two nodes repeated their answers: then both are counted, because it is
// unknown which one is wrong.
func (a *Auditor) report(t *task, kept, read version, both bool) {
	a.find(t, kept.by)
	if both {
		a.find(t, read.by)
	}
	a.o.Logger.Error("answers differ", "source", kept.by, "witness", read.by, "key", t.Key, "height", t.Entry.Height,
		"digest", digest(kept), "witness_digest", digest(read), "row", a.o.Row(t.Key))
}

// reportVarying reports a source that contradicts itself at one height: its answer is not the state.
func (a *Auditor) reportVarying(t *task, read, second version) {
	a.find(t, read.by)
	a.o.Logger.Error("answers at one height vary", "source", read.by, "key", t.Key, "height", t.Entry.Height,
		"digest", digest(read), "second_digest", digest(second), "row", a.o.Row(t.Key))
}

func (a *Auditor) find(t *task, source string) {
	a.differs.WithLabelValues(source).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.findings[source] = Finding{a.findings[source].Differences + 1, time.Now(), t.Key, t.Entry.Height, a.o.Row(t.Key)}
}

// digest returns a short name of a version for the log.
func digest(v version) string {
	sum := sha256.Sum256(v.Body)
	return hex.EncodeToString(sum[:8])
}

func (a *Auditor) count(result string) { a.results.WithLabelValues(result).Inc() }

func (a *Auditor) register() {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return promauto.With(a.o.Registerer).NewCounterVec(prometheus.CounterOpts{Name: "tipcache_audit_" + name, Help: help}, []string{label})
	}
	a.results = counter("entries_total", "Cache entries selected for a second read, by result.", "result")
	a.differs = counter("differences_total", "Cache entries that differ from the second read, by source: the node, or redis.", "source")
	for _, result := range []string{same, different, varying, unsettled, skipped, failed} {
		a.results.WithLabelValues(result)
	}
	a.differs.WithLabelValues(redis) // rates need a sample at zero
}
