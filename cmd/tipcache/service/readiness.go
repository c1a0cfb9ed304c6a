package service

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// How often the parts are looked at while no one asks for /readyz, and the time they
// have to report their state.
const (
	readinessEvery   = 2 * time.Second
	readinessTimeout = time.Second
)

// readinessLog has each problem of readiness told when it comes and when it goes: one
// line each, however many look in between.
type readinessLog struct {
	log   *slog.Logger
	looks atomic.Int64 // begun

	mu   sync.Mutex
	last int64                // the look that was noted last
	told map[string]time.Time // by part, and node: since when the problem is told
}

func newReadinessLog(log *slog.Logger) *readinessLog {
	return &readinessLog{log: log, told: map[string]time.Time{}}
}

// begin numbers a look, before anything is asked.
func (l *readinessLog) begin() int64 { return l.looks.Add(1) }

// note tells what a look has found, unless a look that began later was noted.
func (l *readinessLog) note(look int64, problems map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if look < l.last {
		return
	}
	l.last = look
	for _, part := range slices.Sorted(maps.Keys(problems)) {
		if _, known := l.told[part]; !known {
			l.told[part] = time.Now()
			l.log.Warn("readiness problem", "part", part, "error", problems[part])
		}
	}
	for _, part := range slices.Sorted(maps.Keys(l.told)) {
		if _, still := problems[part]; !still {
			l.log.Info("readiness problem gone", "part", part, "after", time.Since(l.told[part]).Round(time.Millisecond).String())
			delete(l.told, part)
		}
	}
}

// watchReadiness looks at the parts until ctx ends.
func (s *Service) watchReadiness(ctx context.Context) {
	for upstream.Sleep(ctx, readinessEvery) == nil {
		within, cancel := context.WithTimeout(ctx, readinessTimeout)
		s.lacks(within)
		cancel()
		if s.certificate != nil {
			s.certificate.Validity() // for the log
		}
	}
}

var (
	errDraining = errors.New("finishing the last requests")
	errWarming  = errors.New("taking over what other replicas use most")
)

// lacks finds out what keeps requests from being sent here, by part, and has the log
// told of it. A caller that leaves finds nothing out.
func (s *Service) lacks(ctx context.Context) map[string]string {
	look, lacks := s.readiness.begin(), map[string]string{}
	put := func(part string, err error) {
		if err != nil {
			lacks[part] = err.Error()
		}
	}
	put("node", s.pool.Ready())
	if s.store != nil {
		put("store", s.store.Ping(ctx))
	}
	if s.cache.Warming() {
		put("cache", errWarming) // other replicas answer better for a moment
	}
	if s.stopping.Load() {
		put("draining", errDraining)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		s.readiness.note(look, byNode(lacks, s.pool.Health()))
	}
	return lacks
}

// byNode has the problems of single nodes in place of that of all of them. A node that
// was not asked yet has none.
func byNode(lacks map[string]string, nodes []node.Health) map[string]string {
	all, unfit := maps.Clone(lacks), false
	for _, h := range nodes {
		if h.Unfit == "" {
			continue
		}
		unfit = true
		if h.Answering || h.LastError != "" {
			all["node "+h.Name] = h.Unfit
		}
	}
	if unfit {
		delete(all, "node")
	}
	return all
}
